"""The import graph of a tree, and who reaches a set of modules in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from validator.isolation.blast.imports import resolve_targets, scan
from validator.isolation.source import Sources

__all__ = ["ImportGraph", "Reach", "build", "cycles", "parents_of", "reach"]


@dataclass(frozen=True, slots=True)
class ImportGraph:
    """Edges between the files of a tree, importer first. Implicit imports of parent packages are edges too."""

    eager: dict[str, frozenset[str]]
    """Named imports that run when the importer is loaded."""
    lazy: dict[str, frozenset[str]]
    """Named imports inside functions, classes and branches."""
    parents: dict[str, tuple[str, ...]]
    """`__init__.py` of the packages around a module: loading it loads them first."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Files outside a set that can reach it."""

    at_import: frozenset[str]
    """Loading these loads something of the set."""
    at_call: frozenset[str]
    """Only code in these that is called later can load something of the set."""


def build(sources: Sources) -> ImportGraph:
    """Read off the bytes of every file: a superset of the real graph (text in strings counts)."""
    sources.load()
    eager: dict[str, frozenset[str]] = {}
    lazy: dict[str, frozenset[str]] = {}
    for path in sources.paths:
        now: set[str] = set()
        later: set[str] = set()
        for found in scan(sources.data(path)):
            (now if found.eager else later).update(resolve_targets(sources, path, found))
        eager[path], lazy[path] = frozenset(now), frozenset(later - now)
    return ImportGraph(eager, lazy, parents_of(sources))


def parents_of(sources: Sources) -> dict[str, tuple[str, ...]]:
    """Path → `__init__.py` of the packages around it."""
    packages: dict[str, tuple[str, ...]] = {}
    found: dict[str, tuple[str, ...]] = {}
    for path in sources.paths:
        folder = path.rpartition("/")[0]
        if folder not in packages:
            parts = folder.split("/")
            candidates = ("/".join([*parts[:i], "__init__.py"]) for i in range(1, len(parts) + 1))
            packages[folder] = tuple(p for p in candidates if p in sources)
        found[path] = tuple(p for p in packages[folder] if p != path)
    return found


def reach(graph: ImportGraph, targets: Iterable[str]) -> Reach:
    """Who reaches the targets from outside them."""
    inside = frozenset(targets)
    eager, lazy, below = _reversed(graph.eager), _reversed(graph.lazy), _reversed(graph.parents)
    now = _backwards([eager], below, inside)
    ever = _backwards([eager, lazy], below, inside)
    return Reach(now - inside, ever - now - inside)


def _reversed(edges: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path, targets in edges.items():
        for target in targets:
            if target in found:
                found[target].append(path)
            else:
                found[target] = [path]
    return found


def _backwards(
    importers: Sequence[Mapping[str, Iterable[str]]], below: Mapping[str, Iterable[str]], start: frozenset[str]
) -> frozenset[str]:
    """`below`: the modules of a package, each of which loads it first."""
    seen, todo = set(start), list(start)
    while todo:
        path = todo.pop()
        loaded = [path, *below.get(path, ())]
        found = {i for edges in importers for one in loaded for i in edges.get(one, ())} - seen
        seen |= found
        todo += found
    return frozenset(seen)


def cycles(graph: ImportGraph, within: frozenset[str]) -> tuple[tuple[str, ...], ...]:
    """Groups of files that load each other at import time and hold one of these; named imports only."""
    groups = (group for group in _components(graph.eager, within) if len(group) > 1 and within & set(group))
    return tuple(sorted(tuple(sorted(group)) for group in groups))


def _components(edges: dict[str, frozenset[str]], roots: Iterable[str]) -> list[list[str]]:
    """Strongly connected components of what the roots reach (Tarjan, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    result: list[list[str]] = []
    for root in sorted(roots):
        if root in index:
            continue
        work = [(root, iter(sorted(edges.get(root, ()))))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(sorted(edges.get(successor, ())))))
                    break
                if successor in on_stack:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        group.append(member)
                        if member == node:
                            break
                    result.append(group)
    return result
