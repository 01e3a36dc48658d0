"""Barriers as carriers of order: whether passing one puts a thread behind a thread that has waited.

* CTA and cluster barriers: some thread that surely takes part in the same instance has waited on all its paths to it.
  Instances are matched by instruction where all threads of the barrier reach it, else by ordinal (the k-th barrier of
  that name), else not at all. Unknown barrier numbers carry nothing.
* mbarriers: see `ordering.mbarriers`.

* a warp barrier orders the lanes of each warp that has a lane that waited; its member mask is taken to be right.

Shuffles and votes order nothing, and conditions on data or block coordinates guarantee nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from validator.ordering.masks import Masks, Turn
from validator.ordering.mbarriers import Mbarriers
from validator.ordering.program import Event, EventKind
from validator.ordering.provenance import Provenance
from validator.ordering.threadset import describe
from validator.ordering.tried import Tried

__all__ = ["Barriers", "Carrier", "carrier_text"]

Name = str


def _lowest(mask: int) -> int:
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
class _Arrivals:
    """Arrivals at one barrier: (threads that may arrive, those of them that need not have waited)."""

    each: dict[int, tuple[int, int]]
    """By instruction."""
    by_place: dict[int | None, tuple[int, int]]
    """By ordinal; None: paths differ."""
    everywhere: tuple[int, int]

    def waited(self, place: int | None) -> int:
        """Threads that have waited wherever they arrive with this ordinal (None: wherever they arrive at all)."""
        if place is not None and None in self.by_place:
            # An arrival whose ordinal is not known could be this one.
            return 0
        reached, bad = self.everywhere if place is None else self.by_place.get(place, (0, 0))
        return reached & ~bad


@dataclass(frozen=True, slots=True)
class Carrier:
    """A barrier that may put threads behind a wait, and why it does."""

    event: Event
    kind: str
    """barrier, cluster-barrier, warp-barrier, mbarrier."""
    name: str
    """"barrier 1", "the cluster barrier", "the mbarrier at bar+8"."""


class Barriers:
    """All barriers of one kernel."""

    def __init__(self, masks: Masks, provenance: Provenance, lenient: bool = False, any_phase: bool = False) -> None:
        """`lenient`: blocks may be smaller than the launch bound, so that fewer threads meet at a barrier.

        `any_phase`: a wait for an mbarrier whose first parity does not show may be the right one.
        """
        self.masks = masks
        self.lenient = lenient
        self.flow = masks.flow
        self.threads = masks.threads
        self.mbarriers = Mbarriers(masks, provenance, any_phase)
        self.tried = Tried(masks.flow)
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
        numbers = self.threads.sums(event.barrier, event.index)
        if numbers is None:
            return {"?": everyone}
        if len(set(numbers)) == 1:
            return {str(numbers[0]): everyone}
        names: dict[Name, int] = {}
        for thread, number in enumerate(numbers):
            names[str(number)] = names.get(str(number), 0) | 1 << thread
        return names

    @cached_property
    def names_of(self) -> dict[int, list[Name]]:
        """Barrier instruction → its names, sorted."""
        result: dict[int, list[Name]] = {}
        for name in sorted(self.named):
            for event, _ in self.named[name]:
                result.setdefault(event.index, []).append(name)
        return result

    @cached_property
    def carriers(self) -> list[Carrier]:
        """Every barrier that could carry order to the threads that wait at it."""
        result: list[Carrier] = []
        for event in self.flow.program.events:
            if event.kind is EventKind.BARRIER and event.waits:
                names = self.names_of.get(event.index, [])
                if names:
                    label = "barrier " + (" or ".join(names) if len(names) < 4 else f"{names[0]} and others")
                    result.append(Carrier(event, "barrier", label))
            elif event.kind is EventKind.CLUSTER_BARRIER and event.waits:
                result.append(Carrier(event, "cluster-barrier", "the cluster barrier"))
            elif event.kind is EventKind.WARP_BARRIER:
                result.append(Carrier(event, "warp-barrier", "the warp barrier"))
            elif event.kind is not EventKind.MBARRIER_WAIT or event.index in self.tried.ignored:
                continue
            elif self.mbarriers.may_order(event):
                result.append(Carrier(event, "mbarrier", f"the mbarrier at {self.mbarriers.label(event)}"))
        return result

    def carries(self, carrier: Carrier, turn: Turn) -> int:
        """Mask of waited threads (or, for an mbarrier, arriving ones) that order this carrier; 0 when none does."""
        if carrier.kind == "mbarrier":
            return self.mbarriers.source(carrier.event, turn)
        if carrier.kind == "warp-barrier":
            index = carrier.event.index
            return self.masks.executing(carrier.event) & ~self.masks.at(index, turn.state, turn.clears)
        result = self.masks.everyone
        for name in self.names_of.get(carrier.event.index, ()):
            source = self._barrier_source(name, carrier.event, turn)
            if not source:
                return 0
            result &= source if result & source else result
        return result

    def reached(self, carrier: Carrier, source: int) -> int:
        """Threads that stand in order behind a carrier with this source: of a warp barrier the warps of its lanes."""
        if carrier.kind != "warp-barrier":
            return self.masks.everyone if source else 0
        return self.whole_warps(source)

    def whole_warps(self, lanes: int) -> int:
        """All lanes of the warps that these threads belong to; of the first row only, as rows may share warps."""
        first = (1 << self.threads.row) - 1
        lanes &= first
        result = 0
        for warp in range((lanes.bit_length() + 31) // 32):
            whole = 0xFFFFFFFF << (32 * warp)
            if lanes & whole:
                result |= whole
        return result & first

    def _barrier_source(self, name: Name, event: Event, turn: Turn) -> int:
        """Threads that surely take part in the instances at `event` and have waited before they arrive."""
        everyone = self._participants(name, event) if name != "?" else 0
        if everyone == 0:
            return 0
        arrivals = self._arrivals(name, turn)
        candidates = 0
        if event.arrives:
            mine, unwaited = arrivals.each[event.index]
            if mine & everyone == everyone:
                candidates = mine & ~unwaited & self._surely(event)
        if not candidates:
            candidates = arrivals.waited(self._wanted(name, event)) & everyone
        if not candidates:
            candidates = arrivals.waited(None) & everyone
        return self._existing(candidates, event)

    def _arrivals(self, name: Name, turn: Turn) -> _Arrivals:
        """Who arrives where under a name, and who of them has not waited; worked out once a turn."""
        known = turn.notes.get(name)
        if isinstance(known, _Arrivals):
            return known
        ordinals = self._ordinals(name)
        each: dict[int, tuple[int, int]] = {}
        by_place: dict[int | None, tuple[int, int]] = {}
        everywhere = (0, 0)
        for event, mask in self.named[name]:
            if event.arrives:
                unwaited = self.masks.at(event.index, turn.state, turn.clears) & mask
                each[event.index] = (mask, unwaited)
                place = ordinals.get(event.index)
                reached, bad = by_place.get(place, (0, 0))
                by_place[place] = (reached | mask, bad | unwaited)
                everywhere = (everywhere[0] | mask, everywhere[1] | unwaited)
        result = _Arrivals(each, by_place, everywhere)
        turn.notes[name] = result
        return result

    def _wanted(self, name: Name, event: Event) -> int:
        """Ordinal of the arrivals that complete the instance at `event`; -1 when paths differ."""
        place = self._ordinals(name).get(event.index)
        if place is None:
            return -1
        return place if event.arrives else place - 1

    def _existing(self, candidates: int, event: Event) -> int:
        """Of the candidates those that every block has, or surely has by what the kernel says of its size."""
        threads = self.threads
        if not candidates or threads.block is not None or event.thread_count is not None or candidates & 1:
            return candidates
        first = _lowest(candidates)
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
        # Of a block that is as large as its launch bound, any of them may meet there.
        known = self.threads.block is not None or self.threads.rows or (self.threads.bounded and not self.lenient)
        return 0 if known else _lowest_members(users, count)

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
        known = self._sure.get(event.index)
        if known is None:
            known = self._sure[event.index] = self._never_left_behind(self.flow.block_of(event.index))
        return known

    @cached_property
    def _sure(self) -> dict[int, int]:
        return {}

    def _never_left_behind(self, target: int) -> int:
        before = self.flow.leading_to(target)
        result = self.masks.everyone
        for number in before:
            if number == target or not self.masks.reach[number]:
                continue
            block = self.flow.blocks[number]
            last = max(block.start, block.stop - 1)
            for k, edge in enumerate(block.successors):
                away = edge.target not in before and edge.target != target
                if away and any(self.threads.varies(guard, last) for guard in edge.guards):
                    result &= ~(self.masks.reach[number] & self.masks.edges[number][k])
        return result


def carrier_text(carrier: Carrier, source: int, everyone: int) -> str:
    """How a carrier orders those who wait at it, in words."""
    who = describe(source, everyone)
    if carrier.kind == "mbarrier":
        return f"ordered through {carrier.name}: every arrival comes from code behind the wait ({who})"
    verb = "wait" if who.startswith(("all", "threads")) else "waits"
    return f"ordered through {carrier.name}, {who} {verb}"
