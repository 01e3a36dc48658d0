"""Numbers passed by value that have few values: flags, modes, choices. Each value is a variant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from validator.differential.inputs.fill import Fill
from validator.differential.inputs.variant import Variant
from validator.differential.numbers import Array, Source
from validator.manifest.contract import Role

__all__ = ["LISTED"]

_MOST = 8
"""Values of which each is a variant; of more, some are drawn."""
_NTH = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def _values(fill: Fill) -> Sequence[float]:
    """What such a number may be; nothing where it may be anything."""
    d = fill.values.domain
    if fill.role is not Role.SCALAR or fill.shape:
        return ()
    if d.values:
        return d.values
    bounded = fill.dtype.kind == "b" or (d.low is not None and d.high is not None)
    if fill.floating or not fill.free or not bounded:
        return ()
    low, high = (0, 1) if fill.dtype.kind == "b" else fill.integers
    return range(low, high + 1) if high - low < _MOST else ()


def _listed(at: int) -> Variant:
    def make(fill: Fill, source: Source) -> Array:
        return np.asarray(_values(fill)[at]).astype(fill.dtype)

    words = f"is the {_NTH[at]} of the values that it may have"
    return Variant(f"listed-{at}", "choice", words, lambda f: at < len(_values(f)) <= _MOST, make, alone=False)


LISTED: tuple[Variant, ...] = tuple(map(_listed, range(_MOST)))
"""In the order in which the contract lists them."""
