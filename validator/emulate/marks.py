"""Bytes that copies are on their way to, or may still read: how many copies each 4 bytes of a region wait for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from validator.emulate.lanes import Array
from validator.emulate.memory import Region

if TYPE_CHECKING:
    from validator.emulate.locate import Piece
    from validator.emulate.memory import Touch

__all__ = ["Marks", "marks_of", "touched"]


@dataclass(slots=True)
class Marks:
    """How many copies each 4 bytes of a region wait for."""

    words: Array
    live: int = 0
    """All of them together."""

    def add(self, at: Array, on: bool) -> None:
        np.add.at(self.words, at, 1 if on else -1)
        self.live += len(at) if on else -len(at)


def marks_of(table: dict[int, Marks], region: Region) -> Marks:
    found = table.get(id(region))
    if found is None:
        found = table[id(region)] = Marks(np.zeros(len(region.data) >> 2, np.int16))
    return found


def touched(table: dict[int, Marks], piece: Piece, touch: Touch) -> Array | None:
    marks = table.get(id(piece.region))
    if marks is None or not marks.live:
        return None
    words = marks.words
    first = piece.offsets >> 2
    found: Array = words[first] > 0
    for k in range(1, max(touch.size >> 2, 1)):
        found |= words[first + k] > 0
    return found
