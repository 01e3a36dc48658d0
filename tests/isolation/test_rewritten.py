"""Functions that are written differently: helpers taken out, names changed, decorators that hand everything on."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.isolation.test_offpath import ENV, ENVS, _prove, _proven
from tests.support.isolation_case import FOLDER
from tests.support.memory_tree import MemoryTree
from validator.isolation.offpath.compare import Kind
from validator.isolation.offpath.equivalence import FileProof, prove
from validator.isolation.offpath.switch import SwitchSpec
from validator.isolation.source import Sources

CASES = tomllib.loads((FOLDER / "rewritten.toml").read_text())
BASES: dict[str, str] = CASES["bases"]
PROGRAMS = [(base, name) for base in BASES for name in CASES[base]["same"]]
BROKEN = [(base, name) for base in BASES for name in CASES[base]["different"]]
IMPORTS = "from ext import a, b, go, go2, use, g, g2, other, cache, T, E, P, done, fill, k, B, c\n"


FAST = {"fast____init__": "", "fast__run": "class Fused: ...\ndef step(m, b): ...\n"}


def _judged(base: str, head: str) -> FileProof:
    """The `runner` is switched by the environment, the others by a configuration."""
    return _prove(BASES[base], head, ENV, envs=ENVS, **FAST) if base == "runner" else _prove(BASES[base], head)


@pytest.mark.parametrize(("base", "name"), PROGRAMS)
def test_it_does_the_same(base: str, name: str) -> None:
    proof = _judged(base, CASES[base]["same"][name])
    assert _proven(proof), [(s.difference, s.base_text, s.head_text) for s in proof.differences]


@pytest.mark.parametrize(("base", "name"), BROKEN)
def test_it_does_something_else(base: str, name: str) -> None:
    assert not _proven(_judged(base, CASES[base]["different"][name]))


@pytest.mark.parametrize("name", CASES["pairs"])
def test_small_pairs_that_look_alike(name: str) -> None:
    pair = CASES["pairs"][name]
    assert not _proven(_prove(IMPORTS + pair["base"], IMPORTS + pair["head"]))
    assert not _proven(_prove(IMPORTS + pair["head"], IMPORTS + pair["base"]))


@pytest.mark.parametrize(
    ("done", "proven"),
    [
        ("warnings.warn('slow', stacklevel=2)", False),
        ("use(inspect.currentframe().f_back)", False),
        ("use(inspect.stack())", False),
        ("use(sys._getframe(1))", False),
        ("use(torch.stack(x), level=2)", True),
    ],
)
def test_a_helper_that_looks_at_who_called_it(done: str, proven: bool) -> None:
    above = "import inspect\nimport sys\nimport warnings\nimport torch\nfrom ext import use\n"
    inner = f"(x):\n    {done}\n    return x\n"
    assert _proven(_prove(f"{above}def g{inner}", f"{above}def g(x):\n    return _g(x)\ndef _g{inner}")) is proven


@pytest.mark.parametrize(("decorator", "proven"), [("torch.jit.script", False), ("torch.no_grad()", True)])
def test_a_decorator_that_compiles_the_source(decorator: str, proven: bool) -> None:
    above = f"import torch\n@{decorator}\ndef g(x):\n    "
    assert _proven(_prove(f"{above}return x + 1\n", f"{above}y = x + 1\n    return y\n")) is proven


def test_what_was_taken_for_equal_is_listed() -> None:
    proof = _prove(BASES["layer"], CASES["layer"]["same"]["helper extraction function"])
    assert [r.what for r in proof.residue if r.kind is Kind.REWRITTEN] == [
        "`Layer.forward` is written differently and does the same"
    ]
    proof = _prove(BASES["layer"], CASES["layer"]["same"]["decorator factory guard"])
    assert [r.what for r in proof.residue if r.kind is Kind.REWRITTEN] == [
        "the decorator `maybe_fused('decode')` hands back what it gets, or hands every call on"
    ]


WRAPPER = """
import functools
import os


def switched(name):
    def wrap(function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            if os.environ.get("ENGINE_FUSED", "0") == "1":
                return run(name, *args, **kwargs)
            return function(*args, **kwargs)

        return inner

    return wrap


@switched("step")
def step(x, y=1):
    return stock(x, y)
"""
PLAIN = "import functools\nimport os\n\n\ndef step(x, y=1):\n    return stock(x, y)\n"


@pytest.mark.parametrize(
    ("old", "new", "proven"),
    [
        ("", "", True),
        ("@functools.wraps(function)\n        def inner", "def inner", False),
        ("return function(*args, **kwargs)", "return function(*args)", False),
        ("return function(*args, **kwargs)", "function(*args, **kwargs)", False),
        ("return function(*args, **kwargs)", "return function(*args, **kwargs, y=1)", False),
        ('"ENGINE_FUSED", "0"', '"ENGINE_FUSED", "1"', False),
        ("        return inner\n", "        TABLE[name] = inner\n        return inner\n", False),
        ("def inner(*args, **kwargs)", "def inner(x, *args, **kwargs)", False),
        ("def step(x", "async def step(x", False),
        ("    return wrap\n", "    print(name)\n    return wrap\n", False),
        ('@switched("step")', "@switched(os.sep)", False),
    ],
)
def test_a_wrapper_that_hands_every_call_on(old: str, new: str, proven: bool) -> None:
    head = WRAPPER.replace(old, new, 1) if old else WRAPPER
    switch = SwitchSpec.parse("env", "ENGINE_FUSED", "1", "0")
    if "async" in new:
        assert not _proven(_prove(PLAIN.replace("def step", "async def step"), head, switch))
    else:
        assert _proven(_prove(PLAIN, head, switch)) is proven


def test_a_helper_in_a_folder_that_comes_later_is_not_the_library(tmp_path: Path) -> None:
    """`fast/x/numpy/__init__.py` is `fast.x.numpy`, as long as the base knows another numpy."""
    base = {"a.py": "import numpy\n\n\ndef f(x):\n    return numpy.sum(x)\n"}
    head = base | {"fast/x/numpy/__init__.py": "def sum(x):\n    return 0\n", "fast/x/own/__init__.py": ""}
    before = Sources(MemoryTree(base), lambda path: path.startswith("fast/"))
    after = Sources(MemoryTree(head), before.isolated, twin=before)
    assert after.module_name("fast/x/numpy/__init__.py") == "fast.x.numpy"
    assert after.module_path("numpy") is None
    assert after.module_name("fast/x/own/__init__.py") == "own"
    assert _proven(prove(before, after, SwitchSpec.parse("config", "fused", True, None), [("a.py", "a.py")])[0])
