"""What a variant needs to know of the argument that it fills, and the plain filling itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validator.differential.numbers import Array, Source, in_chunks, is_float, largest
from validator.manifest.contract import Role, Values

__all__ = ["Fill", "Room", "filled", "in_domain"]

_WIDEST = 1 << 62
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
    """For an index or a length: positions along the axis it points into."""
    total: int | None = None
    """What the elements must add up to."""
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
        return not (d.index or d.lengths or d.probability or d.values or d.sum or d.unique or d.sorted)


def filled(fill: Fill, source: Source) -> Array:
    """Ordinary values within the domain."""
    d = fill.values.domain
    if d.values:
        return np.asarray(d.values)[source.below(len(d.values), fill.shape)].astype(fill.dtype)
    if d.index is not None:
        return _indices(fill, source)
    if d.lengths is not None or d.sum is not None:
        return _lengths(fill, source)
    low, high = fill.bounds
    given = d.low is not None, d.high is not None
    if not fill.floating:
        if fill.whole and not all(given) and (fill.dtype.itemsize == 1 or source.below(2, (1,))[0]):
            least, most = fill.integers
            return in_domain(fill, least + source.below(most - least + 1, fill.shape))
        low, high = (low if given[0] else max(low, -100.0)), (high if given[1] else min(high, 100.0))
        if d.unique:
            size = int(np.prod(fill.shape, dtype=np.int64))
            high = max(high, low + size) if not given[1] else high
            return in_domain(fill, (low + source.order(int(high - low) + 1)[:size]).reshape(fill.shape))
        return in_domain(fill, low + source.below(int(high - low) + 1, fill.shape))

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
    for (part,) in in_chunks(values):
        part[...] = in_domain(fill, drawn(part.shape))
    return values


def in_domain(fill: Fill, data: NDArray[Any]) -> Array:
    """The values moved to the nearest ones that the contract allows, in the argument's type."""
    d = fill.values.domain
    low, high = fill.bounds
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


def _indices(fill: Fill, source: Source) -> Array:
    """Valid positions; without repeats when the contract says so (as far as there are enough positions)."""
    size = int(np.prod(fill.shape, dtype=np.int64))
    if fill.values.domain.unique and size <= fill.extent:
        flat = source.order(fill.extent)[:size]
    else:
        flat = source.below(fill.extent, (size,))
    flat = np.sort(flat) if fill.values.domain.sorted else flat
    return flat.reshape(fill.shape).astype(fill.dtype)


def _lengths(fill: Fill, source: Source) -> Array:
    """How much of an axis is in use; cut points when the sum is given."""
    size = int(np.prod(fill.shape, dtype=np.int64))
    if fill.total is not None and size:
        cuts = np.sort(source.below(fill.total + 1, (size - 1,)))
        return np.diff(cuts, prepend=0, append=fill.total).reshape(fill.shape).astype(fill.dtype)
    low = int(fill.values.domain.low or 0)
    return (low + source.below(fill.extent - low + 1, fill.shape)).astype(fill.dtype)
