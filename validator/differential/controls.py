"""Controls: results that are known to be wrong and must be refused in every case, or the case shows nothing.

A control that *is* the right result (a constant where the reference is constant) is not applicable, and is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from validator.differential.cases import Inputs
from validator.differential.judge import Expected
from validator.differential.numbers import Array, is_float
from validator.differential.runner import Outputs, Runner

__all__ = ["CONTROLS", "Controlled", "controls"]

CONTROLS = ("zeros", "mean", "input", "other-case", "one-coefficient", "tail", "swapped-rows")


@dataclass(frozen=True, slots=True)
class Controlled:
    """What the controls say about one case."""

    refused: tuple[str, ...]
    passed: tuple[str, ...]
    """`control of output` that the judgement accepted although it is wrong: the case is void."""
    same: tuple[str, ...]
    """Controls that equal the right result."""

    @property
    def void(self) -> bool:
        """The judgement cannot tell a known-bad result from a good one here."""
        return bool(self.passed)

    @property
    def degenerate(self) -> bool:
        """No control applies: the right result has no structure (empty, all zero)."""
        return not self.passed and not self.refused


def controls(runner: Runner, inputs: Inputs, expected: Mapping[str, Expected], other: Outputs | None) -> Controlled:
    """Judge every control of every output. `other`: right results of another case with the same sizes."""
    refused, passed, same = [], [], []
    right = {name: want.native for name, want in expected.items()}
    for name, want in expected.items():
        for control, wrong in _wrong(want.native, inputs, (other or {}).get(name)):
            told = f"{control} of {name}"
            if _equal(wrong, want):
                same.append(told)
            elif runner.accepted(inputs, expected, {**right, name: wrong}):
                passed.append(told)
            else:
                refused.append(told)
    return Controlled(tuple(refused), tuple(passed), tuple(same))


def _equal(wrong: Array, want: Expected) -> bool:
    """Nothing to see: equal to the right result within what the type itself can hold of it."""
    judged = ~want.unspecified
    a, b = wrong.astype(np.float64)[judged], want.native.astype(np.float64)[judged]
    if not is_float(want.native.dtype):
        return bool(np.array_equal(a, b))
    return bool(np.array_equal(a, b, equal_nan=True) or np.allclose(a, b, rtol=0, atol=np.max(_yard(want), initial=0)))


def _yard(want: Expected) -> Array:
    return np.where(np.isfinite(want.yardstick), want.yardstick, 0)[~want.unspecified]


def _wrong(right: Array, inputs: Inputs, other: Array | None) -> Iterator[tuple[str, Array]]:
    if not right.size:
        return
    finite = np.nan_to_num(right.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    yield "zeros", np.zeros_like(right)
    yield "mean", np.full(right.shape, finite.mean()).astype(right.dtype)
    for value in inputs.values():
        if isinstance(value, np.ndarray) and value.shape == right.shape and value.dtype == right.dtype:
            yield "input", value
            break
    if other is not None and other.shape == right.shape:
        yield "other-case", other
    one = right.copy()
    at = int(np.argmax(np.abs(finite)))
    one.reshape(-1)[at] = (finite.reshape(-1)[at] * 1.5 + (not is_float(right.dtype))).astype(right.dtype)
    yield "one-coefficient", one
    if right.ndim and right.shape[-1] > 1:
        tail = right.copy()
        tail[..., -1] = 0
        yield "tail", tail
    if right.ndim > 1 and (rows := int(np.prod(right.shape[:-1]))) > 1:
        swapped = right.copy().reshape(rows, right.shape[-1])
        swapped[[0, -1]] = swapped[[-1, 0]]
        yield "swapped-rows", swapped.reshape(right.shape)
