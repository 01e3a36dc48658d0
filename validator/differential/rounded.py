"""Results in which nothing was computed that could be off: an input as it rounds, or as it rounds by a scale that is a
power of two. There a value half way between two goes where it goes, and no rounding error excuses the other one.
"""

from __future__ import annotations

import numpy as np

from validator.differential.cases import FILLED, Case, Inputs
from validator.differential.inputs import SCALED, TOPS
from validator.differential.numbers import Array, dtype_of, is_float
from validator.manifest.contract import KernelContract

__all__ = ["only_rounds", "rounds_rows"]

_TELLING = 16
"""Elements that are not as they are by chance."""


def only_rounds(contract: KernelContract, inputs: Inputs, native: Array) -> bool:
    """Whether an integer result is an input rounded, and cut off at its type's ends or before."""
    if native.dtype.kind not in "iu" or not native.size:
        return False
    read = (v for n, v in inputs.items() if contract.values[n][0] not in FILLED and isinstance(v, np.ndarray))
    alike = [np.rint(v.astype(np.float64)) for v in read if is_float(v.dtype) and v.shape == native.shape]
    low, high = native.min(), native.max()
    # Where nothing is but at the ends, being cut off there makes an input of anything.
    is_cut = bool(((native > low) & (native < high)).any())
    return any(np.array_equal(np.clip(one, low, high) if is_cut else one, native) for one in alike)


def rounds_rows(case: Case, inputs: Inputs, native: Array) -> bool:
    """Whether a result is an argument that was filled for it (`SCALED`), each row by its own power of two, rounded; or
    two of its elements of four bits in each byte.
    """
    if native.size < _TELLING:
        return False
    filled = ((inputs[name], name_of) for name, variant in case.variants if (name_of := _FILLED.get(variant)))
    return any(_by_row(array, narrow, native) for array, narrow in filled)


_FILLED = {variant: name for name, variant in SCALED.items()}


def _by_row(array: Array, narrow: str, native: Array) -> bool:
    wide = array.astype(np.float64)
    scale = np.abs(wide).max(axis=-1, keepdims=True) / TOPS[narrow]
    if not np.all(np.frexp(scale)[0] == 0.5):
        return False
    values, dtype = wide / scale, dtype_of(narrow)
    rounded = values.astype(dtype) if is_float(dtype) else np.rint(values).astype(np.int8)
    if native.shape == array.shape:
        return np.array_equal(rounded.astype(np.float64), native.astype(np.float64))
    packed = native.dtype.itemsize == 1 and native.shape == (*array.shape[:-1], array.shape[-1] // 2)
    if not packed or array.shape[-1] % 2 or dtype.itemsize > 1 or narrow not in _OF_FOUR_BITS:
        return False
    codes = rounded.view(np.uint8) & 15
    first, second, found = codes[..., ::2], codes[..., 1::2], native.view(np.uint8)
    return np.array_equal(first | second << 4, found) or np.array_equal(second | first << 4, found)


_OF_FOUR_BITS = ("float4_e2m1fn", "int4")
