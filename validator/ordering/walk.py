"""A kernel walked with numbers for its inputs, many samples at once, each going where its own conditions send it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from validator.ordering.dataflow import Flow, registers
from validator.ordering.masks import Masks
from validator.ordering.program import Const, Event, Guard, Op, Reg
from validator.ordering.samples import ANYTHING, SAMPLES, Samples, Some, Value, known, merged

__all__ = ["EVERY", "State", "Walk", "branching", "compared", "joined", "made_of"]

EVERY: Some = np.ones(SAMPLES, dtype=np.bool_)
_CONSTANTS = 64


@dataclass(slots=True)
class State:
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


def joined(a: State, b: State) -> State:
    """Samples of two states at one block, none of them in both."""
    held = {r: merged(b.alive, b.held.get(r, ANYTHING), a.held.get(r, ANYTHING), a.alive | b.alive)
            for r in a.held.keys() | b.held.keys()}  # fmt: skip
    under_way = np.where(b.alive, b.under_way, a.under_way)
    return State(a.block, a.alive | b.alive, under_way, held)


class Walk(ABC):
    """One way of walking; what is met and what ends it is for the kind of walk to say."""

    def __init__(self, masks: Masks, needed: Mapping[int, list[Reg]], samples: Samples) -> None:
        """`needed`: instruction → registers to follow there."""
        self.masks, self.flow, self.program = masks, masks.flow, masks.flow.program
        self.needed, self.samples = needed, samples
        self.events: Mapping[int, list[Event]] = {}
        """Instruction → events that are met there."""
        self._somes: dict[int, Some] = {}

    @abstractmethod
    def meet(self, index: int, state: State) -> None:
        """Take note of an instruction's events; samples that end there are let go of."""

    def leaving(self, state: State, edge: int) -> Some:
        """Samples that may leave a block by an edge, if its condition holds."""
        return state.alive

    def of(self, mask: int) -> Some:
        """Samples whose thread is in a mask."""
        found = self._somes.get(mask)
        if found is None:
            found = self._somes[mask] = np.array([bool(mask >> int(t) & 1) for t in self.samples.threads])
        return found

    def through(self, state: State) -> Iterator[State]:
        """Walk a block; the states it goes on to."""
        block = self.flow.blocks[state.block]
        for index in range(block.start, block.stop):
            if index in self.events:
                self.meet(index, state)
                if not state.alive.any():
                    return
            if index in self.needed:
                self.set(index, state)
        for k, edge in enumerate(block.successors):
            alive = self.leaving(state, k)
            held = dict(state.held)
            sides = [state.holds(guard) for guard in edge.guards]
            if edge.choice is not None:
                alive = alive & self.of(self.masks.edges[state.block][k])
            if sides:
                may = [EVERY if side is None else side for side in sides]
                alive = alive & (np.logical_or if edge.either else np.logical_and).reduce(may)
                alive = alive & self.of(self.masks.edges[state.block][k])
            if not edge.either:
                held |= {g.register: known(not g.negated) for g, s in zip(edge.guards, sides, strict=True) if s is None}
            if alive.any():
                yield State(edge.target, alive, state.under_way, held)

    def set(self, index: int, state: State) -> None:
        """What an instruction makes of the registers that are followed."""
        guard, held = self.program.guard(index), state.held
        new = [(r, self.samples.value(self.program.operation(index, r), index, held)) for r in self.needed[index]]
        if guard is None:
            held.update(new)
            return
        holds = state.holds(guard)
        for register, value in new:
            held[register] = merged(holds, value, held.get(register, ANYTHING), state.alive)


def branching(flow: Flow, events: Mapping[int, list[Event]]) -> list[Reg]:
    """Registers that some branch, or whether some of these events happens, hangs on."""
    guards = [g for block in flow.blocks for edge in block.successors for g in edge.guards]
    guards += [e.guard for several in events.values() for e in several if e.guard is not None]
    return [guard.register for guard in guards]


def made_of(flow: Flow, wanted: Iterable[Reg]) -> dict[int, list[Reg]]:
    """Instruction → registers to follow there, so that some registers are known wherever they are read."""
    seen: set[Reg] = set()
    stack = list(wanted)
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


def compared(flow: Flow, needed: Mapping[int, list[Reg]]) -> list[int]:
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
