"""Blast radius: who can reach the isolated package, and what it reaches and changes outside itself."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from validator.change.model import MissingFile, Tree
from validator.isolation.blast.graph import ImportGraph, Reach, build, cycles, reach
from validator.isolation.blast.imports import Import, imports_of
from validator.isolation.blast.patches import Patch, patches_of
from validator.isolation.blast.setters import Setters
from validator.isolation.offpath.constants import name_of
from validator.isolation.offpath.names import Names
from validator.isolation.source import Sources
from validator.isolation.syntax import nodes

__all__ = ["Patch", "PrivateUse", "Radius", "graph_of", "measure", "target_path"]


@dataclass(frozen=True, slots=True)
class PrivateUse:
    """A private name of somebody else that the isolated package uses."""

    path: str
    line: int
    name: str
    """Dotted."""
    pin: str
    """The requirement that fixes its version, as written; empty for the project's own code or where nothing does."""
    third_party: bool


@dataclass(frozen=True, slots=True)
class Radius:
    """Everything that connects the isolated package with the rest of the tree."""

    files: int
    """Python files of the tree."""
    isolated: tuple[str, ...]
    inward: tuple[Import, ...]
    """Imports of something isolated by files outside."""
    reach: Reach
    outward: tuple[str, ...]
    """Dotted modules outside that the isolated package imports."""
    private: tuple[PrivateUse, ...]
    patches: tuple[Patch, ...]
    cycles: tuple[tuple[str, ...], ...]


def graph_of(sources: Sources) -> ImportGraph:
    """The tree's import graph, made once."""
    if sources.graph is None:
        sources.graph, sources.learnt = build(sources), True
    return sources.graph


def measure(sources: Sources) -> Radius:
    """Measure the head's tree."""
    isolated = tuple(p for p in sources.paths if sources.isolated(p))
    graph = graph_of(sources)
    inside = frozenset(isolated)
    near = sorted(p for p in graph.eager if p not in inside and (graph.eager[p] | graph.lazy[p]) & inside)
    inward = tuple(i for p in near for i in imports_of(sources, p) if target_path(sources, i) in inside)
    outward: dict[str, None] = {}
    private: list[PrivateUse] = []
    patches: list[Patch] = []
    pins = _pins(sources.tree)
    setters = Setters(Names(sources))
    for path in isolated:
        outside = [i for i in imports_of(sources, path) if target_path(sources, i) not in inside]
        outward |= dict.fromkeys(i.module for i in outside)
        private += _private(sources, path, outside, pins)
        patches += patches_of(sources, path, {i.bound: _meant(i) for i in outside}, setters)
    return Radius(
        len(sources.paths),
        isolated,
        inward,
        reach(graph, inside),
        tuple(sorted(outward)),
        tuple(private),
        tuple(patches),
        cycles(graph, inside),
    )


def target_path(sources: Sources, found: Import) -> str | None:
    """File that an import loads: the submodule where the name is one."""
    submodule = sources.module_path(f"{found.module}.{found.name}") if found.name else None
    return submodule or sources.module_path(found.module)


def _meant(found: Import) -> str:
    """Dotted name of what an import binds: of `import a.b`, `a`."""
    if found.name:
        return f"{found.module}.{found.name}"
    return found.bound if found.bound == found.module.partition(".")[0] else found.module


# What it uses ---------------------------------------------------------------------------------------------------


def _private(sources: Sources, path: str, outside: Sequence[Import], pins: dict[str, str]) -> Iterator[PrivateUse]:
    """Names with one leading underscore, imported or read off an imported module."""
    bound = {i.bound: _meant(i) for i in outside}
    seen: set[str] = set()

    def made(line: int, dotted: str) -> Iterator[PrivateUse]:
        if dotted in seen or not any(_is_private(part) for part in dotted.split(".")):
            return
        seen.add(dotted)
        top = dotted.split(".")[0]
        ours = any(name == top or name.startswith(f"{top}.") for name in sources.names())
        third = not ours and top not in sys.stdlib_module_names
        yield PrivateUse(path, line, dotted, pins.get(_canonical(top), "") if third else "", third)

    for found in outside:
        yield from made(found.line, f"{found.module}.{found.name}" if found.name else found.module)
    module = sources.parse(path).module
    for node in nodes(module, ast.Attribute):
        if _is_private(node.attr):
            first, _, rest = name_of(node).partition(".")
            if first in bound:
                yield from made(node.lineno, f"{bound[first]}.{rest}")


def _is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


_REQUIREMENT = re.compile(r"""^[\s"']*([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*([<>=!~][^"'#;\n]*)?""")


def _pins(tree: Tree) -> dict[str, str]:
    """Canonical distribution name → requirement as written, from the project's metadata and requirements files."""
    found: dict[str, str] = {}
    for entry in tree.list(""):
        name = entry.path.rsplit("/", 1)[-1]
        if name == "pyproject.toml" or (name.startswith("requirements") and name.endswith((".txt", ".in"))):
            try:
                text = tree.read(entry.path).decode("utf-8", "replace")
            except MissingFile:
                continue
            for line in re.split(r"[\n,]|\[(?=\s*[\"'])", text):
                match = _REQUIREMENT.match(line)
                if match and match[2]:
                    found.setdefault(_canonical(match[1]), f"{match[1]}{match[2].strip()}")
    return found
