"""Fused multiply-add of binary64, rounded once in any mode.

To nearest even it is computed in parts that carry no error; what that cannot do (other modes, sizes near overflow or
underflow, special values) is computed in integers.
"""

from __future__ import annotations

import numpy as np

from validator.emulate.isa.model import Array
from validator.emulate.isa.numbers import odd_sum

__all__ = ["fma64"]

_U = np.uint64
_ONE, _SIGN, _INFINITY = _U(1), _U(1 << 63), _U(0x7FF << 52)
_HIDDEN, _FRACTION = _U(1 << 52), _U((1 << 52) - 1)
_LOW = _U(0xFFFFFFFF)
_LEAST = -1074
"""Exponent of the lowest bit of a subnormal."""
_ROOM = 73
"""The addend's 53 bits stand at most this high in 128."""
_GUARD = 8
"""Bits kept free below the product, so that what is lost of the addend never meets a bit of it."""


def fma64(a: Array, b: Array, c: Array, mode: str = "rn") -> Array:
    """a·b + c for binary64 bits. A NaN that arises is whatever numpy makes of it."""
    if mode != "rn":
        return _in_integers(a, b, c, mode)
    result, doubtful = _from_parts(a.view(np.float64), b.view(np.float64), c.view(np.float64))
    bits = result.view(np.uint64)
    if doubtful.any():
        a, b, c = np.broadcast_arrays(a, b, c)
        bits[doubtful] = _in_integers(a[doubtful], b[doubtful], c[doubtful], mode)
    return bits


_SPLITTER = np.float64((1 << 27) + 1)
_FACTOR, _ADDEND = (2.0**-400, 2.0**400), (2.0**-700, 2.0**900)


def _from_parts(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """The sum to nearest even, and where it may be wrong: sizes far from one, results of zero.

    The product and two sums without error, the rest rounded to odd (Boldo and Melquiond 2008, algorithm 5).
    """
    product = a * b
    a_high, b_high = _upper(a), _upper(b)
    a_low, b_low = a - a_high, b - b_high
    lost = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    first, first_lost = _sum_without_error(c, lost)
    second, second_lost = _sum_without_error(product, first)
    result = second + odd_sum(first_lost, second_lost)
    sound = _between(a, *_FACTOR) & _between(b, *_FACTOR) & (_between(c, *_ADDEND) | (c == 0)) & (result != 0)
    return result, ~sound


def _upper(x: Array) -> Array:
    """The upper 26 bits of a significand (Veltkamp)."""
    scaled = _SPLITTER * x
    return scaled - (scaled - x)


def _sum_without_error(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _between(x: Array, least: float, most: float) -> Array:
    size = np.abs(x)
    return (size >= least) & (size <= most)


def _in_integers(a: Array, b: Array, c: Array, mode: str) -> Array:
    a, b, c = np.broadcast_arrays(a, b, c)
    special = _special(a) | _special(b)
    plain = (a.view(np.float64) * b.view(np.float64) + c.view(np.float64)).view(np.uint64)
    addend = _special(c) | _zero(a) | _zero(b)
    result = np.where(addend, _signed_zero_or_addend(a, b, c, mode), _rounded_sum(a, b, c, mode))
    return np.where(special, plain, result)


def _special(bits: Array) -> Array:
    return (bits & _INFINITY) == _INFINITY


def _zero(bits: Array) -> Array:
    return (bits & ~_SIGN) == 0


def _zero_sign(first: Array, second: Array, mode: str) -> Array:
    """Sign bit of an exact zero sum of terms with these sign bits."""
    return first | second if mode == "rm" else first & second


def _signed_zero_or_addend(a: Array, b: Array, c: Array, mode: str) -> Array:
    """The sum for a zero product, or for an addend that is infinite or NaN."""
    return np.where(_zero(c), _zero_sign((a ^ b) & _SIGN, c & _SIGN, mode), c)


def _parts(bits: Array) -> tuple[Array, Array]:
    """Significand with bit 52 set (0 for zero) and the exponent of its lowest bit."""
    field = ((bits & _INFINITY) >> _U(52)).astype(np.int64)
    fraction = bits & _FRACTION
    significand = np.where(field == 0, fraction, fraction | _HIDDEN)
    lift = np.where(fraction != 0, 53 - np.frexp(fraction.astype(np.float64))[1], 0) * (field == 0)
    return significand << lift.astype(np.uint64), np.maximum(field, 1) - 1075 - lift


def _product(x: Array, y: Array) -> tuple[Array, Array]:
    """128-bit product, high and low."""
    half = _U(32)
    x0, x1, y0, y1 = x & _LOW, x >> half, y & _LOW, y >> half
    middle = x1 * y0 + ((x0 * y0) >> half)
    other = x0 * y1 + (middle & _LOW)
    return x1 * y1 + (middle >> half) + (other >> half), x * y


def _right(high: Array, low: Array, count: Array) -> tuple[Array, Array]:
    """Shifted right by 0 to 127."""
    n = count.astype(np.uint64)
    small, far = n & _U(63), n >= 64
    # A shift by 64 is two shifts.
    carried = (high << (_U(63) - small)) << _ONE
    near_high, near_low = high >> small, (low >> small) | carried
    return np.where(far, _U(0), near_high), np.where(far, high >> small, near_low)


def _left(high: Array, low: Array, count: Array) -> tuple[Array, Array]:
    n = count.astype(np.uint64)
    small, far = n & _U(63), n >= 64
    carried = (low >> (_U(63) - small)) >> _ONE
    return np.where(far, low << small, (high << small) | carried), np.where(far, _U(0), low << small)


def _jammed(high: Array, low: Array, count: Array) -> tuple[Array, Array]:
    """Shifted right; the lowest bit is set when anything was lost."""
    n = np.clip(count, 0, 127)
    result = _right(high, low, n)
    back = _left(*result, n)
    lost = (back[0] != high) | (back[1] != low)
    return result[0], result[1] | lost.astype(np.uint64)


def _length(high: Array, low: Array) -> Array:
    def single(x: Array) -> Array:
        upper = np.frexp((x >> _U(32)).astype(np.float64))[1]
        return np.where(upper > 0, upper + 32, np.frexp((x & _LOW).astype(np.float64))[1]).astype(np.int64)

    return np.where(high != 0, single(high) + 64, single(low))


def _rounded_sum(a: Array, b: Array, c: Array, mode: str) -> Array:
    (sa, ea), (sb, eb), (sc, ec) = _parts(a), _parts(b), _parts(c)
    negative_product, negative = ((a ^ b) & _SIGN) != 0, (c & _SIGN) != 0
    # Over 73, the addend is so much greater that the product only decides ties; below 0 it is the other way round.
    lowest = ea + eb - _GUARD
    distance = np.where(sc == 0, 0, ec - lowest)
    base = lowest + np.maximum(distance - _ROOM, 0)
    product = _left(*_product(sa, sb), np.full_like(lowest, _GUARD))
    high, low = _jammed(*product, np.maximum(distance - _ROOM, 0))
    lifted = _left(np.zeros_like(sc), sc, np.clip(distance, 0, _ROOM))
    add_high, add_low = _jammed(*lifted, np.maximum(-distance, 0))
    differ = negative_product != negative
    # Two's complement where the signs differ.
    add_low = np.where(differ, ~add_low + _ONE, add_low)
    add_high = np.where(differ, ~add_high + (add_low == 0), add_high)
    total_low = low + add_low
    total_high = high + add_high + (total_low < low)
    flip = differ & ((total_high >> _U(63)) != 0)
    total_low = np.where(flip, ~total_low + _ONE, total_low)
    total_high = np.where(flip, ~total_high + (total_low == 0), total_high)
    sign = np.where(negative_product ^ flip, _SIGN, _U(0))
    result = _packed(total_high, total_low, base, sign, mode)
    nothing = (total_high | total_low) == 0
    return np.where(nothing, _zero_sign((a ^ b) & _SIGN, c & _SIGN, mode), result)


def _packed(high: Array, low: Array, base: Array, sign: Array, mode: str) -> Array:
    """The number high:low · 2^base, rounded into binary64 bits."""
    lowest = np.maximum(base + _length(high, low) - 53, _LEAST)
    drop = lowest - base
    tiny = drop > 127
    high, low = np.where(tiny, _U(0), high), np.where(tiny, _ONE, low)
    count = np.clip(drop, 0, 127)
    kept = np.where(drop < 0, low << np.clip(-drop, 0, 63).astype(np.uint64), _right(high, low, count)[1])
    back = _left(np.zeros_like(kept), kept, count)
    rest_low = np.where(drop < 0, _U(0), low - back[1])
    rest_high = np.where(drop < 0, _U(0), high - back[0] - (low < back[1]))
    half = _left(np.zeros_like(kept), np.full_like(kept, 1), np.maximum(count - 1, 0))
    inexact = (rest_high | rest_low) != 0
    if mode == "rn":
        over = (rest_high > half[0]) | ((rest_high == half[0]) & (rest_low > half[1]))
        tie = (rest_high == half[0]) & (rest_low == half[1])
        up = inexact & (over | (tie & ((kept & _ONE) != 0)))
    elif mode == "rz":
        up = np.zeros_like(inexact)
    else:
        up = inexact & ((sign != 0) if mode == "rm" else (sign == 0))
    field = np.minimum(lowest - _LEAST, 2046).astype(np.uint64)
    bits = (field << _U(52)) + kept + up
    overflow = bits >= _INFINITY
    stays = mode == "rz" or (mode != "rn" and ((sign == 0) if mode == "rm" else (sign != 0)))
    limit = np.where(stays, _INFINITY - _ONE, _INFINITY)
    return sign | np.where(overflow, limit, bits)
