"""Whether a path on which nothing is waited for can be taken at all: the kernel walked with samples of its inputs.

The solver of `ordering.masks` takes every branch whose condition it does not know both ways, so a path that passes `if
(k == 0) wait();` around the wait in the first turn of an unrolled loop looks open. Here threads are walked from the
entry with numbers for the kernel's parameters and coordinates, many samples at once, each going where its own
conditions send it. What is loaded is not known: such a branch is taken both ways, and its predicate is known from then
on. Behind a copy that is under way what is loaded is drawn as well: there every sample goes one way, and those that
come to one place go on together. An access that no sample reaches unwaited is not shown to be early, and not shown to
be in order either.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from validator.ordering.masks import Masks
from validator.ordering.program import Event, EventKind
from validator.ordering.samples import Samples, Some, known
from validator.ordering.waits import Order
from validator.ordering.walk import EVERY, State, Walk, branching, compared, joined, made_of

__all__ = ["Passing", "reached_unwaited"]

_TURNS = 160
"""Times a block is walked; samples that go round more often are let go of."""
_STEPS = 8000


class Passing(NamedTuple):
    """What each thread has to pass by itself: no barrier takes it from one to the other."""

    at_events: Mapping[int, int]
    """Instruction → threads that pass there."""
    edges: Mapping[tuple[int, int], int] = {}


class Reached(NamedTuple):
    found: frozenset[int]
    """Instructions that a sample came to."""
    whole: bool
    """False: the walk was given up before it had seen all of them; the others are left open."""


def reached_unwaited(
    masks: Masks,
    order: Order | Passing,
    goals: Mapping[int, int],
    since: frozenset[int] | None = frozenset(),
    steps: int = _STEPS,
) -> Reached:
    """Which of some instructions a thread can come to with nothing passed that orders it.

    Args:
        goals: instruction → threads that may, as far as the solver knows.
        since: instructions (asynchronous copies) of which one has to be executed first: only from there on does what
            is passed count. Empty: from the entry on, and a grid wait ends the walk; None: from the entry on, with
            nothing left open.
        steps: blocks walked altogether; a walk that needs more is given up.
    """
    return (_Walk if since == frozenset() else _Drawn)(masks, order, goals, since).reached(steps)


class _Walk(Walk):
    drawn = False

    def __init__(
        self, masks: Masks, order: Order | Passing, goals: Mapping[int, int], since: frozenset[int] | None
    ) -> None:
        self.order, self.goals, self.since = order, goals, since or frozenset[int]()
        self.last = (EventKind.EXIT,) if self.drawn else (EventKind.EXIT, EventKind.GRID_WAIT)
        """What ends a walk."""
        self.found: set[int] = set()
        places = {*goals, *order.at_events, *self.since}
        events = {
            index: events
            for index, events in masks.flow.event_at.items()
            if index in places or any(e.kind in self.last for e in events)
        }
        needed = made_of(masks.flow, branching(masks.flow, events))
        constants = compared(masks.flow, needed)
        samples = Samples(masks.flow.program, masks.threads, goals.values(), constants, whole=self.drawn)
        super().__init__(masks, needed, samples)
        self.events: Mapping[int, list[Event]] = events

    def reached(self, most: int) -> Reached:
        start = State(0, EVERY, EVERY & (not self.since), {})
        queue = deque([start])
        seen = {start.key()}
        turns: dict[int, int] = {}
        steps = 0
        while queue and len(self.found) < len(self.goals):
            if steps == most:
                return Reached(frozenset(self.found), False)
            steps += 1
            for state in self.through(queue.popleft()):
                turns[state.block] = turns.get(state.block, 0) + 1
                key = state.key()
                if key not in seen and turns[state.block] <= _TURNS:
                    seen.add(key)
                    queue.append(state)
        return Reached(frozenset(self.found), True)

    def leaving(self, state: State, edge: int) -> Some:
        return state.alive & ~(state.under_way & self.of(self.order.edges.get((state.block, edge), 0)))

    def meet(self, index: int, state: State) -> None:
        """Goals that are reached here; then the samples that wait or end here are gone."""
        for event in self.events[index]:
            holds = EVERY if event.guard is None else state.holds(event.guard)
            may = state.alive if holds is None else state.alive & holds
            if index in self.goals and (may & state.under_way & self.of(self.goals[index])).any():
                self.found.add(index)
            ends = event.kind in self.last
            if holds is not None:
                passed = holds if ends else holds & state.under_way & self.of(self.order.at_events.get(index, 0))
                state.alive = state.alive & ~passed
            elif ends and event.guard is not None:
                # Whoever goes on has not executed it.
                state.held[event.guard.register] = known(event.guard.negated)
            if index in self.since:
                state.under_way = state.under_way | may


class _Drawn(_Walk):
    """Nothing is left open, so that samples part and meet again as the lanes of a warp do."""

    drawn = True

    def reached(self, most: int) -> Reached:
        waiting = {0: State(0, EVERY, EVERY & (not self.since), {})}
        turns: dict[int, int] = {}
        for _ in range(most):
            if not waiting or len(self.found) == len(self.goals):
                return Reached(frozenset(self.found), True)
            number = min(waiting, key=lambda n: self.flow.rank[n])
            turns[number] = turns.get(number, 0) + 1
            state = waiting.pop(number)
            for after in self.through(state) if turns[number] <= _TURNS else ():
                met = waiting.get(after.block)
                waiting[after.block] = after if met is None else joined(met, after)
        return Reached(frozenset(self.found), False)
