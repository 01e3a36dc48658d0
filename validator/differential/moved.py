"""A case's inputs a rounding error beside what they are: what the reference then gives shows what rounding may do.

Element by element, by about one rounding error of the promised precision (or of the element's own, if coarser); and as
a sum does that has one accumulator: it is the right sum of terms each of which is off by all rounding errors from its
own addition on, a walk of as many steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice

import numpy as np

from validator.differential.buffers import Written
from validator.differential.cases import FILLED, Case, Inputs, float_arguments
from validator.differential.numbers import Array, Source, derived, dtype_of, eps_of, in_chunks, is_float
from validator.differential.spill import kept
from validator.differential.spread import Spread, Undecided
from validator.manifest.contract import KernelContract

__all__ = ["Beside"]

PROMISED = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-9}
"""Half a step from 1 to the next value, by the precision that a contract promises."""
_LONG = 64
"""Terms from which one accumulator may lose more than all other rounding does."""
_DEAR, _FEW = 1 << 22, 2
"""Elements of an argument from which so many axes are looked along, the longest."""
_SHOWS = 8.0
"""How much wider than its mean such a walk is taken to be where the question is whether it can be seen at all."""


@dataclass(frozen=True, slots=True)
class _Axis:
    """A dimension along which something may be summed."""

    size: int
    at: Mapping[str, int]
    """Argument → its axis of that dimension."""


@dataclass(frozen=True)
class Beside:
    """Everything beside one case's inputs that the reference is asked for, and what its results then say."""

    contract: KernelContract
    case: Case
    inputs: Inputs
    wide: bool
    """The reference takes float64."""
    native: Mapping[str, Array]
    """What the trusted implementation gives, by output."""

    @property
    def _fixed(self) -> bool:
        """Whether it is asked how results round."""
        return self.wide and self.contract.rounding == "as-baseline"

    @cached_property
    def _pairs(self) -> list[tuple[_Axis, int]]:
        """(an axis, how often before): each half of it once."""
        axes = _long_axes(self.contract, self.inputs, self.native) if self.wide else []
        return [(axis, index) for axis in axes for index in range(_pairs(self.inputs))]

    def asked(self, given: Inputs) -> Iterator[Inputs]:
        """Inputs, in an order that `taken` knows. `given`: those of the case, as the reference gets them."""
        probes = range(_probes(self.inputs))
        yield from (_moved(self.contract, self.inputs, self.case, index, wide=self.wide) for index in probes)
        for axis, index in self._pairs:
            yield from _chained(self.contract, self.inputs, given, self.case, axis, index)
        if self._fixed:
            yield from (_as_promised(self.contract, self.inputs, self.case, index) for index in probes)

    def taken(
        self, results: Iterator[Mapping[str, Array]], exact: Mapping[str, Array]
    ) -> tuple[dict[str, Spread], dict[str, Undecided]]:
        """By output, how far the results for what was `asked` are from the exact one; each lasts until the next."""
        spreads = {name: Spread(exact[name], array) for name, array in self.native.items()}
        probes = _probes(self.inputs)
        for outputs in islice(results, probes):
            for name, spread in spreads.items():
                spread.add(outputs[name], 1 / probes)
        for _ in self._pairs:
            one = {name: kept(array) for name, array in next(results).items()}
            other = next(results)
            for name, spread in spreads.items():
                spread.add_halves(one[name], other[name], 1 / _pairs(self.inputs))
        undecided = {
            name: Undecided(spreads[name].exact, array.dtype) for name, array in self.native.items() if self._fixed
        }
        for outputs in results:
            for name, noise in undecided.items():
                noise.add(outputs[name])
        return spreads, undecided


def _probes(inputs: Inputs) -> int:
    """How often the reference is moved to see its spread: few elements need many, many need few."""
    size = _largest(inputs)
    return 8 if size <= 1 << 12 else 4 if size <= 1 << 16 else 2 if size <= 1 << 22 else 1


def _pairs(inputs: Inputs) -> int:
    """How often each half of a long axis is."""
    return min(_probes(inputs), 4)


def _largest(inputs: Inputs) -> int:
    return max((v.size for v in inputs.values() if isinstance(v, np.ndarray)), default=0)


def _moved(contract: KernelContract, inputs: Inputs, case: Case, index: int, *, wide: bool) -> Inputs:
    """Every element by itself, by no less than its own rounding error. `wide`: in float64."""
    found = dict(inputs)
    for name in float_arguments(inputs):
        array = inputs[name]
        # Values of one byte are scaled up before anybody computes with them: nothing is rounded to them.
        own = eps_of(array.dtype) / 2 if array.itemsize > 1 else 0.0
        eps = max(PROMISED[contract.compute_dtype], own)
        source = Source(derived(case.seed, "probe", index, name))
        dtype = np.dtype(np.float64) if wide else array.dtype
        found[name] = Written(array.shape, dtype, partial(_write_moved, array, eps, source))
    return found


def _as_promised(contract: KernelContract, inputs: Inputs, case: Case, index: int) -> Inputs:
    """In the promised precision, and moved by its rounding error: the result is off by what computing in it costs."""
    found, dtype = dict(inputs), dtype_of(contract.compute_dtype)
    for name in float_arguments(inputs):
        source = Source(derived(case.seed, "promised", index, name))
        write = partial(_write_moved, inputs[name], PROMISED[contract.compute_dtype], source)
        found[name] = Written(inputs[name].shape, dtype, write)
    return found


def _write_moved(array: Array, eps: float, source: Source, target: Array) -> None:
    """Every element times 1 and a little."""
    for there, here in in_chunks(target, array):
        # Not plus or minus one unit: equal moves of two inputs would cancel in their difference far too often.
        changed = here.astype(np.float64) * (1.0 + eps * source.bell(here.shape))
        # Where the target is wider it is not rounded again: most moves would round to none at all.
        there[...] = changed if there.dtype != array.dtype else changed.astype(array.dtype)


def _long_axes(contract: KernelContract, inputs: Inputs, results: Mapping[str, Array]) -> list[_Axis]:
    """Dimensions along which so much is summed that the order may show in one of the results."""
    found: dict[str | int, dict[str, int]] = {}
    for name in float_arguments(inputs):
        role, values = contract.values[name]
        if role not in FILLED:
            for axis, size in enumerate(values.shape or ()):
                if size != contract.batch and inputs[name].shape[axis] >= _LONG:
                    found.setdefault(size, {})[name] = axis
    step = 2 * PROMISED[contract.compute_dtype]

    def shows(size: int) -> bool:
        lost = _SHOWS * math.sqrt(size) * step
        return any(not is_float(array.dtype) or lost > eps_of(array.dtype) for array in results.values())

    axes = [_Axis(inputs[next(iter(at))].shape[next(iter(at.values()))], at) for at in found.values()]
    long = sorted((axis for axis in axes if shows(axis.size)), key=lambda axis: -axis.size)
    return long[:_FEW] if _largest(inputs) > _DEAR else long


def _chained(
    contract: KernelContract, inputs: Inputs, wide: Inputs, case: Case, axis: _Axis, index: int
) -> Iterator[Inputs]:
    """Two times: each half of the terms along an axis off as one accumulator makes them, the other half exact.

    `wide`: the inputs in float64. Halves are drawn position by position, the same for every argument.
    """
    names = sorted(axis.at)
    half = Source(derived(case.seed, "half", index, *names)).below(2, (axis.size,))
    steps = np.arange(axis.size)[:: -1 if index % 2 else 1]
    walk = PROMISED[contract.compute_dtype] * (axis.size - steps) / math.sqrt(axis.size)
    for which in (0, 1):
        factors = 1.0 + np.where(half == which, walk, 0.0)
        yield {**wide, **{name: _scaled(inputs[name], axis.at[name], factors) for name in names}}


def _scaled(array: Array, axis: int, factors: Array) -> Written:
    along = factors.reshape([-1 if a == axis else 1 for a in range(array.ndim)])

    def write(target: Array) -> None:
        np.multiply(array, along, out=target, casting="unsafe")

    return Written(array.shape, np.dtype(np.float64), write)
