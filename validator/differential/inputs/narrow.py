"""Values that small types have nothing for: half way between two of theirs, where rounding has to choose."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from validator.differential.inputs.fill import Fill
from validator.differential.inputs.floats import by_parts
from validator.differential.inputs.variant import Variant
from validator.differential.numbers import Array, Source, dtype_of, is_float

__all__ = ["BETWEEN", "NARROW", "SCALED", "TOPS"]

BETWEEN = {name: f"between-{name}" for name in ("float8_e4m3fn", "float8_e5m2", "float4_e2m1fn")}
"""Small type → the variant whose values lie half way between two of its neighbours."""


def _halves(name: str) -> NDArray[np.float64]:
    """Half way between two neighbours, those of both signs; exact in every wider type."""
    values = np.arange(256, dtype=np.uint8).view(dtype_of(name)).astype(np.float64)
    known = np.unique(values[np.isfinite(values)])
    return np.asarray((known[1:] + known[:-1]) / 2)


def _between(name: str) -> Variant:
    halves = _halves(name)

    def held(fill: Fill) -> NDArray[np.float64]:
        """Those that the argument can hold."""
        low, high = fill.bounds
        inside = halves[(halves >= low) & (halves <= high)]
        return np.asarray(inside[inside.astype(fill.dtype).astype(np.float64) == inside])

    def applies(fill: Fill) -> bool:
        return is_float(fill.dtype) and fill.dtype.itemsize > 1 and fill.free and len(held(fill)) > 1

    def make(fill: Fill, source: Source) -> Array:
        some = held(fill)
        return by_parts(fill, some.take, source.below(len(some), fill.shape, np.int16))

    words = f"lies half way between values of {name}"
    return Variant(BETWEEN[name], "I8", words, applies, make, alone=False)


TOPS = {"int8": 127.0, "int4": 7.0, "float8_e4m3fn": 448.0, "float8_e5m2": 57344.0, "float4_e2m1fn": 6.0}
"""Type → what a scale that is computed makes of the largest element of its row or block. In float32 all of the usual
ways to divide by it, or to multiply by its inverse, are exact where that element is this times a power of two."""
SCALED = {name: f"scaled-{name}" for name in TOPS}
"""Small type → the variant whose rows lie half way between its neighbours by such a scale."""
_BLOCK = 16
"""Elements of the smallest block that has a scale of its own."""
_POWERS = 7


def _scaled(name: str) -> Variant:
    top = TOPS[name]
    halves = _halves(name) if name in BETWEEN else np.arange(0.5 - top, top)

    def held(fill: Fill) -> NDArray[np.float64]:
        return np.asarray(halves[(np.abs(halves) < top) & (halves.astype(fill.dtype).astype(np.float64) == halves)])

    def applies(fill: Fill) -> bool:
        wide = is_float(fill.dtype) and fill.dtype.itemsize > 1 and bool(fill.shape) and fill.shape[-1] > 1
        low, high = fill.bounds
        return wide and fill.free and min(high, -low) >= top * 2.0 ** (_POWERS // 2) and len(held(fill)) > 1

    def make(fill: Fill, source: Source) -> Array:
        some = held(fill)
        powers = source.below(_POWERS, (*fill.shape[:-1], 1), np.int8) - _POWERS // 2
        first = np.arange(fill.shape[-1]) % _BLOCK == 0

        def made(at: Array, power: Array, is_first: Array) -> Array:
            values = np.where(is_first, np.where(at % 2 == 0, top, -top), some[at])
            return np.asarray(np.ldexp(values, power))

        at = source.below(len(some), fill.shape, np.int16)
        return by_parts(fill, made, at, *(np.broadcast_to(one, fill.shape) for one in (powers, first)))

    words = f"lies half way between values of {name} where the largest of its row becomes {top:g}"
    return Variant(SCALED[name], "I8", words, applies, make, alone=False)


NARROW: tuple[Variant, ...] = (*map(_between, BETWEEN), *map(_scaled, TOPS))
"""In the order in which they are tried."""
