"""Whether threads of one CTA hand shared memory back and forth in time: what one does held against what another does.

A ring of stages is filled again and again. Which stage an instruction means is a number that the loop counts, so
threads are walked with numbers (`ordering.traces`) and their steps compared: the filler may come back to a stage only
behind something that its readers arrive at after they have read, a reader has to wait for every phase anew, a phase has
to count all of its bytes, and whoever overwrites what a bulk store reads has to meet the thread that waited for it.

A fault counts where most of the launches that come to the place show it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING

from validator.ordering.announced import Announced
from validator.ordering.clocks import Clocks
from validator.ordering.program import Event, EventKind
from validator.ordering.rings import Rings
from validator.ordering.shared import Shared, SharedAccess
from validator.ordering.stages import UNSEEN, Fault, Kind, Verdict, known_done, orders, size_of, to_several
from validator.ordering.traces import MEETINGS, Thread, traces

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["Rounds"]

_ROLES, _WALKED = 12, 16
"""Warps told apart, and threads walked."""
_WARP = (1 << 32) - 1
_LEADERS = sum(1 << k for k in range(0, 1024, 32))
_STEPS = (
    *MEETINGS, *UNSEEN, EventKind.MBARRIER_ARRIVE, EventKind.MBARRIER_WAIT, EventKind.ASYNC_COMMIT,
    EventKind.ASYNC_WAIT,
)  # fmt: skip


class Rounds:
    """One kernel's threads, as far as their steps can be told."""

    def __init__(self, facts: Facts, shared: Shared) -> None:
        self.facts, self.shared = facts, shared
        self.executing = facts.masks.executing
        self._followed: dict[int, bool] = {}
        """Filled with the faults: store → whether its thread waits for it whenever it writes the source again."""

    # -- what is looked at -------------------------------------------------------------------------------------------

    @cached_property
    def copies(self) -> list[SharedAccess]:
        """Copies into this CTA's memory alone that come round."""
        here = [c for c in self.shared.copies if not c.remote and not to_several(c.event)]
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
    def writes(self) -> list[SharedAccess]:
        """What overwrites the sources of stores."""
        if not self.shared.stores:
            return []
        sources = {self.shared.part(r.region) for r in self.shared.stores}
        return [w for w in (*self.shared.writes, *self.shared.copies) if self.shared.part(w.region) in sources]

    def _threads(self) -> tuple[dict[int, None], dict[int, None], dict[int, None]]:
        """(those who copy, those who read, those who write what is stored), one of each kind."""
        copying, reading, writing = dict[int, None](), dict[int, None](), dict[int, None]()
        for copy in (*self.copies, *self.shared.stores):
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
        if not (self.copies and self.reads) and not (self.shared.stores and self.writes):
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
        for side in (self.copies, self.reads, self.shared.stores, self.writes):
            yield from (item.event for item in side)
        for event in self.facts.program.events:
            if (
                event.kind in _STEPS
                or event.index in self.rings.filling
                or (event.kind is EventKind.ACCESS and orders(event))
            ):
                yield event

    def _launch(
        self, threads: Sequence[Thread], copying: Iterable[int], reading: Iterable[int], writing: Iterable[int]
    ) -> Iterator[Verdict]:
        by_number = {t.number: t for t in threads}
        clocks = self._clocks(threads)
        for first in (by_number[n] for n in copying if n in by_number):
            if self.copies:
                yield from self._announced.short(first)
            for second in (by_number[n] for n in reading if n in by_number):
                if self.copies and first.number // 32 != second.number // 32:
                    yield from self.rings.between(first, second)
                    yield from self.rings.crowded(first, second, threads)
                    if clocks:
                        yield from self.rings.raced(clocks, first, second)
            for second in (by_number[n] for n in dict.fromkeys((first.number, *writing)) if n in by_number):
                if clocks and (first is second or first.number // 32 != second.number // 32):
                    yield from self._overwritten(clocks, first, second)

    @cached_property
    def rings(self) -> Rings:
        return Rings(self.facts, self.shared, self.copies, self.reads)

    @cached_property
    def _announced(self) -> Announced:
        return Announced(self.facts, self.rings.filling)

    # -- stores ------------------------------------------------------------------------------------------------------

    def _overwritten(self, clocks: Clocks, storing: Thread, writing: Thread) -> Iterator[Verdict]:
        """The source of a store is written neither before the store nor with its having been read known."""
        if not clocks.comparable(storing, writing):
            return
        kept = {r.event.index for r in self.shared.stores}
        stores = [k for k, s in enumerate(storing.steps) if s.event.index in kept and s.place is not None]
        targets = {w.event.index for w in self.writes}
        writes = [k for k, s in enumerate(writing.steps) if s.event.index in targets and s.place is not None]
        places = sorted({storing.steps[k].place or 0 for k in stores})
        for store in (k for k in stores if clocks.reached(storing, k)):
            start = storing.steps[store].place or 0
            stop = start + size_of(storing.steps[store], places)
            done = known_done(storing, store)
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
        return Clocks(threads, beside, self.rings.arrivals_of_each, lambda e: e.kind in UNSEEN or orders(e))


def _one_of(mask: int, beside: Iterable[int]) -> int:
    """A thread of a set: one of another warp than those named if there is one, the first of its warp if it can be."""
    lanes = sum(1 << k for k in range(0, mask.bit_length(), 32))
    apart = mask
    for thread in beside:
        apart &= ~(_WARP << thread // 32 * 32)
    chosen = next((m for m in (apart & lanes, apart, mask & lanes, mask) if m), 1)
    return (chosen & -chosen).bit_length() - 1
