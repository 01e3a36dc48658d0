"""Controls: results that are known to be wrong and must be refused in every case, or the case shows nothing.

A control that *is* the right result (a constant where the reference is constant) is not applicable, and is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from validator.differential.cases import Inputs
from validator.differential.judge import Expected
from validator.differential.numbers import CHUNK, Array, in_chunks, is_float
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
    atol = want.widest if is_float(want.native.dtype) else 0.0
    for have, due, free in in_chunks(wrong, want.native, want.unspecified):
        a, b = have.astype(np.float64), due.astype(np.float64)
        if not np.all(free | (a == b) | (np.abs(a - b) <= atol) | (np.isnan(a) & np.isnan(b))):
            return False
    return True


def _finite(right: Array) -> Iterator[NDArray[np.float64]]:
    """Chunks of it, with zeros for what is not finite."""
    return (np.nan_to_num(part.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0) for (part,) in in_chunks(right))


def _largest(right: Array) -> tuple[int, float]:
    """(flat position, value) of the element of the largest magnitude."""
    tops = ((int(np.argmax(np.abs(part))), part) for part in _finite(right))
    found = [(at + index * CHUNK, float(part[at])) for index, (at, part) in enumerate(tops)]
    return max(found, key=lambda place: abs(place[1]))


def _wrong(right: Array, inputs: Inputs, other: Array | None) -> Iterator[tuple[str, Array]]:
    """Known-bad results, one at a time: each is gone before the next is made."""
    if not right.size:
        return
    mean = sum(float(part.sum()) for part in _finite(right)) / right.size
    yield "zeros", np.broadcast_to(np.zeros((), right.dtype), right.shape)
    yield "mean", np.broadcast_to(np.full((), mean).astype(right.dtype), right.shape)
    for value in inputs.values():
        if isinstance(value, np.ndarray) and value.shape == right.shape and value.dtype == right.dtype:
            yield "input", value
            break
    if other is not None and other.shape == right.shape:
        yield "other-case", other
    at, value = _largest(right)
    one = right.copy()
    one.reshape(-1)[at] = np.asarray(value * 1.5 + (not is_float(right.dtype))).astype(right.dtype)
    yield "one-coefficient", one
    del one
    if right.ndim and right.shape[-1] > 1:
        tail = right.copy()
        tail[..., -1] = 0
        yield "tail", tail
        del tail
    if right.ndim > 1 and (rows := int(np.prod(right.shape[:-1]))) > 1:
        swapped = right.copy().reshape(rows, right.shape[-1])
        swapped[[0, -1]] = swapped[[-1, 0]]
        yield "swapped-rows", swapped.reshape(right.shape)
