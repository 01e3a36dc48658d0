"""Judgement: is this result right, and if not, where is it wrong?

The reference runs in float64. How far an honest implementation may be from it is measured, not guessed: the trusted
implementation's own error on the same input, and how much the reference itself moves when its inputs move by one
rounding error of the promised precision, by themselves and as sums in any order lose it. The ratio of
the candidate's error to that yardstick is judged over the whole result, over every slice along every axis, and element
by element, so a wrong row cannot hide in a large result, and small rows cannot hide behind large ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validator.differential.faults import Fault, FaultKind
from validator.differential.numbers import (
    CHUNK,
    Array,
    bits_of,
    each_part,
    energy,
    flattened,
    in_chunks,
    is_float,
    largest,
    same_bytes,
)
from validator.differential.spread import F64, apart
from validator.manifest.contract import KernelContract, Tolerance

__all__ = ["Expected", "accepts", "as_trusted", "judge", "plainly_wrong", "ulp_distance"]


@dataclass(frozen=True, slots=True)
class Expected:
    """What one output should be."""

    exact: F64
    """The reference in float64."""
    native: Array
    """The trusted implementation in the output's own type."""
    yardstick: F64
    """Element by element, what an honest implementation may be off by (one standard deviation)."""
    unspecified: NDArray[np.bool_]
    """Elements that the reference does not write."""
    undecided: NDArray[np.bool_] | None = None
    """Elements whose digits hang on rounding errors of the promised precision; None: nobody asked."""
    least: Array | None = None
    """Of a result of few values: what each element is at least, in its type; None: `yardstick` says it all."""
    most: Array | None = None
    """What it is at most."""
    beyond: bool = field(init=False)
    """Some element is too large for the output's type."""
    widest: float = field(init=False)
    """The largest finite yardstick of an element that the reference writes."""

    def __post_init__(self) -> None:
        top, inside, widest = largest(self.native.dtype), True, 0.0
        for exact, yard, free in in_chunks(self.exact, self.yardstick, self.unspecified):
            inside = inside and bool(np.all((exact <= top) & (exact >= -top)))
            widest = max(widest, float(np.max(yard, where=np.isfinite(yard) & ~free, initial=0.0)))
        object.__setattr__(self, "beyond", not inside)
        object.__setattr__(self, "widest", widest)


def as_trusted(tolerance: Tolerance) -> bool:
    """Whether what the trusted implementation gives is right by what right means."""
    match tolerance.policy:
        case "relative-to-baseline":
            return _narrowest(tolerance) >= 1  # its own error is part of the yardstick
        case policy:
            return policy in ("exact", "ulp")


@np.errstate(all="ignore")
def judge(contract: KernelContract, expected: Mapping[str, Expected], got: Mapping[str, Array]) -> list[Fault]:
    """Every fault of these outputs; metadata first."""
    faults = []
    for name, want in expected.items():
        faults += _metadata(name, want, got.get(name)) or [
            _fault(wrong, name, got[name]) for wrong in _wrong(contract, want, got[name])
        ]
    return faults


@np.errstate(all="ignore")
def accepts(contract: KernelContract, expected: Mapping[str, Expected], got: Mapping[str, Array]) -> bool:
    """Whether `judge` finds no fault; cheaper where nobody asks which."""
    return not any(
        _metadata(name, want, got.get(name))
        or plainly_wrong(contract.tolerance, want, got[name])
        or next(_wrong(contract, want, got[name]), None)
        for name, want in expected.items()
    )


@dataclass(frozen=True, slots=True)
class _Wrong:
    """Elements of an output that are wrong in one way."""

    kind: FaultKind
    where: NDArray[np.bool_]
    due: Array
    figures: dict[str, int | float | str]


def _metadata(name: str, want: Expected, got: Array | None) -> list[Fault]:
    if got is None:
        return [Fault(FaultKind.METADATA, name, f"{name} is missing")]
    if got.shape != want.native.shape or got.dtype != want.native.dtype:
        have, due = (f"{a.dtype.name}{list(a.shape)}" for a in (got, want.native))
        return [Fault(FaultKind.METADATA, name, f"{name} is {have}, the contract says {due}")]
    return []


def _plainly_right(tolerance: Tolerance, want: Expected, got: Array) -> bool:
    """Every pool is within its limit because nearly all elements are within the narrowest of all limits, and the pools
    of the few others are looked at: what honest results are. Nothing as large as the result is made."""
    if not _has_short_way(tolerance, got):
        return False
    if want.least is not None:  # a step is no error of which a little is right
        return as_trusted(tolerance) and same_bytes(got, want.native)
    others = _beyond_narrowest(tolerance, want, got)
    return others is not None and (not others or _pools_hold(tolerance, want, got, others))


_FEW = 256
"""Elements that are not within the narrowest limit whose pools are looked at one by one."""


def _beyond_narrowest(tolerance: Tolerance, want: Expected, got: Array) -> list[int] | None:
    """Flat positions of elements that are not within the narrowest of all limits; None: too many."""
    limit, top, as_native = _narrowest(tolerance), largest(got.dtype), as_trusted(tolerance)
    arrays = [flattened(a) for a in (got, want.native, want.exact, want.yardstick, want.unspecified)]

    def inside(part: slice) -> list[int] | None:
        found: list[int] = []
        start, alike = part.start, as_native
        room = np.empty((2, min(CHUNK, part.stop - start)))  # new memory for every chunk takes half the time again
        for have, native, exact, yard, free in in_chunks(*(array[part] for array in arrays)):
            alike = alike and np.array_equal(bits_of(have), bits_of(native))
            if not alike:
                error, allowed = room[:, : have.size]
                np.abs(np.subtract(have, exact, out=error), out=error)
                right = error <= np.multiply(limit, yard, out=allowed)
                if want.beyond:
                    right &= np.abs(exact) <= top
                alike = as_native and not right.all() and np.array_equal(bits_of(have), bits_of(native))
                if not (right.all() or alike):
                    found += (start + np.flatnonzero(~(right | free))).tolist()
                    if len(found) > _FEW:
                        return None
            start += have.size
        return found

    lists = each_part(inside, got.size, got.itemsize + 20)
    several = [at for some in lists if some is not None for at in some]
    return None if None in lists or len(several) > _FEW else several


def _pools_hold(tolerance: Tolerance, want: Expected, got: Array, others: list[int]) -> bool:
    """Whether every pool that holds one of these elements is within its limit; all pools are then.

    A result, and every slice of it along an axis before the last, is made of rows: where each row is within the limit
    of a whole result, they are too.
    """
    if not got.ndim:
        return False
    *rows, columns = np.unravel_index(others, got.shape)
    by_row = [(tuple(at), tolerance.rms_ratio) for at in set(zip(*rows, strict=True))] or [((), tolerance.rms_ratio)]
    by_column = [((..., at), _ALONE * tolerance.rms_ratio) for at in (set(columns) if rows else ())]
    single = _ALONE * tolerance.max_ratio
    return all(
        abs(float(got[at]) - want.exact[at]) <= single * want.yardstick[at] for at in zip(*rows, columns, strict=True)
    ) and all(_pool_holds(want, got, at, limit) for at, limit in (*by_row, *by_column))


def _pool_holds(want: Expected, got: Array, at: tuple[Any, ...], limit: float) -> bool:
    """RMS error over RMS yardstick of one pool, by `_ratio`; False where something in it is not finite."""
    error = yard = 0.0
    for have, exact, due, free in in_chunks(got[at], want.exact[at], want.yardstick[at], want.unspecified[at]):
        error += energy(np.where(free, 0.0, have - exact))
        yard += energy(np.where(free, 0.0, due))
    return error <= limit**2 * yard


@np.errstate(all="ignore")
def plainly_wrong(tolerance: Tolerance, want: Expected, got: Array, start: int = 0) -> bool:
    """Some element is beyond the widest of all limits: what controls are. `got`: the elements from a flat index on."""
    if not _has_short_way(tolerance, got):
        return False
    limit, part = _ALONE * tolerance.max_ratio * want.widest, slice(start, start + got.size)
    exact, free = (flattened(array)[part] for array in (want.exact, want.unspecified))
    return any(np.any(~free & (error > limit)) for error, free in _errors(want, got, exact, free))


def _has_short_way(tolerance: Tolerance, got: Array) -> bool:
    return tolerance.policy == "relative-to-baseline" and is_float(got.dtype)


def _errors(
    want: Expected, got: Array, exact: F64, unspecified: NDArray[np.bool_]
) -> Iterator[tuple[F64, NDArray[np.bool_]]]:
    """Chunks of (error, whether the element is free); NaN where either result is not finite in the type."""
    top = largest(got.dtype)
    for have, due, free in in_chunks(got, exact, unspecified):
        error = have - due  # in float64
        np.abs(error, out=error)
        if want.beyond or not math.isfinite(energy(error)):
            error[~(np.isfinite(have.astype(np.float64)) & (np.abs(due) <= top))] = np.nan
        yield error, free


def _narrowest(tolerance: Tolerance) -> float:
    return min(tolerance.rms_ratio, _ALONE * tolerance.max_ratio)


def _wrong(contract: KernelContract, want: Expected, got: Array) -> Iterator[_Wrong]:
    tolerance = contract.tolerance
    if tolerance.policy == "property":
        return  # a checker of the base revision decides, see `Runner.judged`
    if contract.rounding == "as-baseline" and is_float(got.dtype) and got.dtype.itemsize <= 2:
        yield from _rounded_elsewhere(want, got)
    if _plainly_right(tolerance, want, got):
        return
    judged = ~want.unspecified
    if not is_float(got.dtype):
        bad = judged & (_steps_away(want, got) > _allowed_steps(tolerance, want))
        if bad.any():
            yield _Wrong(FaultKind.VALUE, bad, want.native, {})
        return
    wide = got.astype(np.float64)
    native = want.native.astype(np.float64)
    rounded = want.exact.astype(got.dtype).astype(np.float64)
    beyond = np.isfinite(want.exact) & ~np.isfinite(rounded) & np.isfinite(native)
    if beyond.any():  # the type cannot hold it: what the trusted implementation saturates to is right
        want = replace(want, exact=np.where(beyond, native, want.exact))
        rounded = np.where(beyond, native, rounded)
    if not contract.nan_propagates:
        judged &= ~(np.isnan(want.exact) | np.isnan(native))
    # Where float64 and the type itself disagree about overflow, either is right; never a wildcard where they agree.
    here, due = np.isfinite(wide), np.isfinite(rounded)
    if not (here & due).all():
        bad = judged & (_class(wide) != _class(rounded)) & (_class(wide) != _class(native))
        if bad.any():
            yield _Wrong(FaultKind.CLASS, bad, rounded, {})
    finite = judged & here & due & np.isfinite(want.exact)
    yield from _within(tolerance, want, got, wide, native, finite)


def _steps_away(want: Expected, got: Array) -> F64:
    """Of integers. Where the reference at its own types and in float64 choose differently, either is right."""
    away, native = apart(got, want.native), want.native.astype(np.float64)
    return np.where(want.exact == native, away, np.minimum(away, np.abs(got.astype(np.float64) - want.exact)))


def _allowed_steps(tolerance: Tolerance, want: Expected) -> F64 | float:
    match tolerance.policy:
        case "exact":
            return 0.0
        case "ulp":
            return float(tolerance.ulp)
        case "absolute":
            return np.maximum(want.yardstick, tolerance.atol)
        case _:
            return want.yardstick


_ELSEWHERE = 0.04
"""Share of a row's elements that may round to the other neighbour though the rounding points are the same: errors of a
wider type cross the border between two neighbours for few elements."""
_ROWS = 4
"""Rows that it takes to tell: all elements of one row move when a factor that they share does."""


def _rounded_elsewhere(want: Expected, got: Array) -> Iterator[_Wrong]:
    """In half of the rows more elements than that are not what the trusted implementation gives."""
    wide, native = got.astype(np.float64), want.native.astype(np.float64)
    bad = ~((wide == native) | (np.isnan(wide) & np.isnan(native)) | want.unspecified)
    if want.undecided is not None:
        bad &= ~want.undecided
    if not bad.ndim or not bad.size or bad.size // bad.shape[-1] < _ROWS:
        return
    share = float(np.median(bad.reshape(-1, bad.shape[-1]).mean(axis=-1)))
    if share > _ELSEWHERE:
        yield _Wrong(FaultKind.VALUE, bad, native, {"rounded elsewhere, share of a row": _short(share)})


def _within(
    tolerance: Tolerance, want: Expected, got: Array, wide: F64, native: F64, finite: NDArray[np.bool_]
) -> Iterator[_Wrong]:
    match tolerance.policy:
        case "exact":
            bad = finite & (wide != native)
        case "ulp":
            bad = finite & (ulp_distance(got, want.native) > tolerance.ulp)
        case "absolute":
            bad = finite & (np.abs(wide - want.exact) > tolerance.atol + tolerance.rtol * np.abs(want.exact))
        case _ if want.least is not None and want.most is not None:
            bad = finite & ((wide < want.least.astype(np.float64)) | (wide > want.most.astype(np.float64)))
            if bad.any():
                yield _Wrong(FaultKind.VALUE, bad, native, {"furthest, in steps": _steps(got, want.native, bad)})
            return
        case _:
            yield from _relative(tolerance, want, wide, finite)
            return
    if bad.any():
        yield _Wrong(FaultKind.VALUE, bad, native, {"policy": tolerance.policy})


def _steps(got: Array, native: Array, bad: NDArray[np.bool_]) -> int:
    return int(np.max(ulp_distance(got, native), where=bad, initial=0))


def _relative(tolerance: Tolerance, want: Expected, wide: F64, finite: NDArray[np.bool_]) -> Iterator[_Wrong]:
    error = np.where(finite, np.abs(wide - want.exact), 0.0)
    yard = np.where(finite, want.yardstick, 0.0)
    if np.all(error <= _narrowest(tolerance) * yard):
        return  # then every pool of them is within its limit too
    whole = float(_ratio(error, yard, None))
    bad = np.zeros(wide.shape, bool)
    worst = 0.0
    if whole > tolerance.rms_ratio * _widened(yard):
        bad |= error > tolerance.max_ratio * yard
        worst = whole
    row = np.sqrt(_energy(yard, (yard.ndim - 1,)) / max(yard.shape[-1], 1))[..., None] if yard.ndim else yard
    for axes, along in _slices(wide.ndim):
        # A slice of so few elements is judged as single elements are: by what its rows allow.
        few = wide.size < _POOLED * math.prod(wide.shape[a] for a in along)
        ratio = _ratio(error, np.maximum(row, yard) if few else yard, axes)
        over = ratio > tolerance.rms_ratio * _ALONE
        if np.any(over):
            worst = max(worst, float(np.where(over, ratio, 0).max()))
            bad |= _spread_back(over, along, wide.ndim) & (error > tolerance.rms_ratio * yard)
    bad |= finite & (error > _ALONE * tolerance.max_ratio * np.maximum(row, yard))
    if bad.any():
        worst = max(worst, float((error[bad] / np.maximum(yard[bad], np.finfo(float).tiny)).max()))
        figures: dict[str, int | float | str] = {
            "error / yardstick": _short(worst),
            "rms error / yardstick, whole": _short(whole),
        }
        yield _Wrong(FaultKind.VALUE, bad & finite, want.exact, figures)


def _slices(axes: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(axes to pool over, axes that are kept): each axis by itself, and every row along the last one."""
    for axis in range(axes):
        if axes > 1:
            yield tuple(a for a in range(axes) if a != axis), (axis,)
    if axes > 2:
        yield (axes - 1,), tuple(range(axes - 1))


def _spread_back(over: NDArray[np.bool_], kept: tuple[int, ...], axes: int) -> NDArray[np.bool_]:
    return over.reshape([over.shape[kept.index(a)] if a in kept else 1 for a in range(axes)])


def _ratio(error: F64, yard: F64, axes: tuple[int, ...] | None) -> F64:
    """RMS error over RMS yardstick; 0 where there is no error."""
    up, down = _energy(error, axes), _energy(yard, axes)
    return np.asarray(np.sqrt(np.divide(up, np.maximum(down, np.finfo(float).tiny))))


def _energy(values: F64, axes: tuple[int, ...] | None) -> F64:
    """Sum of squares over these axes (None: all), with no array of squares in between."""
    kept = () if axes is None else tuple(a for a in range(values.ndim) if a not in axes)
    names = "abcdefgh"[: values.ndim]
    return np.asarray(np.einsum(f"{names},{names}->{''.join(names[a] for a in kept)}", values, values))


_POOLED = 4
"""Elements of a slice from which its own yardsticks say what it may be off by."""
_ALONE = 4.0
"""How much wider the limit is for a single sample of the error than for many: a ratio over a handful is noise.

A slice counts as one sample however long it is: a gate, a norm or a softmax's denominator has one rounding error, and
all elements of its row share it.
"""


def _widened(yard: F64) -> float:
    """How much wider the limit is for a whole result: 1 for very many samples of the error, `_ALONE` for one.

    Counted along the axis with the fewest: (sum e)^2 / sum e^2 over the energies e of its slices.
    """
    # Any scale serves; a power of two keeps small squares from vanishing and changes nothing else.
    top = max(float(np.max(yard, initial=0.0)), np.finfo(float).tiny)
    fewest = float(yard.size)
    for axes, _ in _slices(yard.ndim):
        of_slices = _energy(yard, axes) / top**2 if top > 1e-150 else _energy(yard / top, axes)
        fewest = min(fewest, float(np.sum(of_slices) ** 2 / max(np.sum(of_slices**2), np.finfo(float).tiny)))
    return float(1 + (_ALONE - 1) / np.sqrt(max(fewest, 1.0)))


def _class(values: F64) -> NDArray[np.int8]:
    """0 finite, 1 NaN, 2 +Inf, 3 -Inf."""
    found = np.isnan(values).astype(np.int8)
    found[values == np.inf], found[values == -np.inf] = 2, 3
    return found


def ulp_distance(a: Array, b: Array) -> NDArray[np.int64]:
    """How many representable values lie between two arrays of the same floating type (finite elements)."""
    unsigned = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[a.dtype.itemsize]
    top = 1 << (8 * a.dtype.itemsize - 1)
    if a.dtype.name == "float4_e2m1fn":
        top = 8

    def ordered(x: Array) -> NDArray[Any]:
        bits = np.ascontiguousarray(x).view(unsigned).astype(object if a.dtype.itemsize == 8 else np.int64)
        return np.where(bits >= top, top - bits, bits)

    return np.asarray(np.minimum(np.abs(ordered(a) - ordered(b)), 1 << 62), dtype=np.int64)


def _fault(wrong: _Wrong, name: str, got: Array) -> Fault:
    """The worst bad element, and where the bad ones are."""
    bad = wrong.where
    wide, due = got.astype(np.float64), wrong.due.astype(np.float64)
    distance = np.where(bad, np.nan_to_num(np.abs(wide - due), nan=np.inf), -1.0)
    at = np.unravel_index(int(np.argmax(distance)), got.shape) if got.ndim else ()
    place = f"{name}[{', '.join(map(str, at))}]" if at else name
    expected, found = _short(due[at]), _short(wide[at])
    if wrong.due.dtype.kind in "iu" and got.dtype.kind in "iu":
        expected, found = str(int(wrong.due[at])), str(int(got[at]))
    elif expected == found:  # they differ further behind
        expected, found = (f"{float(value):.17g}" for value in (due[at], wide[at]))
    message = f"{place}: expected {expected}, got {found}; {where(bad)}"
    return Fault(wrong.kind, name, message, {"bad elements": int(bad.sum()), "of": int(bad.size), **wrong.figures})


def _short(value: Any) -> str:
    return f"{float(value):.6g}"


def where(bad: NDArray[np.bool_]) -> str:
    """Where the bad elements are, in words: the axes along which they are few or at an end."""
    count = f"{int(bad.sum())} of {bad.size} elements are wrong"
    parts = []
    for axis, size in enumerate(bad.shape):
        hit = np.flatnonzero(bad.any(axis=tuple(a for a in range(bad.ndim) if a != axis)))
        if len(hit) in (0, size) or size < 2:
            continue
        if len(hit) > 1 and hit[-1] == size - 1 and len(hit) == size - hit[0]:
            parts.append(f"only the last {len(hit)} of the {size} along axis {axis}")
        elif len(hit) == 1 + hit[-1] - hit[0] or len(hit) <= 4:
            parts.append(f"only {_indices(hit.tolist())} of the {size} along axis {axis}")
        else:
            parts.append(f"{len(hit)} of the {size} indices along axis {axis}")
    return ", ".join([count, *parts])


def _indices(hit: list[int]) -> str:
    """Ascending indices in words: `index 0`, `indices 0 to 2`, `indices 0, 5 and 7`."""
    if len(hit) == 1:
        return f"index {hit[0]}"
    if len(hit) > 2 and len(hit) == 1 + hit[-1] - hit[0]:
        return f"indices {hit[0]} to {hit[-1]}"
    return f"indices {', '.join(map(str, hit[:-1]))} and {hit[-1]}"
