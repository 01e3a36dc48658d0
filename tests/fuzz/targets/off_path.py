"""The off-path proof over two versions of a file: proven, a difference, or a problem; never an exception."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator

from tests.fuzz.targets.common import FIXTURES, joined, parts
from tests.support.memory_tree import MemoryTree
from validator.isolation.offpath.equivalence import prove
from validator.isolation.offpath.switch import SwitchSpec
from validator.isolation.source import Sources

MODULES = ("validator.isolation.offpath",)
_SWITCH = SwitchSpec.parse("config", "additional_config.fused", True, False)


def seeds() -> Iterator[bytes]:
    programs = tomllib.loads((FIXTURES / "isolation" / "offpath.toml").read_text())
    base = programs["base"].encode()
    for kind in ("same", "different", "undecided"):
        yield from (joined(base, head.encode()) for head in programs[kind].values())


def one(data: bytes) -> None:
    old, new = parts(data, 2)
    before = Sources(MemoryTree({"a.py": old}), lambda path: False)
    after = Sources(MemoryTree({"a.py": new}), lambda path: False, twin=before)
    for proof in prove(before, after, _SWITCH, [("a.py", "a.py")]):
        assert proof.path == "a.py"
        for shown in proof.differences:
            assert shown.ways
