"""Who has waited where: grid waits, carried on by barriers.

`Order` answers the same question for any kind of passing place (a grid wait, the exit of a polling loop): which
threads may stand at an instruction without having passed one, themselves or through a barrier. Barriers are assumed
to carry order, and branches on what a thread remembers (`ordering.remembered`) to be taken behind a wait; then every
one whose reason does not hold is dropped, until nothing changes. That is sound because the first thread ever to pass a
barrier, or to take such a branch, must have been let through by something that was ordered earlier in time.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from validator.ordering.barriers import Barriers, Carrier, carrier_text
from validator.ordering.masks import Clears, Masks, Turn
from validator.ordering.program import Event, EventKind
from validator.ordering.result import WaitRow
from validator.ordering.threadset import describe

__all__ = ["Order", "grid_order"]


class Order:
    """Threads that may be somewhere without having passed."""

    def __init__(
        self,
        masks: Masks,
        barriers: Barriers,
        at_events: Mapping[int, int],
        at_edges: Mapping[tuple[int, int], int] | None = None,
    ) -> None:
        self.masks = masks
        self.barriers = barriers
        self.own = dict(at_events)
        """Instruction → threads that pass there by themselves."""
        self.edges = dict(at_edges or {})
        self.carriers: dict[int, tuple[Carrier, int]] = {}
        """Instruction → barrier that carries order there and the threads it takes it from."""
        self.at_events = Clears(self.own)
        self.state = self._settle()

    def _settle(self) -> list[int]:
        masks = self.masks
        if not self.own and not self.edges:
            return masks.reach
        everyone = masks.everyone
        carriers = [
            (c, everyone & ~masks.threads.holds(c.event.guard, c.event.index)[1]) for c in self.barriers.carriers
        ]
        cleared_edges = dict.fromkeys(masks.remembering, everyone)
        while True:
            clears = Clears(self.own)
            answered: dict[int, int] = {}
            for carrier, cleared in carriers:
                index = carrier.event.index
                (clears if self.barriers.tried.stands(carrier.event) else answered)[index] = (
                    clears.get(index, 0) | cleared
                )
            self.at_events = clears
            edges = dict(cleared_edges)
            for found in (self.edges, self.barriers.tried.passing(answered)):
                for place, passed in found.items():
                    edges[place] = edges.get(place, 0) | passed
            state = masks.solve(clears, edges)
            behind = self._behind(state, clears)
            turn = Turn(state, clears)
            kept: list[tuple[Carrier, int]] = []
            for carrier, cleared in carriers:
                source = self.barriers.carries(carrier, turn)
                reached = self.barriers.reached(carrier, source) & cleared
                self.carriers[carrier.event.index] = (carrier, source)
                if reached:
                    kept.append((carrier, reached))
            if kept == carriers and behind == cleared_edges:
                self.edges = edges
                alive = {c.event.index for c, _ in kept}
                self.carriers = {index: found for index, found in self.carriers.items() if index in alive}
                return state
            carriers, cleared_edges = kept, behind

    def _behind(self, state: list[int], clears: Clears) -> dict[tuple[int, int], int]:
        """Threads that have passed when they take an edge, because all places that let them had them passed."""
        masks = self.masks
        result: dict[tuple[int, int], int] = {}
        for edge, places in masks.remembering.items():
            passed = masks.everyone
            for place in places:
                # Compilers set the flag just before the wait too; what counts is how the thread leaves the block.
                number = masks.flow.block_of(place)
                block = masks.flow.blocks[number]
                passed &= ~state[number] | clears.between(block.start, block.stop)
            result[edge] = passed
        return result

    def before(self, index: int) -> int:
        """Threads that may stand just before an instruction without having passed."""
        return self.masks.at(index, self.state, self.at_events)

    def missing(self, event: Event) -> int:
        """Threads that may execute an event without having passed."""
        return self.before(event.index) & self.masks.threads.holds(event.guard, event.index)[0]

    @cached_property
    def alone(self) -> list[int]:
        """Block → threads that may be at its start without having passed by themselves (no barrier counted)."""
        return self.masks.solve(self.own, self.edges)

    def helped(self) -> list[tuple[Carrier, int]]:
        """Barriers that put a thread in order which has not passed by itself, in text order."""
        result: list[tuple[Carrier, int]] = []
        for index in sorted(self.carriers):
            carrier, source = self.carriers[index]
            if self.masks.at(index, self.state, self.at_events) & self.masks.executing(carrier.event):
                result.append((carrier, source))
        return result

    def rows(self) -> list[WaitRow]:
        """The barriers that matter, in words."""
        line = self.masks.flow.program.line
        return [
            WaitRow(carrier.kind, line(carrier.event.index), carrier_text(carrier, source, self.masks.everyone))
            for carrier, source in self.helped()
        ]

    def assumptions(self) -> list[str]:
        return [
            self.barriers.assumptions[carrier.event.index]
            for carrier, _ in self.helped()
            if carrier.event.index in self.barriers.assumptions
        ]


class _GridOrder(Order):
    """Order behind `griddepcontrol.wait`."""

    waits: tuple[Event, ...] = ()

    def rows(self) -> list[WaitRow]:
        everyone = self.masks.everyone
        line = self.masks.flow.program.line
        own = [
            WaitRow("grid-wait", line(e.index), describe(self.masks.executing(e), everyone))
            for e in self.waits
            if self.masks.executing(e)
        ]
        return [*own, *super().rows()]


def grid_order(masks: Masks, barriers: Barriers) -> Order:
    """Order behind the grid waits of a kernel."""
    waits = tuple(e for e in masks.flow.program.events if e.kind is EventKind.GRID_WAIT)
    clears: dict[int, int] = {}
    for event in waits:
        sure = masks.everyone & ~masks.threads.holds(event.guard, event.index)[1]
        clears[event.index] = clears.get(event.index, 0) | sure
    order = _GridOrder(masks, barriers, clears)
    order.waits = waits
    return order
