"""mbarrier objects: phases, arrivals, transaction bytes, and what a completed phase orders."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from validator.emulate.access import racing, report_pair
from validator.emulate.hazard import HazardKind
from validator.emulate.lanes import Array
from validator.emulate.shadow import record, threads_of

if TYPE_CHECKING:
    from validator.emulate.locate import Piece
    from validator.emulate.machine import Machine

__all__ = ["Arriving", "Mbarrier", "Mbarriers", "Testing"]


@dataclass(slots=True)
class _Brought:
    """What arrivals bring to a barrier; arrays are never changed in place."""

    known: Array | None = None
    fenced: Array | None = None
    seen: int = 0
    near: Array | None = None
    """Of `known`, what a wait at the scope of the CTA is ordered behind: arrivals of its own CTA, and copies."""
    wide: Array | None = None
    """The same for a wait at the scope of the cluster: also other CTAs' arrivals at that scope."""
    foreign: bool = False
    """Threads of other CTAs have arrived."""

    def join(self, known: Array, fenced: Array, near: bool = True, wide: bool = True) -> None:
        self.known, self.fenced = _joined(self.known, known), _joined(self.fenced, fenced)
        if near:
            self.near = _joined(self.near, known)
        if near or wide:
            self.wide = _joined(self.wide, known)


def _joined(one: Array | None, other: Array) -> Array:
    return other if one is None else np.maximum(one, other)


@dataclass(slots=True)
class Mbarrier:
    expected: int
    """Arrivals of a phase."""
    pending: int
    """Arrivals that the current phase still waits for."""
    born: Array
    """Who initialised it, and when: one record."""
    transactions: int = 0
    """Bytes that the current phase still waits for."""
    phase: int = 0
    """Completed phases."""
    brought: _Brought = field(default_factory=lambda: _Brought())
    """What the arrivals so far published, joined."""
    published: _Brought = field(default_factory=lambda: _Brought())
    """The same of the completed phases: what a successful wait acquires."""
    cleared: Array | None = None
    """Which threads' use has been looked at: what is ordered stays so, what is not has been told."""
    announced: bool = False
    """A fence.mbarrier_init of its initialiser followed."""
    known_to: frozenset[int] = frozenset()
    """Threads that met the initialiser at a cluster barrier since: they may use it, whatever else they know."""

    def settle(self) -> bool:
        """Complete the phase if nothing is missing."""
        if self.pending > 0 or self.transactions != 0:
            return False
        self.phase += 1
        self.pending = self.expected
        self.published = replace(self.brought)
        return True


@dataclass(frozen=True, slots=True)
class Arriving:
    """How an arrival is written."""

    releases: bool
    wide: bool
    """At the scope of the cluster; without a scope it is the CTA's."""
    drops: bool


@dataclass(frozen=True, slots=True)
class Testing:
    """How a wait is written."""

    acquires: bool
    wide: bool


def _only(number: int) -> slice:
    return slice(number, number + 1)


class Mbarriers:
    def __init__(self) -> None:
        self._at: dict[int, Mbarrier] = {}
        """Byte in the shared region → object."""

    def get(self, offset: int) -> Mbarrier | None:
        return self._at.get(offset)

    def init(self, m: Machine, piece: Piece, counts: Array, index: int) -> None:
        m.version += 1
        counts = np.broadcast_to(counts, piece.offsets.shape)
        born = record(piece.threads, m.order.clock[piece.threads], index, False)
        for at, (offset, count) in enumerate(zip(piece.offsets.tolist(), counts.tolist(), strict=True)):
            self._at[offset] = Mbarrier(count, count, born[at : at + 1])

    def _initialised(self, m: Machine, piece: Piece, mine: Array, offset: int, index: int) -> Mbarrier | None:
        """The object that these threads use: its initialisation has to be ordered before."""
        barrier, threads = self._at.get(offset), piece.threads[mine]
        if barrier is None:
            name, inside = piece.region.name_at(offset)
            m.report(HazardKind.UNINITIALISED, index, threads, name, inside, "used as an mbarrier before it is one")
            return None
        if barrier.cleared is None:
            barrier.cleared = np.zeros(m.total, bool)
        if barrier.cleared[threads].all():
            return barrier
        wrong = racing(m, np.broadcast_to(barrier.born, threads.shape), threads, False)
        if wrong is not None and barrier.known_to:
            wrong &= ~np.isin(threads, list(barrier.known_to))
        if wrong is not None and wrong.any():
            first = int(threads[np.flatnonzero(wrong)[0]])
            why = "nothing orders this use behind the mbarrier's initialisation"
            count = int(np.count_nonzero(wrong))
            report_pair(m, HazardKind.RACE, piece.region, first, offset, barrier.born, index, why, count)
        barrier.cleared[threads] = True
        return barrier

    def announce(self, threads: Array) -> None:
        """fence.mbarrier_init by these threads: what they initialised is there behind a relaxed cluster barrier."""
        for barrier in self._at.values():
            barrier.announced |= bool(np.isin(threads_of(barrier.born), threads).any())

    def met(self, arrived: Array, threads: Array) -> None:
        """`threads` waited at a cluster barrier for those that arrived."""
        for barrier in self._at.values():
            if barrier.announced and np.isin(threads_of(barrier.born), arrived).any():
                barrier.known_to |= frozenset(threads.tolist())

    def invalidate(self, piece: Piece) -> None:
        for offset in piece.offsets.tolist():
            self._at.pop(offset, None)

    def arrive(self, m: Machine, piece: Piece, counts: Array, expect: Array | None, how: Arriving, index: int) -> Array:
        """Arrivals, with expected bytes where given; the phase each thread arrived in, as its state token."""
        m.version += 1
        counts = np.broadcast_to(counts, piece.offsets.shape)
        state = np.zeros(len(piece.offsets), np.uint64)
        for offset in np.unique(piece.offsets).tolist():
            mine = piece.offsets == offset
            barrier = self._initialised(m, piece, mine, offset, index)
            if barrier is None:
                continue
            sizes = None if expect is None else np.broadcast_to(expect, mine.shape)[mine]
            threads, given = piece.threads[mine], counts[mine]
            # The arrival that completes a phase and those behind it, which count for the next, part ways.
            together = 0 < int(given.sum()) <= barrier.pending or len(threads) == 1
            for part in (slice(None),) if together else map(_only, range(len(threads))):
                state[np.flatnonzero(mine)[part]] = barrier.phase
                if sizes is not None:
                    barrier.transactions += int(sizes[part].sum())
                if how.releases:
                    self.release(m, barrier, threads[part], offset // piece.region.stride, how.wide)
                total = int(given[part].sum())
                barrier.pending -= total
                barrier.expected -= total if how.drops else 0
                barrier.settle()
        return state

    def release(self, m: Machine, barrier: Mbarrier, threads: Array, cta: int, wide: bool = False) -> None:
        """What these threads did so far is ordered before a wait for the current phase. `cta`: the barrier's own;
        `wide`: at the scope of the cluster."""
        brought = barrier.brought
        brought.seen |= int(np.bitwise_or.reduce(m.seen[threads]))
        if not m.order.fine:
            return
        known, fenced = m.order.rows(threads)
        own = threads // m.per_cta == cta
        for mine, near in ((own, True), (~own, False)):
            if mine.any():
                brought.join(known[mine].max(axis=0), fenced[mine].max(axis=0), near, wide)
        brought.foreign |= not own.all()
        m.order.tick(threads)

    def expect(self, m: Machine, piece: Piece, sizes: Array) -> None:
        """expect_tx alone."""
        sizes = np.broadcast_to(sizes, piece.offsets.shape)
        for offset, size in zip(piece.offsets.tolist(), sizes.tolist(), strict=True):
            barrier = self._at.get(offset)
            if barrier is not None:
                barrier.transactions += size

    def complete(self, m: Machine, offset: int, size: int) -> None:
        """`size` bytes of a copy have landed."""
        m.version += 1
        barrier = self._at.get(offset)
        if barrier is not None:
            barrier.transactions -= size
            barrier.settle()

    def test(self, m: Machine, piece: Piece, wanted: Array, parity: bool, how: Testing, index: int) -> Array:
        """Which threads find the phase they ask for complete; those acquire what it published."""
        wanted = np.broadcast_to(wanted, piece.offsets.shape)
        done = np.zeros(len(piece.offsets), bool)
        for offset in np.unique(piece.offsets).tolist():
            mine = piece.offsets == offset
            barrier = self._initialised(m, piece, mine, offset, index)
            if barrier is None:
                continue
            asked = wanted[mine].astype(np.int64)
            # A parity names the phase before the current one: p passes while the current phase has parity 1 - p.
            complete = (barrier.phase - 1) % 2 == (asked & 1) if parity else barrier.phase > asked
            done[mine] = complete
            threads = piece.threads[mine][complete]
            if how.acquires and len(threads):
                self._acquire(m, barrier.published, threads, how.wide)
        return done

    def _acquire(self, m: Machine, found: _Brought, threads: Array, wide: bool) -> None:
        m.seen[threads] |= np.uint64(found.seen)
        if found.known is None or found.fenced is None:
            return
        vouched = None
        if found.foreign:
            part = found.wide if wide else found.near
            vouched = np.zeros_like(found.known) if part is None else part
        m.order.learn(threads, found.known, found.fenced, vouched)
