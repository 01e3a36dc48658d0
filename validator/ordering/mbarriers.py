"""mbarriers as carriers of order.

A phase orders those who wait for it when every arrival that can complete it comes from ordered code, or announces bytes
of a copy that ordered code issues; and when the first phase waited for is not complete from the start (parity 0, or a
token). mbarriers are told apart by base and first constant byte; a variable stage index stands for its whole array,
which ends where the next array starts.
"""

from __future__ import annotations

from functools import cached_property

from validator.ordering.masks import Masks, Turn
from validator.ordering.program import Event, EventKind
from validator.ordering.provenance import Provenance, Root, Source
from validator.ordering.slices import first_value

__all__ = ["Mbarriers"]

Mbarrier = tuple[Root, int]

_KINDS = (EventKind.MBARRIER_INIT, EventKind.MBARRIER_ARRIVE, EventKind.MBARRIER_WAIT, EventKind.ASYNC_COPY)


class Mbarriers:
    """All mbarriers of one kernel."""

    def __init__(self, masks: Masks, provenance: Provenance) -> None:
        self.masks = masks
        self.flow = masks.flow
        self.provenance = provenance

    # -- names -------------------------------------------------------------------------------------------------------

    @cached_property
    def _events(self) -> list[Event]:
        return [e for e in self.flow.program.events if e.kind in _KINDS and e.barrier]

    @cached_property
    def _sources(self) -> dict[int, Source | None]:
        """Instruction → base of its mbarrier, None where that cannot be told."""
        return {event.index: self._source(event) for event in self._events}

    def _source(self, event: Event) -> Source | None:
        found = self.provenance.sum(event.barrier, event.index)
        if len({s.root for s in found}) != 1 or found[0].is_unresolved:
            return None
        least = min(found, key=lambda s: s.offset)
        return Source(least.root, least.offset, len(found) == 1 and least.exact)

    @cached_property
    def identities(self) -> dict[int, Mbarrier]:
        """Instruction → base and first constant byte of the mbarrier, or of the array of mbarriers, that it means."""
        arrays: dict[Root, set[int]] = {}
        for source in self._sources.values():
            if source is not None and not source.exact:
                arrays.setdefault(source.root, set()).add(source.offset)
        result: dict[int, Mbarrier] = {}
        for index, source in self._sources.items():
            if source is not None:
                starts = [s for s in arrays.get(source.root, ()) if s <= source.offset]
                result[index] = (source.root, max(starts, default=source.offset))
        return result

    @cached_property
    def _users(self) -> dict[Mbarrier, tuple[list[Event], list[Event]]]:
        """mbarrier → (arrivals, copies) onto it."""
        result: dict[Mbarrier, tuple[list[Event], list[Event]]] = {}
        for event in self._events:
            name = self.identities.get(event.index)
            if name is not None and event.kind in (EventKind.MBARRIER_ARRIVE, EventKind.ASYNC_COPY):
                result.setdefault(name, ([], []))[event.kind is EventKind.ASYNC_COPY].append(event)
        return result

    @cached_property
    def _unplaced(self) -> bool:
        """Whether some arrival may be on any mbarrier."""
        return any(e.kind is EventKind.MBARRIER_ARRIVE and e.index not in self.identities for e in self._events)

    def arrivals(self, wait: Event) -> list[Event]:
        """Arrivals at the mbarrier that an event waits for; empty when it cannot be told which one that is."""
        name = self.identities.get(wait.index)
        return self._users.get(name, ([], []))[0] if name is not None else []

    def label(self, event: Event) -> str:
        """The mbarrier of an event in words."""
        root, offset = self.identities[event.index]
        name = str(root[-1]) if root[0] == "symbol" and root[-1] else "shared memory"
        return f"{name}+{offset}" if offset or name == "shared memory" else name

    # -- order -------------------------------------------------------------------------------------------------------

    def may_order(self, event: Event) -> bool:
        """Whether the first wait cannot pass with nothing arrived: its parity is 0 at first, or it has a token."""
        if event.index not in self.identities:
            return False
        if event.parity is None:
            return True
        value = first_value(self.flow, event.parity, event.index)
        return value is not None and value & 1 == 0

    def source(self, event: Event, turn: Turn) -> int:
        """Threads whose arrivals and copies order those who wait; 0 when some arrival comes from anywhere."""
        name = self.identities.get(event.index)
        if name is None or self._unplaced:
            return 0
        known = turn.notes.get(name)
        if not isinstance(known, int):
            known = turn.notes[name] = self._from(*self._users.get(name, ([], [])), turn)
        return known

    def _from(self, arrivals: list[Event], copies: list[Event], turn: Turn) -> int:
        ordered = {e.index for e in (*arrivals, *copies) if not self._unwaited(e, turn)}
        good = {c.index for c in copies if c.index in ordered}
        result = 0
        for arrival in arrivals:
            if arrival.index in ordered:
                result |= self.masks.executing(arrival)
            elif not self._announces(arrival, {e.index for e in arrivals}, good):
                return 0
        for copy in copies:
            if copy.index in good:
                result |= self.masks.executing(copy)
        return result

    def _unwaited(self, event: Event, turn: Turn) -> int:
        return self.masks.at(event.index, turn.state, turn.clears) & self.masks.executing(event)

    def _announces(self, arrival: Event, arrivals: set[int], copies: set[int]) -> bool:
        """Every path from an arrival meets an ordered copy onto the mbarrier before the next arrival or the end."""
        if not copies:
            return False
        threads = self.masks.executing(arrival)
        stack = [(self.flow.block_of(arrival.index), arrival.index + 1)]
        seen: set[int] = set()
        while stack:
            number, first = stack.pop()
            hit = self._first_in(number, first, copies, arrivals)
            if hit is True:
                continue
            if hit is False or not self.flow.blocks[number].successors:
                return False
            for k, edge in enumerate(self.flow.blocks[number].successors):
                if edge.target not in seen and self.masks.edges[number][k] & threads:
                    seen.add(edge.target)
                    stack.append((edge.target, 0))
        return True

    def _first_in(self, number: int, first: int, good: set[int], bad: set[int]) -> bool | None:
        for event in self.flow.events_in[number]:
            if event.index >= first:
                if event.index in good:
                    return True
                if event.index in bad or (event.kind is EventKind.EXIT and event.guard is None):
                    return False
        return None
