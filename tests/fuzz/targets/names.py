"""Mangled and demangled names, operands as a disassembler prints them, globs: an answer for any text."""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.targets.common import joined, parts
from validator.globs import matches, name_matches
from validator.ordering.program import Parameter
from validator.ordering.sass.demangle import _qualified, parameter_types, with_types
from validator.ordering.sass.disassemble import _instruction
from validator.ordering.sass.operands import constant_reference, is_predicate

MODULES = ("validator.ordering.sass.demangle", "validator.ordering.sass.operands",
           "validator.ordering.sass.disassemble", "validator.globs")  # fmt: skip


def seeds() -> Iterator[bytes]:
    yield joined(
        b"_ZN2ns6kernelIfEEvPKf", b"void ns::kernel<float>(float const*, int)", b"R4, desc[UR4][R2.64+0x8]", b"a/**/b*"
    )
    yield joined(b"_Z6kernelPf", b"kernel(float*, std::pair<int, int>)", b"R2, c[0x0][R3+0x224], UR4.64", b"*?*/x/")
    yield joined(b"_ZN12_GLOBAL__N_11kE", b"k(decltype(a->b), void)", b"0x100040, P0, !PT", b"**/**/**")


def one(data: bytes) -> None:
    mangled, demangled, operands, glob = (part.decode("utf-8", "surrogateescape") for part in parts(data, 4))
    assert isinstance(_qualified(mangled), str)
    types = parameter_types(demangled)
    if types is not None:
        with_types(tuple(Parameter(i, 8 * i, 8) for i in range(len(types))), demangled)
    printed = {"opcode": "LDG.E", "operands": operands, "predicate": mangled[:8]}
    for token in _instruction(printed, bytes(16), 0x40).operands:
        constant_reference(token)
        is_predicate(token)
    assert isinstance(matches(demangled, [glob]), bool)
    assert isinstance(name_matches(mangled, [glob]), bool)
