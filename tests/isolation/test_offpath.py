"""Off-path equivalence on small programs: what is proven, what is refuted, and on which line."""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Mapping

import pytest

from tests.support.isolation_case import FOLDER
from tests.support.memory_tree import MemoryTree
from validator.isolation.offpath.compare import Kind
from validator.isolation.offpath.equivalence import FileProof, prove
from validator.isolation.offpath.switch import SwitchSpec
from validator.isolation.source import Sources

SETTINGS = """
class Config:
    fused: str | None = None
    fused_mode: str | None = None
    name: str = ""
    additional_config: dict | None = None
"""
ENVS = 'TABLE = {"ENGINE_FUSED": lambda: "0"}\n\n\ndef __getattr__(name):\n    return TABLE[name]()\n'
CONFIG = SwitchSpec.parse("config", "fused", "on", None)
NESTED = SwitchSpec.parse("config", "additional_config.fused", True, None)
ENV = SwitchSpec.parse("env", "ENGINE_FUSED", "1", "0")
FLAG = SwitchSpec.parse("flag", "--fused", True, False)


def _prove(
    base: str, head: str, switch: SwitchSpec = CONFIG, *, new: Mapping[str, str] | None = None, **others: str
) -> FileProof:
    """`others`: further files of both sides, `/` written as `__`; `new`: of the head alone."""
    more = {"settings.py": SETTINGS}
    more |= {f"{name.replace('__', '/')}.py": textwrap.dedent(text) for name, text in others.items()}
    before = Sources(MemoryTree(more | {"a.py": textwrap.dedent(base)}), lambda p: p.startswith("fast/"))
    added = {f"{name}.py": textwrap.dedent(text) for name, text in (new or {}).items()}
    after = Sources(MemoryTree(more | added | {"a.py": textwrap.dedent(head)}), before.isolated, twin=before)
    return prove(before, after, switch, [("a.py", "a.py")])[0]


def _proven(proof: FileProof) -> bool:
    return not proof.problem and not proof.differences


PROGRAMS = tomllib.loads((FOLDER / "offpath.toml").read_text())
BASE: str = PROGRAMS["base"]
SAME: dict[str, str] = PROGRAMS["same"]
DIFFERENT: dict[str, str] = PROGRAMS["different"]
UNDECIDED: dict[str, str] = PROGRAMS["undecided"]


def _with(old: str, new: str) -> str:
    assert BASE.count(old) == 1
    return BASE.replace(old, new)


@pytest.mark.parametrize("name", SAME)
def test_proven(name: str) -> None:
    proof = _prove(BASE, SAME[name])
    assert _proven(proof), [(s.difference, s.base_text, s.head_text) for s in proof.differences]


@pytest.mark.parametrize("name", UNDECIDED)
def test_what_may_raise_is_neither(name: str) -> None:
    proof = _prove(BASE, UNDECIDED[name])
    assert proof.differences
    assert all(s.difference.raises and s.difference.undecided for s in proof.differences), proof.differences


@pytest.mark.parametrize("name", DIFFERENT)
def test_refuted(name: str) -> None:
    proof = _prove(BASE, DIFFERENT[name])
    assert any(not s.difference.undecided for s in proof.differences), (name, proof)


@pytest.mark.parametrize(
    ("read", "proven"),
    [
        ("config.additional_config is not None and config.additional_config.get('fused')", True),
        ("(config.additional_config or {}).get('fused')", True),
        ("'fused' in (config.additional_config or {}) and config.additional_config['fused']", True),
        ("config.additional_config and config.additional_config.get('fused', False)", True),
        ("config.additional_config.get('fused')", False),  # an error where the container is absent
        ("(config.additional_config or {}).get('fused', True)", False),
        ("(config.additional_config or {'fused': 1}).get('fused')", False),
        ("config.additional_config is None", False),
    ],
)
def test_every_way_of_being_off_of_a_key_in_a_container(read: str, proven: bool) -> None:
    base = "def forward(x, config):\n    if config.additional_config is None:\n        check(x)\n    return stock(x)\n"
    head = base.replace("    return stock", f"    if {read}:\n        return run(x)\n    return stock")
    assert _proven(_prove(base, head, NESTED)) is proven


@pytest.mark.parametrize(
    ("read", "proven"),
    [
        ("os.environ.get('ENGINE_FUSED') == '1'", True),
        ("os.environ.get('ENGINE_FUSED', '0') == '1'", True),
        ("os.getenv('ENGINE_FUSED', '0').lower() in ('1', 'true')", True),
        ("bool(int(os.getenv('ENGINE_FUSED', '0')))", True),
        ("envs.ENGINE_FUSED == '1'", True),
        ("os.environ.get('ENGINE_FUSED', '1') == '1'", False),
        ("os.environ.get('ENGINE_FUSED')", False),  # '0' is true
        ("os.environ.get('ENGINE_FUSED_') == '1'", False),
        ("'ENGINE_FUSED' in os.environ", False),
        ("os.environ['ENGINE_FUSED'] == '1'", False),  # an error when it is not set
    ],
)
def test_every_way_of_being_off_of_an_environment_variable(read: str, proven: bool) -> None:
    base = "import os\nimport envs\n\ndef forward(x):\n    return stock(x)\n"
    head = base.replace("    return stock", f"    if {read}:\n        return run(x)\n    return stock")
    assert _proven(_prove(base, head, ENV, envs=ENVS)) is proven


def test_a_function_argument_that_is_off_by_default() -> None:
    base = "def forward(x, fused=False):\n    return stock(x)\n"
    head = "def forward(x, fused=False):\n    if fused:\n        return run(x)\n    return stock(x)\n"
    assert _proven(_prove(base, head, FLAG))
    assert not _proven(_prove(base, head.replace("fused=False", "fused=True"), FLAG))


def test_the_smallest_difference_is_shown_side_by_side() -> None:
    head = _with("return y * scale", "return y * (scale + 1)")
    (shown,) = _prove(BASE, head).differences
    assert shown.difference.line == 9
    assert shown.base_text.strip() == "return y * scale"
    assert shown.head_text.strip() == "return y * (scale + 1)"
    assert shown.difference.inside == "Layer.forward"


def test_one_entry_of_a_long_table() -> None:
    base = "TABLE = {\n" + "".join(f"    'k{i}': {i},\n" for i in range(50)) + "}\n"
    (shown,) = _prove(base, base.replace("'k30': 30", "'k30': 31")).differences
    assert shown.difference.line == 32
    (shown,) = _prove(base, base.replace("    'k30': 30,\n", "")).differences
    assert shown.difference.base_line == 32


def test_residue_is_listed_by_kind() -> None:
    head = "import json\n" + SAME["attribute holding None"]
    proof = _prove(BASE, head)
    assert _proven(proof)
    assert {r.kind for r in proof.residue} == {Kind.MODULE_LOADED, Kind.ATTRIBUTE_STORE}
    assert any("`.exec` is None" in fact.text for fact in proof.facts)


def test_facts_of_a_class_whose_attribute_others_use_too() -> None:
    other = "class Runner:\n    def __init__(self):\n        self.exec = start()\n"
    assert _proven(_prove(BASE, SAME["attribute holding None"], runner=other))
    stores = other + "\ndef patch(layer):\n    layer.exec = start()\n"
    assert not _proven(_prove(BASE, SAME["attribute holding None"], runner=stores))
    sub = "from a import Layer\n\nclass Sub(Layer):\n    def __init__(self):\n        self.exec = start()\n"
    assert not _proven(_prove(BASE, SAME["attribute holding None"], sub=sub))


def test_a_function_in_another_file_is_followed() -> None:
    options = "from settings import Config\n"
    options += "def options(config: Config):\n    if config.fused is None:\n        return None\n    return 1\n"
    head = "from options import options\n" + SAME["config function"].split("\ndef options")[0]
    assert _proven(_prove(BASE, head, options=options))
    assert not _proven(_prove(BASE, head, options=options.replace("return None", "return 2")))


@pytest.mark.parametrize(
    "text",
    [
        "def f(:\n",
        "x = '\n",
        "\0",
        "# -*- coding: nonsense -*-\n",
        "x = " + "(" * 5000 + ")" * 5000 + "\n",
        "x = " + "+".join(["1"] * 20000) + "\n",
        "def f():\n" + "".join(" " * (i + 1) + "if x:\n" for i in range(120)) + " " * 122 + "pass\n",
    ],
)
def test_what_cannot_be_read_is_a_problem_and_no_crash(text: str) -> None:
    for base, head in ((BASE, text), (textwrap.dedent(text), BASE)):
        proof = _prove(base, head)
        assert proof.problem or proof.differences


@pytest.mark.parametrize(
    "new",
    [
        "type Pair[T] = tuple[T, T]\n",
        "def pick[T: int](x: T) -> T:\n    return x\n",
        "class Box[T]:\n    pass\n",
        "def g(x):\n    try:\n        return x\n    except KeyError, ValueError:\n        return 0\n",
        "def h(x):\n    return t'{x}'\n",
        "def m(x):\n    match x:\n        case {'a': [1, *rest], **more}:\n            return rest\n",
        "def e(x):\n    try:\n        pass\n    except* ValueError:\n        pass\n",
    ],
)
def test_syntax_of_newer_pythons_is_read(new: str) -> None:
    base = "def f(x):\n    return x\n"
    for both in (new + base, base + new):
        assert _proven(_prove(both, both + "\n"))
        (shown,) = _prove(both, both.replace("    return x\n", "    return x + 1\n", 1)).differences[:1]
        assert "return x + 1" in shown.head_text


def test_the_off_value_is_not_taken_from_a_name_that_only_looks_alike() -> None:
    head = SAME["truth"].replace("self.config.fused", "self.config.fused_mode")
    assert not _proven(_prove(BASE, head))


def test_an_import_in_the_guarded_branch_makes_the_name_local() -> None:
    base = "import torch\nfrom settings import Config\n\n\ndef forward(x, config: Config):\n    return torch.relu(x)\n"
    head = base.replace("    return", "    if config.fused:\n        import torch\n        return fast(x)\n    return")
    (shown,) = _prove(base, head).differences
    assert shown.difference.line == 7
    assert "`torch` is bound only where the switch is on" in shown.difference.reason


def test_an_annotation_of_a_name_that_only_type_checkers_import() -> None:
    base = "def forward(x: int):\n    return x\n"
    imports = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from fast import Fast\n"
    head = imports + "def forward(x: Fast):\n    return x\n"
    assert not _proven(_prove(base, head))
    assert _proven(_prove(base, "from __future__ import annotations\n" + head))
    assert _proven(_prove(base, head.replace("x: Fast", "x: 'Fast'")))
