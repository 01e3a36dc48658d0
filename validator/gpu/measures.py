"""What results are weighed by on a device: the trusted one, how far from it the exact one is, and the yardsticks."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from validator.gpu.driver import Function, Launch, Parameters
from validator.gpu.memory import Memory
from validator.gpu.owned import Owned
from validator.gpu.sending import Sender, up
from validator.gpu.twins import QUAD, Twin

__all__ = ["PTX", "WEIGHT", "Measure", "Measures"]

PTX = Path(__file__).with_name("shelf.ptx")
WEIGHT = struct.Struct("<dddQ")
"""As in `shelf.cu`: largest error in yardsticks, sums of squares of errors and of yardsticks, other elements."""
_EVERYWHERE = Launch((528, 1, 1), (256, 1, 1))
_ALIGNED = 256
_SIZES = {"bfloat16": 2, "float16": 2, "float32": 4}
"""Types of results that are weighed, and their bytes."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Of one result: its parts one behind another."""

    parts: tuple[int, int, int]
    """Addresses of the trusted result, of what the exact one is away from it, of the yardsticks."""
    count: int
    dtype: str


class Measures(Owned[Measure]):
    """Of results, by what says what is right."""

    def __init__(self, memory: Memory, sender: Sender) -> None:
        super().__init__(memory)
        self._sender = sender

    def coming(self, right: Any, trusted: Any, away: Any, yard: Any) -> None:
        """Begin to send what results are weighed by, in rows."""
        if trusted.dtype.name not in _SIZES:
            return
        self.drop(right)
        self.collect()
        several = [part.reshape(-1).view(np.uint8) for part in (trusted, away, yard)]
        sizes = [up(len(part), _ALIGNED) for part in several]
        piece = (self._memory.get(sum(sizes)), sum(sizes))
        parts = (piece[0], piece[0] + sizes[0], piece[0] + sizes[0] + sizes[1])
        sent = self._sender.send(*zip(parts, several, strict=True))
        self.put(right, Measure(parts, trusted.size, trusted.dtype.name), piece, sent)

    def of(self, right: Any, twin: Twin) -> Measure | None:
        """That of such a result, if there is one."""
        found = self.has(right)
        fits = found is not None and found.count * _SIZES[found.dtype] == twin.size and not twin.address % QUAD
        return self.there(right) if fits else None

    def weigh(self, twin: Twin, measure: Measure, into: int) -> None:
        """Queues it; what lies at `into` is zero."""
        parameters = Parameters.of(twin.address, *measure.parts, measure.count, into)
        self._memory.device.launch(self._functions[measure.dtype], _EVERYWHERE, parameters)

    @cached_property
    def _functions(self) -> dict[str, Function]:
        found = self._memory.device.functions(PTX.read_bytes(), *(f"weigh_{name}" for name in _SIZES))
        return dict(zip(_SIZES, found, strict=True))
