"""What an instruction's semantics are: register types in, register types out, one function over arrays.

Arrays hold raw register bits, one element per thread: `bool` for predicates, unsigned integers of the type's width
otherwise, packed types in their container. 128 bits are a trailing axis of two `uint64`, low half first. An array of
length 1 stands for an immediate and broadcasts. Semantics never write to their inputs, but a result may be one of them
(`mov`) or share its memory, and has length 1 where every input has.

Callers hold `numpy.errstate(all="ignore")`: overflow and NaN are values here.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "Kernel", "Op", "RegType", "WarpOp", "operation"]

Array = npt.NDArray[Any]
Kernel = Callable[..., Array]
"""Semantics with one result."""


class RegType(enum.Enum):
    """Width of an operand. `B8` is what `cvt` and `ld` know: a byte held in a wider register."""

    P = 1
    B8 = 8
    B16 = 16
    B32 = 32
    B64 = 64
    B128 = 128

    @property
    def bits(self) -> int:
        return self.value

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type of its arrays."""
        return _DTYPES[self]


_DTYPES = {
    RegType.P: np.dtype(np.bool_),
    RegType.B8: np.dtype(np.uint8),
    RegType.B16: np.dtype(np.uint16),
    RegType.B32: np.dtype(np.uint32),
    RegType.B64: np.dtype(np.uint64),
    RegType.B128: np.dtype(np.uint64),
}


@dataclass(frozen=True, slots=True)
class Op:
    """One instruction, thread by thread."""

    inputs: tuple[RegType, ...]
    """Source operands in order, the carry last. A wider register gives its low bits."""
    outputs: tuple[RegType, ...]
    """Destinations in order (`p|q` are two), the carry last. An instruction that names fewer drops the rest."""
    run: Callable[..., tuple[Array, ...]]
    """Arrays of the inputs to arrays of the outputs."""
    signed: bool = False
    """A result narrower than its register is sign-extended rather than zero-extended."""
    carry_in: bool = False
    """The last input is the condition code's carry (or borrow), a predicate."""
    carry_out: bool = False
    """The last output is the condition code's carry (or borrow), a predicate."""


@dataclass(frozen=True, slots=True)
class WarpOp:
    """One instruction over whole warps: `run(active, *arrays)`, all of shape [warps, 32] (immediates [1, 1]).

    `active` marks the threads that execute it together. What an inactive thread receives means nothing.
    """

    inputs: tuple[RegType, ...]
    """Source operands in order; vectors such as the fragments of `mma` are their registers in order."""
    outputs: tuple[RegType, ...]
    run: Callable[..., tuple[Array, ...]]


def operation(inputs: tuple[RegType, ...], output: RegType, kernel: Kernel, *, signed: bool = False) -> Op:
    """An instruction with one result."""
    return Op(inputs, (output,), lambda *arrays: (kernel(*arrays),), signed)
