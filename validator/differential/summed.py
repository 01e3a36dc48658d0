"""Sums of a case: over which dimensions together so much may be added up that the order shows, and what it may lose.

A sum that has one accumulator is the right sum of terms each of which is off by all rounding errors from its own
addition on, a walk of as many steps. Which dimensions are summed together nobody says: those that a result lacks, and
the last ones of a result as large as its argument, as norms have them. Each sum is tried in two halves that share no
position along any of its dimensions: what both of them move is a sum over all of these dimensions, whatever else it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from validator.differential.arena import Written
from validator.differential.cases import FILLED, Case, Inputs, float_arguments
from validator.differential.numbers import CHUNK, Array, Source, derived, each_part, eps_of, is_float
from validator.manifest.contract import KernelContract

__all__ = ["PROMISED", "Sum", "halves", "long_sums"]

PROMISED = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-9}
"""Half a step from 1 to the next value, by the precision that a contract promises."""
_LONG = 64
"""Terms from which one accumulator may lose more than all other rounding does."""
_OUTWEIGHED = 8
"""The same where one of them may be most of the sum."""
_DEAR, _FEW = 1 << 22, 2
"""Elements of an argument from which so many sums are looked at, the longest."""
_SHOWS = 8.0
"""How much wider than its mean such a walk is taken to be where the question is whether it can be seen at all."""

Dimension = int | str
"""A size as the contract writes it."""


@dataclass(frozen=True, slots=True)
class Sum:
    """Dimensions over which something may be summed together."""

    sizes: tuple[int, ...]
    at: Mapping[str, tuple[int, ...]]
    """Argument → its axes of these dimensions, in their order."""
    guessed: bool = False
    """The result has these dimensions too: there may be no such sum."""

    @property
    def terms(self) -> int:
        return math.prod(self.sizes)

    @property
    def parts(self) -> int:
        """Of all terms, one in so many is in each half."""
        return 1 << len(self.sizes)


def long_sums(
    contract: KernelContract, inputs: Inputs, results: Mapping[str, Array], *, outweighed: bool = False
) -> list[Sum]:
    """Sums so long that the order may show in one of the results.

    `outweighed`: one term may be most of a sum, and all others so small that none of them changes it by itself.
    """
    least = _OUTWEIGHED if outweighed else _LONG
    shapes = {
        name: contract.values[name][1].shape or ()
        for name in float_arguments(inputs)
        if contract.values[name][0] not in FILLED
    }
    dear = max((array.size for array in inputs.values() if isinstance(array, np.ndarray)), default=0) > _DEAR
    found: dict[tuple[Dimension, ...], Sum] = {}
    for output, result in results.items():
        for name, shape in shapes.items():
            axes = [a for a, size in enumerate(shape) if size != contract.batch and inputs[name].shape[a] > 1]
            due = contract.values[output][1].shape or ()
            for together in _together(shape, axes, due, norms=is_float(result.dtype) and not dear):
                dims = tuple(shape[axis] for axis in together)
                terms = math.prod(inputs[name].shape[axis] for axis in together)
                if dims not in found and terms >= least and _shows(contract, terms, result):
                    sizes = tuple(inputs[name].shape[axis] for axis in together)
                    at = {n: where for n, s in shapes.items() if (where := _axes_of(s, dims))}
                    found[dims] = Sum(sizes, at, guessed=len(dims) > 1 and set(dims) <= set(due))
    long = sorted(found.values(), key=lambda one: -one.terms)
    return long[:_FEW] if dear else long


def _shows(contract: KernelContract, terms: int, result: Array) -> bool:
    lost = _SHOWS * math.sqrt(terms) * 2 * PROMISED[contract.compute_dtype]
    return not is_float(result.dtype) or lost > eps_of(result.dtype)


def _together(
    shape: tuple[Dimension, ...], axes: list[int], due: tuple[Dimension, ...], *, norms: bool
) -> Iterator[list[int]]:
    """Axes of an argument along which what makes a result of sizes `due` may sum. `axes`: those that may be any."""
    yield from ([axis] for axis in axes)
    lacking = [axis for axis in axes if shape[: axis + 1].count(shape[axis]) > due.count(shape[axis])]
    if len(lacking) > 1:
        yield lacking
    if norms and shape == due:
        yield from (axes[first:] for first in range(len(axes) - 1))


def _axes_of(shape: Sequence[Dimension], dims: Sequence[Dimension]) -> tuple[int, ...]:
    """Where an argument has these dimensions, each at an axis of its own; empty where it lacks one."""
    found: list[int] = []
    for size in dims:
        axis = next((a for a, s in enumerate(shape) if s == size and a not in found), None)
        if axis is None:
            return ()
        found.append(axis)
    return tuple(found)


def halves(contract: KernelContract, inputs: Inputs, wide: Inputs, case: Case, of: Sum, index: int) -> Iterator[Inputs]:
    """Two times: the terms of one half off as one accumulator makes them, the others exact.

    `wide`: the inputs in float64. Halves are drawn along each dimension, the same for every argument.
    """
    names = sorted(of.at)
    half = [
        Source(derived(case.seed, "half", index, axis, *names)).order(size) % 2 for axis, size in enumerate(of.sizes)
    ]
    unit = PROMISED[contract.compute_dtype] / math.sqrt(of.terms)
    # The walk of a term is as long as there are terms after it: told by one number for each dimension, which add up.
    walk = [
        unit * math.prod(of.sizes[axis + 1 :]) * np.arange(size)[:: 1 if index % 2 else -1]
        for axis, size in enumerate(of.sizes)
    ]
    walk[-1] = walk[-1] + unit
    for which in (0, 1):
        moved = [np.where(drawn == which, 1.0, 0.0) for drawn in half]
        yield {**wide, **{name: _scaled(inputs[name], of.at[name], moved, walk) for name in names}}


def _scaled(array: Array, axes: tuple[int, ...], moved: list[Array], walk: list[Array]) -> Written:
    """The array, what is moved along all of these axes off by its walk."""

    def write(target: Array) -> None:
        step = max(1, CHUNK * len(walk[0]) // math.prod(map(len, walk)))

        def scale(stretch: slice) -> None:
            for start in range(stretch.start, stretch.stop, step):
                rows = slice(start, min(start + step, stretch.stop))
                part = (slice(None),) * axes[0] + (rows,)
                factors = 1.0 + math.prod(along(moved, rows)) * sum(along(walk, rows))
                np.multiply(array[part], factors, out=target[part], casting="unsafe")

        each_part(scale, len(walk[0]), target.nbytes // len(walk[0]))

    def along(vectors: list[Array], rows: slice) -> Iterator[Any]:
        for axis, vector in zip(axes, [vectors[0][rows], *vectors[1:]], strict=True):
            yield vector.reshape([-1 if a == axis else 1 for a in range(array.ndim)])

    return Written(array.shape, np.dtype(np.float64), write)
