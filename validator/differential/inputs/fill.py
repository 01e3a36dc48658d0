"""What a variant needs to know of the argument that it fills, and the plain filling itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validator.differential.numbers import CHUNK, Array, Source, in_chunks, is_float, largest
from validator.manifest.contract import Role, Values

__all__ = [
    "Fill",
    "Room",
    "as_segments",
    "drawn_segments",
    "filled",
    "in_domain",
    "in_range",
    "is_bounded",
    "ranged",
    "shown",
    "within",
]

_WIDEST = 1 << 62
_BELL = 4.0
"""No bell is as large: what may be, in either direction, needs not be moved into the domain."""
Room = Callable[[tuple[int, ...], np.dtype[Any]], Array]
"""Memory for an array of this shape and type."""


@dataclass(frozen=True, slots=True)
class Fill:
    """One argument of one case."""

    name: str
    role: Role | None
    values: Values
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    extent: int = 0
    """For an index, lengths or cuts: positions along the axis that they speak of."""
    page: int = 1
    """Slots of one of the pages that lengths speak of."""
    total: int | None = None
    """What the elements, or the lengths of segments between them, must add up to."""
    beside: int = 0
    """What numbers may be compared with: what lengths count to, or else the size that most dimensions have."""
    between: tuple[int, int] | None = None
    """First and last number of a range that numbers passed by value name, where they do."""
    spare: bool = False
    """Of an index: some positions are left for no entry to point to."""
    room: Room = field(default=np.empty, compare=False)
    """Where a large array is drawn."""

    @property
    def floating(self) -> bool:
        return is_float(self.dtype)

    @property
    def bounds(self) -> tuple[float, float]:
        """Least and greatest element that the domain and the type allow."""
        top = largest(self.dtype)
        least = (
            -top if self.floating else float(0 if self.dtype.kind in "bu" or "uint" in self.dtype.name else -top - 1)
        )
        low, high = self.values.domain.fixed
        return max(least, low) if low is not None else least, min(top, high) if high is not None else top

    def ends(self, low: float, high: float) -> tuple[float, float]:
        """The domain's ends; these where it names none."""
        least, most = self.values.domain.fixed
        return least if least is not None else low, most if most is not None else high

    @property
    def whole(self) -> bool:
        """Integers that may be anything their type holds where no bound is given: packed weights, ids, hashes.

        Not what is likely to count or to point somewhere, and only says so in words.
        """
        counts = self.role in (Role.INDEX, Role.SCALAR, Role.FLAG, Role.MAILBOX)
        return not self.floating and self.free and not counts

    @property
    def integers(self) -> tuple[int, int]:
        """`bounds` as whole numbers; of 64-bit types as far as a signed distance can be told."""
        low, high = self.bounds
        return max(math.ceil(low), -_WIDEST), min(math.floor(high), _WIDEST - 1)

    @property
    def free(self) -> bool:
        """Nothing but bounds restricts the elements."""
        d = self.values.domain
        return not (d.speaks_of or d.probability or d.values or d.sum or d.hangs_on or d.unique or d.sorted)

    @property
    def distinct(self) -> tuple[int, int]:
        """(rows, elements in each of them of which none occurs twice)."""
        if self.values.domain.unique == "rows" and self.shape:
            return math.prod(self.shape[:-1]), self.shape[-1]
        return 1, math.prod(self.shape)

    @property
    def lengths(self) -> tuple[int, int]:
        """Least and greatest length, of what a length counts or of a segment."""
        low, high = self.values.domain.fixed
        most = self.extent if self.values.domain.speaks_of else self.total or 0
        return max(int(low or 0), 0), min(int(high), most) if high is not None else most

    @property
    def segments(self) -> tuple[int, int]:
        """(rows, lengths in each of them that add up to `total`)."""
        if not self.values.domain.cuts:
            return 1, math.prod(self.shape)
        return math.prod(self.shape[:-1]), max(self.shape[-1] - (self.values.domain.offsets is not None), 0)


def filled(fill: Fill, source: Source) -> Array:
    """Ordinary values within the domain."""
    d = fill.values.domain
    if d.values:
        return np.asarray(d.values)[source.below(len(d.values), fill.shape)].astype(fill.dtype)
    if d.index is not None:
        return _indices(fill, source)
    if fill.total is not None:
        return as_segments(fill, drawn_segments(fill, source, fill.segments[1]))
    if d.lengths is not None:
        least, most = fill.lengths
        return (least + source.below(most - least + 1, fill.shape)).astype(fill.dtype)
    if d.hangs_on is not None:
        least, most = fill.integers
        return np.asarray(source.below(most - least + 1, fill.shape) + least).astype(fill.dtype)
    low, high = fill.bounds
    given = d.low is not None, d.high is not None
    if not fill.floating:
        if fill.whole and not all(given) and (fill.dtype.itemsize == 1 or source.below(2, (1,))[0]):
            least, most = fill.integers
            return in_domain(fill, least + source.below(most - least + 1, fill.shape))
        low, high = (low if given[0] else max(low, -100.0)), (high if given[1] else min(high, 100.0))
        if d.unique:
            high = max(high, low + fill.distinct[1]) if not given[1] else high
            return in_domain(fill, (low + _different(fill, source, int(high - low) + 1)).reshape(fill.shape))
        found = low + source.below(int(high - low) + 1, fill.shape)
        if ranged(fill):
            found = np.where(source.below(2, fill.shape) == 0, found, in_range(fill, source))
        return in_domain(fill, found)

    def drawn(shape: tuple[int, ...]) -> NDArray[np.float64]:
        match given:
            case (True, True):
                return low + (high - low) * source.uniform(shape)
            case (True, False):
                return low + np.abs(source.bell(shape))
            case (False, True):
                return high - np.abs(source.bell(shape))
            case _:
                return source.bell(shape)

    if d.probability or d.sorted:  # rows hang together
        return in_domain(fill, drawn(fill.shape))
    values = fill.room(fill.shape, fill.dtype)
    if not any(given) and low <= -_BELL and high >= _BELL:
        source.bell_into(values.reshape(-1))
        return values
    for (part,) in in_chunks(values):
        part[...] = in_domain(fill, drawn(part.shape))
    return values


def in_domain(fill: Fill, data: NDArray[Any]) -> Array:
    """The values moved to the nearest ones that the contract allows, in the argument's type."""
    d, given = fill.values.domain, np.asarray(data)
    if d.probability or d.sorted or given.size <= CHUNK:
        return _moved(fill, given)
    found = fill.room(given.shape, fill.dtype)
    for into, part in in_chunks(found, given):
        into[...] = _moved(fill, part)
    return found


def _moved(fill: Fill, data: NDArray[Any]) -> Array:
    """The same, all at once."""
    d = fill.values.domain
    low, high = fill.bounds
    if not fill.floating and data.dtype.kind == "f":
        data = np.clip(data, -(2.0**63), 2.0**62)
    wide = np.asarray(data, dtype=np.float64 if fill.floating else np.int64)
    if fill.floating:
        wide = np.where(np.isfinite(wide), np.clip(wide, low, high), wide)
    elif fill.dtype.kind != "b":
        wide = np.clip(wide, int(low), int(high) if high < 2.0**62 else 2**62)
    if d.probability and wide.ndim and wide.shape[-1]:
        wide = np.abs(wide)
        total = wide.sum(axis=-1, keepdims=True)
        wide = np.where(total > 0, wide / np.where(total > 0, total, 1.0), 1.0 / wide.shape[-1])
    if d.sorted and wide.ndim:
        wide = np.sort(wide, axis=-1)
    return wide.astype(fill.dtype)


def shown(fill: Fill, data: Array, source: Source) -> Array:
    """The same with one place shown in each row in which all were hidden, where the contract says that something is."""
    if fill.values.domain.some is None or not data.size:
        return data
    rows = data.reshape(-1, data.shape[-1])
    hidden = np.flatnonzero((np.isneginf(rows.astype(np.float64)) if fill.floating else rows == 0).all(axis=-1))
    if hidden.size:
        rows = rows.copy()
        rows[hidden, source.below(rows.shape[1], hidden.shape)] = 0 if fill.floating else 1
    return rows.reshape(data.shape)


def _indices(fill: Fill, source: Source) -> Array:
    """Valid positions; without repeats where the contract says so, and no entry where there are too few of them."""
    d = fill.values.domain
    if d.unique:
        places = _different(fill, source, fill.extent)
        found = np.full(fill.distinct, d.sentinel or 0)
        found[:, : places.shape[1]] = places
        found = found.reshape(fill.shape)
    elif fill.spare:
        places = source.order(fill.extent)[: -(-fill.extent // 2)]
        found = places[source.below(len(places), fill.shape)]
    else:
        found = source.below(fill.extent, fill.shape)
    return (np.sort(found, axis=-1) if d.sorted and found.ndim else found).astype(fill.dtype)


def is_bounded(fill: Fill) -> bool:
    """Whether it is an array of whole numbers between two bounds, and nothing else restricts them."""
    d = fill.values.domain
    bounded = d.low is not None and d.high is not None and bool(fill.shape) and fill.free
    return bounded and not fill.floating and fill.dtype.kind != "b"


def ranged(fill: Fill) -> bool:
    """Whether its whole numbers may be held against a range that is passed by value: ids of a part of a vocabulary."""
    return fill.between is not None and is_bounded(fill)


def in_range(fill: Fill, source: Source) -> NDArray[np.int64]:
    """Numbers between the ends of that range, the two of them and what lies beside them among them."""
    first, last = fill.between or (0, 0)
    ends = np.asarray([first, last, first - 1, last + 1])[source.below(4, fill.shape)]
    inside = first + source.below(max(last - first + 1, 1), fill.shape)
    return np.where(source.below(2, fill.shape) == 0, ends, inside)


_AT_ONCE = 1 << 22
"""Numbers that are put in order for rows of their own."""


def _different(fill: Fill, source: Source, count: int) -> NDArray[np.int64]:
    """Rows of numbers below a count, none twice in a row, as many as there are."""
    rows, width = fill.distinct
    if rows * count <= _AT_ONCE:
        order = np.argsort(source.raw(rows * count).reshape(rows, count), axis=1, kind="stable")
        return order[:, :width].astype(np.int64)
    first = source.below(count, (rows, 1))  # one order, which each row takes up elsewhere
    return np.asarray(source.order(count)[(first + np.arange(min(width, count))) % count])


def drawn_segments(fill: Fill, source: Source, count: int) -> NDArray[np.int64]:
    """So many lengths, a row for each of the argument's, between places that are drawn."""
    rows, _ = fill.segments
    total = fill.total or 0
    places = np.sort(source.below(total + 1, (rows, max(count - 1, 0))), axis=1)
    return within(fill, np.diff(places, prepend=0, append=total, axis=1)[:, :count])


def within(fill: Fill, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Lengths, a row each, as near as they can be within their bounds and adding up to the total.

    What is missing goes to the last of them, as far as there is room.
    """
    low, high = fill.lengths
    found = np.clip(lengths, low, high)
    missing = (fill.total or 0) - found.sum(axis=1, keepdims=True)
    room = np.where(missing > 0, high - found, found - low)
    behind = np.cumsum(room[:, ::-1], axis=1)[:, ::-1] - room
    return np.asarray(found + np.sign(missing) * np.clip(np.abs(missing) - behind, 0, room))


def as_segments(fill: Fill, lengths: NDArray[np.int64]) -> Array:
    """Lengths, a row each, as the argument holds them: as they are, or where each ends."""
    domain = fill.values.domain
    found = np.cumsum(lengths, axis=1) if domain.cuts else lengths
    if domain.offsets is not None:
        found = np.pad(found, ((0, 0), (1, 0)))[:, : fill.shape[-1]]
    return found.reshape(fill.shape).astype(fill.dtype)
