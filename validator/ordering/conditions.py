"""What a predicate's value says about a load: whether a branch can be taken without the loaded word having agreed.

`ready || ++spins > LIMIT` being true says nothing about `ready`; `ready && other` being true does.
"""

from __future__ import annotations

from typing import Any

from validator.ordering.dataflow import Flow
from validator.ordering.program import Const, Op, Operand, Operation
from validator.ordering.slices import Slices

__all__ = ["Conditions"]

_DEPTH = 24


class Conditions:
    """Boolean structure of the predicates of one kernel; a load is named as `slices` names it."""

    def __init__(self, flow: Flow, slices: Slices[Any]) -> None:
        self.flow = flow
        self.slices = slices

    def decided_by(self, operand: Operand, index: int, value: bool, load: object, depth: int = 0) -> bool:
        """Whether `operand` of instruction `index` being `value` fixes a condition on the word loaded at `load`."""
        if isinstance(operand, Const) or load not in self.slices.of(operand, index):
            return False
        if depth > _DEPTH:
            return True
        if isinstance(operand, Operation):
            return self._operation(operand, index, value, load, depth + 1)
        sites = self.flow.reach(operand, index, self.flow.program.guard(index))
        return all(
            self._operation(self.flow.program.operation(site, operand), site, value, load, depth + 1) for site in sites
        )

    def _operation(self, operation: Operation, index: int, value: bool, load: object, depth: int) -> bool:
        op, args = operation.op, operation.args
        if op is Op.COPY or op is Op.VOTE:
            return self.decided_by(args[0], index, value, load, depth)
        if op is Op.NOT:
            return self.decided_by(args[0], index, not value, load, depth)
        if op is Op.XOR and len(args) == 2 and any(isinstance(a, Const) and a.value & 1 for a in args):
            other = args[1] if isinstance(args[0], Const) else args[0]
            return self.decided_by(other, index, not value, load, depth)
        if op in (Op.AND, Op.OR):
            each = (self.decided_by(a, index, value, load, depth) for a in args)
            return any(each) if (op is Op.AND) is value else all(each)
        if op is Op.SELECT and all(isinstance(a, Const) for a in args[:2]):
            return self._selected(operation, index, value, load, depth)
        if op is Op.COMPARE and isinstance(operation.attr, tuple):
            return self._compared(operation, operation.attr, index, value, load, depth)
        if op is Op.LOP3 and isinstance(operation.attr, int) and len(args) == 3:
            return self._table(operation, operation.attr, index, value, load, depth)
        # A word itself, or arithmetic on it: a condition on the word.
        return any(load in self.slices.of(a, index) for a in args) or op in (Op.LOAD, Op.ATOMIC)

    def _selected(self, operation: Operation, index: int, value: bool, load: object, depth: int) -> bool:
        true, false, condition = operation.args
        if not isinstance(true, Const) or not isinstance(false, Const) or bool(true.value) == bool(false.value):
            return False
        return self.decided_by(condition, index, value == bool(true.value), load, depth)

    def _compared(
        self, operation: Operation, attr: tuple[object, ...], index: int, value: bool, load: object, depth: int
    ) -> bool:
        args = operation.args
        first = self._relation(args, str(attr[0]), index, value, load, depth)
        if len(args) < 3 or len(attr) < 3:
            return first
        third = self.decided_by(args[2], index, value, load, depth)
        if attr[2] in ("and", "or"):
            return first or third if (attr[2] == "and") is value else first and third
        return first or third

    def _relation(
        self, args: tuple[Operand, ...], relation: str, index: int, value: bool, load: object, depth: int
    ) -> bool:
        a, b = args[0], args[1]
        if relation in ("eq", "ne") and isinstance(b, Const) and b.value == 0:
            # Flags kept as words: `selp r, 1, 0, p; setp.ne q, r, 0`.
            return self.decided_by(a, index, value is (relation == "ne"), load, depth)
        return any(load in self.slices.of(x, index) for x in (a, b))

    def _table(self, operation: Operation, table: int, index: int, value: bool, load: object, depth: int) -> bool:
        """Some operand that depends on the load has one value in all rows with this result, and that value decides."""
        rows = [row for row in range(8) if bool(table >> row & 1) is value]
        for position, operand in enumerate(operation.args):
            constant = isinstance(operand, Const)
            bits = {row >> (2 - position) & 1 for row in rows if self._possible(operation, row)}
            if not constant and len(bits) == 1 and self.decided_by(operand, index, bool(bits.pop()), load, depth):
                return True
        return False

    @staticmethod
    def _possible(operation: Operation, row: int) -> bool:
        """Whether constant operands allow a row of the table."""
        return all(
            not isinstance(operand, Const) or bool(operand.value & 1) is bool(row >> (2 - position) & 1)
            for position, operand in enumerate(operation.args)
        )
