"""What a kernel's stores leave in shared or local memory, for the loads that read pointers back from there.

Every such load asks for it, in every round of a cycle, so it is kept by place, and only stores that rest on something
that changed are worked out again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from validator.ordering.program import Access, Event
from validator.ordering.slices import Node

__all__ = ["Stored"]


class _Source(Protocol):
    """As much of a `provenance.Source` as is asked for here."""

    @property
    def root(self) -> Hashable: ...
    @property
    def offset(self) -> int: ...
    @property
    def exact(self) -> bool: ...


S = TypeVar("S", bound=_Source)

_Key = tuple[Hashable, int | None] | tuple[Hashable]
"""(root, offset): stores to exactly there · (root, None): those to places that vary · (root,): all to that root."""


@dataclass(slots=True)
class _Place:
    """Memory that one key means."""

    stores: int = 0
    """How many go there."""
    held: dict[int, frozenset[object]] = field(default_factory=dict)
    """Number of a store → what it puts there that may be a pointer."""


class Stored:
    """All stores of a kernel to one state space."""

    def __init__(
        self,
        stores: Sequence[tuple[Event, Access]],
        nodes: Callable[[Event, Access], Iterable[Node]],
        found: Callable[[Event, Access], tuple[frozenset[S], list[frozenset[S]]]],
    ) -> None:
        """
        Args:
            nodes: of a store → values that it rests on.
            found: of a store → (where it goes, what may be a pointer of each word it puts there), as far as known now.
        """
        self._stores = stores
        self._found = found
        self._resting: dict[Node, list[int]] = {}
        for number, (event, access) in enumerate(stores):
            for node in dict.fromkeys(nodes(event, access)):
                self._resting.setdefault(node, []).append(number)
        self.inputs: tuple[Node, ...] = tuple(self._resting)
        """Values that any store rests on, in order."""
        self._stale = set(range(len(stores)))
        self._places: dict[_Key, _Place] = {}
        self._given: dict[int, dict[_Key, frozenset[object]]] = {}
        """Number of a store → what `_places` has of it."""

    def changed(self, node: Node) -> None:
        """The answer for a value is another one from now on."""
        self._stale.update(self._resting.get(node, ()))

    def at(self, address: frozenset[S], part: int) -> tuple[bool, set[S]]:
        """(whether anything is stored where a load reads, what of it may be a pointer).

        Args:
            part: bytes from the address to the word that is asked for.
        """
        while self._stale:
            self._work_out(self._stale.pop())
        keys: set[_Key] = set()
        if all(source.exact for source in address):
            keys.update((source.root, source.offset + part) for source in address)
            keys.update((source.root, None) for source in address)
        else:
            keys.update((source.root,) for source in address)
        places = [place for key in keys if (place := self._places.get(key)) is not None and place.stores]
        result: set[S] = set()
        for place in places:
            result.update(*place.held.values())  # type: ignore[arg-type]
        return bool(places), result

    def _work_out(self, number: int) -> None:
        event, access = self._stores[number]
        places, values = self._found(event, access)
        given: dict[_Key, frozenset[object]] = {}
        exact = all(source.exact for source in places)
        size = (access.bytes or 0) // len(event.value) if event.value else 0
        for place, value in enumerate(values):
            for source in places:
                there = (source.root, source.offset + place * size if exact else None)
                for key in (there, (source.root,)):
                    given[key] = given.get(key, frozenset()) | value
        before = self._given.get(number, {})
        if before != given:
            self._exchange(number, before, given)

    def _exchange(
        self, number: int, before: dict[_Key, frozenset[object]], given: dict[_Key, frozenset[object]]
    ) -> None:
        for key in before:
            place = self._places[key]
            place.stores -= 1
            place.held.pop(number, None)
        for key, value in given.items():
            place = self._places.setdefault(key, _Place())
            place.stores += 1
            if value:
                place.held[number] = value
        self._given[number] = given
