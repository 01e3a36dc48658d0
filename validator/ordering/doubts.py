"""Why an access that nothing orders may be in order all the same: what leaves a kernel unproven that looks refuted."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from validator.ordering.barriers import Barriers
from validator.ordering.polls import ACQUIRES, fences
from validator.ordering.program import Direction, Event, EventKind, Isa, Space
from validator.ordering.slices import first_value
from validator.ordering.waits import Order, grid_order

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["NO_WAY", "Doubts"]

NO_WAY = (
    "the branches on the way there contradict each other for every number that was tried for the kernel's arguments: "
    "whether any launch takes it does not show"
)

_CALLED = "a function that is not looked into is called before it, and may wait"

_MET = "it waits for an mbarrier at which threads arrive that have waited; whether it needs all of them does not show"

_CLUSTER_MET = (
    "it meets the other CTAs of its cluster, one of which may have waited: whether one surely has does not show"
)

_FEWER = (
    "it meets waiting threads at a barrier that more threads use than it counts: which of them meet hangs on the size "
    "of the block"
)

_PHASE = (
    "it waits for an mbarrier whose copies come from behind the wait; which phase it waits for at first does not show"
)

_WARP_MET = (
    "another lane of its warp has waited; whether the lanes met again behind it (`__syncwarp`) does not show in "
    "machine code"
)

_HANDED_ON = (
    "a loop before it looks at the flag by way of shared memory; whether it is left only when the flag says so does "
    "not show"
)


class Doubts:
    """Of one kernel."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def reason(self, event: Event, missing: int) -> str:
        """Why an access that nothing orders may be in order all the same; empty when there is no reason."""
        if not self._facts.certain_order.missing(event):
            return _CALLED
        if self._met and not self._missing_beyond(self._met, event):
            return _MET
        if self._cluster_met and not self._missing_beyond(self._cluster_met, event):
            return _CLUSTER_MET
        if self._facts.waits and self._facts.threads.bounded and not self._order_of_small_blocks.missing(event):
            return _FEWER
        if self._phases_open and self._facts.ordered_in(self._facts.cases_of_any_phase, event):
            return _PHASE
        return _WARP_MET if self._warp_met(event, missing) else ""

    def of_flag(self, event: Event, flag: str) -> str:
        """The same of an access that no poll of a flag orders, as far as the code shows one."""
        facts = self._facts
        if facts.polls_on(flag):
            return ""
        scope = facts.declarations.scope(flag)
        goal = facts.flow.block_of(event.index)
        fenced = any(
            index < event.index and facts.flow.dominates(facts.flow.block_of(index), goal)
            for index in fences(facts.flow, scope)
        )
        looked = [
            t.event
            for t in facts.touches
            if t.word in ("read", "atomic") and any(flag in (x.name, x.name.rpartition(".")[2]) for x in t.targets)
        ]
        acquired = [e for e in looked if fenced or (e.order in ACQUIRES and e.scope is not None and e.scope >= scope)]
        homes = {facts.flow.block_of(e.index) for e in acquired}
        loops = (b for b in facts.flow.loops if b & homes and goal not in b)
        handed = (b for b in loops if facts.flow.dominates(facts.flow.header(b), goal))
        return _HANDED_ON if any(self._left_by_shared(body) for body in handed) else ""

    def _left_by_shared(self, body: frozenset[int]) -> bool:
        """Whether a loop is left by what stands in shared memory, which it writes itself."""
        facts = self._facts
        inside = [e for number in body for e in facts.flow.events_in[number] if e.kind is EventKind.ACCESS]
        shared = {(e.index, a.direction) for e in inside for a in e.accesses if a.space is Space.SHARED}
        if not any(direction is Direction.WRITE for _, direction in shared):
            return False
        loaded = {index for index, direction in shared if direction is Direction.READ}
        for number in body:
            block = facts.flow.blocks[number]
            for edge in block.successors if any(e.target not in body for e in block.successors) else ():
                for guard in edge.guards:
                    if loaded & set(facts.slices.of(guard.register, max(block.start, block.stop - 1))):
                        return True
        return False

    def _missing_beyond(self, passing: Mapping[int, int], event: Event) -> int:
        """Threads that miss the wait still, if those that pass some other places count as having waited."""
        facts = self._facts
        return Order(facts.masks, facts.barriers, {**facts.order.own, **passing}).missing(event)

    @cached_property
    def _order_of_small_blocks(self) -> Order:
        return grid_order(self._facts.masks, Barriers(self._facts.masks, self._facts.provenance, lenient=True))

    @cached_property
    def _phases_open(self) -> bool:
        """Whether the first parity of some wait does not show."""
        asked = ((e.parity, e.index) for e in self._facts.events(EventKind.MBARRIER_WAIT))
        return any(parity is not None and first_value(self._facts.flow, parity, i) is None for parity, i in asked)

    @cached_property
    def _met(self) -> dict[int, int]:
        """Waits for a phase that the waiting thread arrived at itself, as others did that had waited for the grid.

        Whether the phase needs the arrivals of those hangs on the count that the mbarrier was given.
        """
        arrivals = {e.index for e in self._facts.events(EventKind.MBARRIER_ARRIVE)}
        result: dict[int, int] = {}
        for event in self._facts.events(EventKind.MBARRIER_WAIT):
            if event.index in self._facts.barriers.tried.ignored:
                continue
            own = event.parity is None or self._facts.slices.of(event.parity, event.index) & arrivals
            others = self._facts.barriers.mbarriers.arrivals(event) if own else []
            if any(self._facts.masks.executing(a) & ~self._facts.order.missing(a) for a in others):
                result[event.index] = self._facts.masks.executing(event)
        return result

    @cached_property
    def _cluster_met(self) -> dict[int, int]:
        """Waits at the cluster barrier to which threads can come that have waited for the grid.

        Which CTA of a cluster they belong to is not told apart, so nobody is known to have waited in all of them.
        """
        result: dict[int, int] = {}
        for event in self._facts.events(EventKind.CLUSTER_BARRIER):
            home = self._facts.flow.block_of(event.index)
            before = self._facts.flow.leading_to(home)
            places = [(self._facts.flow.block_of(wait.index), wait.index) for wait in self._facts.waits]
            if event.waits and any(b in before and (b != home or i < event.index) for b, i in places):
                result[event.index] = self._facts.masks.executing(event)
        return result

    def _warp_met(self, event: Event, missing: int) -> bool:
        """Machine code only: every early thread has a lane in its warp that has waited.

        A warp barrier leaves no instruction behind where the compiler sees that the lanes meet again anyway.
        """
        if self._facts.program.isa is not Isa.SASS:
            return False
        waited = self._facts.masks.executing(event) & ~missing
        return bool(waited) and not missing & ~self._facts.barriers.whole_warps(waited)
