"""Results in the gate's own memory on a device: what a worker has is compared with them there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from validator.gpu.owned import Owned
from validator.gpu.stretches import QUAD

__all__ = ["Twin", "Twins"]


@dataclass(frozen=True, slots=True)
class Twin:
    """The same bytes."""

    address: int
    """Of the first; at the same place within 16 bytes as what it is compared with."""
    size: int


class Twins(Owned[Twin]):
    """Of results that were taken, and of the arrays of the host that they turned out to be."""

    def known(self, value: Any, body: tuple[int, int]) -> Twin | None:
        """The gate's copy, if it has one that can be compared with that body."""
        twin = self.there(value)
        return twin if twin is not None and twin.size == body[1] and not (twin.address - body[0]) % QUAD else None

    def take(self, address: int, body: tuple[int, int], owner: Any) -> None:
        """What stands there, to where nobody else can change it; queued."""
        piece = (self._memory.get(body[1] + QUAD), body[1] + QUAD)
        twin = Twin(piece[0] + body[0] % QUAD, body[1])
        self.put(owner, twin, piece)
        self._memory.device.copy(twin.address, address, body[1])
