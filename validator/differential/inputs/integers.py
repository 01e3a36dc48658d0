"""Integer values: indices, lengths and plain numbers at their edges."""

from __future__ import annotations

import numpy as np

from validator.differential.inputs.fill import Fill, filled, in_domain
from validator.differential.inputs.variant import Variant
from validator.differential.numbers import Array, Source

__all__ = ["INTEGERS"]


def _size(fill: Fill) -> int:
    return int(np.prod(fill.shape, dtype=np.int64))


def _index(fill: Fill) -> bool:
    return fill.values.domain.index is not None


def _lengths(fill: Fill) -> bool:
    return fill.values.domain.lengths is not None and fill.values.domain.sum is None


def _shaped(fill: Fill, flat: object) -> Array:
    return np.asarray(flat).reshape(fill.shape).astype(fill.dtype)


def _ends(fill: Fill, source: Source) -> Array:
    """The last position, then the first, then the second last: where an off-by-one shows."""
    size = _size(fill)
    walk = np.empty(size, np.int64)
    walk[0::2] = fill.extent - 1 - np.arange(len(walk[0::2]))
    walk[1::2] = np.arange(len(walk[1::2]))
    walk = walk % max(fill.extent, 1)
    return _shaped(fill, np.sort(walk) if fill.values.domain.sorted else walk)


def _holes(fill: Fill, source: Source) -> Array:
    data = filled(fill, source).reshape(-1)
    if data.size:
        data[source.below(2, data.shape) == 0] = fill.values.domain.sentinel
        data[int(source.below(data.size, (1,))[0])] = fill.values.domain.sentinel
    return data.reshape(fill.shape)


def _holes_inside(fill: Fill, source: Source) -> Array:
    """As `_holes`, and neither the first place nor the last is used: what "no entry" is taken for lies unused."""
    data = _holes(fill, source)
    inside = np.clip(data.astype(np.int64), 1, max(fill.extent - 2, 1))
    return np.where(data == fill.values.domain.sentinel, data, inside.astype(data.dtype))


def _extremes(fill: Fill, source: Source) -> Array:
    low, high = fill.integers
    return in_domain(fill, np.where(source.below(2, fill.shape) == 0, low, high))


def _bounded(fill: Fill) -> bool:
    d = fill.values.domain
    return fill.whole or (not fill.floating and fill.free and d.low is not None and d.high is not None)


INTEGERS: tuple[Variant, ...] = (
    Variant("one-place", "I8", "points to one place throughout",
            lambda f: _index(f) and not f.values.domain.unique and f.extent > 0,
            lambda f, s: _shaped(f, np.full(_size(f), s.below(f.extent, (1,))[0]))),
    Variant("ends", "I2", "points to the last and first places",
            lambda f: _index(f) and f.extent > 0 and (not f.values.domain.unique or _size(f) <= f.extent), _ends),
    Variant("reversed", "I11", "counts down",
            lambda f: _index(f) and not f.values.domain.sorted and 0 < _size(f) <= f.extent,
            lambda f, s: _shaped(f, np.arange(_size(f))[::-1])),
    Variant("holes", "I7", "has entries that mean nothing",
            lambda f: not f.floating and f.values.domain.sentinel is not None, _holes),
    Variant("holes-inside", "I7", "has entries that mean nothing and leaves the first and the last place unused",
            lambda f: _index(f) and f.values.domain.sentinel is not None and f.extent > 2
            and not f.values.domain.unique and not f.values.domain.sorted, _holes_inside),
    Variant("full", "I2", "uses everything", _lengths, lambda f, s: _shaped(f, np.full(_size(f), f.extent))),
    Variant("empty", "I3", "uses nothing", lambda f: _lengths(f) and f.ends(0, 0)[0] <= 0,
            lambda f, s: _shaped(f, np.zeros(_size(f)))),
    Variant("single", "I4", "uses one", lambda f: _lengths(f) and f.extent >= 1 and f.ends(0, 0)[0] <= 1,
            lambda f, s: _shaped(f, np.ones(_size(f)))),
    Variant("extremes", "I10", "is at the ends of its range", _bounded, _extremes),
)  # fmt: skip
"""In the order in which they are tried."""
