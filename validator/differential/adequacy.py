"""Adequacy: mistakes that the tolerance would not notice.

The reference is run on inputs that stand for a mistake in the kernel (a weight skipped, cut to few mantissa bits, its
tail dropped; a scalar ten times larger; a term scaled; rounded too early or too late), and its result is judged as if
it were the candidate's. A mutant that no case can tell from the right result is reported, with the inputs that would
show it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import ml_dtypes
import numpy as np

from validator.differential.arena import Written
from validator.differential.cases import Case, Inputs, is_written
from validator.differential.coverage import fixes_rounding
from validator.differential.expected import Expected
from validator.differential.numbers import Array, in_chunks, is_float, same_bytes
from validator.differential.runner import Runner
from validator.manifest.contract import Role

__all__ = ["ROUNDED_LATE", "Mutant", "Visibility", "mutants"]

Mutant = str
"""In words: "norm_w skipped"."""
ROUNDED_LATE = "rounded once, at the end, instead of in between"


def mutants(runner: Runner, inputs: Inputs) -> Iterator[tuple[Mutant, Inputs]]:
    """Every mutant that makes sense for these arguments, with the inputs that stand for it."""
    for name, (role, values) in runner.stock.values.items():
        value = inputs.get(name)
        if role in (Role.OUTPUT, Role.WORKSPACE, Role.INDEX, Role.FLAG, Role.MAILBOX):
            continue
        if role is Role.SCALAR:
            if isinstance(value, float) and value:
                yield f"{name} ten times larger", {**inputs, name: value * 10}
            continue
        if not isinstance(value, np.ndarray) or not is_float(value.dtype) or not value.size:
            continue
        if role in (Role.WEIGHT, Role.STABLE):
            yield f"{name} skipped (taken as 1)", {**inputs, name: _changed(value, np.ones_like)}
        yield f"{name} dropped (taken as 0)", {**inputs, name: _changed(value, np.zeros_like)}
        yield f"{name} scaled by 1.01", {**inputs, name: _changed(value, _scaled)}
        yield f"{name} cut to 3 mantissa bits", {**inputs, name: _changed(value, _cut)}
        if value.dtype.itemsize > 2 and runner.contract.compute_dtype in ("float64", "float32"):
            yield f"{name} rounded to bfloat16 beforehand", {**inputs, name: _changed(value, _early)}
        if value.ndim and value.shape[-1] > 1 and not is_written(role, values):
            yield f"tail of {name} dropped", {**inputs, name: Written(value.shape, value.dtype, partial(_tail, value))}


def _changed(value: Array, change: Callable[[Array], Array]) -> Written:
    """The array with every element changed, made where it will lie."""

    def write(target: Array) -> None:
        for there, here in in_chunks(target, value):
            there[...] = change(here)

    return Written(value.shape, value.dtype, write)


def _scaled(part: Array) -> Array:
    return (part.astype(np.float64) * 1.01).astype(part.dtype)


def _cut(part: Array) -> Array:
    mantissa, exponent = np.frexp(part.astype(np.float64))
    return np.asarray(np.ldexp(np.trunc(mantissa * 8) / 8, exponent)).astype(part.dtype)


def _early(part: Array) -> Array:
    return part.astype(ml_dtypes.bfloat16).astype(part.dtype)


def _tail(value: Array, target: Array) -> None:
    target[...] = value
    target[..., -max(1, value.shape[-1] // 8) :] = 0


_ALIKE, _EVERY = 8, 4
"""Cases of other sizes alone in which a mutant is tried, and then each of so many; of those that fill arguments in one
way on purpose, the first, and each of so many: where nothing else is as large, or all but one argument is zero, a
mistake shows that hundreds of ordinary values hide."""
_WAITING = 1 << 20
"""Bytes of mutants' inputs that are worth one exchange instead of several."""


class Visibility:
    """Which mutants some case has told from the right result, over a run."""

    def __init__(self, runner: Runner, budget: int = 400) -> None:
        self._runner = runner
        self.budget = budget
        """Mutants that may still be judged."""
        self.tried: set[Mutant] = set()
        self.visible: set[Mutant] = set()
        self._fillings: Counter[tuple[tuple[str, str], ...]] = Counter()

    def is_new(self, case: Case) -> bool:
        """Whether too few cases like this one were looked at to know what another would show; it is one of them now."""
        self._fillings[case.variants] = count = self._fillings[case.variants] + 1
        return count <= (1 if case.variants else _ALIKE) or count % _EVERY == 0

    @np.errstate(all="ignore")
    def look(self, case: Case, inputs: Inputs, expected: Mapping[str, Expected]) -> None:
        """Try the mutants that nothing has shown yet on one more case."""
        self._look_at_rounding(inputs, expected)
        if not self.is_new(case):
            return
        waiting: dict[Mutant, Inputs] = {}
        for mutant, wrong in mutants(self._runner, inputs):
            self.tried.add(mutant)
            if mutant not in self.visible and self.budget > 0:
                self.budget -= 1
                waiting[mutant] = wrong
            if sum(_bytes(w) for w in waiting.values()) > _WAITING:
                self._judge(case, inputs, waiting, expected)
                waiting = {}
        self._judge(case, inputs, waiting, expected)

    def _judge(
        self, case: Case, inputs: Inputs, waiting: Mapping[Mutant, Inputs], expected: Mapping[str, Expected]
    ) -> None:
        for mutant, result in zip(waiting, self._runner.reference.mistaken(case, list(waiting.values())), strict=False):
            # A mistake that breaks the reference itself would not go unnoticed.
            if result is None or not self._runner.accepted(inputs, expected, result):
                self.visible.add(mutant)

    def _look_at_rounding(self, inputs: Inputs, expected: Mapping[str, Expected]) -> None:
        """Rounding points of a chain moved to its end: a mistake where the contract says that they stand."""
        if not fixes_rounding(self._runner.contract) or ROUNDED_LATE in self.visible:
            return
        late = {
            name: want.exact.astype(want.native.dtype) if is_float(want.native.dtype) else want.native
            for name, want in expected.items()
        }
        if any(not same_bytes(late[name], want.native) for name, want in expected.items()):
            self.tried.add(ROUNDED_LATE)
            if not self._runner.accepted(inputs, expected, late):
                self.visible.add(ROUNDED_LATE)


def _bytes(inputs: Inputs) -> int:
    arrays = (v for v in inputs.values() if isinstance(v, np.ndarray | Written))
    return sum(math.prod(v.shape) * v.dtype.itemsize for v in arrays)
