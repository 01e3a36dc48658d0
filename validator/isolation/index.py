"""What was learnt of one tree, kept by the tree's id: who imports whom, mentions which word, defines which property.

A key covers all of it: the tree's id, which paths count as the change's own, and this package's source. Only facts that
follow from the tree are kept, never an outcome. An entry that does not read is a miss.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from validator.isolation.blast.graph import ImportGraph, parents_of
from validator.isolation.source import Sources
from validator.own_source import own_source
from validator.stage import Store

__all__ = ["keep", "recall"]

_Edges: TypeAlias = dict[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class _Entry:
    """As it is written: paths are places among the tree's Python files, which the tree itself lists."""

    graph: list[list[list[int]]] | None
    """Eager, then lazy edges, a row a file; None: nobody asked for the graph."""
    mentions: dict[str, list[int]]
    properties: dict[str, list[int]] | None

    def encoded(self) -> bytes:
        """The same for the same facts."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps(fields, separators=(",", ":"), sort_keys=True).encode("utf-8", "surrogatepass")


def recall(sources: Sources, store: Store) -> None:
    """Let the sources know what an earlier run learnt of the same tree."""
    data = store.get(_key(sources))
    if data is None:
        return
    paths = sources.paths
    try:
        found: dict[str, Any] = json.loads(data)
        rows = found["graph"]
        edges = None if rows is None else [_edges(one, paths) for one in rows]
        graph = None if edges is None else ImportGraph(edges[0], edges[1], parents_of(sources))
        mentions = {str(word): _named(places, paths) for word, places in found["mentions"].items()}
        known = found["properties"]
        properties = None if known is None else {str(name): _named(places, paths) for name, places in known.items()}
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return
    sources.graph = graph
    sources.remember(mentions, properties)


def keep(sources: Sources, store: Store) -> None:
    """Keep what this run learnt, if there is anything new."""
    if not sources.learnt:
        return
    place = {path: number for number, path in enumerate(sources.paths)}
    graph, (mentions, properties) = sources.graph, sources.remembered()
    entry = _Entry(
        None if graph is None else [_rows(graph.eager, sources.paths, place), _rows(graph.lazy, sources.paths, place)],
        {word: [place[p] for p in found] for word, found in mentions.items()},
        None if properties is None else {name: [place[p] for p in found] for name, found in properties.items()},
    )
    store.put(_key(sources), entry.encoded())


def _rows(edges: _Edges, paths: tuple[str, ...], place: Mapping[str, int]) -> list[list[int]]:
    return [sorted(place[target] for target in edges[path]) for path in paths]


def _edges(rows: list[list[int]], paths: tuple[str, ...]) -> _Edges:
    return {path: frozenset(_named(row, paths)) for path, row in zip(paths, rows, strict=True)}


def _named(places: list[int], paths: tuple[str, ...]) -> tuple[str, ...]:
    """Raises IndexError or TypeError where a place is none."""
    if any(place < 0 for place in places):
        raise IndexError
    return tuple(paths[place] for place in places)


def _key(sources: Sources) -> str:
    own = hashlib.sha256()
    for path in sources.paths:
        if sources.isolated(path):
            own.update(path.encode("utf-8", "surrogateescape") + b"\0")
    return f"isolation/tree/{own_source('isolation')}/{sources.tree_id}/{own.hexdigest()}"
