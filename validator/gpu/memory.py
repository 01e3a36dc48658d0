"""The gate's own memory on a device: allocated once and used again."""

from __future__ import annotations

from validator.gpu.driver import Device

__all__ = ["Memory"]

_SPARE = 6
"""Pieces of memory without a use that are kept: what a case needs is asked for again by the next one."""


class Memory:
    """Pieces by their size."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._spare: list[tuple[int, int]] = []
        self.held = 0
        """Bytes, spare ones too."""

    def get(self, size: int) -> int:
        """Address."""
        found = next((piece for piece in self._spare if piece[1] == size), None)
        if found is not None:
            self._spare.remove(found)
            return found[0]
        self.clear()  # of another case: memory of both at a time is nobody's need
        address = int(self.device.call("cuMemAlloc", size))
        self.held += size
        return address

    def give_back(self, address: int, size: int) -> None:
        self._spare.append((address, size))
        while len(self._spare) > _SPARE:
            self._free(*self._spare.pop(0))

    def clear(self) -> None:
        """Nothing spare is kept."""
        while self._spare:
            self._free(*self._spare.pop())

    def _free(self, address: int, size: int) -> None:
        self.device.call("cuMemFree", address)
        self.held -= size
