"""Barriers as carriers of order: whether passing one puts a thread behind a thread that has waited.

* CTA and cluster barriers: some thread that surely takes part in the same instance has waited on all its paths to it.
  Instances are matched by instruction where all threads of the barrier reach it, else by ordinal (the k-th barrier of
  that name), else not at all. Unknown barrier numbers carry nothing.
* mbarriers: every arrival that can complete a phase comes from ordered code, or announces bytes of a copy that is
  issued by ordered code; and the first phase waited for is not complete from the start (parity 0 or a token).
  mbarriers are told apart by base and first constant byte; a variable stage index stands for its whole array.

Warp-level instructions order nothing here, and conditions on data or block coordinates guarantee nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from validator.ordering.masks import Masks
from validator.ordering.program import Event, EventKind
from validator.ordering.provenance import Provenance, Root, Source
from validator.ordering.slices import first_value
from validator.ordering.threads import describe

__all__ = ["Barriers", "Carrier", "Mbarrier", "carrier_text", "lowest"]

Name = str
Mbarrier = tuple[Root, int]


def lowest(mask: int) -> int:
    """Number of the lowest thread in a set that is not empty."""
    return (mask & -mask).bit_length() - 1


def _lowest_members(mask: int, count: int) -> int:
    result = 0
    for _ in range(count):
        bit = mask & -mask
        result |= bit
        mask ^= bit
    return result


@dataclass(frozen=True, slots=True)
class Carrier:
    """A barrier that may put threads behind a wait, and why it does."""

    event: Event
    kind: str
    """barrier, cluster-barrier, mbarrier."""
    name: str
    """"barrier 1", "the cluster barrier", "the mbarrier at bar+8"."""


class Barriers:
    """All barriers of one kernel."""

    def __init__(self, masks: Masks, provenance: Provenance) -> None:
        self.masks = masks
        self.flow = masks.flow
        self.threads = masks.threads
        self.provenance = provenance
        self.assumptions: dict[int, str] = {}
        """Instruction of a carrier → what its order assumes about the block."""

    # -- CTA and cluster barriers --------------------------------------------------------------------------------------

    @cached_property
    def named(self) -> dict[Name, list[tuple[Event, int]]]:
        """Barrier name → (event, threads that use it under that name). Name "?" stands for unknown numbers."""
        result: dict[Name, list[tuple[Event, int]]] = {}
        for event in self.flow.program.events:
            if event.kind not in (EventKind.BARRIER, EventKind.CLUSTER_BARRIER):
                continue
            mask = self.masks.executing(event)
            if not mask:
                continue
            for name, part in self._names(event).items():
                if part & mask:
                    result.setdefault(name, []).append((event, part & mask))
        return result

    def _names(self, event: Event) -> dict[Name, int]:
        everyone = self.masks.everyone
        if event.kind is EventKind.CLUSTER_BARRIER:
            return {"cluster": everyone}
        if not event.barrier:
            return {"0": everyone}
        total: np.ndarray[tuple[int], np.dtype[np.int64]] | None = None
        for operand in event.barrier:
            value = self.threads.value(operand, event.index)
            if not isinstance(value, np.ndarray):
                return {"?": everyone}
            total = value if total is None else total + value
        names: dict[Name, int] = {}
        for thread, number in enumerate(() if total is None else total.tolist()):
            names[str(number)] = names.get(str(number), 0) | 1 << thread
        return names

    @cached_property
    def carriers(self) -> list[Carrier]:
        """Every barrier that could carry order to the threads that wait at it."""
        result: list[Carrier] = []
        for event in self.flow.program.events:
            if event.kind is EventKind.BARRIER and event.waits:
                names = sorted(n for n, users in self.named.items() if any(e is event for e, _ in users))
                if names:
                    label = "barrier " + (" or ".join(names) if len(names) < 4 else f"{names[0]} and others")
                    result.append(Carrier(event, "barrier", label))
            elif event.kind is EventKind.CLUSTER_BARRIER and event.waits:
                result.append(Carrier(event, "cluster-barrier", "the cluster barrier"))
            elif event.kind is EventKind.MBARRIER_WAIT:
                name = self.identity(event)
                if name is not None and not self._vacuous(event):
                    result.append(Carrier(event, "mbarrier", f"the mbarrier at {_place(name)}"))
        return result

    def carries(self, carrier: Carrier, state: list[int], clears: Mapping[int, int]) -> int:
        """Mask of waited threads (or, for an mbarrier, arriving ones) that order this carrier; 0 when none does."""
        if carrier.kind == "mbarrier":
            return self._mbarrier_source(carrier.event, state, clears)
        result = self.masks.everyone
        for name, users in self.named.items():
            mine = next((mask for event, mask in users if event is carrier.event), 0)
            if mine:
                source = self._barrier_source(name, carrier.event, mine, state, clears)
                if not source:
                    return 0
                result &= source if result & source else result
        return result

    def _barrier_source(self, name: Name, event: Event, mine: int, state: list[int], clears: Mapping[int, int]) -> int:
        """Threads that surely take part in the instances at `event` and have waited before they arrive."""
        if name == "?":
            return 0
        users = self.named[name]
        arriving = [(e, mask) for e, mask in users if e.arrives]
        everyone = self._participants(name, event)
        if everyone == 0:
            return 0
        unwaited = {e.index: self.masks.at(e.index, state, clears) & mask for e, mask in arriving}
        candidates = 0
        if event.arrives and mine & everyone == everyone:
            candidates = mine & ~unwaited[event.index] & self._surely(event)
        if not candidates:
            candidates = self._by_ordinal(name, event, arriving, unwaited, everyone)
        if not candidates:
            bad = reached = 0
            for e, mask in arriving:
                bad |= unwaited[e.index]
                reached |= mask
            candidates = reached & ~bad & everyone
        return self._existing(candidates, event)

    def _existing(self, candidates: int, event: Event) -> int:
        """Of the candidates those that every block has, or surely has by what the kernel says of its size."""
        threads = self.threads
        if not candidates or threads.block is not None or event.thread_count is not None or candidates & 1:
            return candidates
        first = lowest(candidates)
        if first < 32:
            self.assumptions[event.index] = f"the block has at least {first + 1} threads"
            return candidates
        if threads.bounded and first < threads.row:
            self.assumptions[event.index] = f"the block has {threads.row} threads, as its launch bound says"
            return candidates
        return 0

    def _participants(self, name: Name, event: Event) -> int:
        """Threads that take part in every instance, 0 when that cannot be told."""
        if event.kind is EventKind.CLUSTER_BARRIER or event.thread_count is None:
            return self.masks.everyone
        count = self.threads.constant(event.thread_count, event.index)
        users = 0
        for _, mask in self.named[name]:
            users |= mask
        if count is None or users.bit_count() < count:
            return 0
        if users.bit_count() == count:
            return users
        # Without a known block size, threads that may not exist were counted: the lowest ones are those that do.
        return 0 if self.threads.block is not None or self.threads.rows else _lowest_members(users, count)

    def _by_ordinal(
        self, name: Name, event: Event, arriving: list[tuple[Event, int]], unwaited: dict[int, int], everyone: int
    ) -> int:
        """Threads that have waited at every barrier instruction with this event's ordinal that they may execute."""
        ordinals = self._ordinals(name)
        wanted = ordinals.get(event.index)
        if wanted is None:
            return 0
        if not event.arrives:
            wanted -= 1
        reached = bad = 0
        for other, mask in arriving:
            place = ordinals.get(other.index)
            if place is None:
                return 0
            if place == wanted:
                reached |= mask
                bad |= unwaited[other.index]
        return reached & ~bad & everyone

    def _ordinals(self, name: Name) -> dict[int, int | None]:
        """Barrier instruction → how many arrivals at that barrier come before it, None when paths differ."""
        if name in self._ordinal_cache:
            return self._ordinal_cache[name]
        arrivals: dict[int, list[int]] = {}
        for event, _ in self.named[name]:
            arrivals.setdefault(self.flow.block_of(event.index), []).append(event.index)
        arrive = {event.index for event, _ in self.named[name] if event.arrives}
        low: dict[int, int] = {0: 0}
        high: dict[int, int] = {0: 0}
        limit = 1 + sum(len(places) for places in arrivals.values())
        stack = [0]
        while stack:
            number = stack.pop()
            step = sum(1 for index in arrivals.get(number, ()) if index in arrive)
            for k, edge in enumerate(self.flow.blocks[number].successors):
                if not self.masks.edges[number][k] & self.masks.reach[number]:
                    continue
                a, b = low[number] + step, min(high[number] + step, limit)
                if edge.target not in low:
                    low[edge.target], high[edge.target] = a, b
                    stack.append(edge.target)
                elif a < low[edge.target] or b > high[edge.target]:
                    low[edge.target] = min(a, low[edge.target])
                    high[edge.target] = max(b, high[edge.target])
                    stack.append(edge.target)
        result: dict[int, int | None] = {}
        for number, places in arrivals.items():
            count = low[number] if low.get(number) == high.get(number) and number in low else None
            for index in sorted(places):
                result[index] = count
                if count is not None and index in arrive:
                    count += 1
        self._ordinal_cache[name] = result
        return result

    @cached_property
    def _ordinal_cache(self) -> dict[Name, dict[int, int | None]]:
        return {}

    def _surely(self, event: Event) -> int:
        """Threads that cannot leave the kernel before `event` while others of their CTA go on to it."""
        target = self.flow.block_of(event.index)
        before = self._can_reach(target)
        result = self.masks.everyone
        for number in before:
            if number == target or not self.masks.reach[number]:
                continue
            block = self.flow.blocks[number]
            for k, edge in enumerate(block.successors):
                last = max(block.start, block.stop - 1)
                if edge.target not in before and edge.target != target and self.threads.varies(edge.condition, last):
                    result &= ~(self.masks.reach[number] & self.masks.edges[number][k])
        return result

    def _can_reach(self, target: int) -> set[int]:
        seen = {target}
        stack = [target]
        while stack:
            for before, _ in self.flow.predecessors[stack.pop()]:
                if before not in seen:
                    seen.add(before)
                    stack.append(before)
        return seen

    # -- mbarriers -----------------------------------------------------------------------------------------------------

    def identity(self, event: Event) -> Mbarrier | None:
        """Which mbarrier (array) an event means: base and first constant byte; None when that cannot be told."""
        place = self._places.get(id(event))
        if place is None:
            return None
        root, offset = place
        starts = [start for start in self._arrays.get(root, ()) if start <= offset]
        return (root, max(starts) if starts else offset)

    @cached_property
    def _mbarrier_events(self) -> list[Event]:
        kinds = (EventKind.MBARRIER_INIT, EventKind.MBARRIER_ARRIVE, EventKind.MBARRIER_WAIT, EventKind.ASYNC_COPY)
        return [e for e in self.flow.program.events if e.kind in kinds and e.barrier]

    @cached_property
    def _sources(self) -> dict[int, Source | None]:
        result: dict[int, Source | None] = {}
        for event in self._mbarrier_events:
            found = self.provenance.sum(event.barrier, event.index)
            roots = {s.root for s in found}
            if len(roots) == 1 and not found[0].is_unresolved:
                least = min(found, key=lambda s: s.offset)
                exact = len(found) == 1 and least.exact
                result[id(event)] = Source(least.root, least.offset, exact)
            else:
                result[id(event)] = None
        return result

    @cached_property
    def _arrays(self) -> dict[Root, list[int]]:
        """Base → first bytes of the arrays that are indexed by something that varies."""
        result: dict[Root, list[int]] = {}
        for source in self._sources.values():
            if source is not None and not source.exact:
                result.setdefault(source.root, []).append(source.offset)
        return result

    @cached_property
    def _places(self) -> dict[int, tuple[Root, int]]:
        return {key: (s.root, s.offset) for key, s in self._sources.items() if s is not None}

    def users(self, name: Mbarrier, *kinds: EventKind) -> list[Event]:
        """Events of these kinds on one mbarrier."""
        return [e for e in self._mbarrier_events if e.kind in kinds and self.identity(e) == name]

    def _vacuous(self, event: Event) -> bool:
        """Whether the first wait may pass with nothing arrived: the parity is odd at first, or cannot be told."""
        if event.parity is None:
            return False
        value = first_value(self.flow, event.parity, event.index)
        return value is None or value & 1 == 1

    def _mbarrier_source(self, event: Event, state: list[int], clears: Mapping[int, int]) -> int:
        name = self.identity(event)
        if name is None or any(
            e.kind is EventKind.MBARRIER_ARRIVE and self.identity(e) is None for e in self._mbarrier_events
        ):
            return 0
        arrivals = self.users(name, EventKind.MBARRIER_ARRIVE)
        copies = self.users(name, EventKind.ASYNC_COPY)
        ordered = {e.index for e in (*arrivals, *copies) if not self._unwaited(e, state, clears)}
        if not arrivals and not copies:
            return 0
        source = 0
        for arrival in arrivals:
            if arrival.index in ordered:
                source |= self.masks.executing(arrival)
            elif not self._announces(arrival, arrivals, {c.index for c in copies if c.index in ordered}):
                return 0
        for copy in copies:
            if copy.index in ordered:
                source |= self.masks.executing(copy)
        return source

    def _unwaited(self, event: Event, state: list[int], clears: Mapping[int, int]) -> int:
        return self.masks.at(event.index, state, clears) & self.threads.holds(event.guard, event.index)[0]

    def _announces(self, arrival: Event, arrivals: list[Event], copies: set[int]) -> bool:
        """Every path from an arrival meets an ordered copy onto the mbarrier before the next arrival or the end."""
        if not copies:
            return False
        others = {e.index for e in arrivals}
        start = self.flow.block_of(arrival.index)
        stack = [(start, arrival.index + 1)]
        seen: set[int] = set()
        while stack:
            number, first = stack.pop()
            hit = self._first_in(number, first, copies, others)
            if hit is True:
                continue
            if hit is False or not self.flow.blocks[number].successors:
                return False
            for k, edge in enumerate(self.flow.blocks[number].successors):
                if edge.target not in seen and self.masks.edges[number][k] & self.masks.executing(arrival):
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


def _place(name: Mbarrier) -> str:
    root, offset = name
    label = root[-1] if root[0] == "symbol" and root[-1] else "shared memory"
    return f"{label}+{offset}" if offset or label == "shared memory" else str(label)


def carrier_text(carrier: Carrier, source: int, everyone: int) -> str:
    """How a carrier orders those who wait at it, in words."""
    who = describe(source, everyone)
    if carrier.kind == "mbarrier":
        return f"ordered through {carrier.name}: every arrival comes from code behind the wait ({who})"
    verb = "wait" if who.startswith(("all", "threads")) else "waits"
    return f"ordered through {carrier.name}, {who} {verb}"
