"""A case's inputs a rounding error beside what they are: what the reference then gives shows what rounding may do.

Element by element, by about one rounding error of the promised precision (or of the element's own, if coarser); and as
a sum does that has one accumulator (`validator.differential.summed`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from validator.differential import passes
from validator.differential.arena import Written
from validator.differential.cases import FILLED, Case, Inputs, float_arguments
from validator.differential.graded import at_edges, count_of, edges, only_rounded
from validator.differential.inputs import EXACTLY, OUTWEIGHED, cancels
from validator.differential.numbers import Array, Source, derived, dtype_of, eps_of, in_chunks
from validator.differential.rounded import rounds_rows
from validator.differential.spill import kept
from validator.differential.spread import BARELY, Spread, Undecided
from validator.differential.summed import PROMISED, Sum, halves, long_sums
from validator.differential.ties import Tied, holds_ties, step_of
from validator.manifest.contract import KernelContract

__all__ = ["Beside"]


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
    def _tied(self) -> bool:
        """Whether some values are equal on purpose."""
        return self.wide and any(holds_ties(self.contract, self.case, name) for name in float_arguments(self.inputs))

    @property
    def _stepped(self) -> list[str]:
        """Integers that are made of equal values, which may lie half way between two of them."""
        return [name for name, array in self.native.items() if self._tied and array.dtype.kind in "iu"]

    @property
    def _outweighed(self) -> bool:
        """Whether one term may be most of a sum."""
        return any(variant in OUTWEIGHED for _, variant in self.case.variants)

    @cached_property
    def _exactly(self) -> bool:
        """Whether whatever is summed of these inputs may be exact in the promised precision, in any order."""
        if not self.wide or EXACTLY not in dict(self.case.variants).values():
            return False
        read = (self.inputs[n] for n in float_arguments(self.inputs) if self.contract.values[n][0] not in FILLED)
        return all(map(cancels, read))

    @property
    def _fixed(self) -> bool:
        """Whether it is asked how results round."""
        return self.wide and self.contract.rounding == "as-baseline"

    @cached_property
    def _pairs(self) -> list[tuple[Sum, int]]:
        """(a sum, how often before): each half of it once."""
        if not self.wide:
            return []
        sums = long_sums(self.contract, self.inputs, self.native, outweighed=self._outweighed)
        return [(one, index) for one in sums for index in range(_pairs(self.inputs, one))]

    @cached_property
    def _edges(self) -> list[tuple[float, tuple[int, ...]]]:
        """Moves that show where results of few values lie near an edge."""
        return edges(self.inputs, PROMISED[self.contract.compute_dtype], self.native) if self.wide else []

    def asked(self, given: Inputs) -> Iterator[Inputs]:
        """Inputs, in an order that `taken` knows. `given`: those of the case, as the reference gets them."""
        probes = range(_probes(self.inputs))
        yield from (_moved(self.contract, self.inputs, self.case, index, wide=self.wide) for index in probes)
        if self._tied:
            yield from (_moved(self.contract, self.inputs, self.case, at, wide=True, by=BARELY) for at in probes)
            yield from (_moved_together(self.contract, self.inputs, self.case, index) for index in probes)
        if self._stepped:
            yield from (_moved_together(self.contract, self.inputs, self.case, at, signed=True) for at in probes)
        if self._exactly:
            yield from (_as_promised(self.contract, self.inputs, self.case, at, wide=True) for at in probes)
        for one, index in self._pairs:
            yield from halves(self.contract, self.inputs, given, self.case, one, index)
        yield from at_edges(self.inputs, given, self._edges)
        if self._fixed:
            yield from (_as_promised(self.contract, self.inputs, self.case, index) for index in probes)

    def taken(
        self, results: Iterator[Mapping[str, Array]], exact: Mapping[str, Array]
    ) -> tuple[dict[str, Spread], dict[str, Undecided]]:
        """By output, how far the results for what was `asked` are from the exact one; each lasts until the next."""
        spreads = {name: Spread(exact[name], array) for name, array in self.native.items()}
        read = [self.inputs[n] for n in float_arguments(self.inputs) if self.contract.values[n][0] not in FILLED]
        for name, spread in spreads.items():
            if only_rounded(self.native[name], read) or rounds_rows(self.case, self.inputs, self.native[name]):
                spread.settle()
        probes = _probes(self.inputs)
        for outputs in islice(results, probes):
            for name, spread in spreads.items():
                spread.add(outputs[name], 1 / probes)
        if self._tied:
            for outputs in islice(results, probes):
                for name, spread in spreads.items():
                    spread.add_barely(outputs[name])
            for spread in spreads.values():
                spread.forget_jumps()
            for outputs in islice(results, probes):
                for name, spread in spreads.items():
                    spread.add_together(outputs[name], 1 / probes)
        for outputs in islice(results, probes if self._stepped else 0):
            for name in self._stepped:
                spreads[name].add(outputs[name])
        for outputs in islice(results, probes if self._exactly else 0):
            for name, spread in spreads.items():
                spread.add_exactly(outputs[name], 1 / probes)
        for summed, _ in self._pairs:
            share = 1 / _pairs(self.inputs, summed)
            lost = self._outweighed * PROMISED[self.contract.compute_dtype] * math.sqrt(summed.terms)
            one = {name: kept(array) for name, array in next(results).items()}
            other = next(results)
            for name, spread in spreads.items():
                spread.add_halves(one[name], other[name], summed.parts, share, outweighed=lost)
        for outputs in islice(results, count_of(self._edges)):
            for name, spread in spreads.items():
                spread.add_edge(outputs[name])
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


def _pairs(inputs: Inputs, of: Sum) -> int:
    """How often each half of a long sum is: seldom where it is only guessed."""
    return min(_probes(inputs), 2 if of.guessed else 4)


def _largest(inputs: Inputs) -> int:
    return max((v.size for v in inputs.values() if isinstance(v, np.ndarray)), default=0)


def _moved(contract: KernelContract, inputs: Inputs, case: Case, index: int, *, wide: bool, by: float = 1.0) -> Inputs:
    """Every element by itself, by no less than its own rounding error, times `by`. `wide`: in float64."""
    found = dict(inputs)
    for name in float_arguments(inputs):
        array, dtype = inputs[name], np.dtype(np.float64) if wide else inputs[name].dtype
        source = Source(derived(case.seed, "probe", index, name))
        found[name] = _written(array, dtype, by * _own_error(contract, array), source)
    return found


def _moved_together(
    contract: KernelContract, inputs: Inputs, case: Case, index: int, *, signed: bool = False
) -> Inputs:
    """Equal values by the same, all others as in `_moved`; in the promised precision, or an argument's own if wider.

    `signed`: negatives of them by something else, and in float64.
    """
    found, promised = dict(inputs), dtype_of(contract.compute_dtype)
    for name in float_arguments(inputs):
        array = inputs[name]
        dtype = promised if array.itemsize <= promised.itemsize else array.dtype
        dtype = np.dtype(np.float64) if signed else dtype
        if holds_ties(contract, case, name):
            by = PROMISED[contract.compute_dtype]
            by, draw = by if signed else step_of(by), Tied(derived(case.seed, "tied", index), signed)
            found[name] = _written(array, dtype, by, draw)
        else:
            source = Source(derived(case.seed, "probe", index, name))
            found[name] = _written(array, dtype, _own_error(contract, array), source)
    return found


def _as_promised(contract: KernelContract, inputs: Inputs, case: Case, index: int, *, wide: bool = False) -> Inputs:
    """In the promised precision, and moved by its rounding error: the result is off by what computing in it costs.

    `wide`: in float64, off by what the move alone costs.
    """
    found, dtype = dict(inputs), np.dtype(np.float64) if wide else dtype_of(contract.compute_dtype)
    for name in float_arguments(inputs):
        source = Source(derived(case.seed, "promised", index, name))
        found[name] = _written(inputs[name], dtype, PROMISED[contract.compute_dtype], source)
    return found


def _own_error(contract: KernelContract, array: Array) -> float:
    """One rounding error, relative: of the promised precision, or of the argument's own type if that is coarser."""
    # Values of one byte are scaled up before anybody computes with them: nothing is rounded to them.
    return max(PROMISED[contract.compute_dtype], eps_of(array.dtype) / 2 if array.itemsize > 1 else 0.0)


def _written(array: Array, dtype: np.dtype[Any], eps: float, draw: Source | Tied) -> Written:
    """Every element times 1 and a little."""

    def write(target: Array) -> None:
        if isinstance(draw, Source) and passes.moved(target, array, eps, draw):
            return
        for there, here in in_chunks(target, array):
            values = here.astype(np.float64)
            # Not plus or minus one unit: equal moves of two inputs would cancel in their difference far too often.
            by = draw.bell(values) if isinstance(draw, Tied) else draw.bell(here.shape)
            changed = values * (1.0 + eps * by)
            # Where the target is wider it is not rounded again: most moves would round to none at all.
            there[...] = changed if there.dtype != array.dtype else changed.astype(array.dtype)

    return Written(array.shape, dtype, write)
