"""Values that a case names itself, in place of what its seed draws: few whole numbers, and numbers passed by value.

A failure is made smaller by giving such an argument a simpler value; the case then reads `lens = [2]; w = 1` and is
replayed from its text alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from validator.differential.inputs import Fill
from validator.differential.numbers import Array
from validator.manifest.contract import Role

__all__ = ["FEW", "Pinned", "allowed", "cut", "elements", "few", "nearer", "pinned", "simpler"]

FEW = 8
"""Elements of an array that a case may name, and that a reader is shown."""

Number = Annotated[int, Field(ge=-(1 << 63), lt=1 << 64)] | Annotated[float, Field(allow_inf_nan=False)]
Pinned = tuple[tuple[str, Annotated[tuple[Number, ...], Field(min_length=1, max_length=FEW)]], ...]
"""Argument → its elements, in order."""
Values = Sequence[int | float]


def few(fill: Fill) -> bool:
    """Whether a case may name the values: one number, or few whole ones."""
    number = fill.role is Role.SCALAR and not fill.shape
    settled = fill.values.domain.probability or fill.values.domain.after is not None
    return not settled and (number or not fill.floating) and 0 < math.prod(fill.shape) <= FEW


def pinned(fill: Fill, values: Values) -> Array:
    """The argument. A number that is to be as much as something else is no less than that."""
    found = np.asarray(values).reshape(fill.shape)
    if fill.values.domain.longest is not None:
        found = np.maximum(found, fill.integers[0])
    return found.astype(fill.dtype)


def elements(fill: Fill, value: Any) -> tuple[int | float, ...]:
    """What a case would have to name for an argument to be this."""
    return tuple(one if fill.floating else int(one) for one in np.asarray(value).reshape(-1).tolist())


def allowed(fill: Fill, values: Values) -> bool:
    """Whether the contract allows them. That a number is as much as something else is not looked at."""
    if not few(fill) or len(values) != math.prod(fill.shape):
        return False
    if fill.floating:
        return all(_is_listed(fill, v) and fill.bounds[0] <= v <= fill.bounds[1] for v in values)
    if not all(isinstance(v, int) for v in values):
        return False
    domain, rows = fill.values.domain, np.asarray(values, object).reshape(-1, fill.shape[-1] if fill.shape else 1)
    if fill.total is not None:
        lengths, (low, high) = _segments(fill, rows), fill.lengths
        begins = domain.offsets is None or bool((rows[:, 0] == 0).all())
        return begins and all(low <= n <= high for n in lengths.flat) and set(lengths.sum(axis=1)) == {fill.total}
    if domain.sorted and any(list(row) != sorted(row) for row in rows):
        return False
    if domain.some is not None and not all(any(row) for row in rows):
        return False
    if domain.unique:
        for row in rows if domain.unique == "rows" else [rows.reshape(-1)]:
            meant = [v for v in row if v != domain.sentinel]
            if len(set(meant)) < len(meant):
                return False
    low, high = _ends(fill)
    return all((low <= v <= high and _is_listed(fill, v)) or v == domain.sentinel for v in values)


def _is_listed(fill: Fill, value: float) -> bool:
    listed = fill.values.domain.values
    return not listed or value in listed


def _ends(fill: Fill) -> tuple[int, int]:
    """Least and greatest element."""
    domain = fill.values.domain
    if domain.index is not None:
        return 0, fill.extent - 1
    if domain.lengths is not None:
        return fill.lengths
    return (0, 1) if fill.dtype.kind == "b" else fill.integers


def _segments(fill: Fill, rows: NDArray[Any]) -> NDArray[Any]:
    """The lengths that add up, a row each, of what the argument holds."""
    domain = fill.values.domain
    if domain.offsets is not None:
        return np.diff(rows, axis=1)
    return np.diff(rows, axis=1, prepend=0) if domain.ends is not None else rows.reshape(1, -1)


def cut(fill: Fill, shape: tuple[int, ...], values: Values, *, last: bool = False) -> tuple[int | float, ...] | None:
    """What is left of the values of an argument that had this shape, at its new sizes: the first, or the `last`.

    None: nothing that fits.
    """
    if len(shape) != len(fill.shape) or any(new > old for new, old in zip(fill.shape, shape, strict=True)):
        return None
    parts = tuple(slice(old - new, None) if last else slice(new) for new, old in zip(fill.shape, shape, strict=True))
    kept = np.asarray(values, object).reshape(*shape, 1)[parts]
    found = tuple(kept.reshape(-1).tolist())
    if not fill.floating and fill.total is None:
        low, high = _ends(fill)
        found = tuple(v if v == fill.values.domain.sentinel else min(max(v, low), high) for v in found)
    return found if allowed(fill, found) else None


def simpler(fill: Fill, values: Values) -> Iterator[tuple[int | float, ...]]:
    """Values one step simpler that the contract allows, the boldest first; each is nearer to the simplest there are."""
    now = tuple(values)
    for found in dict.fromkeys(_bold(fill, now)):
        if _rank(fill, found) < _rank(fill, now) and allowed(fill, found):
            yield found
    for at, value in enumerate(now if fill.total is None or fill.segments[0] == 1 else ()):
        for one in _nearer(fill, value):
            found = _with(fill, now, at, one)
            if _rank(fill, found) < _rank(fill, now) and allowed(fill, found):
                yield found


def _home(fill: Fill) -> int | float:
    """The simplest element: the first that is listed, or what is nearest to zero."""
    if listed := fill.values.domain.values:
        return listed[0] if fill.floating else int(listed[0])
    if fill.floating:
        return min(max(0.0, fill.bounds[0]), fill.bounds[1])
    low, high = _ends(fill)
    return min(max(0, low), high)


def _bold(fill: Fill, now: Values) -> Iterator[tuple[int | float, ...]]:
    """All elements at once."""
    if fill.total is not None:
        if fill.segments[0] != 1:  # several rows of them are left as they are
            return
        count = len(_lengths(fill, now))
        for at in (0, count - 1):
            yield _held(fill, [fill.total * (k == at) for k in range(count)])
        return
    home = _home(fill)
    yield (home,) * len(now)
    if not fill.floating and len(now) > 1:
        yield tuple(int(home) + k for k in range(len(now)))
        yield (now[0],) * len(now)


def nearer(home: int, value: int) -> Iterator[int]:
    """Whole numbers between, from the simplest on to what is one step away: few tries find where something begins."""
    way = 1 if value > home else -1
    yield from (home, home + way)
    gap = abs(value - home) // 2
    while gap:
        yield value - way * gap
        gap //= 2


def _nearer(fill: Fill, value: int | float) -> Iterator[int | float]:
    """One element in place of another, the simplest first."""
    listed, home = fill.values.domain.values, _home(fill)
    if listed:
        yield from (v if fill.floating else int(v) for v in listed[: listed.index(value)] if value in listed)
    elif isinstance(value, int):
        yield from nearer(int(home), value)
    else:
        yield from (home, 1.0, *(float(f"{value:.{digits}g}") for digits in (1, 2, 3)))


def _rank(fill: Fill, values: Values) -> tuple[float, ...]:
    """How far from simple."""
    listed, home = fill.values.domain.values, _home(fill)
    if listed:
        return (sum(listed.index(v) if v in listed else len(listed) for v in values),)
    if fill.floating:
        return (sum(len(repr(float(v))) for v in values), sum(map(abs, values)))
    if fill.total is not None:
        lengths = _lengths(fill, values)
        return (sum(n > 0 for n in lengths), sum(n * at for at, n in enumerate(lengths)))
    return (sum(abs(v - home) for v in values),)


def _with(fill: Fill, now: Values, at: int, value: int | float) -> tuple[int | float, ...]:
    """One element another; of what adds up, one segment as long as the element would be, the rest in the one before."""
    if fill.total is None:
        return (*now[:at], value, *now[at + 1 :])
    lengths = _lengths(fill, now)
    at = min(at, len(lengths) - 1)
    into = at - 1 if at else 1
    if len(lengths) > 1:
        lengths[into], lengths[at] = lengths[into] + lengths[at], 0
    return _held(fill, lengths)


def _lengths(fill: Fill, values: Values) -> list[int]:
    """Of what adds up, in one row."""
    return [int(n) for n in _segments(fill, np.asarray(values, object).reshape(1, -1)).reshape(-1)]


def _held(fill: Fill, lengths: Sequence[int]) -> tuple[int, ...]:
    """The elements that say these lengths, in one row."""
    domain = fill.values.domain
    if not domain.cuts:
        return tuple(lengths)
    ends = np.cumsum(lengths).tolist()
    return (0, *ends) if domain.offsets is not None else tuple(ends)
