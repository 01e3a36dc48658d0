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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from validator.ordering.dataflow import Flow, registers
from validator.ordering.masks import Masks
from validator.ordering.program import Const, Event, EventKind, Guard, Op, Reg
from validator.ordering.samples import ANYTHING, SAMPLES, Samples, Some, Value, known, merged
from validator.ordering.waits import Order

__all__ = ["reached_unwaited"]

_TURNS = 160
"""Times a block is walked; samples that go round more often are let go of."""
_STEPS = 8000
_CONSTANTS = 64
_EVERY: Some = np.ones(SAMPLES, dtype=np.bool_)


class Reached(NamedTuple):
    found: frozenset[int]
    """Instructions that a sample came to."""
    whole: bool
    """False: the walk was given up before it had seen all of them; the others are left open."""


def reached_unwaited(
    masks: Masks, order: Order, goals: Mapping[int, int], since: frozenset[int] = frozenset(), steps: int = _STEPS
) -> Reached:
    """Which of some instructions a thread can come to with nothing passed that orders it.

    Args:
        goals: instruction → threads that may, as far as the solver knows.
        since: instructions (asynchronous copies) of which one has to be executed first: only from there on does what
            is passed count. Empty: from the entry on, and a grid wait ends the walk.
        steps: blocks walked altogether; a walk that needs more is given up.
    """
    return (_Drawn if since else _Walk)(masks, order, goals, since).reached(steps)


@dataclass(slots=True)
class _State:
    """Samples that stand at the start of a block, and what their registers hold; an absent one was never set."""

    block: int
    alive: Some
    under_way: Some
    """Those for which what they pass counts."""
    held: dict[Reg, Value]

    def key(self) -> tuple[object, ...]:
        held = ((r.name, v.bits, v.numbers[self.alive].tobytes() if v.bits else b"") for r, v in self.held.items())
        return (self.block, self.alive.tobytes(), (self.alive & self.under_way).tobytes(), *sorted(held))

    def holds(self, guard: Guard) -> Some | None:
        """Samples for which a guard holds; None when that is not known."""
        value = self.held.get(guard.register, ANYTHING)
        return (value.numbers & 1 != 0) != guard.negated if value.bits & 1 else None


class _Walk:
    def __init__(self, masks: Masks, order: Order, goals: Mapping[int, int], since: frozenset[int]) -> None:
        self.masks, self.order, self.goals, self.since = masks, order, goals, since
        self.last = (EventKind.EXIT,) if since else (EventKind.EXIT, EventKind.GRID_WAIT)
        """What ends a walk."""
        self.flow, self.program = masks.flow, masks.flow.program
        self.found: set[int] = set()
        self.events = self._events()
        self.needed = _needed(self.flow, self.events)
        constants = _constants(self.flow, self.needed)
        self.samples = Samples(self.program, masks.threads, goals.values(), constants, whole=bool(since))
        self._somes: dict[int, Some] = {}

    def _of(self, mask: int) -> Some:
        """Samples whose thread is in a mask."""
        found = self._somes.get(mask)
        if found is None:
            found = self._somes[mask] = np.array([bool(mask >> int(t) & 1) for t in self.samples.threads])
        return found

    def _events(self) -> dict[int, list[Event]]:
        """Instruction → events at which a walk ends or a goal is reached."""
        places = {*self.goals, *self.order.at_events, *self.since}
        return {
            index: events
            for index, events in self.flow.event_at.items()
            if index in places or any(e.kind in self.last for e in events)
        }

    def reached(self, most: int) -> Reached:
        start = _State(0, _EVERY, _EVERY & (not self.since), {})
        queue = deque([start])
        seen = {start.key()}
        turns: dict[int, int] = {}
        steps = 0
        while queue and len(self.found) < len(self.goals):
            if steps == most:
                return Reached(frozenset(self.found), False)
            steps += 1
            for state in self._through(queue.popleft()):
                turns[state.block] = turns.get(state.block, 0) + 1
                key = state.key()
                if key not in seen and turns[state.block] <= _TURNS:
                    seen.add(key)
                    queue.append(state)
        return Reached(frozenset(self.found), True)

    def _through(self, state: _State) -> Iterator[_State]:
        """Walk a block; the states it goes on to."""
        block = self.flow.blocks[state.block]
        for index in range(block.start, block.stop):
            if index in self.events:
                self._meet(index, state)
                if not state.alive.any():
                    return
            if index in self.needed:
                self._set(index, state)
        for k, edge in enumerate(block.successors):
            alive = state.alive & ~(state.under_way & self._of(self.order.edges.get((state.block, k), 0)))
            held = dict(state.held)
            sides = [state.holds(guard) for guard in edge.guards]
            if sides:
                may = [_EVERY if side is None else side for side in sides]
                alive = alive & (np.logical_or if edge.either else np.logical_and).reduce(may)
                alive = alive & self._of(self.masks.edges[state.block][k])
            if not edge.either:
                held |= {g.register: known(not g.negated) for g, s in zip(edge.guards, sides, strict=True) if s is None}
            if alive.any():
                yield _State(edge.target, alive, state.under_way, held)

    def _meet(self, index: int, state: _State) -> None:
        """Goals that are reached here; then the samples that wait or end here are gone."""
        for event in self.events[index]:
            holds = _EVERY if event.guard is None else state.holds(event.guard)
            may = state.alive if holds is None else state.alive & holds
            if index in self.goals and (may & state.under_way & self._of(self.goals[index])).any():
                self.found.add(index)
            ends = event.kind in self.last
            if holds is not None:
                passed = holds if ends else holds & state.under_way & self._of(self.order.at_events.get(index, 0))
                state.alive = state.alive & ~passed
            elif ends and event.guard is not None:
                # Whoever goes on has not executed it.
                state.held[event.guard.register] = known(event.guard.negated)
            if index in self.since:
                state.under_way = state.under_way | may

    def _set(self, index: int, state: _State) -> None:
        guard, held = self.program.guard(index), state.held
        holds = _EVERY if guard is None else state.holds(guard)
        new = [(r, self.samples.value(self.program.operation(index, r), index, held)) for r in self.needed[index]]
        for register, value in new:
            held[register] = merged(holds, value, held.get(register, ANYTHING), state.alive)


class _Drawn(_Walk):
    """Nothing is left open, so that samples part and meet again as the lanes of a warp do."""

    def reached(self, most: int) -> Reached:
        waiting = {0: _State(0, _EVERY, _EVERY & False, {})}
        turns: dict[int, int] = {}
        for _ in range(most):
            if not waiting or len(self.found) == len(self.goals):
                return Reached(frozenset(self.found), True)
            number = min(waiting, key=lambda n: self.flow.rank[n])
            turns[number] = turns.get(number, 0) + 1
            state = waiting.pop(number)
            for after in self._through(state) if turns[number] <= _TURNS else ():
                met = waiting.get(after.block)
                waiting[after.block] = after if met is None else _joined(met, after)
        return Reached(frozenset(self.found), False)


def _joined(a: _State, b: _State) -> _State:
    """Samples of two states at one block, none of them in both."""
    held = {r: merged(b.alive, b.held.get(r, ANYTHING), a.held.get(r, ANYTHING), a.alive | b.alive)
            for r in a.held.keys() | b.held.keys()}  # fmt: skip
    under_way = np.where(b.alive, b.under_way, a.under_way)
    return _State(a.block, a.alive | b.alive, under_way, held)


def _needed(flow: Flow, events: Mapping[int, list[Event]]) -> dict[int, list[Reg]]:
    """Instruction → registers to follow there: those that some branch or guard hangs on, one way or another."""
    guards = [g for block in flow.blocks for edge in block.successors for g in edge.guards]
    guards += [e.guard for several in events.values() for e in several if e.guard is not None]
    seen: set[Reg] = set()
    stack = [guard.register for guard in guards]
    result: dict[int, list[Reg]] = {}
    while stack:
        register = stack.pop()
        if register in seen:
            continue
        seen.add(register)
        for site in flow.sites.get(register, ()):
            result.setdefault(site, []).append(register)
            stack += registers(flow.program.operation(site, register))
            guard = flow.program.guard(site)
            if guard is not None:
                stack.append(guard.register)
    return result


def _constants(flow: Flow, needed: Mapping[int, list[Reg]]) -> list[int]:
    """Numbers that conditions compare with, and their neighbours: sizes at which something happens."""
    found: dict[int, None] = {}
    for index, held in needed.items():
        for register in held:
            operation = flow.program.operation(index, register)
            if operation.op is Op.COMPARE:
                for arg in operation.args[:2]:
                    if isinstance(arg, Const) and 0 <= arg.value < 1 << 31:
                        found |= dict.fromkeys((arg.value, arg.value + 1, max(arg.value - 1, 0)))
    return list(found)[:_CONSTANTS]
