"""The gate's own memory on a device: allocated once and used again."""

from __future__ import annotations

from validator.gpu.driver import Device, DeviceError

__all__ = ["Memory"]

_SPARE = 6
"""Pieces of memory without a use that are kept: what a case needs is asked for again by the next one."""


class Memory:
    """Pieces by their size."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._spare: list[tuple[int, int]] = []

    def get(self, size: int) -> int:
        """Address."""
        found = next((piece for piece in self._spare if piece[1] == size), None)
        if found is not None:
            self._spare.remove(found)
            return found[0]
        try:
            return int(self.device.call("cuMemAlloc", size))
        except DeviceError:
            if not self._spare:
                raise
        self.clear()
        return int(self.device.call("cuMemAlloc", size))

    def give_back(self, address: int, size: int) -> None:
        self._spare.append((address, size))
        while len(self._spare) > _SPARE:
            self.device.call("cuMemFree", self._spare.pop(0)[0])

    def clear(self) -> None:
        """Nothing spare is kept."""
        while self._spare:
            self.device.call("cuMemFree", self._spare.pop()[0])
