"""Integer values: indices, lengths and plain numbers at their edges."""

from __future__ import annotations

import numpy as np

from validator.differential.inputs.fill import (
    Fill,
    as_segments,
    drawn_segments,
    filled,
    in_domain,
    in_range,
    ranged,
    within,
)
from validator.differential.inputs.variant import Make, Variant
from validator.differential.numbers import Array, Source
from validator.manifest.contract import Role

__all__ = ["INTEGERS"]


def _size(fill: Fill) -> int:
    return int(np.prod(fill.shape, dtype=np.int64))


def _index(fill: Fill) -> bool:
    return fill.values.domain.index is not None


def _lengths(fill: Fill) -> bool:
    return fill.values.domain.lengths is not None and fill.total is None


def _shaped(fill: Fill, flat: object) -> Array:
    return np.asarray(flat).reshape(fill.shape).astype(fill.dtype)


def _ends(fill: Fill, source: Source) -> Array:
    """The last position, then the first, then the second last: where an off-by-one shows."""
    rows, size = fill.distinct
    walk = np.empty(size, np.int64)
    walk[0::2] = fill.extent - 1 - np.arange(len(walk[0::2]))
    walk[1::2] = np.arange(len(walk[1::2]))
    walk = walk % max(fill.extent, 1)
    return _shaped(fill, np.tile(np.sort(walk) if fill.values.domain.sorted else walk, rows))


def _in_turn(fill: Fill, source: Source) -> Array:
    """One position after the other, over again where there are fewer: what is gathered is all that there is."""
    walk = np.arange(_size(fill)) % fill.extent
    return _shaped(fill, np.sort(walk) if fill.values.domain.sorted else walk)


def _enough(fill: Fill) -> bool:
    """Whether there is a position for every entry that must not be that of another."""
    return _index(fill) and fill.extent > 0 and (not fill.values.domain.unique or fill.distinct[1] <= fill.extent)


def _holes(fill: Fill, source: Source) -> Array:
    data = filled(fill, source).reshape(-1)
    if data.size:
        data[source.below(2, data.shape) == 0] = fill.values.domain.sentinel
        data[int(source.below(data.size, (1,))[0])] = fill.values.domain.sentinel
    return data.reshape(fill.shape)


def _holes_inside(fill: Fill, source: Source) -> Array:
    """As `_holes`, and neither the first place nor the last is used: what "no entry" is taken for lies unused."""
    data = _holes(fill, source).reshape(-1)
    used = np.flatnonzero(data != fill.values.domain.sentinel)
    places = np.clip(data[used].astype(np.int64), 1, fill.extent - 2)
    if fill.values.domain.unique:
        places = 1 + source.order(fill.extent - 2)[: len(used)]
        data[used[len(places) :]] = fill.values.domain.sentinel
    data[used[: len(places)]] = places
    return data.reshape(fill.shape)


def _extremes(fill: Fill, source: Source) -> Array:
    low, high = fill.integers
    return in_domain(fill, np.where(source.below(2, fill.shape) == 0, low, high))


def _row_by_row(fill: Fill, source: Source) -> Array:
    """One value throughout each row, row after row: nothing, all bits, either end of the range."""
    (low, high), bits = fill.integers, -1 if fill.integers[0] < 0 else fill.integers[1]
    few = np.asarray(list(dict.fromkeys(v for v in (0, low, bits, high) if low <= v <= high)))
    rows = int(np.prod(fill.shape[:-1], dtype=np.int64))
    found = few[(np.arange(rows) + source.below(len(few), ())) % len(few)].reshape(*fill.shape[:-1], 1)
    return in_domain(fill, np.broadcast_to(found, fill.shape))


def _beside_pages(fill: Fill, source: Source) -> Array:
    whole = fill.page * (1 + source.below(max(fill.lengths[1] // fill.page, 1), (_size(fill),)))
    by = (np.arange(_size(fill)) + source.below(3, ())) % 3 - 1
    return _shaped(fill, np.clip(whole + by, *fill.lengths))


def _segments(fill: Fill, *, most: int = 0, least: int = 0) -> bool:
    """Whether something is cut into segments, of which one may be as long as `most` and as short as `least`."""
    low, high = fill.lengths
    several = not fill.floating and bool(fill.total) and fill.segments[1] > 1
    return several and most <= high and low <= least


def _with_empty(at: int) -> Variant:
    """Nothing in one segment, and everything in the others."""

    def applies(fill: Fill) -> bool:
        others = fill.segments[1] - 1
        return _segments(fill) and at < others and fill.lengths[1] * others >= (fill.total or 0)

    def make(fill: Fill, source: Source) -> Array:
        lengths = drawn_segments(fill, source, fill.segments[1] - 1)
        return as_segments(fill, np.insert(lengths, at if at >= 0 else lengths.shape[1], 0, axis=1))

    name = {0: "first", 1: "second", -1: "last"}[at]
    return Variant(f"{name}-empty", "I3", f"has nothing in its {name} segment", applies, make)


def _all_in_one(fill: Fill, source: Source) -> Array:
    rows, count = fill.segments
    at = source.below(count, (rows, 1))
    return as_segments(fill, np.where(np.arange(count) == at, fill.total or 0, 0))


def _in_ones(fill: Fill) -> bool:
    rest = (fill.total or 0) - fill.segments[1] + 1
    return rest > 0 and _segments(fill, most=rest, least=1)


_BESIDE = [power + by for power in (256, 128, 64, 32, 16, 8, 4, 2) for by in (1, 0, -1)]
"""Powers of two, one more and one less: where tiles end."""


def _long_beside_powers(fill: Fill, source: Source) -> Array:
    low, high = fill.lengths
    sizes = np.asarray([size for size in _BESIDE if low <= size <= high])
    return _shaped(fill, sizes[(np.arange(_size(fill)) + source.below(len(sizes), ())) % len(sizes)])


def _some_unused(fill: Fill) -> bool:
    return _lengths(fill) and fill.lengths[0] <= 0 < fill.lengths[1] and _size(fill) > 1


def _unused(places: slice) -> Make:
    """Nothing in some places, something in all others."""

    def make(fill: Fill, source: Source) -> Array:
        data = np.maximum(filled(fill, source).reshape(-1), 1)
        data[places] = 0
        return _shaped(fill, data)

    return make


def _tiles(fill: Fill, source: Source) -> Array:
    """All as long as the largest power of two that fits in, one after the other."""
    total = fill.total or 0
    size = 1 << min(total.bit_length() - 1, 7)
    places = np.minimum(size * np.arange(1, fill.segments[1] + 1), total)
    return as_segments(fill, within(fill, np.tile(np.diff(places, prepend=0), (fill.segments[0], 1))))


def _beside_powers(fill: Fill, source: Source) -> Array:
    """The largest first that fit in twice."""
    (rows, count), total, (low, high) = fill.segments, fill.total or 0, fill.lengths
    sizes = [size for size in _BESIDE if low <= size <= min(high, total // 2)]
    places = np.minimum(np.cumsum(np.resize(sizes, count)), total)
    return as_segments(fill, within(fill, np.tile(np.diff(places, prepend=0), (rows, 1))))


def _beside(by: int) -> Variant:
    """A number passed by value: as large as something is long, or one more or less."""

    def applies(fill: Fill) -> bool:
        low, high = fill.integers if not fill.floating else (0, -1)
        number = fill.role is Role.SCALAR and fill.beside > 0
        return number and fill.free and low <= fill.beside + by <= high

    name = {-1: "one-fewer", 0: "as-many", 1: "one-more"}[by]
    words = {-1: "one less than", 0: "as large as", 1: "one more than"}[by]
    make = lambda f, s: _shaped(f, np.full(_size(f), f.beside + by))  # noqa: E731
    return Variant(name, "I2", f"is {words} an axis is long", applies, make, alone=False)


def _around(fill: Fill, source: Source) -> Array:
    return in_domain(fill, fill.beside - 1 + source.below(3, fill.shape))


def _end(at: int) -> Make:
    return lambda fill, source: in_domain(fill, np.full(fill.shape, fill.integers[at]))


def _ascending(fill: Fill) -> bool:
    """Whole numbers between two bounds that only ever grow: ids of segments, places where they begin."""
    d = fill.values.domain
    bounded = d.low is not None and d.high is not None and bool(fill.shape)
    return bounded and d.sorted and not (fill.floating or d.unique or d.values or d.speaks_of or d.sum)


def _one_step(fill: Fill, source: Source) -> Array:
    """All that is low, then all that is high."""
    low, high = fill.integers
    width = fill.shape[-1]
    first = 1 + source.below(max(width - 1, 1), (*fill.shape[:-1], 1))
    return in_domain(fill, np.broadcast_to(np.where(np.arange(width) < first, low, high), fill.shape))


def _no_step(fill: Fill, source: Source) -> Array:
    low, high = fill.integers
    return in_domain(fill, np.full(fill.shape, low + source.below(high - low + 1, ())))


def _steps_of_one(fill: Fill, source: Source) -> Array:
    return in_domain(fill, np.broadcast_to(fill.integers[0] + np.arange(fill.shape[-1]), fill.shape))


def _bounded(fill: Fill) -> bool:
    d = fill.values.domain
    return fill.whole or (not fill.floating and fill.free and d.low is not None and d.high is not None)


INTEGERS: tuple[Variant, ...] = (
    Variant("in-turn", "exact", "points to one place after the other", _enough, _in_turn, alone=False),
    Variant("one-place", "I8", "points to one place throughout",
            lambda f: _index(f) and not f.values.domain.unique and f.extent > 0,
            lambda f, s: _shaped(f, np.full(_size(f), s.below(f.extent, (1,))[0]))),
    Variant("ends", "I2", "points to the last and first places",
            _enough, _ends),
    Variant("reversed", "I11", "counts down",
            lambda f: _index(f) and not f.values.domain.sorted and 0 < _size(f) <= f.extent,
            lambda f, s: _shaped(f, np.arange(_size(f))[::-1])),
    Variant("holes", "I7", "has entries that mean nothing",
            lambda f: not f.floating and f.values.domain.sentinel is not None, _holes),
    Variant("all-holes", "I3", "has nothing but entries that mean nothing",
            lambda f: not f.floating and f.values.domain.sentinel is not None,
            lambda f, s: _shaped(f, np.full(_size(f), f.values.domain.sentinel))),
    Variant("holes-inside", "I7", "has entries that mean nothing and leaves the first and the last place unused",
            lambda f: _index(f) and f.values.domain.sentinel is not None and f.extent > 2
            and not f.values.domain.sorted, _holes_inside),
    Variant("full", "I2", "uses everything", _lengths, lambda f, s: _shaped(f, np.full(_size(f), f.lengths[1]))),
    Variant("empty", "I3", "uses nothing", lambda f: _lengths(f) and f.lengths[0] <= 0,
            lambda f, s: _shaped(f, np.zeros(_size(f)))),
    Variant("first-unused", "I3", "uses nothing in the first place", _some_unused, _unused(slice(1))),
    Variant("every-other-unused", "I3", "uses nothing in every other place, from the first on", _some_unused,
            _unused(slice(None, None, 2))),
    Variant("single", "I4", "uses one", lambda f: _lengths(f) and f.lengths[0] <= 1 <= f.lengths[1],
            lambda f, s: _shaped(f, np.ones(_size(f)))),
    Variant("at-powers", "I2", "is as long as powers of two, one more and one less",
            lambda f: _lengths(f) and f.lengths[0] <= 3 <= f.lengths[1] and f.lengths[1] >= 5, _long_beside_powers),
    Variant("whole-pages", "I2", "fills its last page, or has one more or one less",
            lambda f: _lengths(f) and f.page > 1 and f.lengths[1] > f.page and f.lengths[0] <= f.page,
            _beside_pages),
    *map(_with_empty, (0, 1, -1)),
    Variant("one-segment", "I2", "has everything in one segment", lambda f: _segments(f, most=f.total or 0),
            _all_in_one),
    Variant("ones", "I4", "has one in each segment, and the rest in the last", _in_ones,
            lambda f, s: as_segments(f, within(f, np.ones(f.segments, np.int64)))),
    Variant("beside-powers", "I2", "has segments as long as powers of two, one more and one less",
            lambda f: _segments(f, most=3, least=3) and (f.total or 0) >= 16, _beside_powers),
    Variant("whole-tiles", "I2", "has segments of one power of two, and the rest in the next",
            lambda f: _segments(f, most=f.total or 0) and (f.total or 0) >= 16, _tiles),
    Variant("one-step", "I2", "is at the lower end of its range, then at the upper", _ascending, _one_step),
    Variant("steps-of-one", "I4", "goes up in steps of one", _ascending, _steps_of_one),
    Variant("never-grows", "I8", "has one value throughout", _ascending, _no_step),
    Variant("extremes", "I10", "is at the ends of its range", _bounded, _extremes),
    Variant("row-by-row", "I9", "has one value throughout each row: none, all bits or an end of its range",
            lambda f: _bounded(f) and bool(f.shape), _row_by_row),
    Variant("around", "I2", "is as much as an axis is long, one more or one less",
            lambda f: _bounded(f) and bool(f.shape) and f.integers[0] <= f.beside <= f.integers[1], _around,
            alone=False),
    Variant("in-range", "I2", "is at the ends of the range that is passed by value, beside them or between", ranged,
            lambda f, s: in_domain(f, in_range(f, s))),
    Variant("no-more", "I2", "is no more than what it has to hold", lambda f: f.values.domain.hangs_on is not None,
            lambda f, s: _shaped(f, np.full(_size(f), f.integers[0]))),
    Variant("far-more", "I2", "is as much as there can be", lambda f: f.values.domain.hangs_on is not None,
            lambda f, s: _shaped(f, np.full(_size(f), f.integers[1]))),
    Variant("highest", "I10", "is at the upper end of its range throughout", _bounded, _end(1), alone=False),
    Variant("lowest", "I10", "is at the lower end of its range throughout", _bounded, _end(0), alone=False),
    *map(_beside, (-1, 0, 1)),
)  # fmt: skip
"""In the order in which they are tried."""
