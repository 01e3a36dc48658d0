"""What is right for a large result, in three bytes an element and the trusted result, sent to where the candidate's is.

It is weighed there as `weighing` does it here, with less exact numbers and never less severely: yardsticks are rounded
down, and what is lost of how far the exact result is from the trusted one counts as an error. So what is right there is
right here; anything else is brought here and judged here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from validator.differential import passes
from validator.differential.expected import Expected
from validator.differential.numbers import Array, each_part, flattened, in_chunks, is_float
from validator.manifest.contract import KernelContract

__all__ = ["TOO_FAR", "Packed", "is_packable", "packed"]

TOO_FAR = 0x80
"""Of what is further than such a float goes (31), or no number, as in `packing.c` and `shelf.cu`: minus zero."""
_STEPS, _WHOLE, _REBIASED = 64, 16, (127 + 4 - 1) << 4
"""Steps to a yardstick; below so many the bits are their number; above, they are float32's upper ones less this."""
_DOWN = 1 - 2.0**-22
"""What float64 loses on the way to float32 goes down too."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Of one output, in rows."""

    trusted: Array
    away: NDArray[np.uint8]
    """How far the exact result is from the trusted one, in yardsticks, as floats of eight bits (sign, three of
    exponent, four of mantissa; steps of 1/64 below a half), or `TOO_FAR`."""
    yard: NDArray[np.uint16]
    """The yardsticks, no larger than they are, cut to the bits of bfloat16."""


def is_packable(contract: KernelContract, want: Expected) -> bool:
    """Whether numbers in yardsticks say what is right, and of every element."""
    judged_so = contract.tolerance.policy == "relative-to-baseline" and contract.rounding != "as-baseline"
    floats = is_float(want.native.dtype) and want.native.dtype.itemsize in (2, 4)
    return judged_so and floats and want.least is None and not want.beyond


def packed(contract: KernelContract, want: Expected) -> Packed | None:
    """None: only looking at it here tells whether a result is right."""
    free = flattened(want.unspecified)
    if not is_packable(contract, want) or not free.size or bool((free if any(free.strides) else free[:1]).any()):
        return None
    trusted = np.ascontiguousarray(want.native)
    away, yard = np.empty(trusted.size, np.uint8), np.empty(trusted.size, np.uint16)
    arrays = (*(flattened(array) for array in (trusted, want.exact, want.yardstick)), away, yard)
    if not passes.packed(*arrays, share=_DOWN):
        with np.errstate(all="ignore"):
            each_part(lambda part: _by_numpy(*(array[part] for array in arrays)), trusted.size, 24)
    return Packed(trusted, away, yard)


def _by_numpy(
    trusted: Array, exact: Array, yardstick: Array, away: NDArray[np.uint8], yard: NDArray[np.uint16]
) -> None:
    """The same, bit by bit."""
    for native, right, due, far, few in in_chunks(trusted, exact, yardstick, away, yard):
        down = _cut((due * _DOWN).astype(np.float32), few)
        off = (right - native.astype(np.float64)).astype(np.float32)
        steps = off / down * np.float32(_STEPS)
        if not down.all():
            steps[(down == 0) & (off == 0)] = 0
        less = np.signbit(steps)
        np.abs(steps, out=steps)
        code = ((steps.view(np.uint32) + (1 << 18)) >> 19).astype(np.int32) - _REBIASED
        few = steps < _WHOLE
        code[few] = (steps[few] + np.float32(0.5)).astype(np.int32)
        beyond = code >= TOO_FAR
        code[less & (code > 0)] |= TOO_FAR
        code[beyond] = TOO_FAR
        far[...] = code


def _cut(values: NDArray[np.float32], into: NDArray[np.uint16]) -> NDArray[np.float32]:
    """As bfloat16, towards zero: its bits, and what they say."""
    bits = values.view(np.uint32)
    np.right_shift(bits, 16, out=into, casting="unsafe")
    bits &= 0xFFFF0000
    return values
