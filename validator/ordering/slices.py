"""Evaluation of values over their definitions, cycles included, without recursion.

A value is a node (instruction, register). `Solver` finds the strongly connected groups of nodes behind a question
(Tarjan 1972, with an explicit stack), evaluates each group once and remembers the answer: every slice of a kernel is
walked at most once for each kind of question.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from validator.ordering.dataflow import Flow, registers
from validator.ordering.program import Const, Op, Operand, Operation, Reg

__all__ = ["LoadSlices", "Node", "Slices", "Solver", "WordSlices", "first_value", "scalar"]

Node = tuple[int, Reg]
T = TypeVar("T")
L = TypeVar("L")


class Solver(ABC, Generic[T]):
    """A question about values, answered for groups of nodes that depend on each other."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.program = flow.program
        self.known: dict[Node, T] = {}

    @abstractmethod
    def evaluate(self, node: Node) -> T:
        """The answer for one node whose inputs are all in `known`."""

    @abstractmethod
    def evaluate_cycle(self, nodes: list[Node]) -> dict[Node, T]:
        """Answers for nodes that depend on each other."""

    def inputs(self, node: Node) -> Iterable[Node]:
        """Nodes whose answers this one needs."""
        index, register = node
        guard = self.program.guard(index)
        for read in registers(self.program.operation(index, register)):
            for site in self.flow.reach(read, index, guard):
                yield (site, read)

    def nodes(self, operand: Operand, index: int) -> list[Node]:
        """Nodes that an operand of instruction `index` reads."""
        guard = self.program.guard(index)
        return [(site, read) for read in registers(operand) for site in self.flow.reach(read, index, guard)]

    def require(self, operands: Iterable[Operand], index: int) -> None:
        """Answer everything that these operands of instruction `index` read."""
        for operand in operands:
            for node in self.nodes(operand, index):
                if node not in self.known:
                    self._solve(node)

    def _solve(self, start: Node) -> None:
        number: dict[Node, int] = {}
        low: dict[Node, int] = {}
        group: list[Node] = []
        open_nodes: set[Node] = set()
        looped: set[Node] = set()
        work: list[tuple[Node, Iterator[Node]]] = [(start, iter(self.inputs(start)))]
        number[start] = low[start] = 0
        group.append(start)
        open_nodes.add(start)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other in self.known:
                    continue
                if other not in number:
                    number[other] = low[other] = len(number)
                    group.append(other)
                    open_nodes.add(other)
                    work.append((other, iter(self.inputs(other))))
                    break
                if other in open_nodes:
                    if other == node:
                        looped.add(node)
                    elif number[other] < low[node]:
                        low[node] = number[other]
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    low[above] = min(low[above], low[node])
                if low[node] == number[node]:
                    self._close(node, group, open_nodes, looped)

    def _close(self, node: Node, group: list[Node], open_nodes: set[Node], looped: set[Node]) -> None:
        """`looped`: nodes that are among their own inputs."""
        members: list[Node] = []
        while True:
            member = group.pop()
            open_nodes.discard(member)
            members.append(member)
            if member == node:
                break
        if len(members) == 1 and node not in looped:
            self.known[node] = self.evaluate(node)
        else:
            self.known.update(self.evaluate_cycle(members))


class Slices(Solver[frozenset[L]], Generic[L]):
    """Which loads, atomics and tried waits a value derives from."""

    LIMIT = 256
    """Loads remembered for one value; a sum over more is no condition anybody polls on."""

    _LEAVES = (Op.LOAD, Op.ATOMIC, Op.RETURN)

    @abstractmethod
    def leaf(self, node: Node) -> L:
        """What is remembered of a loaded register."""

    def evaluate(self, node: Node) -> frozenset[L]:
        index, register = node
        operation = self.program.operation(index, register)
        if operation.op in self._LEAVES or (operation.op is Op.OPAQUE and index in self.flow.event_at):
            return frozenset((self.leaf(node),))
        result: set[L] = set()
        for other in self.inputs(node):
            result |= self.known.get(other, frozenset())
            if len(result) > self.LIMIT:
                break
        return frozenset(result)

    def evaluate_cycle(self, nodes: list[Node]) -> dict[Node, frozenset[L]]:
        members = set(nodes)
        counts = any(self.program.operation(*node).op in (Op.ADD, Op.SUB) for node in nodes)
        joined: set[L] = set()
        for node in nodes:
            for other in self.inputs(node):
                # A count of turns whose step is chosen by a loaded word is not that word.
                if other not in members and not (counts and self._chosen(other)):
                    joined |= self.known.get(other, frozenset())
        return dict.fromkeys(nodes, frozenset(joined))

    def _chosen(self, node: Node) -> bool:
        """Whether a value is one of two constants, or true or false."""
        operation = self.program.operation(*node)
        if operation.op is Op.SELECT:
            return all(isinstance(arg, Const) for arg in operation.args[:2])
        return operation.op is Op.COMPARE

    def inputs(self, node: Node) -> Iterable[Node]:
        if self.program.operation(*node).op in self._LEAVES:
            return ()
        return super().inputs(node)

    def of(self, operand: Operand, index: int) -> frozenset[L]:
        """Loads behind an operand of instruction `index`."""
        self.require((operand,), index)
        return frozenset().union(*(self.known[node] for node in self.nodes(operand, index)))


class LoadSlices(Slices[int]):
    """Loads by instruction, all registers of a vector alike."""

    def leaf(self, node: Node) -> int:
        return node[0]


class WordSlices(Slices[Node]):
    """Loads by register: the words of a vector told apart."""

    def leaf(self, node: Node) -> Node:
        return node


_ARITHMETIC: dict[Op, Callable[[list[int]], int]] = {
    Op.COPY: lambda a: a[0],
    Op.ADD: lambda a: sum(a),
    Op.SUB: lambda a: a[0] - a[1],
    Op.MUL: lambda a: a[0] * a[1],
    Op.SHL: lambda a: a[0] << min(a[1], 64),
    Op.SHR: lambda a: a[0] >> min(a[1], 64),
    Op.AND: lambda a: a[0] & a[1],
    Op.OR: lambda a: a[0] | a[1],
    Op.XOR: lambda a: a[0] ^ a[1],
    Op.NOT: lambda a: ~a[0],
    Op.NEG: lambda a: -a[0],
    Op.MIN: min,
    Op.MAX: max,
}


_SCALAR = frozenset((*_ARITHMETIC, Op.COMPARE, Op.SELECT, Op.LOP3, Op.EXTRACT))


def first_value(flow: Flow, operand: Operand, index: int) -> int | None:
    """Value of an operand the first time instruction `index` runs, None when it cannot be told.

    Of several definitions the ones that do not depend on themselves are the first: a phase that starts at 0 and is
    flipped in the loop is 0.
    """
    return _First(flow).value(operand, index, ()).value


class _Found(NamedTuple):
    """What a walk over definitions came to."""

    value: int | None
    again: bool = False
    """Whether the walk met itself, and nothing but itself."""
    alone: bool = True
    """Whether nothing hung on how the walk came here, so that the answer holds for every walk."""


class _First:
    """One question. Definitions that hang together in loops can be walked in very many orders: it gives up in time."""

    VISITS = 256
    """Questions about shipped kernels that get an answer need less than half of it."""
    DEPTH = 40

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._known: dict[Node, _Found] = flow.first_values
        self._left = self.VISITS

    def value(self, operand: Operand, index: int, path: tuple[Node, ...]) -> _Found:
        if isinstance(operand, Const):
            return _Found(operand.value)
        if isinstance(operand, Operation):
            return self._operation(operand, index, path)
        self._left -= 1
        if len(path) > self.DEPTH or self._left < 0:
            return _Found(None, alone=False)
        plain: set[int | None] = set()
        cyclic: set[int | None] = set()
        met, alone = False, True
        for site in self._flow.reach(operand, index, self._flow.program.guard(index)):
            node = (site, operand)
            if node in path:
                met, alone = True, False
                continue
            found = self._node(node, path)
            alone &= found.alone
            (cyclic if found.again else plain).add(found.value)
            if None in plain or len(plain) > 1:
                return _Found(None, alone=alone)  # whatever the others are
        values = plain or cyclic
        return _Found(values.pop() if len(values) == 1 else None, met and not plain, alone)

    def _node(self, node: Node, path: tuple[Node, ...]) -> _Found:
        found = self._known.get(node)
        if found is None:
            found = self._operation(self._flow.program.operation(*node), node[0], (*path, node))
            if found.alone:
                self._known[node] = found
        return found

    def _operation(self, operation: Operation, index: int, path: tuple[Node, ...]) -> _Found:
        if operation.op not in _SCALAR or not operation.args:
            return _Found(None)
        parts = [self.value(arg, index, path) for arg in operation.args]
        again, alone = any(part.again for part in parts), all(part.alone for part in parts)
        if operation.op is Op.AND and any(part.value == 0 for part in parts):
            return _Found(0, again, alone)
        values = [part.value for part in parts if part.value is not None]
        return _Found(scalar(operation, values) if len(values) == len(parts) else None, again, alone)


def scalar(operation: Operation, values: list[int]) -> int | None:
    """Result of an operation on known values, None when it cannot be told."""
    op, attr = operation.op, operation.attr
    if op is Op.COMPARE:
        return _compared(attr, values)
    if op is Op.SELECT and len(values) == 3:
        return values[0] if values[2] & 1 else values[1]
    ones = (1 << operation.width) - 1
    if op is Op.EXTRACT and isinstance(attr, tuple):
        return values[0] >> int(attr[0]) & ((1 << int(attr[1])) - 1)
    if op is Op.LOP3 and isinstance(attr, int) and len(values) == 3:
        rows = (row for row in range(8) if attr >> row & 1)
        terms = [[v if row >> (2 - k) & 1 else ~v for k, v in enumerate(values)] for row in rows]
        return sum(1 << bit for bit in range(operation.width) if any(all(v >> bit & 1 for v in t) for t in terms))
    rule = _ARITHMETIC.get(op)
    if rule is None or (op in (Op.SHL, Op.SHR) and values[1] < 0):
        return None
    if attr == "s":
        # Of a widening product the operands are half as wide, and how far to shift is no signed number.
        half = operation.width // 2 if op is Op.MUL else operation.width
        values = [_signed(v, half) for v in values[:1]] + [v if op is Op.SHR else _signed(v, half) for v in values[1:]]
    return rule(values) & ones


def _signed(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def _compared(attr: object, values: list[int]) -> int | None:
    """0 or 1; values that fit 32 bits are compared as 32-bit numbers."""
    if not isinstance(attr, tuple) or str(attr[0]) not in _RELATIONS or not all(abs(v) < 1 << 32 for v in values[:2]):
        return None
    a, b = (v & 0xFFFFFFFF for v in values[:2])
    if len(attr) > 1 and attr[1]:
        a, b = (v - (1 << 32) if v >> 31 else v for v in (a, b))
    result = _RELATIONS[str(attr[0])](a, b)
    if len(values) > 2 and len(attr) > 2:
        third = bool(values[2] & 1)
        result = {"and": result and third, "or": result or third}.get(str(attr[2]), result is not third)
    return int(result)
