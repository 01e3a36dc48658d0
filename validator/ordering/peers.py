"""Shared memory of other CTAs of the cluster: who touches it, and what stands between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from validator.ordering.program import Access, Direction, Event, EventKind, Op, Operand, Space
from validator.ordering.shared import Shared, SharedAccess, comes_of_mapa
from validator.ordering.stages import orders, to_several
from validator.ordering.witness import Passing, reached_unwaited

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["Peers", "Unmet"]

_THROUGH = (Op.COPY, Op.ADD, Op.PACK, Op.EXTRACT, Op.HIGH, Op.OR)
_STEPS = 96
"""Values looked through behind one address."""
_WALKED = 600
"""Blocks walked from one access."""
_MOST = 8
"""Accesses that are looked at one by one; kernels unroll the loop over the ranks of a cluster."""
_ELSEWHERE = (Space.CLUSTER, Space.GENERIC)


class Unmet(NamedTuple):
    """Two places between which the CTAs of a cluster have to meet and do not."""

    first: int
    second: int


class Peers:
    """Accesses of one kernel to the shared memory of its cluster's other CTAs."""

    def __init__(self, facts: Facts) -> None:
        self.facts, self.flow = facts, facts.flow

    @cached_property
    def touching(self) -> list[tuple[Event, Access]]:
        """Loads, stores and atomics at addresses of other CTAs, in text order."""
        return [
            (event, access)
            for event in self.facts.events(EventKind.ACCESS)
            for access in event.accesses
            if access.space in _ELSEWHERE and self._mapped(access.address, event.index)
        ]

    @cached_property
    def copies(self) -> list[Event]:
        """Copies into the shared memory of other CTAs, multicast ones included; answers of the launch control are none:
        a cluster of one CTA asks for them in the same words."""
        found = self.facts.events(EventKind.ASYNC_COPY)
        sides = {e.index: [a.address for a in e.accesses if a.space is Space.CLUSTER] for e in found}
        return [
            e
            for e in found
            if (e.group == "mbarrier" and to_several(e) and len(e.accesses) > 1)
            or any(self._mapped(a, e.index) for a in sides[e.index])
        ]

    def _mapped(self, address: Iterable[Operand], index: int) -> bool:
        return comes_of_mapa(self.flow, address, index, _THROUGH, _STEPS)

    # -- what stands between -----------------------------------------------------------------------------------------

    @cached_property
    def _meetings(self) -> list[Event]:
        return self.facts.events(EventKind.CLUSTER_BARRIER)

    @cached_property
    def _told(self) -> set[int]:
        """Where a thread learns of other CTAs: cluster barriers, mbarriers, reads that order."""
        waits = [e.index for e in self._meetings if e.waits]
        waits += [e.index for e in self.facts.events(EventKind.MBARRIER_WAIT)]
        return {*waits, *(e.index for e in self.facts.events(EventKind.ACCESS) if orders(e))}

    @cached_property
    def _telling(self) -> set[int]:
        """Where a thread tells other CTAs how far it is: the other halves, fences and grid-wide barriers included."""
        kinds = (EventKind.MBARRIER_ARRIVE, EventKind.FENCE, EventKind.CALL, EventKind.UNKNOWN)
        return {e.index for e in (*self.facts.events(*kinds), *self._meetings) if e.arrives or e.kind in kinds}

    def _shown(self, first: Event, goals: dict[int, int], between: set[int]) -> Iterator[int]:
        """Those of some instructions that a thread comes to behind an access with nothing of `between` passed."""
        masks, threads = self.facts.masks, self.facts.masks.executing(first)
        after = self.flow.events_after((first.index,), between, masks.open_to(threads))
        near = {e.index: goals[e.index] for e in after if e.index in goals and e.index not in between}
        near = {index: mask & threads for index, mask in near.items() if mask & threads}
        if near:
            passed = Passing(dict.fromkeys(between, masks.everyone))
            yield from sorted(reached_unwaited(masks, passed, near, frozenset((first.index,)), _WALKED).found)

    # -- questions ---------------------------------------------------------------------------------------------------

    def unstarted(self) -> list[Event]:
        """Accesses before which no cluster barrier can have been passed: the other CTA need not run yet."""
        waits = [e.index for e in self._meetings if e.waits]
        behind = {e.index for e in self.flow.events_after(waits)}
        return [e for e in (*(event for event, _ in self.touching), *self.copies) if e.index not in behind]

    def exits(self) -> Iterator[Unmet]:
        """(read, exit) with no word to the CTA that is read from: it may have ended, and its memory be another's."""
        leaving = {e.index: self.facts.masks.executing(e) for e in self.facts.events(EventKind.EXIT)}
        reads = [e for e, access in self.touching if access.direction is Direction.READ]
        for read in reads[-_MOST:]:
            yield from (Unmet(read.index, index) for index in list(self._shown(read, leaving, self._telling))[:1])

    def handed(self) -> Iterator[Unmet]:
        """(write, read) of one part of shared memory, one here and one from elsewhere, with nothing waited for."""
        shared = Shared(self.facts)
        away = {event.index for event, _ in self.touching}
        reads = [r for r in shared.reads if r.event.kind is EventKind.ACCESS]
        writes = shared.writes
        if not away:
            return
        for write in [w for w in writes if w.event.index in away][:_MOST] + [
            w for w in writes if w.event.index not in away
        ]:
            goals = {
                r.event.index: self.facts.masks.executing(r.event)
                for r in reads
                if (r.event.index in away) != (write.event.index in away) and self._one_pass(shared, write, r)
            }
            yield from (Unmet(write.event.index, index) for index in self._shown(write.event, goals, self._told))

    def _one_pass(self, shared: Shared, write: SharedAccess, read: SharedAccess) -> bool:
        """Whether two accesses meet in memory and in no loop, where they may be of different turns."""
        blocks = {self.flow.block_of(write.event.index), self.flow.block_of(read.event.index)}
        return shared.meet(write.region, read.region) and not any(blocks <= body for body in self.flow.loops)
