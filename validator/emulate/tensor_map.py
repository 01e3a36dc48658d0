"""A TMA descriptor: which bytes of memory a box of a tensor is, and how it lies in shared memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from validator.emulate.lanes import Array
from validator.emulate.memory import Region

__all__ = ["TensorMap"]


@dataclass(frozen=True)
class TensorMap:
    region: Region
    element: int
    """Bytes of an element."""
    sizes: tuple[int, ...]
    """Elements along each dimension, innermost first."""
    strides: tuple[int, ...]
    """Bytes between neighbours along each dimension, innermost first; the first is `element`."""
    box: tuple[int, ...]
    """Elements of a box along each dimension, innermost first."""
    swizzle: int = 0
    """0, 32, 64 or 128: bytes of the span within which 16-byte chunks are exchanged."""

    @property
    def box_bytes(self) -> int:
        return math.prod(self.box) * self.element

    @cached_property
    def _steps(self) -> list[Array]:
        """Index along each dimension of every element of a box, in the order they lie in shared memory."""
        grids = np.meshgrid(*(np.arange(n) for n in reversed(self.box)), indexing="ij")
        return [grid.ravel() for grid in reversed(grids)]

    def bytes_of(self, start: list[int]) -> Array:
        """Bytes of the box that begins at element `start` (innermost first); -1 for those outside the tensor."""
        outside = np.zeros(math.prod(self.box), bool)
        offset = np.zeros(math.prod(self.box), np.int64)
        for first, steps, size, stride in zip(start, self._steps, self.sizes, self.strides, strict=True):
            at = first + steps
            outside |= (at < 0) | (at >= size)
            offset += at * stride
        found = offset[:, None] + np.arange(self.element)
        found[outside] = -1
        return found.ravel()

    def swizzled(self, address: int) -> Array:
        """Where each byte of a box that is written to `address` goes, relative to it."""
        plain = np.arange(self.box_bytes)
        if not self.swizzle:
            return plain
        at = address + plain
        chunks = self.swizzle // 16 - 1
        return (at ^ ((at >> 7 & chunks) << 4)) - address
