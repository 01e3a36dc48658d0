"""One case: two calls with two poisons, the calls of its plan, and what the controls say of the first result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from validator.differential.calls import FIRST, SECOND, Played
from validator.differential.cases import Case, CaseTooLarge, Inputs
from validator.differential.closeness import baseline_error, error_of
from validator.differential.controls import Controlled, controls
from validator.differential.data import ReferenceFailed
from validator.differential.device import NotRunHere
from validator.differential.expected import Expected
from validator.differential.faults import OF_VALUE, Fault, FaultKind
from validator.differential.inwords import in_words
from validator.differential.meanwhile import Doubted
from validator.differential.plans import attributed, differing, follow
from validator.differential.results import CaseResult
from validator.differential.runner import Outputs, Runner, Series
from validator.gpu.driver import DeviceError

__all__ = ["Done", "run_case"]

_ATTRIBUTED = 8
"""Failures of a kernel that a new process shows too, after which none is started to see whether earlier calls are to
blame."""


@dataclass(frozen=True, slots=True)
class Done:
    """A case's result and what was right."""

    result: CaseResult
    inputs: Inputs | None = None
    expected: dict[str, Expected] | None = None


_Beside = tuple[Controlled, float | None, float | None]
"""What the controls say, how far the first result is off, and the trusted one: told of a case whatever its faults."""


@np.errstate(all="ignore")
def run_case(runner: Runner, case: Case, other: Outputs | None = None) -> Done:
    """Two calls with two poisons, the plan's calls, then the controls. What is doubted is run again, to see why."""
    try:
        return _run(runner, case, other)
    except DeviceError as error:
        # The gate's own use of the device: says nothing about the candidate, whose other cases shall not be lost.
        if not runner.candidate.brought_here(str(error)):
            raise
        return run_case(runner, case, other)
    except Doubted as doubt:
        before = doubt.faults
    runner.meanwhile.idle = True
    try:
        again = _run(runner, case, other)
    finally:
        runner.meanwhile.idle = False
    if again.result.faults or again.result.unusable:
        return again
    told = "right when all of the case was run again, but once"
    faults = tuple(
        replace(f, kind=FaultKind.HIDDEN, message=f"{told}: {f.message}") if f.kind in OF_VALUE else f for f in before
    ) or (Fault(FaultKind.HIDDEN, "", f"{told} the same values gave other results"),)
    chosen = in_words(runner.contract, again.inputs or {})
    return replace(again, result=replace(again.result, faults=faults, chosen=chosen))


def _run(runner: Runner, case: Case, other: Outputs | None) -> Done:
    """Once. Raises `Doubted`."""
    inputs: Inputs = {}
    runner.surround(case)
    try:
        inputs = runner.build(case)
        runner.ready(case, inputs)
        expected = runner.expect(case, inputs)
        beside = partial(_beside, runner, inputs, expected, other)
        faults, first, (controlled, distance, baseline) = _twice(runner, case, inputs, expected, beside)
        if first is not None and not faults:
            faults = follow(runner, case, inputs, expected, first)
        runner.meanwhile.settle()
    except (CaseTooLarge, ReferenceFailed, NotRunHere) as error:
        runner.meanwhile.settle()
        return Done(CaseResult(case, unusable=str(error)), inputs)
    finally:
        runner.meanwhile.forget()
    chosen = in_words(runner.contract, inputs) if faults else ""
    result = CaseResult(case, tuple(faults), controlled, "", distance, baseline, chosen)
    return Done(result, inputs, expected)


def _beside(
    runner: Runner, inputs: Inputs, expected: dict[str, Expected], other: Outputs | None, first: Outputs | None
) -> _Beside:
    distance = None if first is None else error_of(expected, first)
    return controls(runner, inputs, expected, other), distance, baseline_error(expected)


def _twice(
    runner: Runner,
    case: Case,
    inputs: Inputs,
    expected: dict[str, Expected],
    beside: Callable[[Outputs | None], _Beside],
) -> tuple[list[Fault], Outputs | None, _Beside]:
    """The same values in other buffers, with another poison and another guard pattern: the same result.

    The reference was asked before: results are looked at as soon as they are there, before a thread can mend them. Only
    the second one waits for what is told of the first; a large one is judged while the plan goes on, see
    `Runner.later`.
    """
    with Series(runner, case, inputs, (FIRST, SECOND), then=FIRST) as series:
        first: Played = series.next(expected)
        if first.outputs is None:
            return list(first.faults), None, beside(None)
        series.begin()
        told, outputs = beside(first.outputs), first.outputs

        def is_same(second: Played) -> bool:
            return not second.faults and not _dirty(runner, expected, outputs, second)

        second = series.next(expected) if first.faults else series.later(expected, is_same, outputs)
    faults = [] if second is None else _of_both(runner, case, inputs, expected, first, second)
    return faults, outputs, told


def _dirty(runner: Runner, expected: dict[str, Expected], first: Outputs, second: Played) -> list[Fault]:
    """Outputs that hang on what stood in their place, or around the arrays.

    Where calls may differ by themselves, only what is wrong hangs on anything else than the order of its sums.
    """
    wrong = {f.output for f in second.faults}
    found = differing(runner.contract, expected, first, second.outputs or {}, always=True)
    return [
        Fault(
            FaultKind.DIRTY,
            name,
            f"{count} elements of {name} change with what stood in outputs, workspaces and around buffers before "
            "the call: not written, or read from where nothing is promised",
            {"elements": count},
        )
        for name, count in found
        if runner.contract.deterministic != "spread" or name in wrong
    ]


def _of_both(
    runner: Runner, case: Case, inputs: Inputs, expected: dict[str, Expected], first: Played, second: Played
) -> list[Fault]:
    """Faults of two calls with the same values, by their causes."""
    faults = first.faults or second.faults
    dirty = []
    if first.outputs is not None and second.outputs is not None:
        if not any(f.kind is FaultKind.METADATA for f in faults):
            dirty = _dirty(runner, expected, first.outputs, replace(second, faults=faults))
        dirty = _by_contents(runner, case, inputs, expected, dirty, [first.outputs, second.outputs])
    explained = {f.output for f in dirty if f.kind is FaultKind.DIRTY}
    rest = tuple(f for f in faults if f.kind not in OF_VALUE or f.output not in explained)
    if any(f.kind in OF_VALUE for f in rest) and runner.attributed < _ATTRIBUTED:
        rest = tuple(attributed(runner, case, inputs, expected, rest, "after the calls of earlier cases"))
        runner.attributed += any(f.kind in OF_VALUE for f in rest)
    return [*dirty, *rest]


def _by_contents(
    runner: Runner, case: Case, inputs: Inputs, expected: dict[str, Expected], dirty: list[Fault], both: list[Outputs]
) -> list[Fault]:
    """Whether it is the old contents that make the difference, or calls give other bytes anyway.

    `both`: the outputs under the first and the second poison; each is asked for once more.
    """
    if not dirty:
        return dirty
    moving: set[str] = set()
    for turn, before in zip((FIRST, SECOND), both, strict=True):
        again = runner.play(case, inputs, expected, turn)
        if again.outputs is not None:
            moving |= {n for n, _ in differing(runner.contract, expected, before, again.outputs, always=True)}
    spread = runner.contract.deterministic == "spread"
    out = []
    for fault in dirty:
        if fault.output not in moving:
            out.append(fault)
        elif not spread:
            text = f"called again with the same values, some elements of {fault.output} differ"
            out.append(Fault(FaultKind.REPEAT, fault.output, text, fault.figures))
    return out
