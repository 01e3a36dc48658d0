"""Branches that hang on one scalar argument alone, and which of them a launch can take together.

Compilers unroll `do { … } while (++k < n)` into a loop of four turns and a remainder, and look at `n` twice: `n >= 4`
and `n & 3`. The way around both asks for a number that is at least 1, below 4 and a multiple of 4. The solver of
`ordering.masks` takes every branch by itself; here the numbers of one argument are divided into cases by what they make
of its branches, and each case closes the edges that it never takes. Together the cases are every launch there is.

What is followed: sums with constants, low bits, division by powers of two, minimum, maximum and comparison. Such a
condition changes at finitely many numbers and between them repeats itself with the period of its masks, so the numbers
within a period of each of those stand for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from validator.ordering.dataflow import Flow
from validator.ordering.program import Block, Const, EventKind, Guard, Op, Operand, Operation, Reg
from validator.ordering.vectors import Vector, computed

__all__ = ["Bounds", "Place", "happens", "scalar_cases", "without"]

Place = tuple[int, int]
"""(block, number of the edge) that is not taken; (`NEVER`, instruction) that is not executed; (`ALWAYS`, exit)."""
NEVER, ALWAYS = -1, -2
_Way = tuple[Place, "list[tuple[_Term, bool]]", bool]
"""(what it closes where the guards do not hold, guards with whether each is negated, whether one of them is enough)."""
Bounds = Callable[[int], "tuple[int, int] | None"]
"""What a contract says of the number at an offset of the parameter block: (least, greatest)."""

_MOST = 32
_WORK = 100_000
"""Instructions of all cases together."""
"""Cases; with more, nothing is divided."""
_DEPTH = 16
_PERIOD = 256
_CONSTANTS = 8
_SUMMED = 4
"""Constants in one condition."""
_TRIED = 1 << 20
_WORD = 1 << 32
_SIGN = 1 << 31
_BITWISE = frozenset((Op.AND, Op.OR, Op.XOR, Op.LOP3, Op.NOT))
_PLAIN = frozenset((Op.COPY, Op.ADD, Op.SUB, Op.NEG, Op.MIN, Op.MAX))


@dataclass(frozen=True, slots=True)
class _Term:
    """What a condition makes of the argument."""

    operation: Operation | None
    """None: the argument itself."""
    args: tuple[_Term | Const, ...] = ()
    bits: int = 32
    """Of the argument."""

    def value(self, numbers: Vector) -> Vector | None:
        if self.operation is None:
            return numbers & ((1 << self.bits) - 1)
        parts = [np.full_like(numbers, a.value) if isinstance(a, Const) else a.value(numbers) for a in self.args]
        return None if any(p is None for p in parts) else computed(self.operation, [p for p in parts if p is not None])

    @property
    def narrow(self) -> bool:
        """Made of one byte, all of whose values can be tried."""
        terms = [a for a in self.args if isinstance(a, _Term)]
        return self.bits <= 8 if self.operation is None else bool(terms) and all(t.narrow for t in terms)

    @property
    def yes_or_no(self) -> bool:
        """A predicate, or what predicates are put together to."""
        if self.operation is None:
            return False
        terms = [a for a in self.args if isinstance(a, _Term)]
        return self.operation.op is Op.COMPARE or (
            self.operation.op in (*_BITWISE, Op.COPY) and bool(terms) and all(t.yes_or_no for t in terms)
        )

    def constants(self) -> Iterator[int]:
        for arg in self.args:
            if isinstance(arg, Const):
                yield _signed(arg.value)
            else:
                yield from arg.constants()

    def period(self) -> int:
        """Of its masks and divisions together."""
        own = 1
        if self.operation is not None and not self.yes_or_no and not self.narrow:
            numbers = [_signed(a.value) for a in self.args if isinstance(a, Const)]
            if self.operation.op in _BITWISE:
                own = max((1 << max(n, ~n).bit_length() for n in numbers), default=1)
            elif self.operation.op is Op.SHR:
                own = 1 << max(numbers[0], 0) if numbers else _PERIOD + 1
            elif self.operation.op is Op.EXTRACT and isinstance(self.operation.attr, tuple):
                own = 1 << sum(self.operation.attr)
        return own * max((a.period() for a in self.args if isinstance(a, _Term)), default=1)


def scalar_cases(flow: Flow, bounds: Bounds) -> list[frozenset[Place]]:
    """Edges that are closed, case by case; one case with none where nothing can be divided."""
    cases: list[frozenset[Place]] = [frozenset()]
    most = min(_MOST, _WORK // max((block.stop for block in flow.blocks), default=1))
    for offset, edges in _Reader(flow).by_argument().items():
        own = _cases(edges, bounds(offset))
        if own and len(own) * len(cases) <= most:
            cases = [a | b for a, b in product(cases, own)]
    return cases


def without(flow: Flow, closed: frozenset[Place]) -> list[Block]:
    """The blocks with these edges taken away, and all edges of blocks that nobody comes to or gets out of then."""
    edges = [[e for k, e in enumerate(b.successors) if (n, k) not in closed] for n, b in enumerate(flow.blocks)]
    for kind, index in closed:
        if kind == ALWAYS:
            edges[flow.block_of(index)] = []
    reached: set[int] = set()
    stack = [0] if edges else []
    while stack:
        number = stack.pop()
        if number not in reached:
            reached.add(number)
            stack += (edge.target for edge in edges[number])
    return [
        Block(block.start, block.stop, tuple(edges[number]) if number in reached else ())
        for number, block in enumerate(flow.blocks)
    ]


def happens(flow: Flow, closed: frozenset[Place], index: int) -> bool:
    """Whether an instruction can be executed in a case: neither its guard nor an exit in its block says no."""
    start = flow.blocks[flow.block_of(index)].start
    return (NEVER, index) not in closed and not any(k == ALWAYS and start <= n < index for k, n in closed)


class _Reader:
    """Conditions of one kernel as functions of one argument."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._program = flow.program
        self._offsets: set[int] = set()
        self._sizes = {parameter.offset: parameter.size for parameter in flow.program.parameters}

    def by_argument(self) -> dict[int, list[_Way]]:
        """Offset → edges and guarded instructions that hang on the argument there."""
        found: dict[int, list[_Way]] = {}
        for number, block in enumerate(self._flow.blocks):
            for k, edge in enumerate(block.successors if len(block.successors) > 1 else ()):
                self._offsets = set()
                guards = [self._guard(guard, max(block.start, block.stop - 1)) for guard in edge.guards]
                terms = [(term, guard.negated) for term, guard in zip(guards, edge.guards, strict=True) if term]
                whole = len(terms) == len(guards)
                if terms and len(self._offsets) == 1 and (whole or not edge.either):
                    found.setdefault(self._offsets.pop(), []).append(((number, k), terms, edge.either))
        for event in self._program.events:
            if event.guard is not None and (event.accesses or event.kind in (EventKind.EXIT, EventKind.GRID_TRIGGER)):
                self._offsets = set()
                term = self._guard(event.guard, event.index)
                if term is not None and len(self._offsets) == 1:
                    ways = found.setdefault(self._offsets.pop(), [])
                    ways.append(((NEVER, event.index), [(term, event.guard.negated)], False))
                    if event.kind is EventKind.EXIT:
                        ways.append(((ALWAYS, event.index), [(term, not event.guard.negated)], False))
                elif event.kind is EventKind.ASYNC_COPY and not event.guard.negated:
                    for offset, part in self._conjuncts(event.guard.register, event.index, 0):
                        found.setdefault(offset, []).append(((NEVER, event.index), [(part, False)], False))
        return found

    def _conjuncts(self, operand: Operand, index: int, depth: int) -> Iterator[tuple[int, _Term]]:
        """(offset, condition on the argument there) for what has to hold where a predicate does.

        A copy is issued by one lane, and by a vote of its warp: `n > 0`, its thread's number and its election together.
        """
        self._offsets = set()
        term = self._term(operand, index, None, 0)
        if isinstance(term, _Term) and term.yes_or_no and term.period() <= _PERIOD and len(self._offsets) == 1:
            yield self._offsets.pop(), term
            return
        if isinstance(operand, Operation):
            args, attr = operand.args, operand.attr
            if operand.op is Op.COMPARE and isinstance(attr, tuple) and attr[-1] == "and" and len(args) > 2:
                alone = Operation(Op.COMPARE, args[:2], attr[:-1], operand.width)
                args = (alone, args[2]) if depth < _DEPTH else ()
            elif operand.op not in (Op.AND, Op.COPY) and not (operand.op is Op.VOTE and attr in ("any", "all")):
                args = ()
            for arg in args:
                yield from self._conjuncts(arg, index, depth + 1)
        elif isinstance(operand, Reg) and depth <= _DEPTH:
            sites = self._flow.reach(operand, index, self._program.guard(index))
            if len(sites) == 1 and self._program.guard(sites[0]) is None:
                yield from self._conjuncts(self._program.operation(sites[0], operand), sites[0], depth + 1)

    def _guard(self, guard: Guard, index: int) -> _Term | None:
        before = set(self._offsets)
        term = self._term(guard.register, index, None, 0)
        if isinstance(term, _Term) and term.yes_or_no and term.period() <= _PERIOD:
            return term
        self._offsets = before
        return None

    def _term(self, operand: Operand, index: int, guard: Guard | None, depth: int) -> _Term | Const | None:
        if isinstance(operand, Const):
            return operand
        if depth > _DEPTH:
            return None
        if not isinstance(operand, Operation):
            sites = self._flow.reach(operand, index, guard)
            if len(sites) != 1 or self._program.guard(sites[0]) is not None:
                return None
            return self._term(self._program.operation(sites[0], operand), sites[0], None, depth + 1)
        if operand.op is Op.PARAM and not operand.args and isinstance(operand.attr, tuple):
            offset, size = operand.attr
            self._offsets.add(int(offset))
            size = min(int(size), self._sizes.get(int(offset), 4))
            return _Term(None, bits=8 * size) if size in (1, 2, 4) else None
        args = [self._term(arg, index, guard, depth + 1) for arg in operand.args]
        terms = tuple(arg for arg in args if arg is not None)
        return _Term(operand, terms) if args and len(terms) == len(args) and _followed(operand, terms) else None


def _followed(operation: Operation, args: Sequence[_Term | Const]) -> bool:
    """Whether the result changes at finitely many numbers and repeats itself between them."""
    terms = [arg for arg in args if isinstance(arg, _Term)]
    if all(t.narrow for t in terms):
        return True
    if operation.op is Op.COMPARE:
        numbers = [t for t in terms if not t.yes_or_no]
        return len(numbers) <= 1 and operation.width <= 32
    if operation.op in _BITWISE and all(t.yes_or_no for t in terms):
        return True
    if operation.op is Op.SHR:
        return len(terms) == 1 and isinstance(args[1], Const)
    plain = operation.op in _PLAIN or operation.op in _BITWISE or operation.op is Op.EXTRACT
    return plain and len(terms) <= 1 and operation.width <= 32


def _cases(edges: list[_Way], bounds: tuple[int, int] | None) -> list[frozenset[Place]] | None:
    terms = [term for _, guards, _ in edges for term, _ in guards]
    period = max(term.period() for term in terms)
    constants = sorted({abs(n) for term in terms for n in term.constants()} - {0})
    if all(term.narrow for term in terms):
        constants = []
        period = 256
    elif len(constants) > _CONSTANTS or any(sum(n != 0 for n in term.constants()) > _SUMMED for term in terms):
        return None
    numbers = _numbers(constants, period, bounds)
    if numbers is None:
        return None
    closed: list[npt.NDArray[np.bool_]] = []
    for _, guards, either in edges:
        sides: list[npt.NDArray[np.bool_]] = []
        for term, negated in guards:
            value = term.value(numbers)
            if value is None:
                return None
            sides.append((value & 1 != 0) != negated)
        closed.append(~(np.logical_or if either else np.logical_and).reduce(sides))
    kinds = np.unique(np.stack(closed), axis=1)
    if kinds.shape[1] > _MOST:
        return None
    return [frozenset(edges[k][0] for k in np.flatnonzero(kind)) for kind in kinds.T]


def _numbers(constants: list[int], period: int, bounds: tuple[int, int] | None) -> Vector | None:
    """One of every kind: those within two periods of where something can change. None: too many."""
    steps = [0, *constants, *(-n for n in constants)]
    sums = {0}
    for _ in range(_SUMMED):
        sums = {a + b for a in sums for b in steps}
    edges = {n << shift for n in sums for shift in range(period.bit_length())}
    around = np.arange(-2 * period - 2, 2 * period + 3)
    origins = np.array([*(start + n for start in (0, _SIGN) for n in edges), *(bounds or ())], dtype=np.int64)
    if len(origins) * len(around) > _TRIED:
        return None
    numbers = np.unique((origins[:, None] + around) % _WORD)
    if bounds is not None:
        signed = numbers - _WORD * (numbers >= _SIGN)
        numbers = numbers[(signed >= bounds[0]) & (signed <= bounds[1])]
    return numbers.astype(np.int64)


def _signed(number: int) -> int:
    number %= _WORD
    return number - _WORD if number >= _SIGN else number
