"""Asynchronous copies: issued now, done at the last moment that the waits allow.

`cp.async` belongs to the thread that issued it and is waited for by its groups or through an mbarrier. Bulk and tensor
copies go through the async proxy: they see generic writes only behind a proxy fence, count their bytes down on an
mbarrier when they write shared memory, and are waited for by bulk groups when they read it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from validator.emulate.access import early_kind, racing, report_pair
from validator.emulate.hazard import Hazard, HazardKind, Place
from validator.emulate.lanes import Array
from validator.emulate.marks import Marks, marks_of, touched
from validator.emulate.memory import Region
from validator.emulate.shadow import clocks_of, record, threads_of
from validator.ordering.program import Space

if TYPE_CHECKING:
    from validator.emulate.locate import Piece
    from validator.emulate.machine import Machine
    from validator.emulate.memory import Touch

__all__ = ["BulkCopy", "Copies"]


@dataclass(slots=True)
class _ThreadCopies:
    """One execution of a cp.async: one small copy a thread."""

    index: int
    threads: Array
    region: Region
    offsets: Array
    """Where to, byte in `region`."""
    data: Array
    """[threads, bytes] as read when it was issued."""
    groups: Array
    """Number of the committed group; -1: not yet committed."""
    done: Array


@dataclass(slots=True, eq=False)
class BulkCopy:
    """One bulk or tensor copy of one thread: ranges of bytes from one region to another."""

    index: int
    thread: int
    source: Region
    origin: Array
    """Byte in `source` of each byte copied, int64; -1: outside a tensor, zero."""
    region: Region
    offsets: Array
    """Byte in `region` that each goes to; -1: dropped."""
    data: Array
    """As read when it was issued, uint8."""
    barrier: int | None = None
    """mbarrier that counts its bytes, byte in shared memory."""
    size: int = 0
    """Bytes that the mbarrier counts."""
    group: int = -1
    read: bool = False
    """The source has been read for good."""
    known: tuple[Array, Array, int] | None = None
    """What its issuer knew: a wait on the mbarrier acquires it."""
    clock: int = 0
    reduce: Callable[[Region, Array, Array], None] | None = None
    """Combines (region, offsets, bytes) with what is there, atomically; None: overwrites."""
    generic: bool = False
    """st.async, red.async: not of the async proxy, as cp.async.bulk and cp.reduce.async.bulk are (PTX ISA)."""

    @property
    def grain(self) -> int:
        """Bytes that are written together, at most 16."""
        return min(self.size & -self.size, 16) or 16


@dataclass(slots=True)
class Copies:
    """All copies under way."""

    small: list[_ThreadCopies] = field(default_factory=list)
    bulk: list[BulkCopy] = field(default_factory=list)
    arrivals: list[tuple[Array, Array]] = field(default_factory=list)
    """(threads, mbarrier of each): arrive once the thread's cp.async so far are done."""
    groups: Array | None = None
    """Committed cp.async groups of each thread."""
    bulk_groups: dict[int, int] = field(default_factory=dict)
    """Committed bulk groups of each thread."""
    landing: dict[int, Marks] = field(default_factory=dict)
    """Region → where copies are on their way to."""
    leaving: dict[int, Marks] = field(default_factory=dict)
    """Region → what copies may still read."""

    # --- cp.async ---------------------------------------------------------------------------------------------------

    def issue(self, m: Machine, index: int, target: Piece, data: Array) -> None:
        """A copy of `data` [threads, bytes], read when it was issued, is on its way to `target`."""
        count = len(target.threads)
        open_ = np.full(count, -1, np.int64)
        self.small.append(
            _ThreadCopies(index, target.threads, target.region, target.offsets, data, open_, np.zeros(count, bool))
        )
        self._mark(self.landing, target.region, target.offsets, data.shape[1], True)
        if m.plan.friendly:
            self._land(m, self.small[-1], np.ones(count, bool))

    def commit(self, m: Machine, threads: Array) -> None:
        if self.groups is None:
            self.groups = np.zeros(m.total, np.int64)
        here = _members(m, threads)
        for copy in self.small:
            mine = here[copy.threads] & (copy.groups < 0)
            copy.groups[mine] = self.groups[copy.threads[mine]]
        self.groups[threads] += 1

    def wait(self, m: Machine, threads: Array, pending: int | None) -> None:
        """cp.async.wait_group `pending`, or wait_all with None."""
        here = _members(m, threads)
        for copy in self.small:
            due = here[copy.threads] & ~copy.done
            if pending is not None:
                committed = 0 if self.groups is None else self.groups[copy.threads]
                due &= (copy.groups >= 0) & (copy.groups < committed - pending)
            self._land(m, copy, due)
        self.small = [c for c in self.small if not c.done.all()]

    def _land(self, m: Machine, copy: _ThreadCopies, due: Array) -> None:
        at = np.flatnonzero(due)
        if not len(at):
            return
        m.version += 1
        copy.done[at] = True
        data = copy.data[at]
        size = data.shape[1]
        offsets = copy.offsets[at]
        copy.region.data[offsets[:, None] + np.arange(size)] = data
        copy.region.stores += 1
        self._mark(self.landing, copy.region, offsets, size, False)
        threads = copy.threads[at]
        _own(copy.region, offsets, size, record(threads, m.order.clock[threads], copy.index, False))

    def arrive_later(self, m: Machine, piece: Piece, noinc: bool) -> None:
        """cp.async.mbarrier.arrive."""
        if not noinc:
            for offset in piece.offsets.tolist():
                barrier = m.mbarriers.get(offset)
                if barrier is not None:
                    barrier.pending += 1
        self.arrivals.append((piece.threads, piece.offsets))

    # --- bulk -------------------------------------------------------------------------------------------------------

    def launch(self, m: Machine, copy: BulkCopy, touch: Touch) -> None:
        """Take a bulk copy on: check its source against the proxy rules and its target against readers."""
        copy.clock = int(m.order.clock[copy.thread])
        me = np.array([copy.thread])
        self._read_source(m, copy, touch)
        self._check_target(m, copy, touch)
        if m.order.fine:
            known, fenced = m.order.rows(me)
            copy.known = known[0], fenced[0], int(m.seen[copy.thread])
            m.order.tick(me)
        self.bulk.append(copy)
        inside = copy.offsets >= 0
        if copy.region.tracked and inside.any():
            self._check_landing(m, copy, copy.offsets[inside])
            self._mark_bytes(self.landing, copy.region, copy.offsets[inside], True)
        if copy.source.space is Space.SHARED:
            self._mark_bytes(self.leaving, copy.source, copy.origin[copy.origin >= 0], True)
        if m.plan.friendly:
            self._arrive(m, copy, copy.clock)

    def _read_source(self, m: Machine, copy: BulkCopy, touch: Touch) -> None:
        region, inside = copy.source, copy.origin >= 0
        origin = np.maximum(copy.origin, 0)
        copy.data = np.where(inside, region.data[origin], 0).astype(np.uint8)
        if not inside.any():  # all of it lies outside, which is reported where the addresses are checked
            return
        if region.late and not int(m.seen[copy.thread]) & region.late and region.stale is not None:
            m.report(
                early_kind(region, HazardKind.EARLY_COPY),
                copy.index,
                np.array([copy.thread]),
                region.name,
                int(origin[inside][0]),
                "",
            )
            copy.data = np.where(inside, region.stale[origin], 0).astype(np.uint8)
        if not region.tracked or not (region.stores or not region.initialised):
            return
        shadow = region.records()
        writers = shadow.writer[origin >> shadow.shift]
        written = inside & (writers != 0)
        unwritten = origin[inside & (writers == 0)]
        if region.space is Space.SHARED and len(unwritten):
            m.report(
                HazardKind.UNINITIALISED, copy.index, np.array([copy.thread]), region.name_at(int(unwritten[0]))[0],
                int(unwritten[0]), "copied, but nobody wrote these bytes",
            )  # fmt: skip
        if not written.any():
            return
        readers = np.full(int(written.sum()), copy.thread)
        picked = writers[written]
        hidden = np.zeros(len(inside), bool)
        hidden[written] = ~m.order.visible_to_async(
            threads_of(picked), clocks_of(picked), readers, region.space is Space.SHARED
        )
        hidden &= ~shadow.async_wrote(origin)
        if not hidden.any():
            return
        at = int(np.flatnonzero(hidden)[0])
        ordered = m.order.ordered(threads_of(picked), clocks_of(picked), readers).all()
        kind = HazardKind.PROXY if ordered else HazardKind.RACE
        why = (
            "no fence.proxy.async stands between this write and the copy" if ordered
            else "nothing orders the copy behind the write"
        )  # fmt: skip
        report_pair(
            m, kind, region, copy.thread, int(origin[at]), writers[at : at + 1], copy.index, why, int(hidden.sum())
        )
        if region.before is not None and not m.plan.friendly:
            true = copy.data
            copy.data = np.where(hidden, region.before[origin], copy.data)
            m.story.stale_bytes(copy, true)

    def _check_target(self, m: Machine, copy: BulkCopy, touch: Touch) -> None:
        region, inside = copy.region, copy.offsets >= 0
        if region.late and not int(m.seen[copy.thread]) & region.late and inside.any():
            m.report(
                early_kind(region, HazardKind.EARLY_WRITE),
                copy.index,
                np.array([copy.thread]),
                region.name,
                int(copy.offsets[inside][0]),
                "",
            )
        if not region.tracked or region.shadow is None:
            return
        shadow = region.shadow
        shadow.refine(copy.grain)
        granules = np.unique(copy.offsets[inside] >> shadow.shift)
        threads = np.full(len(granules), copy.thread)
        for records, what in (
            (shadow.reader[granules], "nothing orders this copy behind the read"),
            (shadow.first_reader[granules], "nothing orders this copy behind the read"),
            (shadow.writer[granules], "nothing orders this copy behind the write"),
        ):
            wrong = racing(m, records, threads, copy.reduce is not None)
            if wrong is not None:
                at = int(np.flatnonzero(wrong)[0])
                offset = int(granules[at]) << shadow.shift
                report_pair(m, HazardKind.RACE, region, copy.thread, offset, records[at : at + 1], copy.index, what, 1)
                return
        if region.space is Space.SHARED and not copy.generic:
            self._check_overwritten(m, copy, granules)

    def _check_overwritten(self, m: Machine, copy: BulkCopy, granules: Array) -> None:
        """Generic writes of shared memory that no proxy fence orders before the copy which overwrites them."""
        region, shadow = copy.region, copy.region.records()
        writers, offsets = shadow.writer[granules], granules << shadow.shift
        generic = np.flatnonzero((writers != 0) & ~shadow.async_wrote(offsets))
        owners, readers = threads_of(writers[generic]), np.full(len(generic), copy.thread)
        hidden = generic[~m.order.visible_to_async(owners, clocks_of(writers[generic]), readers, True)]
        if len(hidden):
            at = int(hidden[0])
            report_pair(
                m, HazardKind.PROXY, region, copy.thread, int(offsets[at]), writers[at : at + 1], copy.index,
                "no fence.proxy.async stands between this write and the copy that overwrites it", len(hidden),
            )  # fmt: skip

    def bulk_commit(self, threads: Array) -> None:
        for thread in threads.tolist():
            number = self.bulk_groups.get(thread, 0)
            for copy in self.bulk:
                if copy.thread == thread and copy.group < 0 and copy.barrier is None:
                    copy.group = number
            self.bulk_groups[thread] = number + 1

    def bulk_wait(self, m: Machine, threads: Array, pending: int, read_only: bool) -> None:
        """cp.async.bulk.wait_group[.read]."""
        for thread in threads.tolist():
            last = self.bulk_groups.get(thread, 0) - pending
            for copy in [c for c in self.bulk if c.thread == thread and 0 <= c.group < last]:
                self._read_done(m, copy)
                if not read_only:
                    self._arrive(m, copy, int(m.order.clock[thread]))

    def _read_done(self, m: Machine, copy: BulkCopy) -> None:
        """The source has been read for good."""
        if copy.read:
            return
        copy.read = True
        if copy.source.space is Space.SHARED:
            self._mark_bytes(self.leaving, copy.source, copy.origin[copy.origin >= 0], False)

    def _arrive(self, m: Machine, copy: BulkCopy, clock: int) -> None:
        """The bytes land."""
        m.version += 1
        self._read_done(m, copy)
        self.bulk.remove(copy)
        inside = copy.offsets >= 0
        offsets, data = copy.offsets[inside], copy.data[inside]
        if copy.reduce is not None:
            copy.reduce(copy.region, offsets, data)
        else:
            copy.region.data[offsets] = data
        copy.region.stores += 1
        if copy.region.tracked and len(offsets):
            shadow = copy.region.records()
            shadow.refine(copy.grain)
            granules = np.unique(offsets >> shadow.shift)
            strong = copy.reduce is not None
            shadow.writer[granules] = record(np.array([copy.thread]), np.array([clock]), copy.index, strong)[0]
            shadow.reader[granules] = 0
            shadow.first_reader[granules] = 0
            shadow.mark_async(offsets)
        if copy.region.tracked and len(offsets):
            self._mark_bytes(self.landing, copy.region, offsets, False)
        if copy.barrier is not None:
            barrier = m.mbarriers.get(copy.barrier)
            if barrier is not None and copy.known is not None:
                known, fenced, seen = copy.known
                barrier.brought.join(known, fenced)
                barrier.brought.seen |= seen
            m.mbarriers.complete(m, copy.barrier, copy.size)

    def left(self, m: Machine, threads: Array) -> None:
        """These threads are done: only they could have waited until their copies have read shared memory."""
        for copy in self.bulk:
            if copy.source.space is Space.SHARED and not copy.read and copy.thread in threads:
                m.report(
                    HazardKind.COPY_NOT_WAITED, copy.index, np.array([copy.thread]), copy.source.name, None,
                    "its thread ends without waiting until the copy has read this memory, which ends with the CTA",
                )  # fmt: skip

    # --- when nothing else can run ----------------------------------------------------------------------------------

    def deliver_next(self, m: Machine) -> bool:
        """Held-back copies that one mbarrier counts land until its phase ends, or one delayed arrival happens; False
        when none is left."""
        first = next((copy.barrier for copy in self.bulk if copy.barrier is not None), None)
        if first is not None:
            barrier = m.mbarriers.get(first)
            phase = None if barrier is None else barrier.phase
            for copy in [c for c in self.bulk if c.barrier == first]:
                self._arrive(m, copy, copy.clock)
                if barrier is None or barrier.phase != phase:
                    break
            return True
        if self.arrivals:
            threads, offsets = self.arrivals.pop(0)
            self.wait(m, threads, None)
            for offset in np.unique(offsets).tolist():
                barrier = m.mbarriers.get(offset)
                if barrier is not None:
                    mine = threads[offsets == offset]
                    m.mbarriers.release(m, barrier, mine, offset // m.shared.stride)
                    barrier.pending -= len(mine)
                    barrier.settle()
            m.version += 1
            return True
        return False

    def finish(self, m: Machine) -> None:
        """The grid is over: what was never waited for lands all the same."""
        for copy in list(self.bulk):
            self._arrive(m, copy, copy.clock)

    # --- bytes on their way -----------------------------------------------------------------------------------------

    def _mark(self, table: dict[int, Marks], region: Region, offsets: Array, size: int, on: bool) -> None:
        at = (offsets[:, None] + np.arange(0, size, 4)).ravel() >> 2
        marks_of(table, region).add(at, on)

    def _mark_bytes(self, table: dict[int, Marks], region: Region, offsets: Array, on: bool) -> None:
        marks_of(table, region).add(np.unique(offsets >> 2), on)

    def pending(self, piece: Piece, touch: Touch) -> Array | None:
        """Threads whose bytes a copy is still on its way to; None when there are no such bytes."""
        if touch.strong and piece.region.space is Space.GLOBAL:
            return None  # whoever polls memory waits for it in his own way
        return touched(self.landing, piece, touch)

    def check_pending(self, m: Machine, piece: Piece, touch: Touch) -> None:
        """An access to bytes that a copy is still on its way to."""
        wrong = self.pending(piece, touch)
        if wrong is None or not wrong.any():
            return
        at = np.flatnonzero(wrong)
        offset = int(piece.offsets[at[0]])
        name, inside = piece.region.name_at(offset)
        m.hazards.add(
            Hazard(
                HazardKind.COPY_NOT_WAITED, m.place(touch.index, int(piece.threads[at[0]])), name, inside,
                self._on_its_way(m, piece.region, offset, touch.size),
                "an asynchronous copy to these bytes has not been waited for", len(at),
            )
        )  # fmt: skip

    def _on_its_way(self, m: Machine, region: Region, offset: int, size: int) -> Place | None:
        """Who issued the copy to a byte of these."""
        for bulk in self.bulk:
            if bulk.region is region and ((bulk.offsets >= offset) & (bulk.offsets < offset + size)).any():
                return m.place(bulk.index, bulk.thread)
        for small in self.small:
            near = (small.offsets < offset + size) & (small.offsets + small.data.shape[1] > offset) & ~small.done
            if small.region is region and near.any():
                return m.place(small.index, int(small.threads[np.flatnonzero(near)[0]]))
        return None

    def _check_landing(self, m: Machine, copy: BulkCopy, offsets: Array) -> None:
        """Two copies under way to the same bytes of shared memory: either may land last."""
        marks = self.landing.get(id(copy.region))
        if marks is None or not marks.live or copy.reduce is not None or copy.region.space is not Space.SHARED:
            return
        again = offsets[marks.words[offsets >> 2] > 0]
        if len(again):
            name, inside = copy.region.name_at(int(again[0]))
            other = self._on_its_way(m, copy.region, int(again[0]), 4)
            m.hazards.add(
                Hazard(
                    HazardKind.COPY_NOT_WAITED, m.place(copy.index, copy.thread), name, inside, other,
                    "an earlier copy to these bytes has not been waited for: either may land last",
                )
            )  # fmt: skip

    def check_source(self, m: Machine, piece: Piece, touch: Touch) -> None:
        """A write to bytes that a copy may still read, or is on its way to."""
        self.check_pending(m, piece, touch)
        wrong = touched(self.leaving, piece, touch)
        if wrong is not None and wrong.any():
            at = np.flatnonzero(wrong)
            name, offset = piece.region.name_at(int(piece.offsets[at[0]]))
            m.report(
                HazardKind.COPY_SOURCE_CHANGED, touch.index, piece.threads[at], name, offset,
                "an asynchronous copy may still read these bytes: nobody waited for it",
            )  # fmt: skip


def _members(m: Machine, threads: Array) -> Array:
    here = np.zeros(m.total, bool)
    here[threads] = True
    return here


def _own(region: Region, offsets: Array, size: int, records: Array) -> None:
    """These threads are the last writers."""
    if not region.tracked:
        return
    shadow = region.records()
    granules = shadow.granules(offsets, size & -size)
    many = size >> shadow.shift
    whole = offsets >> shadow.shift
    granules = whole if many <= 1 else whole[:, None] + np.arange(many)
    shadow.writer[granules] = records if granules.ndim == 1 else records[:, None]
