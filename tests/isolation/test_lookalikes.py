"""Changes that look as if they did nothing with the switch off: each is told, at the line that does it."""

from __future__ import annotations

import textwrap
import tomllib
from typing import Any

import pytest

from tests.isolation.test_offpath import CONFIG, ENV, ENVS, _prove, _proven
from tests.support.isolation_case import FOLDER
from tests.support.memory_tree import MemoryTree
from validator.isolation.effects import Effect, import_effects
from validator.isolation.existing_tests import coverage
from validator.isolation.offpath.equivalence import Shown
from validator.isolation.offpath.names import Names
from validator.isolation.source import Sources

PLAIN = "from settings import Config\n\n\ndef forward(x, config: Config):\n    return stock(x)\n"
ROUTER = "TABLE = {}\n\n\ndef register(name):\n    return lambda f: TABLE.setdefault(name, f)\n"
REGISTERS = "from router import register\n\n\n@register('x')\ndef backend(x):\n    return x\n"
CASES = tomllib.loads((FOLDER / "lookalikes.toml").read_text())["lookalikes"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_it_is_told(case: dict[str, Any]) -> None:
    files = {name.replace("/", "__"): text for name, text in case.get("files", {}).items()}
    proof = _prove(case["base"], case["head"], CONFIG, **files)
    assert case["line"] in {s.difference.line for s in proof.differences}, proof


def test_what_the_base_loads_anyway_is_harmless() -> None:
    files = {"late": REGISTERS, "router": ROUTER, "main": "import late\n", "fi_user": "import fi\n"}
    assert _proven(_prove(PLAIN, "import late\nimport fi\n" + PLAIN, CONFIG, **files))


@pytest.mark.parametrize("separator", ["\x0c", "\x0b", "\x1c", "\x85", "\u2028"])
def test_lines_are_counted_as_python_counts_them(separator: str) -> None:
    """Functions that are word for word the same are not looked into: the words are those of the function."""
    base = f"# {separator * 4}\ndef f(x):\n    a = 1\n    b = 2\n    return x\n"
    proof = _prove(base, base.replace("return x", "return x + 1"))
    assert [s.difference.line for s in proof.differences] == [5]


@pytest.mark.parametrize(
    ("entry", "proven"),
    [
        ("lambda: os.getenv('ENGINE_FUSED', '0')", True),
        ("lambda: bool(int(os.getenv('ENGINE_FUSED', '0')))", True),
        ("lambda: True", False),
        ("lambda: os.getenv('ENGINE_FUSED', '0') != '1'", False),
        ("lambda: bool(int(os.getenv('ENGINE_FUSION', '1')))", False),
        ("lambda: os.getenv('ENGINE_FUSED', '0') == '1' or 'H200' in os.getenv('GPU', '')", False),
        ("by_hand", False),
    ],
)
def test_the_entry_of_an_environment_variable_is_worked_out(entry: str, proven: bool) -> None:
    table = "import os\n\n\ndef by_hand():\n    return True\n\n\nTABLE = {'A': lambda: '1'}\n"
    assert _proven(_prove(table, table.replace("'1'}", f"'1', 'ENGINE_FUSED': {entry}}}"), ENV)) is proven


def test_a_guard_reads_what_the_table_gives() -> None:
    base = "import envs\n\ndef forward(x):\n    return stock(x)\n"
    head = base.replace("    return stock", "    if envs.ENGINE_FUSED:\n        return run(x)\n    return stock")
    table = ENVS.replace('lambda: "0"', "lambda: bool(int(os.getenv('ENGINE_FUSED', '0')))")
    assert _proven(_prove(base, head, ENV, envs=f"import os\n{table}"))
    assert not _proven(_prove(base, head, ENV, envs=ENVS))  # "0" is true


@pytest.mark.parametrize(
    "statement",
    [
        "if install(): pass",
        "while install(): pass",
        "for _ in install(): pass",
        "with install(): pass",
        "assert install()",
        "match install():\n    case _: pass",
        "def f(x=install()): ...",
        "def f(x: install()): ...",
        "class A(install()): ...",
        "class A(metaclass=install): ...",
        "class A:\n    x: install() = 1",
        "X = sorted([1], key=install)",
        "raise ImportError",
        "TABLE |= {'x': 1}",
    ],
)
def test_what_loading_a_module_runs(statement: str) -> None:
    text = f"from t import TABLE\ndef install(): ...\n{statement}\n"
    assert effects(text), statement


def test_what_loading_a_module_does_not_run() -> None:
    text = """\
        import abc, functools, logging
        logger = logging.getLogger(__name__)
        class A(abc.ABC):
            size: int = 1
            @abc.abstractmethod
            def run(self): ...
            @functools.cached_property
            def wide(self): return install()
        """
    assert effects(textwrap.dedent(text)) == []


def effects(text: str) -> list[Effect]:
    """What loading a module of this text does."""
    sources = Sources(MemoryTree({"a.py": text}), lambda path: False)
    return list(import_effects(sources.parse("a.py"), Names(sources).at("a.py")))


TEST = "import ops\n\n\ndef test_it():\n    assert ops.f(1) == 1\n"


@pytest.mark.parametrize(
    ("head", "lost", "edited"),
    [
        (TEST + "\n\ndef test_more():\n    assert ops.f(2) == 2\n", False, False),
        (TEST.replace("import ops\n", "import os\nimport ops\n"), False, False),
        (TEST.replace("== 1", "> 0"), True, True),
        ("import pytest\n" + TEST + "pytestmark = pytest.mark.skip\n", False, True),
        (TEST.replace("def", "@pytest.mark.xfail\ndef"), False, True),
        (TEST.replace("test_it", "_test_it"), False, True),
        (TEST.replace("    assert", "    return\n    assert"), False, True),
        (TEST.replace("    assert", "    if False: assert"), False, True),
        (TEST.replace("import ops", "import fake as ops"), False, True),
    ],
)
def test_a_covering_test_that_is_not_what_it_was(head: str, lost: bool, edited: bool) -> None:
    base = Sources(MemoryTree({"ops.py": "", "tests/test_ops.py": TEST}), lambda path: False)
    other = Sources(MemoryTree({"ops.py": "", "tests/test_ops.py": head}), lambda path: False, twin=base)
    (found,) = coverage(base, other, ["ops.py"], lambda path: path.startswith("tests/"))
    assert (bool(found.lost), bool(found.edited)) == (lost, edited)


def test_a_new_conftest_beside_a_covering_test() -> None:
    files = {"ops.py": "", "tests/test_ops.py": TEST}
    base = Sources(MemoryTree(files), lambda path: False)
    head = Sources(MemoryTree(files | {"tests/conftest.py": "collect_ignore = ['test_ops.py']\n"}), lambda path: False)
    (found,) = coverage(base, head, ["ops.py"], lambda path: path.startswith("tests/"))
    assert found.edited == ((None, "tests/conftest.py is another"),)


def test_what_would_take_too_long_is_said_and_not_evaluated() -> None:
    doubling = "".join(f"    a{i} = (a{i - 1}, a{i - 1})\n" for i in range(1, 41))
    assert not _proven(_prove("def f():\n    return 1\n", f"def f():\n    a0 = (1, 2)\n{doubling}    return a40\n"))
    long = "".join(f"A{i} = {i}\n" for i in range(10_000))
    assert "more code than is evaluated" in _prove(long, long.replace("A1 = 1\n", "A1 = 2\n", 1)).problem
    assert "number of more digits" in _prove("x = 1\n", f"x = 0x{'f' * 5000}\n").problem


HELPED = """
from settings import Config
{helper}
class Layer:
    def __init__(self, config: Config):
        self.config = config

{decorator}    def forward(self, x):
{guard}        return stock(x)
"""
HELPER = "def ready(layer):\n    return layer.config.fused is not None\n"
WRAPPER = """
import functools
def fast(method):
    @functools.wraps(method)
    def wrapper(self, *args, **kwargs):
        if self.config.fused is not None:
            return run(self, *args, **kwargs)
        return method(self, *args, **kwargs)
    return wrapper
"""
GUARD = "        if ready(self):\n            return run(x)\n"


@pytest.mark.parametrize(("helper", "decorator", "guard"), [(HELPER, "", GUARD), (WRAPPER, "    @fast\n", "")])
def test_a_parameter_that_is_always_the_object_of_one_class(helper: str, decorator: str, guard: str) -> None:
    base = HELPED.format(helper="", decorator="", guard="")
    head = HELPED.format(helper=helper, decorator=decorator, guard=guard)
    assert _proven(_prove(base, head))
    (shown,) = _prove(base, head.replace(".config.fused", ".konfig.fused")).differences
    assert shown.difference.raises
    early = head.replace("        self.config = config\n", "        ready(self)\n        self.config = config\n")
    assert not guard or not _proven(_prove(base, early))
    stranger = f"{head}\n\nready(None)\nfast(None)\n"
    assert not _proven(_prove(base, stranger))


LOADED = {
    "table": "TABLE = {}\ndef install(*a):\n    TABLE['x'] = a\n",
    "deco": "from table import install\ndef wraps(f):\n    install(f)\n    return f\njit = wraps\n",
    "shim": "try:\n    import triton\nexcept ImportError:\n    triton = None\n",
    "user": "import triton\nimport logging\n",
}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("X = 1 / 0", "`1 / 0`, which is an error"),
        ("X = {'a': 1}['b']", "which is an error"),
        ("X = (1, 2)[5]", "which is an error"),
        ("X = 'a' + 1", "which is an error"),
        ("X = None\nY = X.foo", "may-raise"),
        ("a, b = (1, 2, 3)", "takes 2 values out of 3"),
        ("class Z:\n    x = undefined_name", "`undefined_name`, which nothing binds"),
        ("class Z:\n    x = 1 // 0", "which is an error"),
        ("class Z:\n    import flashinfer_x", "`flashinfer_x`, which nothing in the base needs"),
        ("def f(x: undefined_name): ...", "`undefined_name`, which nothing binds"),
        ("X = Y\nY = 1", "`Y`, which nothing binds before"),
        ("import os\nif os.name == 'x':\n    Y = 1\nZ = Y", "`Y`, which nothing binds before"),
        ("from table import *\nX = nope", "`nope`, which nothing binds"),
        ("import table\nX = table.nope", "`table.nope`, which is an error"),
        ("from table import TABLE\nX = TABLE['nope']", "may-raise"),
        ("import os\nX = os.nope", "may-raise"),
        ("import triton\nX = triton.nope", "may-raise"),
        ("from triton import nope", "may-raise"),
        ("X = int('x')", "may-raise"),
        ("del nothing", "`nothing`, which nothing binds"),
        ("assert False", "which is false"),
        ("from deco import wraps\n@wraps\ndef f(): ...", "the decorator `wraps`"),
        ("import deco as functools\n@functools.wraps\ndef f(): ...", "the decorator `functools.wraps`"),
        ("from deco import wraps as jit\n@jit\ndef f(): ...", "the decorator `jit`"),
        ("class x:\n    @staticmethod\n    def wraps(f): ...\n@x.wraps\ndef f(): ...", "the decorator `x.wraps`"),
        (
            "import functools\nfrom table import install\n@functools.lru_cache(install())\ndef f(): ...",
            "calls `install`",
        ),
        ("from table import install as len\nX = len(3)", "calls `len`"),
    ],
)
def test_a_new_module_that_fails_or_acts_when_it_is_loaded(text: str, shown: str) -> None:
    found = _loaded(text)
    assert [s.difference.line for s in found] == [1]
    assert shown in found[0].difference.reason or (shown == "may-raise" and found[0].difference.raises), found


@pytest.mark.parametrize(
    "text",
    [
        "import logging\nlogger = logging.getLogger(__name__)\nLIMIT = 1 << 20\nNAME = f'k3_{LIMIT // 2}'",
        "NAMES = ('a', 'b')\nT = {n: 1 for n in NAMES}\nS = [i for i in range(4) if i]\nD = {'a': 1}['a']",
        "import triton\n@triton.jit\ndef k(x): ...\n",
        "from shim import triton\n@triton.jit\ndef k(x): ...\n",
        "try:\n    import triton\nexcept ImportError:\n    triton = None\nOK = triton is not None",
        "from __future__ import annotations\nclass K:\n    size: int = 1\n    half = size\n    def f(self) -> L: ...\n"
        "class L(K): ...",
        "import enum\nclass Mode(enum.Enum):\n    A = enum.auto()\n    B = enum.auto()\nALL = {Mode.A: 1, Mode.B: 2}",
        "import functools\n@functools.lru_cache(maxsize=None)\ndef f(x): return x\nG = functools.partial(f, 1)",
    ],
)
def test_a_new_module_that_only_defines_things(text: str) -> None:
    assert not _loaded(text)


def _loaded(text: str) -> tuple[Shown, ...]:
    """What differs where a shared file takes a function from a new module of this text."""
    text += "\ndef helper(x): return x\n"
    return _prove(PLAIN, f"from late import helper\n{PLAIN}", CONFIG, new={"late": text}, **LOADED).differences


ACTING = {"u": "import os\nos.environ['A'] = '1'\n", "v": "print('v')\n", "w": "def k(): ...\n", "t": "import u\n"}


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("from u import f", "from v import g", False),
        ("from t import f", "from v import g", False),
        ("from u import f", "from w import k", True),
        ("import os", "from u import f", True),
    ],
)
def test_imports_that_change_places(first: str, second: str, same: bool) -> None:
    base, head = f"{first}\n{second}\nx = f\n", f"{second}\n{first}\nx = f\n"
    assert _proven(_prove(base, head, **ACTING)) is same
    between = f"{first}\nimport sys\n{second}\nx = f\n"
    assert _proven(_prove(base, between, **ACTING))
