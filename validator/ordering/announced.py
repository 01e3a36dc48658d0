"""Whether a phase of an mbarrier counts all bytes that one thread copies into it."""

from __future__ import annotations

from collections.abc import Iterator, Set
from functools import cached_property
from typing import TYPE_CHECKING

from validator.ordering.program import Event, EventKind
from validator.ordering.stages import Fault, Kind, Verdict
from validator.ordering.traces import Thread

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["Announced"]


class Announced:
    """The bytes that one kernel's arrivals announce."""

    def __init__(self, facts: Facts, filling: Set[int]) -> None:
        """`filling`: copies."""
        self.facts, self.filling = facts, filling
        self.executing = facts.masks.executing
        self.mbarriers = facts.barriers.mbarriers

    def short(self, filler: Thread) -> Iterator[Verdict]:
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
            elif event.index in self.filling and step.barrier in left:
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
