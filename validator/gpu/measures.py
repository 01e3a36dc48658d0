"""What results are weighed by on a device: the trusted one, how far from it the exact one is, and the yardsticks."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from validator.gpu.driver import Function, Launch, Parameters
from validator.gpu.memory import Memory
from validator.gpu.owned import Owned, Piece
from validator.gpu.sending import Sender, up
from validator.gpu.stretches import PTX, QUAD

__all__ = ["WEIGHT", "Measure", "Measures"]

WEIGHT = struct.Struct("<dddQ")
"""As in `shelf.cu`: largest error in yardsticks, sums of squares of errors and of yardsticks, other elements."""
_EVERYWHERE = Launch((528, 1, 1), (256, 1, 1))
_ALIGNED = 256
_SIZES = {"bfloat16": 2, "float16": 2, "float32": 4}
"""Types of results that are weighed, and their bytes."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Of one result."""

    parts: tuple[int, int, int]
    """Addresses of the trusted result, of what the exact one is away from it, of the yardsticks."""
    count: int
    dtype: str
    once: bool
    """What is weighed first takes the trusted result's place."""

    @property
    def size(self) -> int:
        """Bytes of a result."""
        return self.count * _SIZES[self.dtype]


class Measures(Owned[Measure]):
    """Of results, by what says what is right."""

    def __init__(self, memory: Memory, sender: Sender) -> None:
        super().__init__(memory)
        self._sender = sender

    def coming(self, right: Any, trusted: Any, away: Any, yard: Any, once: bool) -> None:
        """Begin to send what results are weighed by, in rows."""
        if trusted.dtype.name not in _SIZES:
            return
        self.drop(right)
        self.collect()
        several = [part.reshape(-1).view(np.uint8) for part in (trusted, away, yard)]
        pieces = [(self._memory.get(size), size) for size in (up(len(part), _ALIGNED) for part in several)]
        parts = (pieces[0][0], pieces[1][0], pieces[2][0])
        sent = self._sender.send(*zip(parts, several, strict=True))
        self.put(right, Measure(parts, trusted.size, trusted.dtype.name, once), *pieces, sent=sent)

    def fits(self, right: Any, address: int, size: int) -> Measure | None:
        """That of a result which lies there, if there is one; as soon as it is there."""
        found = self.has(right)
        fits = found is not None and found.size == size and not address % QUAD
        return self.there(right) if fits else None

    def used_up(self, right: Any) -> Piece:
        """What takes the trusted result's place is whose the place is now; the rest serves others."""
        place, *rest = self.release(right)
        for piece in rest:
            self._memory.give_back(*piece)
        return place

    def weigh(self, address: int, measure: Measure, into: int, *, take: bool) -> None:
        """Queues it; what lies at `into` is zero. `take`: what was weighed stands in the trusted one's place then."""
        parameters = Parameters.of(address, *measure.parts, measure.count, into, int(take))
        self._memory.device.launch(self._functions[measure.dtype], _EVERYWHERE, parameters)

    @cached_property
    def _functions(self) -> dict[str, Function]:
        found = self._memory.device.functions(PTX.read_bytes(), *(f"weigh_{name}" for name in _SIZES))
        return dict(zip(_SIZES, found, strict=True))
