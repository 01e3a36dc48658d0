"""Floating-point values that ordinary random numbers never show."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validator.differential.inputs.fill import Fill, filled, in_domain
from validator.differential.inputs.variant import Make, Variant
from validator.differential.numbers import Array, Source, eps_of, in_chunks, largest, smallest
from validator.differential.spill import room, spilled

__all__ = ["EXACTLY", "FLOATS", "HUGE", "LIMITS", "OUTWEIGHED", "by_parts", "cancels"]

HUGE = "huge"
"""The variant in which a trusted implementation may leave its type's range: nothing is said of what comes of that."""
LIMITS = "limits"
"""The variant in which all arithmetic overflows: only what is moved or chosen is judged."""
EXACTLY = "there-and-back"
"""The variant of which, beside ones, sums are small whole numbers, and exact in any order of a wider precision."""
OUTWEIGHED = frozenset({"peaked", "hot-last", "hot-first", "tail"})
"""Variants in which one term may be most of a sum."""

_MODERATE = 100.0
"""How large "large" is where the contract gives no bound: `exp` overflows in 32 bits, and no product does."""
_HUGE = 2.0**40
"""How large "huge" is: of 32 bits, a sum of products of three of them is still finite."""


def _free(fill: Fill) -> bool:
    return fill.floating and fill.free


def _has(fill: Fill, value: float) -> bool:
    low, high = fill.bounds
    return low <= value <= high


def _axes(fill: Fill) -> bool:
    return len(fill.shape) >= 1


def _ordinary(fill: Fill, source: Source) -> Array:
    """Values of which others are made; on disk where they are many."""
    return filled(replace(fill, room=room), source)


def _wide(fill: Fill, source: Source) -> NDArray[np.float64]:
    data = room(fill.shape, np.dtype(np.float64))
    data[...] = _ordinary(fill, source)
    return data


def _zeros(fill: Fill) -> NDArray[np.float64]:
    return spilled(fill.shape, np.dtype(np.float64))


def by_parts(fill: Fill, of: Callable[..., Array], *arrays: Array) -> Array:
    """What each element becomes of those at its place, moved into the domain; nothing as large as float64 is made."""
    found = fill.room(fill.shape, fill.dtype)
    for into, *parts in in_chunks(found, *arrays):
        into[...] = in_domain(fill, of(*parts))
    return found


def _choice(fill: Fill, source: Source, count: int) -> NDArray[np.int8]:
    """One of a few for each element."""
    return source.below(count, fill.shape, np.int8)


def _span(fill: Fill) -> tuple[float, float]:
    """The ends that "large" means: the domain's where it has them."""
    low, high = fill.bounds
    d = fill.values.domain
    return (low if d.low is not None else max(low, -_MODERATE)), (high if d.high is not None else min(high, _MODERATE))


def _large(fill: Fill, source: Source) -> Array:
    low, high = _span(fill)
    side, share = _choice(fill, source, 2), source.uniform(fill.shape)
    return by_parts(fill, lambda at, u: np.where(at == 0, low, high) * (0.75 + 0.25 * u), side, share)


def _huge(fill: Fill, source: Source) -> Array:
    low, high = fill.bounds
    end = min(_HUGE, largest(fill.dtype) / 8)
    low, high = max(low, -end), min(high, end)
    side, share = _choice(fill, source, 2), source.uniform(fill.shape)
    return by_parts(fill, lambda at, u: np.where(at == 0, low, high) * (0.25 + 0.75 * u), side, share)


def _limits(fill: Fill, source: Source) -> Array:
    """Up to the largest finite value, both signs, and plain ones among them; in every other row all as low as that."""
    plain, top = _ordinary(fill, source), largest(fill.dtype)
    side, share, kind = _choice(fill, source, 2), source.uniform(fill.shape), _choice(fill, source, 4)
    first = source.below(2, ())
    rows = np.indices(fill.shape[:-1]).sum(axis=0)[..., None] if fill.shape else first
    low = np.broadcast_to((rows + first) % 2 == 0, fill.shape)

    def made(plain: Array, side: Array, share: Array, kind: Array, low: Array) -> Array:
        far = np.where(side == 0, -top, top) * (1 - share / 8)
        mixed = np.where(kind == 0, plain.astype(np.float64), np.where(kind == 1, np.copysign(top, far), far))
        return np.where(low, -np.abs(far), mixed)

    return by_parts(fill, made, plain, side, share, kind, low)


def _unbounded(fill: Fill) -> bool:
    d = fill.values.domain
    return _free(fill) and d.low is None and d.high is None and fill.dtype.itemsize > 1


def _peaked(fill: Fill, source: Source) -> Array:
    data = _wide(fill, source)
    if data.size:
        rows = data.reshape(-1, data.shape[-1])
        rows[np.arange(len(rows)), source.below(rows.shape[1], (len(rows),))] = _span(fill)[1]
    return in_domain(fill, data)


def _tied(fill: Fill, source: Source) -> Array:
    low, high = _span(fill)
    few = np.asarray([v for v in (0.0, 1.0, -1.0, 0.5) if low <= v <= high] or [low, high])
    return by_parts(fill, few.take, _choice(fill, source, len(few)))


def _constant_rows(fill: Fill, source: Source) -> Array:
    first = _ordinary(fill, source)[..., :1].astype(np.float64)
    return np.array(np.broadcast_to(in_domain(fill, first), fill.shape))


def _nearly_tied(fill: Fill, source: Source) -> Array:
    """A few values, each up to three steps of its type above itself: a key that drops low bits takes them for equal."""
    low, high = _span(fill)
    few = np.asarray([v for v in (1.0, -1.0, 0.5, 2.0) if low <= v <= high] or [low])
    steps, at = _choice(fill, source, 4), _choice(fill, source, len(few))
    eps = eps_of(fill.dtype)
    return by_parts(fill, lambda at, n: few[at] * (1.0 + eps * n.astype(np.float64)), at, steps)


def _tiny(fill: Fill, source: Source) -> Array:
    """Blocks of 4 along the last axis at 2^-20 of the others, one of them subnormal."""
    data = _wide(fill, source)
    if data.size:
        block = np.arange(data.shape[-1]) // 4
        data *= np.where(block % 2 == 0, 2.0**-20, 1.0)
        data[..., :1] = smallest(fill.dtype) * (1 + source.below(7, data[..., :1].shape))
    return in_domain(fill, data)


def _rows(fill: Fill, source: Source) -> Array:
    """Rows at very different scales, so that one absolute tolerance cannot serve them all."""
    data = _wide(fill, source)
    rows = data.reshape(-1, data.shape[-1]) if data.size else data.reshape(0, 1)
    scale = np.ldexp(1.0, -((np.arange(len(rows)) * 7) % 22))
    rows *= scale[:, None]
    return in_domain(fill, data)


def _one_hot(axis: int) -> Make:
    def make(fill: Fill, source: Source) -> Array:
        data = _zeros(fill)
        if data.size:
            at = int(source.below(fill.shape[axis], (1,))[0])
            index = (slice(None),) * (axis % data.ndim) + (at,)
            data[index] = _ordinary(fill, source)[index]
        return in_domain(fill, data)

    return make


def _last_only(fill: Fill, source: Source) -> Array:
    """All weight on the last position of the last axis: where a tail gets lost."""
    data = _zeros(fill)
    if data.size:
        data[..., -1] = _ordinary(fill, source)[..., -1]
    return in_domain(fill, data)


def _cancelling(fill: Fill, source: Source) -> Array:
    """Neighbours that nearly cancel in a sum."""
    data = _wide(fill, source)
    if data.ndim and data.shape[-1] > 1:
        half = data.shape[-1] // 2
        np.multiply(data[..., :half], -(1 + 2.0**-12), out=data[..., half : 2 * half])
    return in_domain(fill, data)


def _opposed(fill: Fill, source: Source) -> Array:
    """Large in the first half of each row, the same with the other sign in the second, but for its ordinary last one.

    Beside `_alike` ones, a product's sum is large half way and small at the end: what was rounded on the way shows.
    """
    data = _wide(fill, source)
    half = (data.shape[-1] - 1) // 2
    top = min(_LARGE_TERMS, *(abs(end) for end in fill.bounds))
    first = data[..., :half]
    np.abs(first, out=first)
    first /= 8
    first += 0.5
    first *= top
    np.negative(first, out=data[..., half : 2 * half])
    return in_domain(fill, data)


_LARGE_TERMS = 64.0
"""How large the terms are that cancel."""


def _alike(axis: int) -> Make:
    """Positive, the second half along the axis the same as the first, the last one ordinary."""

    def make(fill: Fill, source: Source) -> Array:
        data = np.moveaxis(_wide(fill, source), axis, -1)
        half = (data.shape[-1] - 1) // 2
        np.abs(data[..., :half], out=data[..., :half])
        data[..., half : 2 * half] = data[..., :half]
        return in_domain(fill, np.moveaxis(data, -1, axis))

    return make


def _one(fill: Fill, source: Source) -> Array:
    return in_domain(fill, np.broadcast_to(1.0, fill.shape))


def _swallowing(fill: Fill) -> float:
    """So large that its type has no room for one more."""
    return 2.0 / eps_of(fill.dtype)


def _terms_of(dtype: np.dtype[Any]) -> tuple[float, ...]:
    """What `EXACTLY` holds in turn."""
    swallowing = 2.0 / eps_of(dtype)
    return swallowing, 1.0, -swallowing, 1.0


_SWALLOWS = 32
"""Ones along any axis between one such value and the next."""


def _one_among(fill: Fill, source: Source) -> Array:
    axes = [(axis % _SWALLOWS).astype(np.int16) for axis in np.ogrid[tuple(slice(size) for size in fill.shape)]]
    # One of them early on: what comes before it was added up already.
    places = sum(axes, -source.below(_SWALLOWS // 4, (), np.int16))
    return by_parts(fill, lambda at: np.where(at % _SWALLOWS == 0, _swallowing(fill), 1.0), places)


def _root(fill: Fill) -> float:
    """The least whole number whose square its type has no room for one more beside."""
    return math.ceil(math.sqrt(_swallowing(fill)))


def _root_first(fill: Fill, source: Source) -> Array:
    """At the beginning of each row: what squares come after it are lost, one by one."""
    first = np.broadcast_to(np.arange(fill.shape[-1]) == 0, fill.shape)
    return by_parts(fill, lambda at: np.where(at, _root(fill), 1.0), first)


def _there_and_back(fill: Fill, source: Source) -> Array:
    """Four in turn along any axis: such a value, one, its opposite, one; which of them comes first is drawn."""
    values = np.asarray(_terms_of(fill.dtype))
    return by_parts(fill, lambda at: values[at % 4], _places(fill.shape) + source.below(4, (), np.int8))


def _places(shape: tuple[int, ...]) -> Array:
    """Which of four each element is, if the very first is the first."""
    axes = [(axis % 4).astype(np.int8) for axis in np.ogrid[tuple(slice(size) for size in shape)]]
    return np.asarray(sum(axes, np.int8(0)) % 4)


def cancels(array: Array) -> bool:
    """Whether an array is as `EXACTLY` leaves it, or one throughout: what is summed along any of its axes, and then
    again, is a whole number that 16 bits hold. Not where two are left over, one of them large, nor where an element is
    another.
    """
    wide = array.astype(np.float64)
    if np.all(wide == 1):
        return True
    if not array.ndim or any(size % 4 == 2 for size in array.shape):
        return False
    values, at = np.asarray(_terms_of(array.dtype)), _places(array.shape)
    return any(np.array_equal(wide, values[(at + first) % 4]) for first in range(4))


def _halfway(fill: Fill, source: Source) -> Array:
    """Odd halves: no scale whose inverse is a whole number makes one of them out of another."""
    return by_parts(fill, lambda at: at - 7.5, _choice(fill, source, 16))


def _far_places(fill: Fill) -> list[float]:
    """Where `_far` has its rows: an eighth of the span inside each end that is not zero."""
    low, high = _span(fill)
    return [end + (other - end) / 8 for end, other in ((low, high), (high, low)) if end]


def _far(fill: Fill, source: Source) -> Array:
    """Each position along the first axis varies a little around a place far from zero, whatever else is averaged over:
    what a mean square less a squared mean loses.

    By the cube root of the type's step, so that inputs as they are rounded still say how a row varies.
    """
    places = np.asarray(_far_places(fill))
    axes = len(fill.shape)
    place = places[source.below(len(places), (fill.shape[0] if axes > 1 else 1, *[1] * (axes - 1)))]
    data = source.bell(fill.shape)
    data *= eps_of(fill.dtype) ** (1 / 3)
    data += 1
    data *= place
    return in_domain(fill, data)


def _signed_zero(fill: Fill, source: Source) -> Array:
    """Zeros of both signs, and ordinary values between them."""
    at, data = _choice(fill, source, 3), filled(fill, source)
    data[at == 1] = 0.0
    data[at == 0] = -0.0
    return data


def _narrow(fill: Fill) -> bool:
    return fill.floating and fill.dtype.itemsize == 1


FLOATS: tuple[Variant, ...] = (
    Variant("zeros", "I9", "is all zero", lambda f: _free(f) and _has(f, 0.0),
            lambda f, s: np.zeros(f.shape, f.dtype)),
    Variant("integers", "exact", "holds small whole numbers", lambda f: _free(f) and _has(f, 3) and _has(f, -3),
            lambda f, s: by_parts(f, lambda at: at - 3, _choice(f, s, 7))),
    Variant("large", "I10", "is large in magnitude", _free, _large),
    Variant("low", "I10", "is large and negative throughout", lambda f: _free(f) and _span(f)[0] < 0,
            lambda f, s: by_parts(f, lambda u: _span(f)[0] * (0.9 + 0.1 * u), s.uniform(f.shape))),
    Variant("bounds", "I10", "is at the ends of its range",
            lambda f: _free(f) and f.values.domain.low is not None and f.values.domain.high is not None,
            lambda f, s: by_parts(f, lambda at: np.where(at == 0, *f.bounds), _choice(f, s, 2))),
    Variant(HUGE, "I10", "is very large in magnitude", _unbounded, _huge),
    Variant("peaked", "I10", "has one large value a row", lambda f: _free(f) and _axes(f), _peaked),
    Variant("tied", "I8", "holds a few values many times", _free, _tied),
    Variant("constant-rows", "I8", "has one value throughout each row",
            lambda f: _free(f) and _axes(f) and f.shape[-1] > 1, _constant_rows),
    Variant("nearly-tied", "I8", "holds values a rounding step apart",
            lambda f: _free(f) and f.dtype.itemsize > 1, _nearly_tied),
    Variant("tiny", "I9", "has tiny blocks and subnormals", lambda f: _free(f) and _axes(f) and _has(f, 0), _tiny),
    Variant("rows", "I21", "has rows at scales from 1 to 2^-21",
            lambda f: _free(f) and math.prod(f.shape[:-1]) != 1 and _has(f, 0), _rows),
    Variant("hot-last", "axis", "is zero but for one position of its last axis",
            lambda f: _free(f) and _axes(f) and _has(f, 0), _one_hot(-1)),
    Variant("hot-first", "axis", "is zero but for one position of its first axis",
            lambda f: _free(f) and len(f.shape) > 1 and _has(f, 0), _one_hot(0)),
    Variant("tail", "axis", "is zero but for the last position of its last axis",
            lambda f: _free(f) and _axes(f) and _has(f, 0), _last_only),
    Variant("cancelling", "cancel", "nearly cancels in sums", lambda f: _free(f) and _axes(f) and _has(f, -1),
            _cancelling),
    Variant("far", "cancel", "varies little and lies far from zero",
            lambda f: _free(f) and _axes(f) and f.dtype.itemsize > 1 and bool(_far_places(f)), _far),
    Variant("opposed", "cancel", "is large and cancels half way along its last axis",
            lambda f: _free(f) and _axes(f) and f.shape[-1] > 4 and _has(f, -1) and _has(f, 1), _opposed, alone=False),
    Variant("alike", "cancel", "is the same in both halves of its last axis",
            lambda f: _free(f) and _axes(f) and f.shape[-1] > 4 and _has(f, 1), _alike(-1), alone=False),
    Variant("alike-first", "cancel", "is the same in both halves of its first axis",
            lambda f: _free(f) and len(f.shape) > 1 and f.shape[0] > 4 and _has(f, 1), _alike(0), alone=False),
    Variant("one", "exact", "is one throughout", lambda f: _free(f) and _has(f, 1), _one, alone=False),
    Variant("swallowing", "cancel", "is one throughout but for values to which its type can add no one",
            lambda f: _free(f) and _axes(f) and f.dtype.itemsize == 2 and _has(f, 1) and _has(f, _swallowing(f)),
            _one_among, alone=False),
    Variant("root-first", "cancel", "is one but for the first of each row, to whose square its type can add no one",
            lambda f: _free(f) and _axes(f) and f.dtype.itemsize == 2 and _has(f, 1) and _has(f, _root(f)),
            _root_first, alone=False),
    Variant(EXACTLY, "cancel", "is one throughout but for values to which its type can add no one, and which cancel",
            lambda f: _free(f) and _axes(f) and f.dtype.itemsize == 2 and _has(f, 1)
            and _has(f, _swallowing(f)) and _has(f, -_swallowing(f)), _there_and_back, alone=False),
    Variant("halfway", "I8", "lies half way between whole numbers",
            lambda f: _free(f) and _has(f, 7.5) and _has(f, -7.5) and f.dtype.itemsize > 1, _halfway, alone=False),
    Variant(LIMITS, "I10", "reaches the largest magnitudes of its type", _unbounded, _limits,
            alone=False),
    Variant("minus-zero", "zero", "has zeros of both signs", lambda f: _free(f) and _has(f, 0), _signed_zero),
    Variant("saturated", "I10", "is at the largest magnitude of its type", lambda f: _free(f) and _narrow(f),
            lambda f, s: in_domain(f, np.where(s.below(2, f.shape) == 0, 1, -1) * largest(f.dtype))),
)  # fmt: skip
"""In the order in which they are tried."""
