"""mbarrier objects: phases, arrivals, transaction bytes, and what a completed phase orders."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from validator.emulate.access import racing, report_pair
from validator.emulate.hazard import HazardKind
from validator.emulate.lanes import Array
from validator.emulate.shadow import record

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
        if wrong is not None:
            first = int(threads[np.flatnonzero(wrong)[0]])
            why = "nothing orders this use behind the mbarrier's initialisation"
            count = int(np.count_nonzero(wrong))
            report_pair(m, HazardKind.RACE, piece.region, first, offset, barrier.born, index, why, count)
        return barrier

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
            state[mine] = barrier.phase
            if expect is not None:
                barrier.transactions += int(np.broadcast_to(expect, mine.shape)[mine].sum())
            if releases:
                self.release(m, barrier, piece.threads[mine])
            total = int(counts[mine].sum())
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
