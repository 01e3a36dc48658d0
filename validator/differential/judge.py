"""Judgement: is this result right, and if not, where is it wrong?

The reference runs in float64. How far an honest implementation may be from it is measured, not guessed: the trusted
implementation's own error on the same input, and how much the reference itself moves when its inputs move by one
rounding error of the promised precision, by themselves and as sums in any order lose it. The ratio of
the candidate's error to that yardstick is judged over the whole result, over every slice along every axis, and element
by element, so a wrong row cannot hide in a large result, and small rows cannot hide behind large ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validator.differential.elements import too_far, too_many_steps, ulp_distance
from validator.differential.expected import Expected
from validator.differential.faults import Fault, FaultKind
from validator.differential.lying import There, as_it_is
from validator.differential.numbers import Array, in_chunks, is_float, marked
from validator.differential.packed import is_packable
from validator.differential.plain import plainly_right, plainly_wrong, weighs_little
from validator.differential.pools import pooled
from validator.differential.spill import spilled
from validator.differential.spread import F64
from validator.differential.told import Wrong, fault_of, short
from validator.differential.zero_points import beside_their_zero_points
from validator.manifest.contract import KernelContract, Tolerance

__all__ = ["accepts", "judge"]

Bools = NDArray[np.bool_]


@np.errstate(all="ignore")
def judge(contract: KernelContract, expected: Mapping[str, Expected], got: Mapping[str, Array]) -> list[Fault]:
    """Every fault of these outputs; metadata first."""
    faults = []
    for name, want in expected.items():
        found = as_it_is(got, name)
        if (odd := _metadata(name, want, found)) or _right_there(contract, want, found):
            faults += odd
        else:
            faults += [fault_of(wrong, name, got[name]) for wrong in _wrong(contract, expected, got, name)]
    return faults


def _right_there(contract: KernelContract, want: Expected, found: Array | There | None) -> bool:
    """Whether a result that lies on a device weighs so little there that it is right."""
    if not isinstance(found, There) or not is_packable(contract, want):
        return False
    weight = found.taken.weight(want.exact)
    return weight is not None and weighs_little(contract.tolerance, weight[:3])


@np.errstate(all="ignore")
def accepts(contract: KernelContract, expected: Mapping[str, Expected], got: Mapping[str, Array]) -> bool:
    """Whether `judge` finds no fault; cheaper where nobody asks which."""
    return not any(
        _metadata(name, want, got.get(name))
        or plainly_wrong(contract.tolerance, want, got[name])
        or next(_wrong(contract, expected, got, name), None)
        for name, want in expected.items()
    )


def _metadata(name: str, want: Expected, got: Array | There | None) -> list[Fault]:
    if got is None:
        return [Fault(FaultKind.METADATA, name, f"{name} is missing")]
    if got.shape != want.native.shape or got.dtype != want.native.dtype:
        have, due = (f"{a.dtype.name}{list(a.shape)}" for a in (got, want.native))
        return [Fault(FaultKind.METADATA, name, f"{name} is {have}, the contract says {due}")]
    return []


def _wrong(
    contract: KernelContract, expected: Mapping[str, Expected], outputs: Mapping[str, Array], name: str
) -> Iterator[Wrong]:
    tolerance, want, got = contract.tolerance, expected[name], outputs[name]
    if tolerance.policy == "property":
        return  # a checker of the base revision decides, see `Runner.judged`
    if contract.rounding == "as-baseline" and is_float(got.dtype) and got.dtype.itemsize <= 2:
        yield from _rounded_elsewhere(want, got)
    if plainly_right(tolerance, want, got):
        return
    if not is_float(got.dtype):
        arrays = (got, want.native, want.exact, want.yardstick, want.unspecified)
        bad = marked(partial(too_many_steps, tolerance), *arrays)
        if bad.any():
            bad = beside_their_zero_points(tolerance, expected, outputs, name, bad)
        if bad.any():
            yield Wrong(FaultKind.VALUE, bad, want.native, {})
        return
    exact = _saturated(want, got.dtype)
    if exact is not want.exact:
        want = replace(want, exact=exact)
    finite, odd = _by_class(contract, want, got)
    if odd.any():
        due = spilled(got.shape, np.dtype(np.float64))
        due[...] = want.exact
        yield Wrong(FaultKind.CLASS, odd, due, {})
    yield from _within(tolerance, want, got, finite)


def _saturated(want: Expected, dtype: np.dtype[Any]) -> F64:
    """The exact result; what the type cannot hold is what the trusted implementation saturates to."""
    if not want.beyond:
        return want.exact
    found = spilled(want.exact.shape, want.exact.dtype)
    for into, exact, native in in_chunks(found, want.exact, want.native):
        own = native.astype(np.float64)
        beyond = np.isfinite(exact) & ~np.isfinite(exact.astype(dtype).astype(np.float64)) & np.isfinite(own)
        into[...] = np.where(beyond, own, exact)
    return found


def _by_class(contract: KernelContract, want: Expected, got: Array) -> tuple[Bools, Bools]:
    """(elements whose values are judged, elements of another class than they should be: finite, NaN, an infinity).

    Where float64 and the type itself disagree about overflow, either is right; never a wildcard where they agree.
    """
    finite, odd = np.empty(got.shape, bool), np.zeros(got.shape, bool)
    arrays = (finite, odd, got, want.exact, want.native, want.unspecified)
    for valued, wrong, have, exact, native, free in in_chunks(*arrays):
        wide, own = have.astype(np.float64), native.astype(np.float64)
        rounded, judged = exact.astype(got.dtype).astype(np.float64), ~free
        if not contract.nan_propagates:
            judged &= ~(np.isnan(exact) | np.isnan(own))
        both = np.isfinite(wide) & np.isfinite(rounded)
        if not both.all():
            wrong[...] = judged & (_class(wide) != _class(rounded)) & (_class(wide) != _class(own))
        valued[...] = judged & both & np.isfinite(exact)
    return finite, odd


_ELSEWHERE = 0.04
"""Share of a row's elements that may round to the other neighbour though the rounding points are the same: errors of a
wider type cross the border between two neighbours for few elements."""
_ROWS = 4
"""Rows that it takes to tell: all elements of one row move when a factor that they share does."""


def _rounded_elsewhere(want: Expected, got: Array) -> Iterator[Wrong]:
    """In half of the rows more elements than that are not what the trusted implementation gives."""
    bad = marked(_is_other, got, want.native, want.unspecified)
    if want.undecided is not None:
        bad &= ~want.undecided
    if not bad.ndim or not bad.size or bad.size // bad.shape[-1] < _ROWS:
        return
    share = float(np.median(bad.reshape(-1, bad.shape[-1]).mean(axis=-1)))
    if share > _ELSEWHERE:
        yield Wrong(FaultKind.VALUE, bad, want.native, {"rounded elsewhere, share of a row": short(share)})


def _is_other(got: Array, native: Array, unspecified: Bools) -> Bools:
    wide, own = got.astype(np.float64), native.astype(np.float64)
    return np.asarray(~((wide == own) | (np.isnan(wide) & np.isnan(own)) | unspecified))


def _within(tolerance: Tolerance, want: Expected, got: Array, finite: Bools) -> Iterator[Wrong]:
    match tolerance.policy:
        case "exact":
            bad = marked(lambda ok, have, own: ok & (have != own), finite, got, want.native)
        case "ulp":
            bad = marked(lambda ok, have, own: ok & (ulp_distance(have, own) > tolerance.ulp), finite, got, want.native)
        case "absolute":
            bad = marked(lambda ok, have, due: ok & too_far(tolerance, have, due), finite, got, want.exact)
        case _ if want.least is not None and want.most is not None:
            bad = marked(_outside, finite, got, want.least, want.most)
            if bad.any():
                yield Wrong(FaultKind.VALUE, bad, want.native, {"furthest, in steps": _steps(got, want.native, bad)})
            return
        case _:
            if (found := pooled(tolerance, want, got, finite)) is not None:
                figures: dict[str, int | float | str] = {
                    "error / yardstick": short(found.worst),
                    "rms error / yardstick, whole": short(found.whole),
                }
                yield Wrong(FaultKind.VALUE, found.bad, want.exact, figures)
            return
    if bad.any():
        yield Wrong(FaultKind.VALUE, bad, want.native, {"policy": tolerance.policy})


def _outside(finite: Bools, got: Array, least: Array, most: Array) -> Bools:
    wide, low, high = (array.astype(np.float64) for array in (got, least, most))
    return np.asarray(finite & ((wide < low) | (wide > high)))


def _steps(got: Array, native: Array, bad: Bools) -> int:
    return int(np.max(ulp_distance(got, native), where=bad, initial=0))


def _class(values: F64) -> NDArray[np.int8]:
    """0 finite, 1 NaN, 2 +Inf, 3 -Inf."""
    found = np.isnan(values).astype(np.int8)
    found[values == np.inf], found[values == -np.inf] = 2, 3
    return found
