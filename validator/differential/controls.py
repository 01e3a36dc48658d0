"""Controls: results that are known to be wrong and must be refused in every case, or the case shows nothing.

A control that *is* the right result (a constant where the reference is constant) is not applicable, and is counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from validator.differential.cases import Inputs
from validator.differential.expected import Expected
from validator.differential.numbers import (
    CHUNK,
    STRETCH,
    Array,
    energy,
    flattened,
    in_chunks,
    is_float,
    sampled,
    starts_of,
)
from validator.differential.plain import plainly_wrong
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
    told: dict[str, list[str]] = {"refused": [], "passed": [], "same": []}
    for name, want in expected.items():
        for control in _wrong(want.native, inputs, (other or {}).get(name)):
            told[_judged(runner, inputs, expected, name, control)].append(f"{control.name} of {name}")
    return Controlled(*(tuple(told[kind]) for kind in ("refused", "passed", "same")))


def _judged(
    runner: Runner, inputs: Inputs, expected: Mapping[str, Expected], name: str, control: _Control
) -> Literal["refused", "passed", "same"]:
    want = expected[name]
    if _plainly(runner, want, control):
        return "refused"
    whole = control.part(0, want.native.size).reshape(want.native.shape)
    if _equal(whole, want):
        return "same"
    right = {n: e.native for n, e in expected.items()}
    return "passed" if runner.accepted(inputs, expected, {**right, name: whole}) else "refused"


@dataclass(frozen=True, slots=True)
class _Control:
    """A known-bad result, made as far as it is looked at."""

    name: str
    part: Callable[[int, int], Array]
    """Its elements from one flat index to another."""
    at: int = 0
    """Where it shows."""


def _plainly(runner: Runner, want: Expected, control: _Control) -> bool:
    """Whether a stretch of it is beyond all limits already; then it is not the right result either."""
    for length in (STRETCH, CHUNK) if want.native.size > STRETCH else (CHUNK,):
        start = control.at // length * length
        stop = min(start + length, want.native.size)
        if plainly_wrong(runner.contract.tolerance, want, control.part(start, stop), start):
            return True
    return False


def _equal(wrong: Array, want: Expected) -> bool:
    """Nothing to see: equal to the right result within what the type itself can hold of it."""
    atol = want.widest if is_float(want.native.dtype) and want.least is None else 0.0
    for have, due, free in in_chunks(wrong, want.native, want.unspecified):
        a, b = have.astype(np.float64), due.astype(np.float64)
        if not np.all(free | (a == b) | (np.abs(a - b) <= atol) | (np.isnan(a) & np.isnan(b))):
            return False
    return True


def _finite(part: Array) -> NDArray[np.float64]:
    """Zeros for what is not finite."""
    values: NDArray[np.float64] = part.astype(np.float64)
    return values if math.isfinite(energy(values)) else np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)


def _looked_at(right: Array) -> tuple[float, int, float]:
    """(mean, flat position and value of the element of the largest magnitude), of large results by stretches."""
    total, count, at, largest = 0.0, 0, 0, 0.0
    for start, (part,) in zip(starts_of(right.size, _STRETCHES), sampled(right, chunks=_STRETCHES), strict=True):
        values = _finite(part)
        here = int(np.argmax(np.abs(values)))
        if not count or abs(values[here]) > abs(largest):
            at, largest = start + here, float(values[here])
        total, count = total + float(values.sum()), count + values.size
    return total / count, at, largest


_STRETCHES = 8
"""Of a large result, for its mean and its largest element."""


def _wrong(right: Array, inputs: Inputs, other: Array | None) -> Iterator[_Control]:
    """Known-bad results."""
    if not right.size:
        return
    mean, at, largest = _looked_at(right)
    flat, last = right.reshape(-1), right.shape[-1] if right.ndim else 1
    yield _Control("zeros", lambda start, stop: np.zeros(stop - start, right.dtype))
    middle = np.asarray(mean).astype(right.dtype)
    yield _Control("mean", lambda start, stop: np.full(stop - start, middle))
    for value in inputs.values():
        if isinstance(value, np.ndarray) and value.shape == right.shape and value.dtype == right.dtype:
            yield _Control("input", partial(_stretch, flattened(value)))
            break
    if other is not None and other.shape == right.shape:
        yield _Control("other-case", partial(_stretch, flattened(other)))
    one = np.asarray(largest * 1.5 + (not is_float(right.dtype))).astype(right.dtype)
    yield _Control("one-coefficient", partial(_with, flat, {at: one}), at)
    if last > 1:
        yield _Control("tail", partial(_without_tail, flat, last), last - 1)
    if right.ndim > 1 and right.size // last > 1:
        yield _Control("swapped-rows", partial(_swapped, flat, last))


def _stretch(flat: Array, start: int, stop: int) -> Array:
    return flat[start:stop]


def _with(flat: Array, changed: Mapping[int, Array], start: int, stop: int) -> Array:
    part = flat[start:stop].copy()
    for at, value in changed.items():
        if start <= at < stop:
            part[at - start] = value
    return part


def _without_tail(flat: Array, last: int, start: int, stop: int) -> Array:
    """Zero at the end of every row of so many elements."""
    part = flat[start:stop].copy()
    part[(last - 1 - start) % last :: last] = 0
    return part


def _swapped(flat: Array, last: int, start: int, stop: int) -> Array:
    """The first row of so many elements and the last in each other's place."""
    part = flat[start:stop].copy()
    end = flat.size - last
    for into, source in ((0, end), (end, 0)):
        low, high = max(into, start), min(into + last, stop)
        if low < high:
            part[low - start : high - start] = flat[source + low - into : source + high - into]
    return part
