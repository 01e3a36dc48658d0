"""How the tensor cores of an H200 add, found from what they gave.

Products of f16, bf16 and tf32 and the addend are cut (not rounded) to 25 bits below the greatest exponent that two
factors or the addend have, added exactly, and the sum is cut to binary32. All recorded results are reproduced bit for
bit (`fixtures/gpu/vectors/`). The ISA promises none of this: other GPUs keep more or fewer bits.
"""

from __future__ import annotations

import numpy as np

from validator.emulate.isa.model import Array
from validator.emulate.isa.numbers import F32, canonical

__all__ = ["cut_sum"]

_BITS = 27
"""Between the last bit kept and the exponent of two factors as `frexp` gives it: each is in [1/2, 1) of its power."""
_NOTHING = -(1 << 12)
"""Exponent of zero: below all others."""
_LEAST, _GREATEST = -300, 300
_SUBNORMAL = -125
"""Exponent of the smallest normal binary32 number, as `frexp` gives it; subnormal ones share it."""


def cut_sum(left: Array, right: Array, addend: Array) -> Array:
    """Bits of left @ right + addend; [warps, M, K], [warps, K, N] and [warps, M, N] in binary64."""
    products = left[..., None] * right[:, None]
    exponents = _exponent(left)[..., None] + _exponent(right)[:, None]
    own = np.where(addend == 0, _NOTHING, np.maximum(_exponent(addend), _SUBNORMAL) + 1)
    top = np.clip(np.maximum(exponents.max(axis=2), own), _LEAST, _GREATEST)
    unit = np.ldexp(1.0, _BITS - top)
    products *= unit[:, :, None]
    np.trunc(products, out=products)
    total = (products.sum(axis=2) + np.trunc(addend * unit)) / unit
    near = total.astype(np.float32)
    bits = near.view(np.uint32)
    # Beyond the greatest number lies infinity, also where it is cut.
    bits -= (np.abs(near) > np.abs(total)) & np.isfinite(near)
    return canonical(F32, bits)


def _exponent(values: Array) -> Array:
    return np.where(values == 0, np.int32(_NOTHING), np.frexp(values)[1])
