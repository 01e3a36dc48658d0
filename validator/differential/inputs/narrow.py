"""Values that small types have nothing for: half way between two of theirs, where rounding has to choose."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from validator.differential.inputs.fill import Fill
from validator.differential.inputs.floats import by_parts
from validator.differential.inputs.variant import Variant
from validator.differential.numbers import Array, Source, dtype_of, is_float

__all__ = ["BETWEEN", "NARROW"]

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


NARROW: tuple[Variant, ...] = tuple(map(_between, BETWEEN))
"""In the order in which they are tried."""
