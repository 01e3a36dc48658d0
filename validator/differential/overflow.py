"""Where a result says nothing because steps on the way to it may leave the type's range, or not, by their order.

Nobody is held to what comes of that, neither to a value nor to what is chosen by it. Nor is a number that was computed
held to what lies below the least normal one: many builds flush it to zero (`ftz` in the PTX ISA).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from validator.differential.cases import FILLED, Case, Inputs
from validator.differential.inputs import HUGE, LIMITS
from validator.differential.numbers import Array, bits_of, in_chunks, is_float, largest
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
        return _made(exact, native, _given(contract, inputs)) if moves else np.ones(native.shape, bool)
    if HUGE in variants or (_is_narrow(contract) and "large" in variants):
        return _near_the_end(exact, native)
    return np.zeros((), bool)


def _given(contract: KernelContract, inputs: Inputs) -> list[Array]:
    """Arrays that results may be elements of."""
    given = (inputs.get(name) for name, (role, _) in contract.values.items() if role not in FILLED)
    return [array for array in given if isinstance(array, np.ndarray)]


def only_moves(contract: KernelContract, inputs: Inputs, native: Array) -> bool:
    """Whether every element of a result is one of the inputs', or zero: asked of ordinary inputs, because a softmax or
    a gelu of huge ones gives one of its inputs too, and has computed it."""
    same = [bits_of(array).reshape(-1) for array in _given(contract, inputs) if array.dtype == native.dtype]
    taken = np.isin(bits_of(native), np.unique(np.concatenate(same))) if same else np.zeros(native.shape, bool)
    return is_float(native.dtype) and bool(np.all(taken | (native.astype(np.float64) == 0)))


_FLUSHED = ("float32", "bfloat16")
"""Types whose least normal number is that of float32, in which they are computed."""
LEAST_NORMAL = 2.0**-126
_FAR_ABOVE = 2.0**7
"""How much larger a result is where it makes no difference whether that much of it was flushed."""


def flushed(contract: KernelContract, inputs: Inputs, exact: Array, native: Array) -> NDArray[np.bool_]:
    """Where a result was computed, and is so small that it, or what it was made of, may have been flushed to zero."""
    if native.dtype.name not in _FLUSHED or contract.compute_dtype == "float64":
        return np.zeros((), bool)
    small = np.zeros(native.shape, bool)
    for found, part in in_chunks(small, exact):
        np.less(np.abs(part), LEAST_NORMAL * _FAR_ABOVE, out=found)
        found &= part != 0
    if not small.any():
        return np.zeros((), bool)
    same = [bits_of(array).reshape(-1) for array in _given(contract, inputs) if array.dtype == native.dtype]
    if same:
        small[small] = ~np.isin(bits_of(native[small]), np.unique(np.concatenate(same)))
    return small


def _near_the_end(exact: Array, native: Array) -> NDArray[np.bool_]:
    """Also every choice: exponentials of all but the greatest are zero, and tie."""
    if not is_float(native.dtype):
        return np.ones(native.shape, bool)
    top = largest(native.dtype) / _ROOM
    return ~((np.abs(native.astype(np.float64)) <= top) & (np.abs(exact) <= top))


def _made(exact: Array, native: Array, given: list[Array]) -> NDArray[np.bool_]:
    """Elements that are none of the inputs': what is only moved, or chosen, is exact however large it is. What is not
    finite came of an overflow before."""
    same = [bits_of(array).reshape(-1) for array in given if array.dtype == native.dtype]
    if not is_float(native.dtype) or not same:
        return np.ones(native.shape, bool)
    taken = np.isin(bits_of(native), np.unique(np.concatenate(same))) & (native.astype(np.float64) == exact)
    return np.asarray(~taken | (exact == 0) | ~np.isfinite(exact))
