"""Waits that may return before what they wait for has happened: `mbarrier.try_wait` and `test_wait`.

Such an instruction says whether the phase is over; only where its answer was yes has a thread waited. The place is an
edge that is not taken as long as every such answer is no. Whoever throws the answer away has not waited at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, reduce
from operator import and_

import numpy as np

from validator.ordering.dataflow import Flow, registers
from validator.ordering.program import Const, Event, EventKind, Guard, Op, Operand, Operation, Reg, Space
from validator.ordering.samples import UNKNOWN, Value, known, made

__all__ = ["Tried"]

_DEPTH = 16
_SITES = 32
_Place = tuple[int, int]
"""(block, number of the edge)."""


class Tried:
    """The tried waits of one kernel and the branches on their answers."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._program = flow.program
        self._known: dict[tuple[int, Reg], tuple[Value, frozenset[int]]] = {}
        self._mixed = False

    @cached_property
    def _answers(self) -> dict[int, Event]:
        return {e.index: e for e in self._program.events if e.kind is EventKind.MBARRIER_WAIT}

    @cached_property
    def edges(self) -> dict[_Place, frozenset[int]]:
        """Edges that are taken only after a yes → the waits of which one gave it."""
        result: dict[_Place, frozenset[int]] = {}
        if not self._answers:
            return result
        for number, block in enumerate(self._flow.blocks):
            if len(block.successors) < 2:
                continue
            last = max(block.start, block.stop - 1)
            for k, edge in enumerate(block.successors):
                sides = [self._refuses(guard, last) for guard in edge.guards]
                refused = [side for side in sides if side]
                if refused and (not edge.either or len(refused) == len(sides)):
                    result[number, k] = frozenset[int]().union(*refused)
        return result

    @property
    def may_be_answered_otherwise(self) -> bool:
        """Whether a branch on an answer may find something else where it stands: what it is before the first wait."""
        return bool(self.edges) and self._mixed

    @cached_property
    def _deciding(self) -> frozenset[int]:
        return frozenset[int]().union(*self.edges.values())

    @cached_property
    def ignored(self) -> frozenset[int]:
        """Waits whose answer no branch hangs on, and that nobody can look at later."""
        return frozenset(i for i, e in self._answers.items() if i not in self._deciding and not self._kept(e))

    def stands(self, event: Event) -> bool:
        """Whether a thread has waited as soon as it has executed the event, as far as can be told."""
        return event.index not in self._deciding and event.index not in self.ignored

    def passing(self, answered: Mapping[int, int]) -> dict[_Place, int]:
        """Edge → threads that have waited once they took it, given wait → threads for which its yes is one."""
        result: dict[_Place, int] = {}
        for place, waits in self.edges.items():
            passed = [answered.get(index, 0) for index in waits]
            if all(passed):
                result[place] = reduce(and_, passed)
        return result

    def _refuses(self, guard: Guard, last: int) -> frozenset[int]:
        """Waits whose no keeps a guard from holding; empty when it may hold all the same."""
        value, waits = self._value(guard.register, last, 0)
        if not waits or not value.bits & 1:
            return frozenset()
        holds = (value.numbers & 1 != 0) != guard.negated
        return frozenset() if holds.any() else waits

    # -- what becomes of an answer -----------------------------------------------------------------------------------

    def _value(self, operand: Operand, index: int, depth: int) -> tuple[Value, frozenset[int]]:
        """(value if every answer is no, waits that it hangs on). Other definitions of a register do not count."""
        if isinstance(operand, Const):
            return known(operand.value), frozenset()
        if isinstance(operand, Operation):
            return self._made(operand, index, depth)
        sites = self._flow.reach(operand, index, self._program.guard(index))
        if depth > _DEPTH or len(sites) > _SITES:
            return UNKNOWN, frozenset()
        found = [self._set(site, operand, depth) for site in sites]
        answers = [(value, waits) for value, waits in found if waits]
        if not answers:
            return found[0] if len(found) == 1 else (UNKNOWN, frozenset())
        self._mixed |= len(answers) < len(found)
        first = answers[0][0].numbers
        bits = reduce(and_, (value.bits & ~int(np.bitwise_or.reduce(value.numbers ^ first)) for value, _ in answers))
        return Value(first, bits), frozenset[int]().union(*(waits for _, waits in answers))

    def _set(self, site: int, register: Reg, depth: int) -> tuple[Value, frozenset[int]]:
        event = self._answers.get(site)
        if event is not None and event.result == register:
            return known(0), frozenset((site,))
        node = (site, register)
        if node not in self._known:
            self._known[node] = (UNKNOWN, frozenset())  # of a value that is made of itself
            self._known[node] = self._value(self._program.operation(site, register), site, depth + 1)
        return self._known[node]

    def _made(self, operation: Operation, index: int, depth: int) -> tuple[Value, frozenset[int]]:
        if operation.op in (Op.LOAD, Op.ATOMIC, Op.RETURN, Op.SPECIAL, Op.PARAM) or not operation.args:
            return UNKNOWN, frozenset()
        parts = [self._value(arg, index, depth) for arg in operation.args]
        waits = frozenset[int]().union(*(w for _, w in parts))
        values = [value for value, _ in parts]
        if operation.op is Op.SELECT and values[2].bits & 1:
            return values[0 if values[2].numbers[0] & 1 else 1], waits
        if operation.op in (Op.SHUFFLE, Op.VOTE):
            return values[0], waits
        return made(operation, values), waits

    def _kept(self, event: Event) -> bool:
        """Whether an answer may come back from where it is not followed: out of memory of the thread or the CTA."""
        if event.result is None:
            return False
        if any(e.kind is EventKind.CALL for e in self._program.events):
            return True
        made_of = {event.result}
        grown = True
        while grown:
            grown = False
            for register, sites in self._flow.sites.items():
                if register not in made_of and any(made_of & set(self._read(site, register)) for site in sites):
                    made_of.add(register)
                    grown = True
        return any(made_of & set(_registers(e.value)) for e in self._program.events if _stays_near(e))

    def _read(self, site: int, register: Reg) -> Iterator[Reg]:
        yield from registers(self._program.operation(site, register))


def _stays_near(event: Event) -> bool:
    return any(access.space not in (Space.GLOBAL, Space.CONST) for access in event.accesses)


def _registers(operands: Iterable[Operand]) -> Iterator[Reg]:
    for operand in operands:
        yield from registers(operand)
