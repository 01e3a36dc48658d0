"""Collectives of a warp: shuffles, votes, matches, reductions. Arrays are [warps, 32], immediates [1, 1].

The members of a collective are the active threads in the caller's own mask; what must hold beforehand (every thread
of the mask is there, a shuffle reads no absent lane) is for the machine to check, with `shuffle_lanes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np

from validator.emulate.isa.model import Array, RegType, WarpOp
from validator.emulate.isa.numbers import F32
from validator.emulate.isa.words import Unsupported, Words, signed, width

__all__ = ["FAMILY", "WarpBuilder", "shuffle_lanes"]

WarpBuilder = Callable[[Words], WarpOp]
_B32, _P = RegType.B32, RegType.P
_LANES = np.arange(32, dtype=np.int32)[None]
_BITS = np.uint32(1) << np.arange(32, dtype=np.uint32)
_FULL = 0xFFFFFFFF


# --- masks -----------------------------------------------------------------------------------------------------------


def _ballot(rows: Array) -> Array:
    """Booleans [..., 32] as 32-bit masks [...]."""
    return np.packbits(rows, axis=-1, bitorder="little").view(np.uint32)[..., 0]


def _everywhere(values: Array, active: Array) -> Array:
    return np.broadcast_to(values, active.shape)


def _one_mask(active: Array, mask: Array) -> Array | None:
    """The members of each warp, [warps, 32], where all its active threads name the same mask; else None."""
    if mask.size == 1:
        single = int(mask.reshape(-1)[0])
        return active if single == _FULL else active & ((np.uint32(single) & _BITS) != 0)
    first = np.take_along_axis(mask, active.argmax(axis=1)[:, None], axis=1)
    if ((mask != first) & active).any():
        return None
    return active & ((first & _BITS) != 0)


def _members(active: Array, mask: Array) -> Array:
    """[warps, 32, 32]: whether the last lane is a member for the one before; or [warps, 1, 32] where all agree."""
    one = _one_mask(active, mask)
    if one is not None:
        return one[:, None]
    return active[:, None] & ((_everywhere(mask, active)[..., None] & _BITS) != 0)


# --- shuffles --------------------------------------------------------------------------------------------------------


def shuffle_lanes(mode: str, b: Array, c: Array) -> tuple[Array, Array]:
    """Lane each thread reads for operands b and c of `shfl.MODE`, and whether that is inside its segment."""
    if b.size == 1 and c.size == 1:
        return _same_lanes(mode, int(b.reshape(-1)[0]), int(c.reshape(-1)[0]))
    return _shuffled(mode, b, c)


@lru_cache(maxsize=256)
def _same_lanes(mode: str, b: int, c: int) -> tuple[Array, Array]:
    """The same for operands that all threads share."""
    return _shuffled(mode, np.array([[b]], np.uint32), np.array([[c]], np.uint32))


def _shuffled(mode: str, b: Array, c: Array) -> tuple[Array, Array]:
    value, clamp = (b & np.uint32(31)).astype(np.int32), (c & np.uint32(31)).astype(np.int32)
    segment = ((c >> np.uint32(8)) & np.uint32(31)).astype(np.int32)
    least = _LANES & segment
    most = least | (clamp & ~segment)
    if mode == "up":
        lane = _LANES - value
        inside = lane >= most
    else:
        lane = {
            "down": lambda: _LANES + value,
            "bfly": lambda: _LANES ^ value,
            "idx": lambda: least | (value & ~segment),
        }[mode]()
        inside = lane <= most
    return np.where(inside, lane, _LANES), inside


def shfl(words: Words) -> WarpOp:
    words.take("sync")
    mode = words.take("up", "down", "bfly", "idx")
    words.take("b32")
    words.end()

    def run(active: Array, a: Array, b: Array, c: Array, mask: Array) -> tuple[Array, Array]:
        lane, inside = shuffle_lanes(mode, b, c)
        values = _everywhere(a, active)
        result = values[:, lane[0]] if len(lane) == 1 else np.take_along_axis(values, lane, axis=1)
        return result, _everywhere(inside, active)

    return WarpOp((_B32,) * 4, (_B32, _P), run)


# --- votes and matches -----------------------------------------------------------------------------------------------


def vote(words: Words) -> WarpOp:
    words.take("sync")
    what = words.take("all", "any", "uni", "ballot")
    words.take("b32" if what == "ballot" else "pred")
    words.end()

    def run(active: Array, a: Array, mask: Array) -> tuple[Array]:
        members = _members(active, mask)
        held = members & _everywhere(a, active)[:, None]
        if what == "ballot":
            return (_everywhere(_ballot(held), active),)
        some, every = held.any(axis=-1), (held == members).all(axis=-1)
        chosen = {"any": some, "all": every, "uni": every | ~some}[what]
        return (_everywhere(chosen, active),)

    return WarpOp((_P, _B32), (_B32 if what == "ballot" else _P,), run)


def match(words: Words) -> WarpOp:
    words.take("sync")
    which, reg = words.take("any", "all"), width(words.take("b32", "b64"))
    words.end()

    def run(active: Array, a: Array, mask: Array) -> tuple[Array, ...]:
        values, members = _everywhere(a, active), _members(active, mask)
        if which == "any":
            return (_ballot(members & (values[:, :, None] == values[:, None, :])),)
        first = np.take_along_axis(values[:, None], members.argmax(axis=-1)[..., None], axis=-1)
        same = ((values[:, None] == first) | ~members).all(axis=-1)
        found = np.where(same, _ballot(members), np.uint32(0))
        return _everywhere(found, active), _everywhere(same, active)

    return WarpOp((reg, _B32), (_B32,) if which == "any" else (_B32, _P), run)


def elect(words: Words) -> WarpOp:
    """The lowest member; the ISA only says that the choice is deterministic."""
    words.take("sync")
    words.end()

    def run(active: Array, mask: Array) -> tuple[Array, Array]:
        leader = _everywhere(_members(active, mask).argmax(axis=-1).astype(np.uint32), active)
        return leader, leader == _LANES

    return WarpOp((_B32,), (_B32, _P), run)


def activemask(words: Words) -> WarpOp:
    words.take("b32")
    words.end()
    return WarpOp((), (_B32,), lambda active: (_everywhere(_ballot(active)[:, None], active),))


# --- reductions ------------------------------------------------------------------------------------------------------

_REDUCTIONS: Mapping[str, tuple[np.ufunc, tuple[str, ...]]] = {
    "add": (np.add, ("u32", "s32")),
    "min": (np.minimum, ("u32", "s32")),
    "max": (np.maximum, ("u32", "s32")),
    "and": (np.bitwise_and, ("b32",)),
    "or": (np.bitwise_or, ("b32",)),
    "xor": (np.bitwise_xor, ("b32",)),
}


def _neutral(name: str, dtype: np.dtype[np.int32] | np.dtype[np.uint32]) -> int:
    info = np.iinfo(dtype)
    return {"min": int(info.max), "max": int(info.min), "and": _FULL}.get(name, 0)


def redux(words: Words) -> WarpOp:
    words.take("sync")
    name = words.take(*_REDUCTIONS)
    if words.flag("f32"):
        return _float_redux(words, name)
    reduction, kinds = _REDUCTIONS[name]
    kind = words.take(*kinds)
    words.end()
    dtype = np.dtype(np.int32) if signed(kind) else np.dtype(np.uint32)
    neutral = dtype.type(_neutral(name, dtype))

    def run(active: Array, a: Array, mask: Array) -> tuple[Array]:
        values = np.ascontiguousarray(_everywhere(a, active)).view(dtype)[:, None]
        result = reduction.reduce(np.where(_members(active, mask), values, neutral), axis=-1, dtype=dtype)
        return (_everywhere(result.view(np.uint32), active),)

    return WarpOp((_B32, _B32), (_B32,), run)


def _float_redux(words: Words, name: str) -> WarpOp:
    """Least or greatest number, or size with `.abs`; NaN counts only with `.NaN`, or where there is nothing else."""
    if name not in ("min", "max"):
        raise Unsupported
    sizes, propagate = words.flag("abs"), words.flag("NaN")
    words.end()
    reduction, neutral = (np.minimum, 0x7FFFFFFF) if name == "min" else (np.maximum, -0x80000000)

    def run(active: Array, a: Array, mask: Array) -> tuple[Array]:
        bits = np.ascontiguousarray(_everywhere(a, active))
        bits = bits & ~F32.sign if sizes else bits
        none = (bits & ~F32.sign) > np.uint32(F32.infinity)
        members = _members(active, mask)
        counted = members & ~none[:, None]
        # Signed integers in the order of the numbers, negative zero before zero.
        rank = bits.view(np.int32) ^ ((bits.view(np.int32) >> 31) & 0x7FFFFFFF)
        found = reduction.reduce(np.where(counted, rank[:, None], np.int32(neutral)), axis=-1, dtype=np.int32)
        number = (found ^ ((found >> 31) & 0x7FFFFFFF)).view(np.uint32)
        empty = (members & none[:, None]).any(axis=-1) if propagate else ~counted.any(axis=-1)
        return (_everywhere(np.where(empty, np.uint32(F32.nan), number), active),)

    return WarpOp((_B32, _B32), (_B32,), run)


FAMILY: Mapping[str, WarpBuilder] = {
    "shfl": shfl,
    "vote": vote,
    "match": match,
    "elect": elect,
    "activemask": activemask,
    "redux": redux,
}
