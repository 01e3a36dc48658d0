"""Where a result of huge inputs says nothing: steps on the way may leave the type's range, or not, by their order.

Nobody is held to what comes of that, neither to a value nor to what is chosen by it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from validator.differential.cases import FILLED, Case, Inputs
from validator.differential.inputs import HUGE, LIMITS
from validator.differential.numbers import Array, bits_of, is_float, largest
from validator.manifest.contract import KernelContract

__all__ = ["overflown"]

_ROOM = 8
"""How far below its type's end a result may lie before a sum on the way to it may have been beyond."""


@np.errstate(all="ignore")
def overflown(contract: KernelContract, case: Case, inputs: Inputs, exact: Array, native: Array) -> NDArray[np.bool_]:
    """True where nothing is said; one element where that is nowhere."""
    variants = {variant for _, variant in case.variants}
    # In float16 the sum of a few large products may be too large, and that of all of them not.
    narrow = contract.compute_dtype == "float16"
    if LIMITS in variants or (narrow and HUGE in variants):
        given = (inputs.get(name) for name, (role, _) in contract.values.items() if role not in FILLED)
        return _made(exact, native, [array for array in given if isinstance(array, np.ndarray)])
    if HUGE in variants or (narrow and "large" in variants):
        return _near_the_end(exact, native)
    return np.zeros((), bool)


def _near_the_end(exact: Array, native: Array) -> NDArray[np.bool_]:
    """Also every choice: exponentials of all but the greatest are zero, and tie."""
    if not is_float(native.dtype):
        return np.ones(native.shape, bool)
    top = largest(native.dtype) / _ROOM
    return ~((np.abs(native.astype(np.float64)) <= top) & (np.abs(exact) <= top))


def _made(exact: Array, native: Array, given: list[Array]) -> NDArray[np.bool_]:
    """Elements that are none of the inputs': what is only moved, or chosen, is exact however large it is."""
    same = [bits_of(array).reshape(-1) for array in given if array.dtype == native.dtype]
    if not is_float(native.dtype) or not same:
        return np.ones(native.shape, bool)
    taken = np.isin(bits_of(native), np.unique(np.concatenate(same))) & (native.astype(np.float64) == exact)
    return np.asarray(~taken | (exact == 0))
