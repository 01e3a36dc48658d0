"""Branches on what a thread remembers of its own past: `if (!waited) { wait(); waited = true; }`.

A register that only ever holds constants says at a branch where it was set last. If every place that sets it to what
lets an edge be taken lies behind a wait, so does whoever takes the edge.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.ordering.dataflow import Flow
from validator.ordering.program import Const, Guard, Operand, Operation
from validator.ordering.slices import scalar

__all__ = ["remembering_edges"]

_DEPTH = 8
_MOST = 16
"""Places that set one value; more is no flag."""

Place = tuple[int, int]
"""(instruction, constant that it sets)."""


def remembering_edges(flow: Flow) -> dict[tuple[int, int], frozenset[int]]:
    """(block, number of the edge) → instructions one of which a thread has executed that takes the edge."""
    result: dict[tuple[int, int], frozenset[int]] = {}
    for number in flow.order:
        block = flow.blocks[number]
        for k, edge in enumerate(block.successors):
            if edge.condition is not None and edge.also is None and len(block.successors) > 1:
                places = _taken_by(flow, edge.condition, max(block.start, block.stop - 1))
                if places:
                    result[number, k] = places
    return result


def _taken_by(flow: Flow, guard: Guard, last: int) -> frozenset[int]:
    """Places whose constant lets a guard hold; empty when something else may, or when all do."""
    found: list[Place] = []
    for place in _places(flow, guard.register, last, 0):
        if place is None or len(found) == _MOST:
            return frozenset()
        found.append(place)
    holding = frozenset(site for site, value in found if bool(value & 1) is not guard.negated)
    return holding if len(holding) < len({site for site, _ in found}) else frozenset()


def _places(flow: Flow, operand: Operand, index: int, depth: int) -> Iterator[Place | None]:
    """Where an operand's possible values were set, None for one that is no constant."""
    if depth > _DEPTH:
        yield None
    elif isinstance(operand, Const):
        yield index, operand.value
    elif isinstance(operand, Operation):
        yield from _results(flow, operand, index, depth)
    else:
        sites = flow.reach(operand, index, flow.program.guard(index))
        if not sites or len(sites) > _MOST:
            yield None
        for site in sites if len(sites) <= _MOST else ():
            yield from _results(flow, flow.program.operation(site, operand), site, depth + 1)


def _results(flow: Flow, operation: Operation, index: int, depth: int) -> Iterator[Place | None]:
    """An operation on constants and at most one value that is not a constant here."""
    args = operation.args
    open_args = [k for k, arg in enumerate(args) if not isinstance(arg, Const)]
    if len(open_args) > 1 or not args:
        yield None
        return
    values = [arg.value if isinstance(arg, Const) else 0 for arg in args]
    if not open_args:
        result = scalar(operation, values)
        yield (index, result) if result is not None else None
        return
    for place in _places(flow, args[open_args[0]], index, depth + 1):
        if place is None:
            yield None
            return
        values[open_args[0]] = place[1]
        result = scalar(operation, values)
        yield (place[0], result) if result is not None else None
