"""Stages that one thread fills and another reads: when the filler may come back, when the reader may begin."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property, reduce
from itertools import pairwise
from operator import or_
from typing import TYPE_CHECKING

from validator.ordering.clocks import Clocks
from validator.ordering.program import Direction, Event, EventKind
from validator.ordering.shared import Shared, SharedAccess
from validator.ordering.stages import (
    UNSEEN,
    Fault,
    Kind,
    Verdict,
    is_access,
    known_done,
    least_size,
    orders,
    size_of,
    to_several,
)
from validator.ordering.traces import MEETINGS, Step, Thread

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["Rings"]


class Rings:
    """The stages of one kernel."""

    def __init__(self, facts: Facts, shared: Shared, copies: list[SharedAccess], reads: list[SharedAccess]) -> None:
        """`copies`: those that come round, into this CTA's memory alone; `reads`: of what they fill."""
        self.facts, self.shared, self.copies, self.reads = facts, shared, copies, reads
        self.executing = facts.masks.executing
        self.mbarriers = facts.barriers.mbarriers

    @cached_property
    def filling(self) -> frozenset[int]:
        """Copies whose place the walk may tell, those included whose region the code alone does not."""
        every = self.facts.events(EventKind.ASYNC_COPY)
        return frozenset(e.index for e in every if e.group in ("mbarrier", "cp.async") and not to_several(e))

    def _filled(self, filler: Thread) -> dict[int, list[int]]:
        """First byte → positions of the copies that fill it."""
        result: dict[int, list[int]] = {}
        for k, step in enumerate(filler.steps):
            if step.event.index in self.filling and step.place is not None:
                result.setdefault(step.place, []).append(k)
        return result

    def between(self, filler: Thread, reader: Thread) -> Iterator[Verdict]:
        """Stages that are filled again too early, or read too early."""
        filled = self._filled(filler)
        places = sorted(filled)
        reads = [k for k, step in enumerate(reader.steps) if is_access(step, EventKind.ACCESS, Direction.READ)]
        handing = [k for k in range(len(filler.steps)) if self._hands_back(filler, k)]
        for place, copies in filled.items():
            stop = place + size_of(filler.steps[copies[0]], places)
            mine = [k for k in reads if place <= (reader.steps[k].place or 0) < stop]
            if mine:
                yield from self._refilled(filler, reader, copies, mine, handing)
            if mine and not reader.blind:
                yield from self._unwaited(filler, reader, copies, mine)

    def crowded(self, filler: Thread, reader: Thread, threads: Sequence[Thread]) -> Iterator[Verdict]:
        """More threads, the reader among them, arrive in every round than a phase takes that lets the copy start."""
        for place, copies in self._filled(filler).items():
            full, stop = filler.steps[copies[0]].barrier, place + least_size(filler.steps[copies[0]])
            reads = (k for k, step in enumerate(reader.steps) if is_access(step, EventKind.ACCESS, Direction.READ))
            read = next((k for k in reads if place <= (reader.steps[k].place or 0) < stop), None)
            waits = [k for k in filler.fresh if len(copies) > 1 and copies[0] < k < copies[1]]
            if full is None or read is None or len(waits) != 1:
                continue
            wait = filler.steps[waits[0]]
            count = self.mbarriers.count(wait.event)
            members = [t for t in threads if wait.place is not None and _each_round(t, full, wait.place)]
            if count is not None and reader in members and filler not in members:
                index = reader.steps[read].event.index
                yield Fault(Kind.CROWDED, filler.steps[copies[1]].event.index, index), len(members) > count

    def raced(self, clocks: Clocks, filler: Thread, reader: Thread) -> Iterator[Verdict]:
        """A read is ordered neither before nor behind a copy that fills its memory again, or behind one in flight."""
        if not clocks.comparable(filler, reader):
            return
        reads = [k for k, step in enumerate(reader.steps) if is_access(step, EventKind.ACCESS, Direction.READ)]
        reads = [k for k in reads if clocks.reached(reader, k)]
        for place, found in self._filled(filler).items():
            copies = [k for k in found if clocks.reached(filler, k)]
            stop = place + least_size(filler.steps[found[0]])
            mine = [k for k in reads if place <= (reader.steps[k].place or 0) < stop]
            for number, copy in enumerate(copies):
                event = filler.steps[copy].event
                over = known_done(filler, copy) if event.group == "cp.async" and not self._handed_over else copy
                for read in mine:
                    if clocks.knows(filler, copy, reader, read):
                        continue
                    behind = clocks.knows(reader, read, filler, copy)
                    other = reader.steps[read].event.index
                    if number:
                        yield Fault(Kind.RACED, event.index, other), not behind
                    if behind:
                        late = over is None or not clocks.knows(reader, read, filler, over)
                        yield Fault(Kind.UNFINISHED, event.index, other), late
                        break

    @cached_property
    def _handed_over(self) -> bool:
        """Whether `cp.async.mbarrier.arrive` says at some mbarrier that copies are done."""
        return any(e.group == "cp.async" for e in self.facts.events(EventKind.MBARRIER_ARRIVE))

    def _refilled(
        self, filler: Thread, reader: Thread, copies: list[int], reads: list[int], handing: list[int]
    ) -> Iterator[Verdict]:
        read = reader.steps[reads[0]].event.index
        given: list[set[int]] = []
        for before, after in pairwise(copies):
            behind = handing[bisect_left(handing, before) : bisect_left(handing, after)]
            copy = filler.steps[after]
            yield Fault(Kind.REFILLED, copy.event.index, read), not behind
            if reader.blind:
                continue
            kinds = {filler.steps[k].event.kind for k in behind}
            handed = {filler.steps[k].place for k in behind if k in filler.fresh}
            counted = all(place is None or self._once_each(filler, place) for place in handed)
            if kinds == {EventKind.MBARRIER_WAIT} and handed <= reader.arrivals.keys() and counted:
                given.append({place for place in handed if place is not None})
                yield from self._released(filler, reader, before, after, reads, given[-1])
            elif kinds == {EventKind.BARRIER} and filler.meets_as(reader):
                yield from self._met(filler, reader, before, after, reads)
        mbarrier = filler.steps[copies[-1]].barrier
        if given and mbarrier is not None:
            arrivals = sorted(k for place in set[int]().union(*given) for k in reader.arrivals[place])
            copy_index = filler.steps[copies[-1]].event.index
            yield from self._stale(reader, copy_index, reader.waits(mbarrier), arrivals, reads)

    @cached_property
    def _fillers(self) -> int:
        """Threads that copy."""
        return reduce(or_, (self.executing(c.event) for c in self.copies), 0)

    @cached_property
    def _told_by_others(self) -> frozenset[int]:
        """Waits for an mbarrier at which others than the copying threads may arrive (and not to announce bytes)."""
        waits = self.facts.events(EventKind.MBARRIER_WAIT)
        named = self.mbarriers.identities
        arrivals = (e for e in self.facts.events(EventKind.MBARRIER_ARRIVE) if e.arrives and e.index not in named)
        anywhere = any(self.executing(arrival) & ~self._fillers for arrival in arrivals)
        return frozenset(
            wait.index
            for wait in waits
            if anywhere
            or wait.index not in named
            or any(self.executing(a) & ~self._fillers for a in self.mbarriers.arrivals(wait))
        )

    def _hands_back(self, filler: Thread, position: int) -> bool:
        """Whether readers may have said at a step that they have read."""
        event = filler.steps[position].event
        if event.kind is EventKind.MBARRIER_WAIT:
            return position in filler.fresh and event.index in self._told_by_others
        return (event.kind in MEETINGS and event.waits) or event.kind in UNSEEN or orders(event)

    def _released(
        self, filler: Thread, reader: Thread, before: int, after: int, reads: list[int], given: set[int]
    ) -> Iterator[Verdict]:
        """The last read of what one copy brought comes behind the reader's arrivals that let the next copy start."""
        phase = self._phase(filler, before)
        mbarrier = filler.steps[before].barrier
        waits = [] if mbarrier is None else [k for k in reader.waits(mbarrier) if k in reader.fresh]
        if mbarrier is None or phase is None or len(waits) < phase:
            return
        stop = next((k for k in reader.waits(mbarrier) if k > waits[phase - 1]), len(reader.steps))
        last = bisect_left(reads, stop) - 1
        if last >= 0 and reads[last] > waits[phase - 1]:
            read = reads[last]
            late = []
            for place in given:
                needed = sum(k in filler.fresh and k < after for k in filler.waits(place))
                late.append(len(reader.arrivals[place]) >= needed and reader.arrivals[place][needed - 1] < read)
            fault = Fault(Kind.RELEASED, filler.steps[after].event.index, reader.steps[read].event.index)
            yield fault, all(late)

    def _once_each(self, filler: Thread, mbarrier: int) -> bool:
        """Whether all threads that arrive at an mbarrier have to, once for every phase."""
        wait = next((filler.steps[k].event for k in filler.waits(mbarrier)), None)
        return wait is not None and self.arrivals_of_each(wait) == 1

    def _phase(self, filler: Thread, copy: int) -> int | None:
        """Which phase of its mbarrier a copy belongs to; None where that cannot be counted."""
        each = self.arrivals_of_each(filler.steps[copy].event)
        return None if each is None else filler.phase(copy, each)

    def arrivals_of_each(self, event: Event) -> int | None:
        """How often a thread arrives at the mbarrier of an event in each phase; None where that does not show."""
        count = self.mbarriers.count(event)
        arriving = reduce(or_, map(self.executing, self.mbarriers.arrivals(event)), 0).bit_count()
        if count is None or arriving == 0:
            return None
        return 1 if count == arriving else count if arriving == 1 else None

    def _met(self, filler: Thread, reader: Thread, before: int, after: int, reads: list[int]) -> Iterator[Verdict]:
        """A reader that meets the filler at barriers only reads what one copy brought when the next may have begun."""
        mbarrier, phase, copy = (
            filler.steps[before].barrier,
            self._phase(filler, before),
            filler.steps[after].event.index,
        )
        if mbarrier is None:
            for read in (k for k in reads if reader.met(k) == filler.met(after)):
                yield Fault(Kind.REFILLED, copy, reader.steps[read].event.index), True
            return
        waits = reader.waits(mbarrier)
        fresh = [k for k in waits if k in reader.fresh]
        if phase is None or len(fresh) < phase:
            return
        stop = fresh[phase] if len(fresh) > phase else len(reader.steps)
        for read in (k for k in reads if fresh[phase - 1] < k < stop):
            again = bisect_left(waits, read) > bisect_left(waits, fresh[phase - 1]) + 1
            fault = Fault(Kind.STALE if again else Kind.REFILLED, copy, reader.steps[read].event.index)
            yield fault, reader.met(read) >= filler.met(after)

    @staticmethod
    def _stale(reader: Thread, copy: int, waits: list[int], arrivals: list[int], reads: list[int]) -> Iterator[Verdict]:
        """Behind a stage that was handed back the next wait asks for the same parity as the last one."""
        for before, after in pairwise(waits):
            first = bisect_left(reads, after)
            back = bisect_left(arrivals, before) < bisect_left(arrivals, after)
            asked = reader.steps[before].parity, reader.steps[after].parity
            if first < len(reads) and back and None not in asked:
                yield Fault(Kind.STALE, copy, reader.steps[reads[first]].event.index), asked[0] == asked[1]

    def _unwaited(self, filler: Thread, reader: Thread, copies: list[int], reads: list[int]) -> Iterator[Verdict]:
        """The first read of a stage comes before the reader's own first wait for its mbarrier."""
        first = filler.steps[copies[0]]
        waits = [] if first.barrier is None else reader.waits(first.barrier)
        if not waits or any(filler.steps[k].barrier != first.barrier for k in copies) or self._elsewhere(first.event):
            return
        read = reads[0]
        met = reader.met(read) > filler.met(copies[0])
        told = any(self._tells(filler, reader.steps[k], first) for k in reader.fresh if k < read)
        if not met and not told:
            yield Fault(Kind.UNWAITED, first.event.index, reader.steps[read].event.index), read < waits[0]

    def _elsewhere(self, copy: Event) -> bool:
        """Whether plain writes fill the memory of a copy too."""
        mine = [c for c in self.copies if c.event.index == copy.index]
        return any(self.shared.meet(w.region, c.region) for c in mine for w in self.shared.writes)

    def _tells(self, filler: Thread, wait: Step, copy: Step) -> bool:
        """Whether a wait for another mbarrier may show that a copy is done: somebody arrives there who has waited."""
        if wait.place == copy.barrier:
            return False
        arrivals = self.mbarriers.arrivals(wait.event)
        roles = 0
        for item in (*self.copies, *self.reads):
            roles |= self.executing(item.event)
        others = not arrivals or any(self.executing(a) & ~roles for a in arrivals)
        return others or bool(copy.barrier is not None and filler.waits(copy.barrier))


def _each_round(thread: Thread, full: int, empty: int) -> bool:
    """Whether a thread waits for one mbarrier before each of its arrivals at another, of which some are told."""
    arrivals = [k for k in thread.arrivals.get(empty, []) if thread.steps[k].event.group != "cp.async"]
    waits = [k for k in thread.waits(full) if k in thread.fresh]
    return len(arrivals) > 1 and [bisect_left(waits, k) for k in arrivals] == list(range(1, len(arrivals) + 1))
