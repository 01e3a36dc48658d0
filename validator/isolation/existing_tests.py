"""Tests at the base that cover the touched shared files, and what the head left of their assertions."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from validator.isolation.blast.imports import imports_of
from validator.isolation.blast.radius import target_path
from validator.isolation.offpath.constants import name_of
from validator.isolation.source import Sources
from validator.isolation.syntax import unparse, walk

__all__ = ["Coverage", "coverage"]


@dataclass(frozen=True, slots=True)
class Coverage:
    """One test file of the base that imports something touched."""

    path: str
    assertions: int
    """At the base."""
    lost: tuple[tuple[int, str], ...]
    """(line at the base, text) of assertions that the head does not have."""
    gone: bool
    """The head has no such file."""


def coverage(
    base: Sources, head: Sources, touched: Iterable[str], is_test: Callable[[str], bool]
) -> Iterator[Coverage]:
    """Test files of the base that import a touched file (as the base names it), by path."""
    wanted = set(touched)
    words = {base.module_name(path).rsplit(".", 1)[-1] for path in wanted}
    near = {p for word in words for p in base.mentions(word) if is_test(p)}
    for path in sorted(near):
        if not any(target_path(base, i) in wanted for i in imports_of(base, path)):
            continue
        before = _assertions(base.parse(path).module)
        after = Counter(text for _, text in _assertions(head.parse(path).module)) if path in head else Counter[str]()
        lost = []
        for line, text in before:
            if after[text]:
                after[text] -= 1
            else:
                lost.append((line, text))
        yield Coverage(path, len(before), tuple(lost), path not in head)


def _assertions(module: ast.Module | None) -> list[tuple[int, str]]:
    """(line, canonical text) of everything in a test that can make it fail by intent."""
    found = []
    for node in walk(module) if module else ():
        if isinstance(node, ast.Assert):
            found.append((node.lineno, f"assert {unparse(node.test)}"))
        elif isinstance(node, ast.Call):
            last = name_of(node.func).split(".")[-1]
            if last.startswith("assert") or last in ("raises", "warns", "fail"):
                found.append((node.lineno, unparse(node)))
    return sorted(found)
