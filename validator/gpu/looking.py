"""Memory on a device laid, compared and weighed where it lies: `shelf.cu`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from validator.gpu.digested import DIGEST, Digest, Digests
from validator.gpu.driver import Function, Launch
from validator.gpu.measures import WEIGHT, Measure, Measures
from validator.gpu.memory import Memory
from validator.gpu.stretches import AT_A_TIME, PTX, Stretch, parameters_of

__all__ = ["Digested", "Looking", "Noted", "Row", "Weighed"]

_EVERYWHERE = Launch((1056, 1, 1), (256, 1, 1))
_FIGURES = 1 << 12
"""Bytes of all that is found at a time."""
_NOTED = 1 << 7
"""Counts that are kept for a later look: at the end of the figures."""


@dataclass(frozen=True, slots=True)
class Digested:
    """Bytes that should have a digest."""

    at: int
    due: Digest
    of: Any = None
    """The region that can say how many of them are others."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A count that was made before."""

    number: int


Row = Stretch | Digested | Noted


@dataclass(frozen=True, slots=True)
class Weighed:
    """A result that lies there."""

    at: int
    measure: Measure
    take: bool


class Looking:
    """One after another; whoever asks has entered the device."""

    def __init__(self, memory: Memory, measures: Measures, digests: Digests) -> None:
        self._memory, self._device = memory, memory.device
        self._measures, self._digests = measures, digests
        self._waiting: list[Stretch] = []
        self._noting: list[Stretch] = []
        self._next = 0

    def lay(self, rows: Sequence[Stretch]) -> None:
        """Put there what should stand there, as soon as somebody asks for it: while a call runs, it would have to stand
        back for that."""
        self._waiting += rows

    def note(self, rows: Sequence[Stretch]) -> list[Noted]:
        """Count what is not what should stand there, before anything else is laid; for a later look."""
        first = self._next if self._next + len(rows) <= _NOTED else 0
        if first < self._next:
            self.laid()
        self._noting += rows
        self._next = first + len(rows)
        return [Noted(first + k) for k in range(len(rows))]

    def laid(self) -> None:
        """Queues all that waits."""
        noting, self._noting = self._noting, []
        if noting:
            into = self._noted + 8 * (self._next - len(noting))
            self._device.clear(into, 8 * len(noting))
            self._count(noting, into)
        rows, self._waiting = self._waiting, []
        for start in range(0, len(rows), AT_A_TIME):
            self._device.launch(self._functions[0], _EVERYWHERE, parameters_of(rows[start : start + AT_A_TIME]))

    def look(
        self, rows: Sequence[Row], weighed: Sequence[Weighed] = ()
    ) -> tuple[list[int], list[tuple[float, float, float, int]]]:
        """Bytes of each that are not what should stand there (of digests: whether it is another); and what results
        weigh. All in one round trip."""
        compared = [row for row in rows if isinstance(row, Stretch)]
        digested = [row for row in rows if isinstance(row, Digested)]
        digests, weights = 8 * len(compared), 8 * len(compared) + DIGEST.size * len(digested)
        size = weights + WEIGHT.size * len(weighed)
        assert size <= _FIGURES - 8 * _NOTED, "a call has few arrays"
        if size:  # zeros, by the launch that lays what waits anyway
            self._waiting.append(Stretch(self._figures, size))
        self.laid()
        self._count(compared, self._figures)
        self._digests.add([Stretch(row.at, row.due.size) for row in digested], self._figures + digests)
        for at, one in enumerate(weighed):
            self._measures.weigh(one.at, one.measure, self._figures + weights + WEIGHT.size * at, take=one.take)
        if not size and not rows:
            return [], []
        found = self._device.download(self._figures, _FIGURES)
        counts = iter(struct.unpack_from(f"<{len(compared)}Q", found))
        added = DIGEST.iter_unpack(found[digests:weights])
        noted = struct.unpack_from(f"<{_NOTED}Q", found, _FIGURES - 8 * _NOTED)

        def wrong(row: Row) -> int:
            match row:
                case Noted():
                    return int(noted[row.number])
                case Digested():
                    return int(self._digests.said(next(added), row.due.size) != row.due)
                case _:
                    return int(next(counts))

        return [wrong(row) for row in rows], list(WEIGHT.iter_unpack(found[weights:size]))

    def _count(self, rows: Sequence[Stretch], into: int) -> None:
        for start in range(0, len(rows), AT_A_TIME):
            parameters = parameters_of(rows[start : start + AT_A_TIME], into + 8 * start)
            self._device.launch(self._functions[1], _EVERYWHERE, parameters)

    @cached_property
    def _functions(self) -> tuple[Function, ...]:
        return self._device.functions(PTX.read_bytes(), "lay", "count")

    @cached_property
    def _figures(self) -> int:
        return self._memory.get(_FIGURES)

    @property
    def _noted(self) -> int:
        return self._figures + _FIGURES - 8 * _NOTED
