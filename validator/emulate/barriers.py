"""Barriers of a CTA (`bar`, `barrier`), of a warp and of a cluster: who has come, who waits, what meeting orders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from validator.emulate.happens_before import Word, joined
from validator.emulate.hazard import HazardKind
from validator.emulate.lanes import Array, Lanes
from validator.emulate.lateness import PEERS

if TYPE_CHECKING:
    from validator.emulate.machine import Machine

__all__ = ["Arrival", "Barriers"]


@dataclass(frozen=True, slots=True)
class Arrival:
    """One execution of a barrier instruction by some threads."""

    index: int
    """Program index."""
    key: int
    """Segment the threads go on with, behind its gate."""
    threads: Array
    waits: bool
    aligned: bool
    reduce: Callable[[Machine, Array, Array], None] | None = None
    """(threads, values of all participants) → writes the reduction's result."""
    values: Array | None = None
    word: Word = None
    """What the threads knew when they came, if they went on at once."""
    seen: int = 0
    """Events they were ordered behind then."""


@dataclass(slots=True)
class _Meeting:
    """A phase of a cluster's barrier."""

    arrived: list[Array] = field(default_factory=list)
    word: Word = None
    seen: int = 0


@dataclass(slots=True)
class _Barrier:
    arrivals: list[Arrival] = field(default_factory=list)
    expected: int | None = None
    """Threads, as the instruction says; None: all of the CTA."""


class Barriers:
    def __init__(self, m: Machine) -> None:
        self._open: dict[tuple[int, int], _Barrier] = {}
        """(barrier number, CTA) → who has come."""
        size = m.shape.cluster[0] * m.shape.cluster[1] * m.shape.cluster[2]
        ctas = np.arange(m.ctas)
        self._cluster = m.rank_to_cta(ctas, np.zeros(m.ctas, np.int64)) if size > 1 else ctas
        """First CTA of each CTA's cluster."""
        self._cluster_arrived: dict[int, _Meeting] = {}
        """First CTA of a cluster → its barrier's current phase."""
        self._cluster_met: dict[int, _Meeting] = {}
        """The last complete phase."""
        self._cluster_phase = np.zeros(m.ctas, np.int64)
        """Completed phases, by first CTA of the cluster."""
        self._thread_phase = np.zeros(m.total, np.int64)
        """Phases each thread has arrived in."""
        self._cluster_waiting: list[tuple[int, int, Array]] = []

    # --- CTA --------------------------------------------------------------------------------------------------------

    def meet(self, m: Machine, lanes: Lanes, numbers: Array, expected: Array | None, arrival: Arrival) -> Lanes | None:
        """Threads arrive, and wait unless they only arrive; those that may go on at once."""
        everybody = arrival.waits and lanes.count == m.living and expected is None and not self._open
        if everybody and arrival.reduce is None and (numbers == numbers[0]).all():
            self._whole(m)
            return lanes
        threads = lanes.threads
        m.version += 1
        ctas = threads // m.per_cta
        numbers = np.broadcast_to(numbers, threads.shape)
        for number, cta in {(int(n), int(c)) for n, c in zip(numbers.tolist(), ctas.tolist(), strict=True)}:
            mine = (numbers == number) & (ctas == cta)
            barrier = self._open.setdefault((number, cta), _Barrier())
            if expected is not None:
                barrier.expected = int(np.broadcast_to(expected, threads.shape)[mine][0])
            part = arrival.values if arrival.values is None else np.broadcast_to(arrival.values, threads.shape)[mine]
            mine_now = threads[mine]
            word, seen = None, 0
            if not arrival.waits:
                word, seen = m.order.leave_word(mine_now), int(np.bitwise_or.reduce(m.seen[mine_now]))
            barrier.arrivals.append(replace(arrival, threads=mine_now, values=part, word=word, seen=seen))
            self._complete(m, number, cta)
        return None if arrival.waits else lanes

    def _whole(self, m: Machine) -> None:
        """Every living thread of the grid is at the same barrier of its own CTA."""
        m.version += 1
        ctas = np.arange(m.ctas)
        m.order.cta_barrier(ctas)
        seen = m.seen.reshape(m.ctas, m.per_cta)
        seen[:] = np.bitwise_or.reduce(seen, axis=1)[:, None]
        pending = m.seen_pending.reshape(m.ctas, m.per_cta)
        pending[:] = np.bitwise_or.reduce(pending, axis=1)[:, None]

    def _complete(self, m: Machine, number: int, cta: int) -> None:
        """Release a barrier if everybody is there."""
        barrier = self._open[number, cta]
        arrived = np.concatenate([a.threads for a in barrier.arrivals])
        living = int(m.alive[cta * m.per_cta : (cta + 1) * m.per_cta].sum())
        if barrier.expected is None:
            if len(arrived) < living:
                return
        elif len(np.unique(arrived >> 5)) * 32 < barrier.expected:
            return
        del self._open[number, cta]
        m.version += 1
        self._check_alignment(m, barrier)
        self._order(m, barrier.arrivals, cta, whole=len(arrived) >= living)
        for arrival in barrier.arrivals:
            if arrival.reduce is not None:
                values = [a.values for a in barrier.arrivals if a.values is not None]
                arrival.reduce(m, arrival.threads, np.concatenate(values))
            if arrival.waits:
                m.push(arrival.key, arrival.threads)

    def _order(self, m: Machine, arrivals: list[Arrival], cta: int, whole: bool) -> None:
        """Who waits is ordered behind all; who only arrived learns nothing."""
        here = [a.threads for a in arrivals if a.waits]
        gone = [a for a in arrivals if not a.waits]
        if not here:
            return
        threads = np.unique(np.concatenate(here))
        if whole and not gone:
            m.order.cta_barrier(np.array([cta]))
        else:
            m.order.group_barrier(threads)
        m.seen[threads] |= np.bitwise_or.reduce(m.seen[threads])
        m.seen_pending[threads] |= np.bitwise_or.reduce(m.seen_pending[threads])
        for arrival in gone:
            m.seen[threads] |= np.uint64(arrival.seen)
            if arrival.word is not None:
                m.order.learn(threads, *arrival.word)

    def _check_alignment(self, m: Machine, barrier: _Barrier) -> None:
        """An aligned barrier is executed by whole warps: lanes that come from different instructions did not meet."""
        places: dict[int, tuple[int, Array]] = {}
        for arrival in barrier.arrivals:
            if not arrival.aligned:
                continue
            for warp in np.unique(arrival.threads >> 5).tolist():
                known = places.setdefault(warp, (arrival.index, arrival.threads))
                if known[0] != arrival.index:
                    lanes = arrival.threads[arrival.threads >> 5 == warp]
                    m.report(
                        HazardKind.BARRIER_DIVERGENCE, arrival.index, lanes, "", None,
                        "lanes of one warp come to this barrier from different instructions",
                    )  # fmt: skip
                    return

    def left(self, m: Machine, threads: Array) -> None:
        """Threads have left: barriers may be complete without them."""
        if self._open:
            ctas = set(np.unique(threads // m.per_cta).tolist())
            for number, cta in [k for k in self._open if k[1] in ctas]:
                self._complete(m, number, cta)
        if self._cluster_arrived or self._cluster_waiting:
            for first in np.unique(self._cluster[threads // m.per_cta]).tolist():
                self._complete_cluster(m, first)

    def waiting(self, m: Machine) -> list[tuple[int, Array, str]]:
        """(program index, threads, what for)."""
        held = [
            (a.index, a.threads, f"barrier {number}")
            for (number, _), barrier in sorted(self._open.items(), key=lambda item: item[0])
            for a in barrier.arrivals
            if a.waits
        ]
        return held + [(index, threads, "the cluster barrier") for index, _, threads in self._cluster_waiting]

    # --- warp -------------------------------------------------------------------------------------------------------

    def warp(self, m: Machine, threads: Array) -> None:
        """bar.warp.sync of lanes that are all here."""
        m.order.warp_barrier(threads)
        warps, at = np.unique(threads >> 5, return_inverse=True)
        merged = np.zeros(len(warps), np.uint64)
        np.bitwise_or.at(merged, at, m.seen[threads])
        m.seen[threads] = merged[at]

    # --- cluster ----------------------------------------------------------------------------------------------------

    def cluster_arrive(self, m: Machine, lanes: Lanes, relaxed: bool) -> None:
        m.version += 1
        threads = lanes.threads
        self._thread_phase[threads] += 1
        firsts = self._cluster[threads // m.per_cta]
        for first in np.unique(firsts).tolist():
            mine = threads[firsts == first]
            meeting = self._cluster_arrived.setdefault(first, _Meeting())
            meeting.arrived.append(mine)
            meeting.word = joined(meeting.word, m.order.leave_word(mine, relaxed))
            meeting.seen |= int(np.bitwise_or.reduce((m.seen_released if relaxed else m.seen)[mine]))
            self._complete_cluster(m, first)

    def cluster_wait(self, m: Machine, lanes: Lanes, key: int, index: int) -> Lanes | None:
        """Those whose phase is complete go on."""
        firsts = self._cluster[lanes.threads // m.per_cta]
        done = self._cluster_phase[firsts] >= self._thread_phase[lanes.threads]
        if not done.all():
            self._cluster_waiting.append((index, key, lanes.threads[~done]))
        passed = lanes.where(done)
        if passed is not None:
            self._meet_cluster(m, passed.threads)
        return passed

    def _meet_cluster(self, m: Machine, threads: Array) -> None:
        """These threads have waited for the last complete phase of their clusters."""
        firsts = self._cluster[threads // m.per_cta]
        for first in np.unique(firsts).tolist():
            mine, meeting = threads[firsts == first], self._cluster_met.get(first)
            if meeting is not None:
                m.seen[mine] |= np.uint64(meeting.seen | PEERS)
                if meeting.word is not None:
                    m.order.learn(mine, *meeting.word)
                m.mbarriers.met(np.concatenate(meeting.arrived), mine)

    def _members(self, m: Machine, first: int) -> Array:
        ctas = np.flatnonzero(self._cluster == first)
        threads = (ctas[:, None] * m.per_cta + np.arange(m.per_cta)).ravel()
        living: Array = threads[m.alive[threads]]
        return living

    def _complete_cluster(self, m: Machine, first: int) -> None:
        meeting = self._cluster_arrived.get(first)
        if meeting is None or not np.isin(self._members(m, first), np.concatenate(meeting.arrived)).all():
            return
        self._cluster_met[first] = self._cluster_arrived.pop(first)
        m.version += 1
        self._cluster_phase[first] += 1
        waiting, self._cluster_waiting = self._cluster_waiting, []
        for index, key, threads in waiting:
            mine = self._cluster[threads // m.per_cta] == first
            if mine.any():
                self._meet_cluster(m, threads[mine])
                m.push(key, threads[mine])
            if not mine.all():
                self._cluster_waiting.append((index, key, threads[~mine]))
