"""What single threads of one CTA do to shared memory and its barriers, step by step, for many launches.

Each launch is walked by several threads with the same numbers for the kernel's inputs, so that what one of them does
can be held against what another does. Every tried wait succeeds; a loaded word of global memory is one number in a
launch. Where a branch hangs on anything else that is not known, a thread's steps end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from validator.ordering.dataflow import Flow, registers
from validator.ordering.masks import Masks
from validator.ordering.program import Event, EventKind, Op, Operand, Operation, Space, Special
from validator.ordering.samples import SAMPLES, UNKNOWN, Samples, Some, Value, known
from validator.ordering.threads import Threads
from validator.ordering.vectors import Vector
from validator.ordering.walk import EVERY, State, Walk, branching, compared, joined, made_of

__all__ = ["Step", "Trace", "traces"]

_TURNS = 48
_WORK = 4000
"""Registers worked out; a walk that needs more ends where it is."""
_LAUNCHES, _LONGEST = 12, 200
"""Launches told, and steps of one thread."""
_SHARED = (Space.SHARED, Space.CLUSTER, Space.GENERIC)
_APART = 1 << 20
"""Bytes between variables whose addresses are not known."""


class Step(NamedTuple):
    """One event as one thread comes to it. What is not known is None."""

    event: Event
    place: int | None
    """Byte of shared memory that is read, written, copied to or stored from; the mbarrier or the CTA barrier."""
    barrier: int | None = None
    """mbarrier that a copy counts on."""
    parity: int | None = None
    amount: int | None = None
    """Bytes announced or copied."""


Trace = Sequence[Step]


def traces(masks: Masks, threads: Sequence[int], events: Iterable[Event]) -> list[list[Trace]]:
    """Launches that differ, each with the steps of every one of `threads`, as far as they can be told."""
    walk = _Traces(masks, threads, {e.index for e in events})
    walk.run()
    return [[walk.steps(sample) for sample in launch] for launch in walk.launches(len(threads))]


class _Launches(Samples):
    """Sample by sample the threads take turns, and what a launch is given is the same for all of them."""

    def __init__(self, flow: Flow, threads: Threads, walked: Sequence[int], constants: Iterable[int]) -> None:
        super().__init__(flow.program, threads, (), constants)
        self._flow = flow
        self._launch = np.arange(SAMPLES) // len(walked)
        self.threads = np.array([walked[k % len(walked)] for k in range(SAMPLES)], dtype=np.int64)
        self._loaded = Value(3 + 7 * self._launch % 61, -1)
        self._variables: dict[object, int] = {}

    def _parameter(self, attr: object) -> Value:
        return self._of_launch(super()._parameter(attr))

    def _special(self, attr: object, index: int) -> Value:
        found = super()._special(attr, index)
        return self._of_launch(found) if attr is Special.CTA else found

    def _of_launch(self, drawn: Value) -> Value:
        return Value(drawn.numbers[self._launch], drawn.bits)

    def _operation(self, operand: Operation, index: int, args: list[Value]) -> Value:
        op = operand.op
        if op is Op.SYMBOL and isinstance(operand.attr, tuple):
            space, name, offset = operand.attr
            start = self._variables.setdefault((space, name), (len(self._variables) + 1) * _APART if name else 0)
            return known(start + int(offset))
        if op is Op.ELECT:
            return known(1)
        if args and (op is Op.SHUFFLE or (op is Op.VOTE and operand.attr != "ballot")):
            return args[0]
        if op is Op.LOAD:
            read = [a for e in self._flow.event_at.get(index, ()) for a in e.accesses]
            return self._loaded if read and all(a.space in (Space.GLOBAL, Space.CONST) for a in read) else UNKNOWN
        return super()._operation(operand, index, args)


class _Traces(Walk):
    def __init__(self, masks: Masks, threads: Sequence[int], wanted: set[int]) -> None:
        flow = masks.flow
        ends = (EventKind.EXIT, EventKind.MBARRIER_WAIT)
        events = {i: found for i, found in flow.event_at.items() if i in wanted or any(e.kind in ends for e in found)}
        operands = [operand for found in events.values() for e in found for operand in _operands(e)]
        needed = made_of(flow, [*branching(flow, events), *(r for operand in operands for r in registers(operand))])
        super().__init__(masks, needed, _Launches(flow, masks.threads, threads, compared(flow, needed)))
        self.events: Mapping[int, list[Event]] = events
        self.log: list[tuple[Event, Some, tuple[Vector | None, ...]]] = []
        self._counts = np.zeros(SAMPLES, dtype=np.int64)
        self._left = _WORK

    def launches(self, threads: int) -> list[range]:
        """Samples of launches in which the threads come to different numbers of steps."""
        found: dict[tuple[int, ...], range] = {}
        for first in range(0, SAMPLES - threads + 1, threads):
            found.setdefault(tuple(self._counts[first : first + threads]), range(first, first + threads))
        return list(found.values())[:_LAUNCHES]

    def steps(self, sample: int) -> Trace:
        """What a thread does in one launch."""
        mine = [(event, numbers) for event, alive, numbers in self.log if alive[sample]]
        return [Step(event, *(None if n is None else int(n[sample]) for n in numbers)) for event, numbers in mine]

    def run(self) -> None:
        """Samples part and meet again as the lanes of a warp do."""
        waiting = {0: State(0, EVERY, EVERY, {})}
        turns: dict[int, int] = {}
        while waiting and self._left > 0:
            number = min(waiting, key=lambda n: self.flow.rank[n])
            turns[number] = turns.get(number, 0) + 1
            state = waiting.pop(number)
            for after in self.through(state) if turns[number] <= _TURNS else ():
                met = waiting.get(after.block)
                waiting[after.block] = after if met is None else joined(met, after)

    def leaving(self, state: State, edge: int) -> Some:
        """Nobody goes where it is not known whether a thread does; the lanes of a warp that take turns are one."""
        successors = self.flow.blocks[state.block].successors
        guards = successors[edge].guards
        if len(successors) == 1 or (guards and all(state.holds(guard) is not None for guard in guards)):
            return state.alive
        if not guards and len(successors) == 2 and successors[1 - edge].target == state.block:
            return state.alive
        result = state.alive
        for k, mask in enumerate(self.masks.edges[state.block]):
            result = result & ~self.of(mask) if k != edge else result
        return result

    def set(self, index: int, state: State) -> None:
        super().set(index, state)
        self._left -= len(self.needed[index])
        for event in self.events.get(index, ()):
            if event.kind is EventKind.MBARRIER_WAIT and event.result is not None:
                state.held[event.result] = known(1)

    def meet(self, index: int, state: State) -> None:
        for event in self.events[index]:
            holds = EVERY if event.guard is None else state.holds(event.guard)
            if holds is None:
                state.alive = state.alive & False
                return
            may = state.alive & holds
            if event.kind is EventKind.EXIT:
                state.alive = state.alive & ~holds
            elif may.any():
                self.log.append((event, may, self._numbers(event, state)))
                self._counts += may
                state.alive = state.alive & (self._counts < _LONGEST)

    def _numbers(self, event: Event, state: State) -> tuple[Vector | None, ...]:
        """Place, mbarrier of a copy, parity and bytes."""
        place, barrier = _place(event), event.barrier if event.kind is EventKind.ASYNC_COPY else ()
        parity = () if event.parity is None else (event.parity,)
        amount = () if event.amount is None else (event.amount,)
        return tuple(self._sum(terms, event.index, state) for terms in (place, barrier, parity, amount))

    def _sum(self, terms: Sequence[Operand], index: int, state: State) -> Vector | None:
        values = [self.samples.value(term, index, state.held) for term in terms]
        if not values or any(value.bits != -1 for value in values):
            return None
        return sum((value.numbers for value in values[1:]), values[0].numbers) & 0xFFFFFFFF


def _place(event: Event) -> Sequence[Operand]:
    """What addresses the shared memory, the mbarrier or the CTA barrier of an event."""
    if event.kind in (EventKind.ACCESS, EventKind.ASYNC_COPY):
        return next((a.address for a in event.accesses if a.space in _SHARED), ())
    return event.barrier


def _operands(event: Event) -> list[Operand]:
    more = [operand for operand in (event.parity, event.amount) if operand is not None]
    return [*_place(event), *event.barrier, *more]
