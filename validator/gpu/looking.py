"""Memory on a device laid, compared and weighed where it lies: `shelf.cu`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from validator.gpu.driver import Function, Launch, Parameters
from validator.gpu.measures import PTX, WEIGHT, Measure, Measures
from validator.gpu.memory import Memory
from validator.gpu.twins import QUAD, Twin

__all__ = ["Looking", "Stretch"]

_EVERYWHERE = Launch((1056, 1, 1), (256, 1, 1))
_AT_A_TIME = 16
"""Stretches of one launch, as in `shelf.cu`."""
_FIGURES = 1 << 12
"""Bytes of all that is found at a time."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes on the device and what should stand there: those at `other`, or a pattern of 16 bytes by address."""

    at: int
    size: int
    other: int = 0
    pattern: bytes = bytes(QUAD)

    @property
    def packed(self) -> bytes:
        return struct.pack("<QQQ8x", self.at, self.other, self.size) + self.pattern


_STRETCH = len(Stretch(0, 0).packed)


class Looking:
    """One after another; whoever asks has entered the device."""

    def __init__(self, memory: Memory, measures: Measures) -> None:
        self._memory, self._device, self._measures = memory, memory.device, measures
        self._waiting: list[Stretch] = []

    def lay(self, rows: Sequence[Stretch]) -> None:
        """Put there what should stand there, as soon as somebody asks for it: while a call runs, it would have to stand
        back for that."""
        self._waiting += rows

    def laid(self) -> None:
        """Queues all that waits."""
        rows, self._waiting = self._waiting, []
        for start in range(0, len(rows), _AT_A_TIME):
            self._device.launch(self._lay, _EVERYWHERE, _parameters(rows[start : start + _AT_A_TIME]))

    def look(
        self, rows: Sequence[Stretch], weighed: Sequence[tuple[Twin, Measure]] = ()
    ) -> tuple[list[int], list[tuple[float, float, float, int]]]:
        """Bytes of each that are not what should stand there; and what results weigh. All in one round trip."""
        begin = 8 * len(rows)
        size = begin + WEIGHT.size * len(weighed)
        if not size:
            return [], []
        assert size <= _FIGURES, "a call has few arrays"
        self.laid()
        self._device.clear(self._figures, size)
        for start in range(0, len(rows), _AT_A_TIME):
            parameters = _parameters(rows[start : start + _AT_A_TIME], self._figures + 8 * start)
            self._device.launch(self._count, _EVERYWHERE, parameters)
        for at, (twin, measure) in enumerate(weighed):
            self._measures.weigh(twin, measure, self._figures + begin + WEIGHT.size * at)
        found = self._device.download(self._figures, size)
        return list(struct.unpack(f"<{len(rows)}Q", found[:begin])), list(WEIGHT.iter_unpack(found[begin:]))

    @cached_property
    def _lay(self) -> Function:
        return self._functions[0]

    @cached_property
    def _count(self) -> Function:
        return self._functions[1]

    @cached_property
    def _functions(self) -> tuple[Function, ...]:
        return self._device.functions(PTX.read_bytes(), "lay", "count")

    @cached_property
    def _figures(self) -> int:
        return self._memory.get(_FIGURES)


def _parameters(rows: Sequence[Stretch], wrong: int | None = None) -> Parameters:
    """The block of `lay` and `count`."""
    end = _AT_A_TIME * _STRETCH
    block = b"".join(row.packed for row in rows).ljust(end, b"\0") + struct.pack("<Ixxxx", len(rows))
    if wrong is None:
        return Parameters(block, (0, end))
    return Parameters(block + struct.pack("<Q", wrong), (0, end, end + 8))
