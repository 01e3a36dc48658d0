"""Where a result says nothing because steps on the way to it may leave the type's range, or not, by their order.

Nobody is held to what comes of that, neither to a value nor to what is chosen by it. Nor is a number that was computed
held to what lies below the least normal one: many builds flush it to zero (`ftz` in the PTX ISA).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validator.differential import passes
from validator.differential.cases import FILLED, Case, Inputs
from validator.differential.inputs import HUGE, LIMITS
from validator.differential.numbers import CHUNK, Array, bits_of, in_chunks, is_float, largest, marked, name_of
from validator.differential.spill import room
from validator.manifest.contract import KernelContract

__all__ = ["LEAST_NORMAL", "flushed", "only_moves", "overflown", "reaches_the_limits"]

_ROOM = 8
"""How far below its type's end a result may lie before a sum on the way to it may have been beyond."""


def reaches_the_limits(contract: KernelContract, case: Case) -> bool:
    """Whether inputs are so large that whatever is computed of them may overflow."""
    variants = {variant for _, variant in case.variants}
    return LIMITS in variants or (_is_narrow(contract) and HUGE in variants)


def _is_narrow(contract: KernelContract) -> bool:
    """In float16 the sum of a few large products may be too large, and that of all of them not."""
    return contract.compute_dtype == "float16"


@np.errstate(all="ignore")
def overflown(
    contract: KernelContract, case: Case, inputs: Inputs, exact: Array, native: Array, *, moves: bool
) -> NDArray[np.bool_]:
    """True where nothing is said; one element where that is nowhere. `moves`: see `only_moves`."""
    variants = {variant for _, variant in case.variants}
    if reaches_the_limits(contract, case):
        if not moves or not is_float(native.dtype):
            return np.ones(native.shape, bool)
        return marked(_is_made, exact, native, _among(native, _given(contract, inputs, native.dtype)))
    if HUGE in variants or (_is_narrow(contract) and "large" in variants):
        if not is_float(native.dtype):  # every choice: exponentials of all but the greatest are zero, and tie
            return np.ones(native.shape, bool)
        return marked(partial(_is_near_the_end, largest(native.dtype) / _ROOM), exact, native)
    return np.zeros((), bool)


def _is_made(exact: Array, native: Array, among: Array) -> Array:
    """Elements that are none of the inputs': what is only moved, or chosen, is exact however large it is. What is not
    finite came of an overflow before."""
    return np.asarray(~(among & (native.astype(np.float64) == exact)) | (exact == 0) | ~np.isfinite(exact))


def _is_near_the_end(top: float, exact: Array, native: Array) -> Array:
    return np.asarray(~((np.abs(native.astype(np.float64)) <= top) & (np.abs(exact) <= top)))


def _given(contract: KernelContract, inputs: Inputs, dtype: np.dtype[Any]) -> list[Array]:
    """Arrays of a type that results may be elements of."""
    given = (inputs.get(name) for name, (role, _) in contract.values.items() if role not in FILLED)
    return [array for array in given if isinstance(array, np.ndarray) and array.dtype == dtype]


def only_moves(contract: KernelContract, inputs: Inputs, native: Array) -> bool:
    """Whether every element of a result is one of the inputs', or zero: asked of ordinary inputs, because a softmax or
    a gelu of huge ones gives one of its inputs too, and has computed it."""
    if not is_float(native.dtype):
        return False
    given = _given(contract, inputs, native.dtype)
    flat = native.reshape(-1)
    few = flat[: CHUNK if native.size > CHUNK else None]  # what computes shows it at once
    return all(
        bool(np.all(among | (part.astype(np.float64) == 0)))
        for some in ((few, flat) if few.size < flat.size else (flat,))
        for part, among in in_chunks(some, _among(some, given))
    )


def _among(values: Array, given: list[Array]) -> NDArray[np.bool_]:
    """Whether each value is, bit for bit, an element of an array of its type."""
    bits = bits_of(values)
    if bits.dtype.itemsize <= 2:
        table = np.zeros(1 << 8 * bits.dtype.itemsize, bool)
        for array in given:
            table[bits_of(array)] = True
        return marked(table.take, bits)
    known = room((sum(array.size for array in given),), bits.dtype)
    np.concatenate([bits_of(array).reshape(-1) for array in given] or [known], out=known)
    known.sort()
    return marked(partial(_is_among, known), bits)


def _is_among(known: Array, bits: Array) -> Array:
    if not known.size:
        return np.zeros(bits.shape, bool)
    return np.asarray(known[np.minimum(np.searchsorted(known, bits), known.size - 1)] == bits)


_FLUSHED = ("float32", "bfloat16")
"""Types whose least normal number is that of float32, in which they are computed."""
LEAST_NORMAL = 2.0**-126
_FAR_ABOVE = 2.0**7
"""How much larger a result is where it makes no difference whether that much of it was flushed."""


def flushed(contract: KernelContract, inputs: Inputs, exact: Array, native: Array) -> NDArray[np.bool_]:
    """Where a result was computed, and is so small that it, or what it was made of, may have been flushed to zero."""
    if name_of(native.dtype) not in _FLUSHED or contract.compute_dtype == "float64":
        return np.zeros((), bool)
    if passes.below(exact, LEAST_NORMAL * _FAR_ABOVE) is False:
        return np.zeros((), bool)
    small = np.zeros(native.shape, bool)
    for found, part in in_chunks(small, exact):
        np.less(np.abs(part), LEAST_NORMAL * _FAR_ABOVE, out=found)
        found &= part != 0
    if not small.any():
        return np.zeros((), bool)
    small[small] = ~_among(native[small], _given(contract, inputs, native.dtype))
    return small
