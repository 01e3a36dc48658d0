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
    edited: tuple[tuple[int | None, str], ...] = ()
    """(line at the head, what) of everything else that is not as it was, so that it may no longer run or assert."""


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
        edited = tuple(_edits(base, head, path)) if path in head else ()
        yield Coverage(path, len(before), tuple(lost), path not in head, edited)


def _edits(base: Sources, head: Sources, path: str) -> Iterator[tuple[int | None, str]]:
    """What a test file had and no longer has in the same words; new functions and imports are none."""
    before, after = (dict(_parts(s.parse(path).module)) for s in (base, head))
    for name, (_, text) in before.items():
        line, now = after.get(name, (None, ""))
        if now != text:
            yield line, f"`{name}` is another" if now else f"`{name}` is not there in these words"
    for name, (line, _) in after.items():
        if name not in before and name.startswith("<"):
            yield line, "a statement is new that is no definition and no import"
    folders = path.split("/")[:-1]
    for depth in range(len(folders) + 1):
        fixtures = "/".join([*folders[:depth], "conftest.py"])
        if (fixtures in base, base.data(fixtures) if fixtures in base else b"") != (
            fixtures in head, head.data(fixtures) if fixtures in head else b""
        ):  # fmt: skip
            yield None, f"{fixtures} is another"


def _parts(module: ast.Module | None) -> Iterator[tuple[str, tuple[int, str]]]:
    """(name, (line, canonical text)) of each definition, each import and each other statement of a module."""
    for node in module.body if module else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.lineno, ast.dump(node))
        elif isinstance(node, ast.ClassDef):
            header = [ast.dump(part) for part in (*node.decorator_list, *node.bases)]
            yield node.name, (node.lineno, " ".join(header))
            members = ast.Module(body=node.body, type_ignores=[])
            yield from ((f"{node.name}.{name}", found) for name, found in _parts(members))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield unparse(node), (node.lineno, "import")
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            yield f"<{unparse(node)[:200]}>", (node.lineno, ast.dump(node))


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
