"""Whether threads of one CTA hand shared memory back and forth in time: what one does held against what another does.

A ring of stages is filled again and again. Which stage an instruction means is a number that the loop counts, so
threads are walked with numbers (`ordering.traces`) and their steps compared: the filler may come back to a stage only
behind something that its readers arrive at after they have read, a reader has to wait for every phase anew, a phase has
to count all of its bytes, and whoever overwrites what a bulk store reads has to meet the thread that waited for it.

A fault counts where most of the launches that come to the place show it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from functools import cached_property, reduce
from itertools import pairwise
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

from validator.ordering.program import Direction, Event, EventKind, Order, Space
from validator.ordering.shared import Shared, SharedAccess
from validator.ordering.traces import MEETINGS, Step, Thread, traces

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["Fault", "Kind", "faults"]

_ROLES = 8
_WARP = (1 << 32) - 1
_UNKNOWN_SIZE = 16
"""Bytes that a copy fills at least, where nothing says how many."""
_TO_SEVERAL = ("multicast", "broadcast")
_UNSEEN = (EventKind.CALL, EventKind.UNKNOWN)
_STEPS = (
    *MEETINGS, *_UNSEEN, EventKind.MBARRIER_ARRIVE, EventKind.MBARRIER_WAIT, EventKind.ASYNC_COMMIT,
    EventKind.ASYNC_WAIT,
)  # fmt: skip


class Kind(Enum):
    REFILLED = "is filled again"
    """With nothing between that readers arrive at."""
    RELEASED = "is handed back"
    """The readers arrive before they have read."""
    STALE = "is read behind a wait for a phase that is over already"
    UNWAITED = "is read before the wait"
    SHORT = "counts fewer bytes"
    SOURCE = "is overwritten"


class Fault(NamedTuple):
    kind: Kind
    copy: int
    """Instruction that fills the memory, or stores from it."""
    other: int
    """The read, the write, or the copy that is not counted."""


_Verdict = tuple[Fault, bool]
"""(what to look at, whether it is wrong in this launch)."""


def faults(facts: Facts, shared: Shared) -> list[Fault]:
    """What goes wrong between two threads of the kernel, as far as their steps can be told."""
    return _Rounds(facts, shared).faults


class _Rounds:
    def __init__(self, facts: Facts, shared: Shared) -> None:
        self.facts, self.shared = facts, shared
        self.executing = facts.masks.executing
        self.mbarriers = facts.barriers.mbarriers

    # -- what is looked at -------------------------------------------------------------------------------------------

    @cached_property
    def copies(self) -> list[SharedAccess]:
        """Copies into this CTA's memory alone that come round."""
        here = [c for c in self.shared.copies if not c.remote and not _to_several(c.event)]
        looped = {number for body in self.facts.flow.loops for number in body}
        parts: dict[object, int] = {}
        for copy in here:
            parts[self.shared.part(copy.region)] = parts.get(self.shared.part(copy.region), 0) + 1
        again = any(count > 1 for count in parts.values())
        return here if again or any(self.facts.flow.block_of(c.event.index) in looped for c in here) else []

    @cached_property
    def reads(self) -> list[SharedAccess]:
        filled = {self.shared.part(c.region) for c in self.copies}
        return [r for r in self.shared.reads if self.shared.part(r.region) in filled]

    @cached_property
    def stores(self) -> list[SharedAccess]:
        """Bulk and tensor stores."""
        found = [r for r in self.shared.async_reads if r.event.kind is EventKind.ASYNC_COPY]
        return [r for r in found if r.event.group == "bulk"]

    @cached_property
    def writes(self) -> list[SharedAccess]:
        """What overwrites the sources of stores."""
        if not self.stores:
            return []
        sources = {self.shared.part(r.region) for r in self.stores}
        return [w for w in (*self.shared.writes, *self.shared.copies) if self.shared.part(w.region) in sources]

    def _threads(self) -> tuple[dict[int, None], dict[int, None], dict[int, None]]:
        """(those who copy, those who read, those who write what is stored), one of each kind."""
        copying, reading, writing = dict[int, None](), dict[int, None](), dict[int, None]()
        for copy in (*self.copies, *self.stores):
            copying[_one_of(self.executing(copy.event), ())] = None
        for read in self.reads:
            reading[_one_of(self.executing(read.event), copying)] = None
        for write in self.writes:
            writing[_one_of(self.executing(write.event), copying)] = None
        return copying, reading, writing

    @cached_property
    def faults(self) -> list[Fault]:
        if not (self.copies and self.reads) and not (self.stores and self.writes):
            return []
        copying, reading, writing = self._threads()
        walked = list({**copying, **reading, **writing})[:_ROLES]
        counts: dict[Fault, list[int]] = {}
        for threads in traces(self.facts.masks, walked, self._wanted()):
            seen: dict[Fault, bool] = {}
            for fault, wrong in self._launch(threads, copying, reading, writing):
                seen[fault] = seen.get(fault, False) or wrong
            for fault, wrong in seen.items():
                counts.setdefault(fault, [0, 0])[wrong] += 1
        return [fault for fault, (fine, wrong) in counts.items() if wrong > fine]

    def _wanted(self) -> Iterator[Event]:
        for side in (self.copies, self.reads, self.stores, self.writes):
            yield from (item.event for item in side)
        for event in self.facts.program.events:
            if (
                event.kind in _STEPS
                or event.index in self._filling
                or (event.kind is EventKind.ACCESS and _orders(event))
            ):
                yield event

    def _launch(
        self, threads: Sequence[Thread], copying: Iterable[int], reading: Iterable[int], writing: Iterable[int]
    ) -> Iterator[_Verdict]:
        by_number = {t.number: t for t in threads}
        for first in (by_number[n] for n in copying if n in by_number):
            if self.copies:
                yield from self._short(first)
            for second in (by_number[n] for n in reading if n in by_number):
                if self.copies and first.number // 32 != second.number // 32:
                    yield from self._ring(first, second)
            for second in (by_number[n] for n in writing if n in by_number):
                if self.stores and first is not second:
                    yield from self._overwritten(first, second)

    # -- rings -------------------------------------------------------------------------------------------------------

    @cached_property
    def _filling(self) -> frozenset[int]:
        """Copies whose place the walk may tell, those included whose region the code alone does not."""
        every = self.facts.events(EventKind.ASYNC_COPY)
        return frozenset(e.index for e in every if e.group in ("mbarrier", "cp.async") and not _to_several(e))

    def _filled(self, filler: Thread) -> dict[int, list[int]]:
        """First byte → positions of the copies that fill it."""
        result: dict[int, list[int]] = {}
        for k, step in enumerate(filler.steps):
            if step.event.index in self._filling and step.place is not None:
                result.setdefault(step.place, []).append(k)
        return result

    def _ring(self, filler: Thread, reader: Thread) -> Iterator[_Verdict]:
        filled = self._filled(filler)
        places = sorted(filled)
        reads = [k for k, step in enumerate(reader.steps) if _is(step, EventKind.ACCESS, Direction.READ)]
        handing = [k for k in range(len(filler.steps)) if self._hands_back(filler, k)]
        for place, copies in filled.items():
            stop = place + _size(filler.steps[copies[0]], places)
            mine = [k for k in reads if place <= (reader.steps[k].place or 0) < stop]
            if mine:
                yield from self._refilled(filler, reader, copies, mine, handing)
            if mine and not reader.blind:
                yield from self._unwaited(filler, reader, copies, mine)

    def _refilled(
        self, filler: Thread, reader: Thread, copies: list[int], reads: list[int], handing: list[int]
    ) -> Iterator[_Verdict]:
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
        return frozenset(
            wait.index
            for wait in waits
            if wait.index not in named or any(self.executing(a) & ~self._fillers for a in self.mbarriers.arrivals(wait))
        )

    def _hands_back(self, filler: Thread, position: int) -> bool:
        """Whether readers may have said at a step that they have read."""
        event = filler.steps[position].event
        if event.kind is EventKind.MBARRIER_WAIT:
            return position in filler.fresh and event.index in self._told_by_others
        return (event.kind in MEETINGS and event.waits) or event.kind in _UNSEEN or _orders(event)

    def _released(
        self, filler: Thread, reader: Thread, before: int, after: int, reads: list[int], given: set[int]
    ) -> Iterator[_Verdict]:
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
        return wait is not None and self._arrivals_of_each(wait) == 1

    def _phase(self, filler: Thread, copy: int) -> int | None:
        """Which phase of its mbarrier a copy belongs to; None where that cannot be counted."""
        each = self._arrivals_of_each(filler.steps[copy].event)
        return None if each is None else filler.phase(copy, each)

    def _arrivals_of_each(self, event: Event) -> int | None:
        """How often a thread arrives at the mbarrier of an event in each phase; None where that does not show."""
        count = self.mbarriers.count(event)
        arriving = reduce(or_, map(self.executing, self.mbarriers.arrivals(event)), 0).bit_count()
        if count is None or arriving == 0:
            return None
        return 1 if count == arriving else count if arriving == 1 else None

    def _met(
        self, filler: Thread, reader: Thread, before: int, after: int, reads: list[int]
    ) -> Iterator[_Verdict]:
        """A reader that meets the filler at barriers only reads what one copy brought when the next may have begun."""
        mbarrier, phase, copy = filler.steps[before].barrier, self._phase(filler, before), filler.steps[after].event.index
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
    def _stale(
        reader: Thread, copy: int, waits: list[int], arrivals: list[int], reads: list[int]
    ) -> Iterator[_Verdict]:
        """Behind a stage that was handed back the next wait asks for the same parity as the last one."""
        for before, after in pairwise(waits):
            first = bisect_left(reads, after)
            back = bisect_left(arrivals, before) < bisect_left(arrivals, after)
            asked = reader.steps[before].parity, reader.steps[after].parity
            if first < len(reads) and back and None not in asked:
                yield Fault(Kind.STALE, copy, reader.steps[reads[first]].event.index), asked[0] == asked[1]

    def _unwaited(self, filler: Thread, reader: Thread, copies: list[int], reads: list[int]) -> Iterator[_Verdict]:
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

    # -- bytes -------------------------------------------------------------------------------------------------------

    def _short(self, filler: Thread) -> Iterator[_Verdict]:
        """More bytes are copied than one thread's arrivals before them announced."""
        left: dict[int, int | None] = {}
        begun: set[int] = set()
        for step in filler.steps:
            event = step.event
            if event.kind is EventKind.MBARRIER_ARRIVE and step.place is not None:
                if event.arrives:
                    amount = step.amount if event.announces and self._alone(event) else None
                    more = 0 if step.place in begun else left.get(step.place, 0)
                    left[step.place] = None if amount is None or more is None else amount + more
                    begun.discard(step.place)
                elif left.get(step.place) is not None:
                    left[step.place] = None if step.amount is None else (left[step.place] or 0) + step.amount
            elif event.index in self._filling and step.barrier in left:
                rest = left[step.barrier]
                begun.add(step.barrier)
                if rest is not None and step.amount is not None:
                    left[step.barrier] = rest - step.amount
                    yield Fault(Kind.SHORT, event.index, event.index), rest < step.amount

    def _alone(self, arrival: Event) -> bool:
        return arrival.index in self._announcing_alone

    @cached_property
    def _announcing(self) -> list[Event]:
        return [e for e in self.facts.events(EventKind.MBARRIER_ARRIVE) if e.announces]

    @cached_property
    def _announcing_alone(self) -> frozenset[int]:
        return frozenset(e.index for e in self._announcing if self._by_one(e))

    def _by_one(self, arrival: Event) -> bool:
        """Whether one thread announces all bytes of a phase."""
        name = self.mbarriers.identities.get(arrival.index)
        everyone = self._announcing
        mine = [e for e in everyone if self.mbarriers.identities.get(e.index, name) == name]
        return (
            name is not None
            and len({self.executing(e) for e in mine}) == 1
            and self.executing(arrival).bit_count() == 1
        )

    # -- stores ------------------------------------------------------------------------------------------------------

    def _overwritten(self, storing: Thread, writing: Thread) -> Iterator[_Verdict]:
        kept = {r.event.index for r in self.stores}
        stores = [k for k, s in enumerate(storing.steps) if s.event.index in kept and s.place is not None]
        targets = {w.event.index for w in self.writes}
        writes = [k for k, s in enumerate(writing.steps) if s.event.index in targets and s.place is not None]
        places = sorted({storing.steps[k].place or 0 for k in stores})
        for store in stores:
            start = storing.steps[store].place or 0
            stop = start + _size(storing.steps[store], places)
            write = next(
                (
                    k
                    for k in writes
                    if start <= (writing.steps[k].place or 0) < stop and writing.met(k) > storing.met(store)
                ),
                None,
            )
            if write is not None and self._comparable(storing, writing, store, write):
                fault = Fault(Kind.SOURCE, storing.steps[store].event.index, writing.steps[write].event.index)
                yield fault, not self._told(storing, writing, store, write)

    def _comparable(self, storing: Thread, writing: Thread, store: int, write: int) -> bool:
        """Whether both threads come to the same barriers, and nobody else comes between them."""
        met = writing.met(write)
        if len(storing.meetings) < met:
            return False
        last = storing.meetings[met - 1]
        unseen = any(s.event.kind in _UNSEEN for s in storing.steps[store:last])
        return (
            storing.meets_as(writing)
            and not unseen
            and not any(
                self.executing(a) & ~(1 << storing.number)
                for k in writing.fresh
                if writing.meetings[storing.met(store)] < k < write
                for a in self.mbarriers.arrivals(writing.steps[k].event) or [writing.steps[k].event]
            )
        )

    def _told(self, storing: Thread, writing: Thread, store: int, write: int) -> bool:
        """Whether the writer knows that the store has read its source."""
        done = _read(storing, store)
        if done is None:
            return False
        if storing.met(done) < writing.met(write):
            return True
        for mbarrier, arrivals in storing.arrivals.items():
            before = bisect_left(arrivals, done)
            waited = sum(k in writing.fresh and k < write for k in writing.waits(mbarrier))
            if before < len(arrivals) and waited > before:
                return True
        return False


def _read(thread: Thread, store: int) -> int | None:
    """Position of the wait behind which a bulk store has read its source; None: there is none."""
    committed = 0
    group: int | None = None
    for k, step in enumerate(thread.steps):
        event = step.event
        if k == store:
            group = committed
        elif event.group not in ("bulk", None):
            continue
        elif event.kind is EventKind.ASYNC_COMMIT:
            committed += 1
        elif event.kind is EventKind.ASYNC_WAIT and group is not None and group < committed - (event.pending or 0):
            return k
    return None


def _to_several(copy: Event) -> bool:
    return any(word in copy.opcode.lower() for word in _TO_SEVERAL)


def _orders(event: Event) -> bool:
    """Whether an access may be the reading half of a handshake."""
    reads = any(a.direction in (Direction.READ, Direction.ATOMIC) for a in event.accesses)
    return event.kind is EventKind.ACCESS and reads and event.order is not Order.WEAK


def _is(step: Step, kind: EventKind, direction: Direction) -> bool:
    inside = (Space.SHARED, Space.CLUSTER, Space.GENERIC)
    found = step.event.kind is kind and step.place is not None
    return found and any(a.direction is direction and a.space in inside for a in step.event.accesses)


def _size(step: Step, places: Sequence[int]) -> int:
    """Bytes that a copy fills or stores; where nothing says it, the least distance between two stages."""
    if step.amount:
        return step.amount
    sides = [a.bytes for a in step.event.accesses if a.bytes and a.space is not Space.GLOBAL]
    gaps = [b - a for a, b in pairwise(places)]
    return sides[0] if sides else min(gaps, default=_UNKNOWN_SIZE)


def _one_of(mask: int, beside: Iterable[int]) -> int:
    """A thread of a set: one of another warp than those named if there is one, the first of its warp if it can be."""
    lanes = sum(1 << k for k in range(0, mask.bit_length(), 32))
    apart = mask
    for thread in beside:
        apart &= ~(_WARP << thread // 32 * 32)
    chosen = next((m for m in (apart & lanes, apart, mask & lanes, mask) if m), 1)
    return (chosen & -chosen).bit_length() - 1
