"""What single threads of one CTA do to shared memory and its barriers, step by step, for many launches.

Each launch is walked by several threads with the same numbers for the kernel's inputs, so that what one of them does
can be held against what another does. Every tried wait succeeds; a loaded word of global memory is one number in a
launch. Where a branch hangs on anything else that is not known, a thread's steps end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from validator.ordering.dataflow import Flow, registers
from validator.ordering.masks import Masks
from validator.ordering.program import Event, EventKind, Op, Operand, Operation, Space, Special
from validator.ordering.samples import SAMPLES, UNKNOWN, Samples, Some, Value, known
from validator.ordering.threads import Threads
from validator.ordering.vectors import Vector
from validator.ordering.walk import EVERY, State, Walk, branching, compared, joined, made_of

__all__ = ["MEETINGS", "Step", "Thread", "traces"]

MEETINGS = (EventKind.BARRIER, EventKind.CLUSTER_BARRIER)
"""Where threads of a CTA, or of a cluster, meet."""

_TURNS = 48
_WORK = 2500
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


class Thread:
    """One thread's steps, and what is asked of them over and over."""

    def __init__(self, number: int, steps: Trace) -> None:
        self.number, self.steps = number, steps

    def at(self, *kinds: EventKind) -> list[int]:
        """Positions of steps of some kinds."""
        return [k for k, step in enumerate(self.steps) if step.event.kind in kinds]

    @cached_property
    def meetings(self) -> list[int]:
        return [k for k in self.at(*MEETINGS) if self.steps[k].event.waits]

    def met(self, position: int) -> int:
        """Barriers passed before a step."""
        return bisect_left(self.meetings, position)

    @cached_property
    def blind(self) -> bool:
        """Whether it is not known at which mbarrier the thread waits or arrives somewhere."""
        return any(self.steps[k].place is None for k in self.at(EventKind.MBARRIER_WAIT, EventKind.MBARRIER_ARRIVE))

    @cached_property
    def fresh(self) -> frozenset[int]:
        """Waits for a phase that the thread did not know to be over."""
        parities: dict[int, int] = {}
        result: set[int] = set()
        for k in self.at(EventKind.MBARRIER_WAIT):
            step = self.steps[k]
            if step.event.parity is None or step.parity is None or step.place is None:
                result.add(k)
            elif parities.get(step.place, 1) != step.parity & 1:
                result.add(k)
                parities[step.place] = step.parity & 1
        return frozenset(result)

    @cached_property
    def arrivals(self) -> dict[int, list[int]]:
        """mbarrier → positions of arrivals at it."""
        return _grouped(
            (self.steps[k].place, k) for k in self.at(EventKind.MBARRIER_ARRIVE) if self.steps[k].event.arrives
        )

    def waits(self, mbarrier: int) -> list[int]:
        """Positions of waits for an mbarrier."""
        return self._waits.get(mbarrier, [])

    @cached_property
    def _waits(self) -> dict[int, list[int]]:
        return _grouped((self.steps[k].place, k) for k in self.at(EventKind.MBARRIER_WAIT))

    def phase(self, copy: int, count: int) -> int | None:
        """Which phase of its mbarrier, counted from 1, a copy belongs to, where this thread arrives `count` times in
        each; None where others announce it, and where some of a phase's copies come before its first arrival and some
        behind its last (`expect_tx` apart)."""
        mbarrier = self.steps[copy].barrier
        arrivals = [] if mbarrier is None else self.arrivals.get(mbarrier, [])
        if not arrivals or mbarrier is None:
            return None
        copies, last = self.copies[mbarrier], arrivals[count - 1 :: count]
        if copies[0] > arrivals[0]:
            return bisect_left(arrivals[::count], copy)
        early = bisect_left(copies, last[0]) if last else 0
        second = last[1] if len(last) > 1 else len(self.steps)
        if early and bisect_left(copies, second) - early != (early if len(last) > 1 else 0):
            return None
        return bisect_left(last, copy) + 1

    @cached_property
    def copies(self) -> dict[int, list[int]]:
        """mbarrier → positions of copies that it counts."""
        return _grouped((step.barrier, k) for k, step in enumerate(self.steps))

    def meets_as(self, other: Thread) -> bool:
        """Whether both threads come to the same barriers, as far as both are known."""
        pairs = zip(self.meetings, other.meetings, strict=False)
        return all(
            (self.steps[a].event.kind, self.steps[a].place) == (other.steps[b].event.kind, other.steps[b].place)
            for a, b in pairs
        )


def _grouped(positions: Iterable[tuple[int | None, int]]) -> dict[int, list[int]]:
    """mbarrier → positions, where the mbarrier is known."""
    result: dict[int, list[int]] = {}
    for mbarrier, position in positions:
        if mbarrier is not None:
            result.setdefault(mbarrier, []).append(position)
    return result


def traces(masks: Masks, threads: Sequence[int], events: Iterable[Event]) -> list[list[Thread]]:
    """Launches that differ, each with the steps of every one of `threads`, as far as they can be told."""
    walk = _Traces(masks, threads, {e.index for e in events})
    walk.run()
    launches = walk.launches(len(threads))
    return [[Thread(n, walk.steps(k)) for n, k in zip(threads, launch, strict=True)] for launch in launches]


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
        if not guards and "BRA.DIV" in self.flow.program.text(self.flow.blocks[state.block].stop - 1):
            # Lanes that are together go on; else they are brought together first.
            return state.alive if successors[edge].target == state.block + 1 else state.alive & False
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
