"""mbarrier objects: phases, arrivals, transaction bytes, and what a completed phase orders."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from validator.emulate.access import racing, report_pair
from validator.emulate.hazard import HazardKind
from validator.emulate.lanes import Array
from validator.emulate.shadow import record, threads_of

if TYPE_CHECKING:
    from validator.emulate.locate import Piece
    from validator.emulate.machine import Machine

__all__ = ["Mbarrier", "Mbarriers"]


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
    known: Array | None = None
    """What the arrivals so far published, joined."""
    fenced: Array | None = None
    seen: int = 0
    published: tuple[Array | None, Array | None, int] = field(default=(None, None, 0))
    """The same of the completed phases: what a successful wait acquires."""
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
        self.published = (
            None if self.known is None else self.known.copy(),
            None if self.fenced is None else self.fenced.copy(),
            self.seen,
        )
        return True


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
        wrong = racing(m, np.broadcast_to(barrier.born, threads.shape), threads, False)
        if wrong is not None and barrier.known_to:
            wrong &= ~np.isin(threads, list(barrier.known_to))
        if wrong is not None and wrong.any():
            first = int(threads[np.flatnonzero(wrong)[0]])
            why = "nothing orders this use behind the mbarrier's initialisation"
            count = int(np.count_nonzero(wrong))
            report_pair(m, HazardKind.RACE, piece.region, first, offset, barrier.born, index, why, count)
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

    def arrive(
        self, m: Machine, piece: Piece, counts: Array, expect: Array | None, releases: bool, drop: bool, index: int
    ) -> Array:
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
                if releases:
                    self.release(m, barrier, threads[part])
                total = int(given[part].sum())
                barrier.pending -= total
                barrier.expected -= total if drop else 0
                barrier.settle()
        return state

    def release(self, m: Machine, barrier: Mbarrier, threads: Array) -> None:
        """What these threads did so far is ordered before a wait for the current phase."""
        barrier.seen |= int(np.bitwise_or.reduce(m.seen[threads]))
        if m.order.fine:
            known, fenced = m.order.rows(threads)
            self.join(barrier, known.max(axis=0), fenced.max(axis=0))
            m.order.tick(threads)

    def join(self, barrier: Mbarrier, known: Array, fenced: Array) -> None:
        barrier.known = known if barrier.known is None else np.maximum(barrier.known, known)
        barrier.fenced = fenced if barrier.fenced is None else np.maximum(barrier.fenced, fenced)

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

    def test(self, m: Machine, piece: Piece, wanted: Array, parity: bool, acquires: bool, index: int) -> Array:
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
            known, fenced, seen = barrier.published
            if acquires and len(threads):
                m.seen[threads] |= np.uint64(seen)
                if known is not None and fenced is not None:
                    m.order.learn(threads, known, fenced)
        return done
