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

from validator.ordering.clocks import Clocks
from validator.ordering.program import Direction, Event, EventKind, Order, Space
from validator.ordering.shared import Shared, SharedAccess
from validator.ordering.traces import MEETINGS, Step, Thread, traces

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["Fault", "Kind", "Rounds"]

_ROLES, _WALKED = 12, 16
"""Warps told apart, and threads walked."""
_WARP = (1 << 32) - 1
_LEADERS = sum(1 << k for k in range(0, 1024, 32))
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
    RACED = "is filled again in no order with reads"
    """Told where nothing else shows why."""
    CROWDED = "is handed back by the first readers"
    UNFINISHED = "is handed over before it is done"
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


class Rounds:
    """One kernel's threads, as far as their steps can be told."""

    def __init__(self, facts: Facts, shared: Shared) -> None:
        self.facts, self.shared = facts, shared
        self.executing = facts.masks.executing
        self.mbarriers = facts.barriers.mbarriers
        self._followed: dict[int, bool] = {}
        """Filled with the faults: store → whether its thread waits for it whenever it writes the source again."""

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
            mask = self.executing(read.event)
            reading[_one_of(mask, copying)] = None
            idle = mask & ~self._arriving if self._warps else 0
            if idle & _LEADERS:
                reading[(idle & _LEADERS).bit_length() - 1] = None
        for write in self.writes:
            writing[_one_of(self.executing(write.event), copying)] = None
        return copying, reading, writing

    @cached_property
    def _arriving(self) -> int:
        """Threads that arrive at mbarriers."""
        return reduce(or_, map(self.executing, self.facts.events(EventKind.MBARRIER_ARRIVE)), 0)

    @cached_property
    def _warps(self) -> dict[int, None]:
        """The first thread of every warp that takes part; none where there are too many."""
        taking = (*self._synchronizing, *(item.event for item in (*self.reads, *self.copies)))
        mask = reduce(or_, map(self.executing, taking), 0)
        found = [k for k in range(0, mask.bit_length(), 32) if mask >> k & _WARP]
        return dict.fromkeys(found if len(found) <= _ROLES else ())

    def _between(self, *sides: Iterable[int]) -> dict[int, None]:
        """Threads that wait or arrive where none of those does who copy, read or write."""
        result = dict(self._warps)
        walked = reduce(or_, (1 << number for side in (*sides, result) for number in side), 0)
        for event in self._synchronizing:
            mask = self.executing(event)
            if not mask & walked:
                number = _one_of(mask, ())
                result[number] = None
                walked |= 1 << number
        return result

    @cached_property
    def faults(self) -> list[Fault]:
        """What goes wrong between two threads."""
        if not (self.copies and self.reads) and not (self.stores and self.writes):
            return []
        copying, reading, writing = self._threads()
        walked = list({**copying, **reading, **writing, **self._between(copying, reading, writing)})[:_WALKED]
        counts: dict[Fault, list[int]] = {}
        for threads in traces(self.facts.masks, walked, self._wanted()):
            seen: dict[Fault, bool] = {}
            for fault, wrong in self._launch(threads, copying, reading, writing):
                seen[fault] = seen.get(fault, False) or wrong
            for fault, wrong in seen.items():
                counts.setdefault(fault, [0, 0])[wrong] += 1
        found = [fault for fault, (fine, wrong) in counts.items() if wrong > fine]
        shown = {fault.kind for fault in found} - {Kind.RACED, Kind.SHORT, Kind.SOURCE}
        return [fault for fault in found if fault.kind is not Kind.RACED or not shown]

    def waited_for(self, store: int) -> bool:
        """Whether the thread that issues a store is seen to write its source again, and only behind a wait for it."""
        return self._followed.get(store, False)

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
        clocks = self._clocks(threads)
        for first in (by_number[n] for n in copying if n in by_number):
            if self.copies:
                yield from self._short(first)
            for second in (by_number[n] for n in reading if n in by_number):
                if self.copies and first.number // 32 != second.number // 32:
                    yield from self._ring(first, second)
                    yield from self._crowded(first, second, threads)
                    if clocks:
                        yield from self._raced(clocks, first, second)
            for second in (by_number[n] for n in dict.fromkeys((first.number, *writing)) if n in by_number):
                if clocks and (first is second or first.number // 32 != second.number // 32):
                    yield from self._overwritten(clocks, first, second)

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

    def _crowded(self, filler: Thread, reader: Thread, threads: Sequence[Thread]) -> Iterator[_Verdict]:
        """More threads, the reader among them, arrive in every round than a phase takes that lets the copy start."""
        for place, copies in self._filled(filler).items():
            full, stop = filler.steps[copies[0]].barrier, place + _least_size(filler.steps[copies[0]])
            reads = (k for k, step in enumerate(reader.steps) if _is(step, EventKind.ACCESS, Direction.READ))
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

    def _raced(self, clocks: Clocks, filler: Thread, reader: Thread) -> Iterator[_Verdict]:
        """A read is ordered neither before nor behind a copy that fills its memory again, or behind one in flight."""
        if not clocks.comparable(filler, reader):
            return
        reads = [k for k, step in enumerate(reader.steps) if _is(step, EventKind.ACCESS, Direction.READ)]
        reads = [k for k in reads if clocks.reached(reader, k)]
        for place, found in self._filled(filler).items():
            copies = [k for k in found if clocks.reached(filler, k)]
            stop = place + _least_size(filler.steps[found[0]])
            mine = [k for k in reads if place <= (reader.steps[k].place or 0) < stop]
            for number, copy in enumerate(copies):
                event = filler.steps[copy].event
                over = _done(filler, copy) if event.group == "cp.async" and not self._handed_over else copy
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

    def _met(self, filler: Thread, reader: Thread, before: int, after: int, reads: list[int]) -> Iterator[_Verdict]:
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
        ahead = {name for name, copies in filler.copies.items() if copies[0] < filler.arrivals.get(name, copies)[0]}
        for step in filler.steps:
            event = step.event
            if step.place in ahead or step.barrier in ahead:
                continue  # the bytes are announced behind the copies
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

    def _overwritten(self, clocks: Clocks, storing: Thread, writing: Thread) -> Iterator[_Verdict]:
        """The source of a store is written neither before the store nor with its having been read known."""
        if not clocks.comparable(storing, writing):
            return
        kept = {r.event.index for r in self.stores}
        stores = [k for k, s in enumerate(storing.steps) if s.event.index in kept and s.place is not None]
        targets = {w.event.index for w in self.writes}
        writes = [k for k, s in enumerate(writing.steps) if s.event.index in targets and s.place is not None]
        places = sorted({storing.steps[k].place or 0 for k in stores})
        for store in (k for k in stores if clocks.reached(storing, k)):
            start = storing.steps[store].place or 0
            stop = start + _size(storing.steps[store], places)
            done = _done(storing, store)
            for write in writes:
                if not start <= (writing.steps[write].place or 0) < stop or not clocks.reached(writing, write):
                    continue
                index = storing.steps[store].event.index
                if storing is writing:
                    before, behind = write < store, done is not None and done < write
                    if not before:
                        self._followed[index] = self._followed.get(index, True) and behind
                else:
                    before = clocks.knows(storing, store, writing, write)
                    behind = done is not None and clocks.knows(writing, write, storing, done)
                if not before:
                    yield Fault(Kind.SOURCE, index, writing.steps[write].event.index), not behind
                    break

    def _told_within_warp(self, thread: Thread) -> bool:
        """Whether other threads of its warp wait or arrive where a thread does not: they may meet without a barrier."""
        warp = _WARP << thread.number // 32 * 32
        mates = (self.executing(e) & warp for e in self._synchronizing)
        return any(mask and not mask >> thread.number & 1 for mask in mates)

    @cached_property
    def _synchronizing(self) -> list[Event]:
        return self.facts.events(*MEETINGS, EventKind.MBARRIER_ARRIVE, EventKind.MBARRIER_WAIT)

    def _clocks(self, threads: Sequence[Thread]) -> Clocks | None:
        """What the threads know of each other; None where one of them waits or arrives at a place not known."""
        walked = sum(1 << thread.number for thread in threads)
        if any(thread.blind for thread in threads) or not all(self.executing(e) & walked for e in self._synchronizing):
            return None
        beside = {thread.number for thread in threads if self._told_within_warp(thread)}
        return Clocks(threads, beside, self._arrivals_of_each, lambda e: e.kind in _UNSEEN or _orders(e))


def _each_round(thread: Thread, full: int, empty: int) -> bool:
    """Whether a thread waits for one mbarrier before each of its arrivals at another, of which some are told."""
    arrivals = [k for k in thread.arrivals.get(empty, []) if thread.steps[k].event.group != "cp.async"]
    waits = [k for k in thread.waits(full) if k in thread.fresh]
    return len(arrivals) > 1 and [bisect_left(waits, k) for k in arrivals] == list(range(1, len(arrivals) + 1))


def _done(thread: Thread, copy: int) -> int | None:
    """Position of the wait behind which a copy of a group is done, or has read its source; None: there is none."""
    kind = thread.steps[copy].event.group
    committed = 0
    group: int | None = None
    for k, step in enumerate(thread.steps):
        event = step.event
        if k == copy:
            group = committed
        elif event.group not in (kind, None):
            continue
        elif event.kind is EventKind.ASYNC_COMMIT:
            committed += 1
        elif event.kind is EventKind.ASYNC_WAIT and group is not None:
            over = group < committed - (event.pending or 0) or "wait_all" in event.opcode
            if over:
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


def _least_size(step: Step) -> int:
    """Bytes that a copy fills for sure."""
    sides = [a.bytes for a in step.event.accesses if a.bytes and a.space is not Space.GLOBAL]
    return step.amount or next(iter(sides), _UNKNOWN_SIZE)


def _one_of(mask: int, beside: Iterable[int]) -> int:
    """A thread of a set: one of another warp than those named if there is one, the first of its warp if it can be."""
    lanes = sum(1 << k for k in range(0, mask.bit_length(), 32))
    apart = mask
    for thread in beside:
        apart &= ~(_WARP << thread // 32 * 32)
    chosen = next((m for m in (apart & lanes, apart, mask & lanes, mask) if m), 1)
    return (chosen & -chosen).bit_length() - 1
