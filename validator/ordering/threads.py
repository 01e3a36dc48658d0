"""Which threads take which branch.

A condition is evaluated once for all threads of a block: as a vector over thread numbers where it depends on nothing
but constants and thread coordinates, else as a statement about who agrees (`UNIFORM`: all threads of the CTA,
`VARYING`: nobody need agree). Sets of threads are Python integers used as bit masks, so a warp role costs one AND.

Without a known block size the threads are those of the first row (0, 0, 0) … (1023, 0, 0), and once a condition asks
for `tid.y` or `tid.z`, samples of further rows; what hangs on the unknown size is known for the first row alone.
Assumed: `elect.sync` elects the lowest lane.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from validator.ordering.dataflow import Flow, registers
from validator.ordering.program import Choice, Const, Guard, Op, Operand, Operation, Order, Reg, Special
from validator.ordering.slices import Node, Solver
from validator.ordering.threadset import DEFAULT_THREADS
from validator.ordering.vectors import Vector, as_numbers, computed, wrap

__all__ = ["Agreement", "Threads"]


class Agreement(Enum):
    """What is known about a value that is not known."""

    UNIFORM = auto()
    """The same in all threads of the CTA."""
    BY_THREAD = auto()
    """Made of thread coordinates and of what is uniform."""
    VARYING = auto()


class Partial(NamedTuple):
    """A value that is known in some threads only."""

    vector: Vector
    """Zero where not known."""
    known: npt.NDArray[np.bool_]
    rest: Agreement
    """What is known about the others."""


_ABSORBING = {Op.MUL: 0, Op.AND: 0}
"""What makes a result known whatever the other operand is."""

_WORD = (1 << 32) - 1

_JOINS = {"and": Op.AND, "or": Op.OR}

_Value = Vector | Partial | Agreement
_UNIFORM, _BY_THREAD, _VARYING = Agreement.UNIFORM, Agreement.BY_THREAD, Agreement.VARYING


def _mask(bits: npt.NDArray[np.bool_]) -> int:
    return int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")


class Threads(Solver[_Value]):
    """Thread-by-thread values of one kernel.

    `block` is the block size when it is fixed, `limit` the largest number of threads otherwise.
    """

    def __init__(
        self, flow: Flow, block: tuple[int, int, int] | None, limit: int | None = None, rows: bool = False
    ) -> None:
        super().__init__(flow)
        self.block = block
        self.bounded = block is not None or limit is not None
        size = int(np.prod(block)) if block is not None else limit or DEFAULT_THREADS
        self.row = max(1, min(size, DEFAULT_THREADS))
        """Threads of the first row, or of the whole block when its size is known."""
        self.rows = rows and block is None
        self.wants_rows = False
        """A condition asked for further rows that are not there."""
        self.coordinates = self._coordinates()
        """x, y and z of each thread."""
        self.size = len(self.coordinates[0])
        self._numbers: Vector = np.arange(self.size, dtype=np.int64)
        self.everyone = (1 << self.size) - 1
        self._conditions: dict[tuple[int, Guard], tuple[int, int]] = {}

    def _coordinates(self) -> tuple[Vector, Vector, Vector]:
        first: Vector = np.arange(self.row, dtype=np.int64)
        if self.block is not None:
            x, y, _ = self.block
            return first % x, first // x % y, first // (x * y)
        if not self.rows:
            return first, first * 0, first * 0
        # Samples: enough columns, rows and planes to tell small constants apart.
        more = [(x, y, z) for z in range(3) for y in range(16) for x in range(64) if y or z]
        columns = np.array(more, dtype=np.int64).T
        empty = first * 0
        return (
            np.concatenate([first, columns[0]]),
            np.concatenate([empty, columns[1]]),
            np.concatenate([empty, columns[2]]),
        )

    # -- questions ---------------------------------------------------------------------------------------------------

    def value(self, operand: Operand, index: int) -> _Value:
        """An operand of instruction `index`, thread by thread."""
        self.require((operand,), index)
        return self._operand(operand, index)

    def constant(self, operand: Operand, index: int) -> int | None:
        """An operand that is the same known number in every thread."""
        value = self.value(operand, index)
        if not isinstance(value, np.ndarray) or (value != value[0]).any():
            return None
        return int(value[0])

    def sums(self, operands: Iterable[Operand], index: int) -> list[int] | None:
        """Operands of instruction `index` added up, thread by thread; None when one is not known."""
        values = [self.value(operand, index) for operand in operands]
        known = [value for value in values if isinstance(value, np.ndarray)]
        if len(known) < len(values) or not known:
            return None
        numbers: list[int] = np.sum(known, axis=0).tolist()
        return numbers

    def holds(self, guard: Guard | None, index: int) -> tuple[int, int]:
        """(threads for which a guard may hold, threads for which it may not)."""
        if guard is None:
            return self.everyone, 0
        known = self._conditions.get((index, guard))
        if known is None:
            value = self.value(guard.register, index)
            if isinstance(value, Agreement):
                known = (self.everyone, self.everyone)
            elif isinstance(value, Partial):
                holds = (value.vector != 0) != guard.negated
                known = (_mask(holds | ~value.known), _mask(~holds | ~value.known))
            else:
                true = _mask((value != 0) != guard.negated)
                known = (true, self.everyone & ~true)
            self._conditions[(index, guard)] = known
        return known

    def choosing(self, choice: Choice | None) -> int:
        """Threads that may go where a table's entries of a choice lead to."""
        value = self.value(choice.operand, choice.index) if choice is not None else _UNIFORM
        if choice is None or isinstance(value, Agreement):
            return self.everyone
        vector = value.vector if isinstance(value, Partial) else value
        chosen = np.isin(vector & _WORD, [v & _WORD for v in choice.values])
        return _mask(chosen | ~value.known if isinstance(value, Partial) else chosen)

    def varies(self, guard: Guard | None, index: int) -> bool:
        """Whether threads of one CTA may disagree about a guard in a way that cannot be told ahead."""
        return guard is not None and self._unknown(guard, index) in (_BY_THREAD, _VARYING)

    def parts(self, guard: Guard | None, index: int) -> bool:
        """Whether a guard surely separates threads of one CTA, by their coordinates, at a place that is not known."""
        return guard is not None and self._unknown(guard, index) is _BY_THREAD

    def _unknown(self, guard: Guard, index: int) -> Agreement | None:
        value = self.value(guard.register, index)
        return value.rest if isinstance(value, Partial) else value if isinstance(value, Agreement) else None

    # -- solver ------------------------------------------------------------------------------------------------------

    def inputs(self, node: Node) -> Iterable[Node]:
        op = self.program.operation(*node).op
        if op is Op.LOAD:
            return (n for operand in self._address(node[0]) for n in self.nodes(operand, node[0]))
        if op in (Op.ATOMIC, Op.RETURN, Op.OPAQUE):
            return ()
        under = self._joined_under(self.program.operation(*node), node[0]) if op is Op.COMPARE else None
        if under is None:
            return super().inputs(node)
        *compared, joined = self.program.operation(*node).args
        reads = [(operand, under) for operand in compared]
        return (
            (site, read)
            for operand, guard in (*reads, (joined, None))
            for read in registers(operand)
            for site in self.flow.reach(read, node[0], guard)
        )

    def _joined_under(self, operation: Operation, index: int) -> Guard | None:
        """What a joined comparison's own operands are read under: `a < b && q` asks nothing of them where q is false.

        Left alone where the instruction has a guard, which already says what reaches.
        """
        if len(operation.args) != 3 or not isinstance(operation.attr, tuple) or operation.attr[-1] not in _JOINS:
            return None
        joined, negated = operation.args[2], operation.attr[-1] == "or"
        if isinstance(joined, Operation) and joined.op is Op.NOT:
            joined, negated = joined.args[0], not negated
        if not isinstance(joined, Reg) or self.program.guard(index) is not None:
            return None
        return Guard(joined, negated)

    def _address(self, index: int) -> list[Operand]:
        """Address operands of a plain load; a strong load may give every thread another value."""
        events = self.flow.event_at.get(index, ())
        if len(events) != 1 or events[0].order is not Order.WEAK:
            return []
        return [operand for access in events[0].accesses for operand in access.address]

    def evaluate(self, node: Node) -> _Value:
        index, register = node
        return self._operation(self.program.operation(index, register), index)

    def evaluate_cycle(self, nodes: list[Node]) -> dict[Node, _Value]:
        """A loop counter is as uniform as what it is made of."""
        members = set(nodes)
        for node in nodes:
            self.known[node] = _UNIFORM
        met: set[Agreement] = {_UNIFORM}
        for node in nodes:
            index, register = node
            value = self._operation(self.program.operation(index, register), index)
            if value is _VARYING:
                met.add(_VARYING)
            met.update(_kind(self.known[n]) for n in self.inputs(node) if n not in members)
        return dict.fromkeys(nodes, _least(met))

    # -- operations --------------------------------------------------------------------------------------------------

    def _operand(self, operand: Operand, index: int, under: Guard | None = None) -> _Value:
        """An operand's value; `under`: where only those threads matter for which a predicate holds."""
        if isinstance(operand, Const):
            return np.full(self.size, wrap(operand.value), dtype=np.int64)
        if isinstance(operand, Operation):
            return self._operation(operand, index, under)
        sites = self.flow.reach(operand, index, under or self.program.guard(index))
        if not sites:
            return _VARYING
        first = self.known.get((sites[0], operand), _VARYING)
        if len(sites) == 1:
            return first
        return self._joined(operand, sites, first)

    def _joined(self, operand: Operand, sites: tuple[int, ...], first: _Value) -> _Value:
        """Several definitions: one value if they agree, else whatever path a thread took."""
        values = [self.known.get((site, operand), _VARYING) for site in sites]  # type: ignore[arg-type]
        vectors = [v for v in values if isinstance(v, np.ndarray)]
        if len(vectors) == len(values) and all((v == vectors[0]).all() for v in vectors):
            return first
        chosen = self._chosen_by_guard(sites, values)
        if chosen is not None:
            return chosen
        looping = len(vectors) < len(values)
        return _least({_kind(v) for v in values}) if looping else _VARYING

    def _chosen_by_guard(self, sites: tuple[int, ...], values: list[_Value]) -> _Value | None:
        """`R = a; @P R = b` in one block, P known thread by thread."""
        blocks = {self.flow.block_of(site) for site in sites}
        guards = [self.program.guard(site) for site in sites]
        if len(blocks) != 1 or guards[0] is not None or any(g is None for g in guards[1:]):
            return None
        result: _Value = values[0]
        for site, guard, value in zip(sites[1:], guards[1:], values[1:], strict=True):
            if guard is None or not isinstance(result, np.ndarray) or not isinstance(value, np.ndarray):
                return None
            known = [self.known.get((s, guard.register)) for s in self.flow.reach(guard.register, site)]
            if len(known) != 1 or not isinstance(known[0], np.ndarray):
                return None
            result = np.where((known[0] != 0) != guard.negated, value, result)
        return result

    def _operation(self, operation: Operation, index: int, under: Guard | None = None) -> _Value:
        op, args = operation.op, operation.args
        if op is Op.SPECIAL:
            return self._special(operation.attr)
        if op is Op.ELECT:
            return self._in_first_row(as_numbers(self._numbers % 32 == 0))
        if op in (Op.PARAM, Op.PARAM_ADDRESS, Op.SYMBOL):
            return _UNIFORM if all(_kind(self._operand(arg, index)) is _UNIFORM for arg in args) else _VARYING
        if op is Op.LOAD:
            address = self._address(index)
            same = bool(address) and all(_kind(self._operand(o, index)) is _UNIFORM for o in address)
            return _UNIFORM if same else _VARYING
        if op in (Op.ATOMIC, Op.RETURN, Op.OPAQUE, Op.MAPA) or not args:
            return _VARYING
        decides = self._joined_under(operation, index) if op is Op.COMPARE else None
        if decides is not None:
            return self._joining(operation, index, decides)
        values = [self._operand(arg, index, under) for arg in args]
        if op is Op.SHUFFLE:
            return self._shuffled(values, operation.attr)
        if op is Op.VOTE:
            return self._voted(values[0], operation.attr)
        if op is Op.HIGH:
            return _kind(values[0])
        vectors = [v for v in values if isinstance(v, np.ndarray)]
        if len(vectors) == len(values):
            return self._computed(operation, vectors)
        if op is Op.SELECT and isinstance(values[2], np.ndarray) and not isinstance(values[0], Partial):
            return self._selected(values)
        return self._partly(operation, values) if len(values) < 3 else self._joining(operation, index)

    def _partly(self, operation: Operation, values: list[_Value]) -> _Value:
        """An operation on values of which some are known in some threads: zero times anything is zero."""
        rest = _least({_kind(v) for v in values})
        absorbing = (1 << operation.width) - 1 if operation.op is Op.OR else _ABSORBING.get(operation.op)
        if absorbing is None and not any(isinstance(v, Partial) for v in values):
            return rest
        parts = [self._split(v) for v in values]
        result = self._computed(operation, [vector for vector, _ in parts])
        if not isinstance(result, np.ndarray):
            return rest
        known = np.logical_and.reduce([k for _, k in parts])
        if absorbing is not None:
            known |= np.logical_or.reduce([k & (vector == absorbing) for vector, k in parts])
        if not known.any():
            return rest
        return result if known.all() else Partial(np.where(known, result, 0), known, rest)

    def _joining(self, operation: Operation, index: int, under: Guard | None = None) -> _Value:
        """`ISETP.GT.OR P, a, b, Q`: the comparison alone may decide."""
        if operation.op is not Op.COMPARE or not isinstance(operation.attr, tuple) or operation.attr[-1] not in _JOINS:
            return self._partly(operation, [self._operand(arg, index) for arg in operation.args])
        *attr, join = operation.attr
        compared = self._operation(Operation(Op.COMPARE, operation.args[:2], tuple(attr), 1), index, under)
        values = [compared, self._operand(operation.args[2], index)]
        both = Operation(_JOINS[join], operation.args[1:], None, 1)
        vectors = [v for v in values if isinstance(v, np.ndarray)]
        return self._computed(both, vectors) if len(vectors) == len(values) else self._partly(both, values)

    def _split(self, value: _Value) -> tuple[Vector, npt.NDArray[np.bool_]]:
        if isinstance(value, Partial):
            return value.vector, value.known
        if isinstance(value, Agreement):
            return self._numbers * 0, np.zeros(self.size, dtype=np.bool_)
        return value, np.ones(self.size, dtype=np.bool_)

    def _in_first_row(self, value: Vector) -> _Value:
        """What is computed from the thread's number: not known beyond the first row of a block of unknown size."""
        if not self.rows:
            return value
        first = self._numbers < self.row
        return Partial(np.where(first, value, 0), first, _BY_THREAD)

    def _computed(self, operation: Operation, v: list[Vector]) -> _Value:
        result = computed(operation, v)
        return _VARYING if result is None else result

    def _selected(self, values: list[_Value]) -> _Value:
        condition = values[2]
        if not isinstance(condition, np.ndarray):
            return _VARYING
        if condition.all():
            return values[0]
        return values[1] if not condition.any() else _VARYING

    def _special(self, attr: object) -> _Value:
        numbers = self._numbers
        if attr is Special.CTA:
            return _UNIFORM
        if attr is Special.LANE:
            return self._in_first_row(numbers % 32)
        if attr is Special.WARP:
            return self._in_first_row(numbers // 32)
        x, y, z = self.block if self.block is not None else (None, None, None)
        sizes: dict[object, int | None] = {Special.NTID_X: x, Special.NTID_Y: y, Special.NTID_Z: z}
        if attr in sizes:
            size = sizes[attr]
            return _UNIFORM if size is None else np.full(self.size, size, dtype=np.int64)
        if attr in (Special.TID_Y, Special.TID_Z) and self.block is None and not self.rows:
            self.wants_rows = True
        coordinates: dict[object, Vector] = dict(
            zip((Special.TID_X, Special.TID_Y, Special.TID_Z), self.coordinates, strict=True)
        )
        return coordinates.get(attr, _VARYING)

    def _shuffled(self, values: list[_Value], mode: object) -> _Value:
        value = values[0]
        if len(values) > 2 and not _whole_warp(values[2]):
            return value if _agrees(value) else _VARYING
        if all(map(_agrees, values)) and isinstance(value, Agreement):
            return value
        if not isinstance(value, np.ndarray) or len(values) < 2 or mode not in (None, "idx") or self.rows:
            return value if _agrees(value) else _VARYING
        lane = values[1]
        if not isinstance(lane, np.ndarray):
            return value if _agrees(value) else _VARYING
        source = self._numbers // 32 * 32 + lane % 32
        picked: Vector = value[np.minimum(source, self.size - 1)]
        return picked

    def _voted(self, value: _Value, mode: object) -> _Value:
        """A vote among lanes that agree is their value; other votes hang on which lanes are active."""
        if not isinstance(value, np.ndarray):
            return value if isinstance(value, Agreement) else value.rest
        if self.rows and not _agrees(value):
            return _VARYING
        warps = self._numbers // 32
        first = value[warps * 32] != 0
        if ((value != 0) != first).any():
            return _VARYING
        if mode in ("any", "all"):
            return as_numbers(first)
        if mode == "uni":
            return np.ones(self.size, dtype=np.int64)
        return _VARYING if first.any() else np.zeros(self.size, dtype=np.int64)


def _agrees(value: _Value) -> bool:
    if not isinstance(value, np.ndarray):
        return value is _UNIFORM
    return bool((value == value[0]).all())


def _whole_warp(clamp: _Value) -> bool:
    """shfl's third operand: segment mask in bits 8 to 12, last lane in bits 0 to 4."""
    return isinstance(clamp, np.ndarray) and bool(((clamp & 0x1F1F) == 0x1F).all())


def _kind(value: _Value) -> Agreement:
    if isinstance(value, Agreement):
        return value
    if isinstance(value, Partial):
        return _least({value.rest, _BY_THREAD})
    return _UNIFORM if _agrees(value) else _BY_THREAD


def _least(kinds: set[Agreement]) -> Agreement:
    """How far values agree that are made of such values."""
    return next((k for k in (_VARYING, _BY_THREAD) if k in kinds), _UNIFORM)
