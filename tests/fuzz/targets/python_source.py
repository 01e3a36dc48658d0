"""Python files, in two versions: parsed, compared and searched without running a line, whatever they hold."""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.targets.common import FIXTURES, ROOT, joined, parts, small
from tests.support.memory_tree import MemoryTree
from validator.gate.edits import compare_tests
from validator.isolation.effects import import_effects
from validator.isolation.offpath.names import Names
from validator.isolation.source import Sources, parse

MODULES = (
    "validator.isolation.source",
    "validator.isolation.syntax",
    "validator.isolation.effects",
    "validator.gate.edits",
)


def seeds() -> Iterator[bytes]:
    shared = [p for p in (FIXTURES / "isolation" / "base").rglob("*.py") if p.stat().st_size < 6000]
    for path in sorted(shared)[:10]:
        other = FIXTURES / "isolation" / "good" / path.relative_to(FIXTURES / "isolation" / "base")
        old = path.read_bytes()
        yield joined(old, other.read_bytes() if other.exists() else old.replace(b"return", b"return None or", 1))
    yield from (joined(text, text) for text in small((ROOT / "tests" / "cli").glob("*.py"), 4))


def one(data: bytes) -> None:
    old, new = parts(data, 2)
    compare_tests(old, new)
    for text in (old, new):
        source = parse("fuzz.py", text)
        meaning = Names(Sources(MemoryTree({"fuzz.py": text}), lambda path: False)).at("fuzz.py")
        assert (source.module is None) == bool(source.problem)
        if source.module is not None:
            assert all(effect.line > 0 for effect in import_effects(source, meaning))
