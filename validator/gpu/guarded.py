"""Device memory between pages that are not mapped: an access beyond a buffer ends in an illegal address.

From the driver's virtual memory API. A range of addresses is reserved, physical memory is mapped into its middle, and
the margins stay empty. The same API lays rows so far apart that their offsets leave 32 bits, with no memory between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from validator.gpu.driver import Device

__all__ = ["Guarded", "Island", "guarded", "islands"]


@dataclass(frozen=True, slots=True)
class Island:
    """Mapped bytes of a reservation: [start, start + size), both multiples of the page."""

    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Guarded:
    """A reservation: addresses of `size` bytes, of which the islands are mapped."""

    address: int
    size: int
    mapped: tuple[Island, ...]

    @property
    def end(self) -> int:
        """Address of the first byte behind the last island; a page that is not mapped begins there."""
        last = self.mapped[-1]
        return self.address + last.start + last.size


def islands(pieces: Sequence[tuple[int, int]], page: int) -> tuple[Island, ...]:
    """The pages that (start, size) pieces touch, in order, neighbours merged."""
    pages = sorted({p for start, size in pieces for p in range(start // page, (start + max(size, 1) - 1) // page + 1)})
    found: list[Island] = []
    for number in pages:
        last = found[-1] if found else None
        if last is not None and last.start + last.size == number * page:
            found[-1] = Island(last.start, last.size + page)
        else:
            found.append(Island(number * page, page))
    return tuple(found)


def guarded(device: Device, pieces: Sequence[tuple[int, int]]) -> Guarded:
    """Memory for (start, size) pieces, offsets in bytes from one page behind the reservation's address.

    Raises DeviceError when the driver refuses. The memory lives as long as the process: a worker ends with its kernel.
    """
    types = device.types
    place = types.CUmemAllocationProp()
    place.type = types.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    place.location.type = types.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    place.location.id = device.ordinal
    least = types.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
    page = int(device.call("cuMemGetAllocationGranularity", place, least))
    mapped = islands([(start + page, size) for start, size in pieces], page)
    size = mapped[-1].start + mapped[-1].size + page
    address = int(device.call("cuMemAddressReserve", size, 0, types.CUdeviceptr(0), 0))
    access = types.CUmemAccessDesc()
    access.location = place.location
    access.flags = types.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    for island in mapped:
        handle = device.call("cuMemCreate", island.size, place, 0)
        device.call("cuMemMap", types.CUdeviceptr(address + island.start), island.size, 0, handle, 0)
        device.call("cuMemRelease", handle)
        device.call("cuMemSetAccess", types.CUdeviceptr(address + island.start), island.size, [access], 1)
    return Guarded(address, size, mapped)
