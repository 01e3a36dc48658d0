"""Names and the types in them."""

from __future__ import annotations

import pytest

from validator.ordering.program import Parameter
from validator.ordering.sass import demangle as module
from validator.ordering.sass.demangle import demangle, parameter_types, with_types


def test_without_a_tool_the_qualified_name_is_read_off(monkeypatch):
    monkeypatch.setattr(module, "_tool", lambda: None)
    monkeypatch.setattr(module, "_KNOWN", {})
    names = ("_ZN2ns6kernelIfEEvPKf", "_Z5scalePfS_i", "plain", "_Z")
    assert demangle(names) == dict(zip(names, ("ns::kernel", "scale", "plain", "_Z"), strict=True))


@pytest.mark.skipif(module._tool() is None, reason="no demangler on PATH")
def test_with_a_tool_the_signature_is_there():
    assert demangle(["_Z5scalePfPKfi"])["_Z5scalePfPKfi"] == "scale(float*, float const*, int)"


@pytest.mark.parametrize(
    ("text", "types"),
    [
        (
            "void k<1, float>(float*, Params<int, (Mode)2>, int const*)",
            ("float*", "Params<int, (Mode)2>", "int const*"),
        ),
        ("k(float (*)(int, int), unsigned int)", ("float (*)(int, int)", "unsigned int")),
        ("k()", ()),
        ("k", None),
    ],
)
def test_types_of_a_signature(text, types):
    assert parameter_types(text) == types


def test_types_say_what_is_a_pointer_and_only_where_the_numbers_agree():
    parameters = tuple(Parameter(i, 8 * i, 8) for i in range(3))
    typed = with_types(parameters, "k(float*, int, S)")
    assert [(p.type, p.pointer) for p in typed] == [("float*", True), ("int", False), ("S", None)]
    assert with_types(parameters, "k(float*)") == parameters
