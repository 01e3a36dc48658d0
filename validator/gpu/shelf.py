"""Buffers on a device that one worker sees too: the gate lays them, and looks at them, without bringing them to a host.

Inputs are held against keyed digests, results against others that were taken to memory which no worker sees, on the
device (`shelf.cu`); what differs, and what nobody has looked at before and cannot be weighed there, comes to the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import Any

import numpy as np

from validator.gpu.digested import Digests
from validator.gpu.driver import Device, DeviceError, NotHere, open_device
from validator.gpu.looking import Digested, Looking, Row, Weighed
from validator.gpu.measures import Measures
from validator.gpu.memory import Memory
from validator.gpu.region import Region, Taken
from validator.gpu.sending import Sender
from validator.gpu.twins import Twin, Twins

__all__ = ["Region", "Shelf", "Taken"]

_ROOM, _SHARE = 1 << 30, 4
"""Regions take no more bytes than that, nor than such a part of the device's memory, those of the last calls aside."""
_LATELY = 32
"""Calls: more than lie between two of one plan on the same buffers."""


class Shelf:
    """See `validator.run.elsewhere.Elsewhere`. Opens the device when a region is asked for."""

    least = 1 << 20

    def __init__(self, opened: Callable[[], Device | NotHere] | None = None) -> None:
        self._opened, self.usable = opened or partial(open_device, beside=True), True
        self.why = ""
        self._regions: dict[tuple[int, int], Region] = {}
        self._untold: list[Region] = []
        self._calls = self._shared = 0

    @cached_property
    def _device(self) -> Device | NotHere:
        return self._opened()

    @property
    def device(self) -> Device:
        assert not isinstance(self._device, NotHere)
        return self._device

    @cached_property
    def memory(self) -> Memory:
        return Memory(self.device)

    @property
    def held(self) -> int:
        return self._shared + (self.memory.held if "memory" in self.__dict__ else 0)

    @cached_property
    def twins(self) -> Twins:
        return Twins(self.memory)

    @cached_property
    def digests(self) -> Digests:
        return Digests(self.memory, self.sender)

    @cached_property
    def measures(self) -> Measures:
        return Measures(self.memory, self.sender)

    @cached_property
    def looking(self) -> Looking:
        return Looking(self.memory, self.measures, self.digests)

    @cached_property
    def sender(self) -> Sender:
        return Sender(self.device)

    def arrived(self) -> None:
        if "memory" in self.__dict__:
            self.digests.arrived()
            self.measures.arrived()

    def enter(self) -> None:
        """This thread may ask the device; what belonged to arrays that are no more serves others."""
        self.device.enter()
        self.twins.collect()
        self.measures.collect()

    def probe(self) -> Region | None:
        if isinstance(self._device, NotHere):
            self.usable, self.why = False, str(self._device)
            return None
        self.enter()
        try:
            return Region(self, 0, self.least)
        except DeviceError as error:
            self.usable, self.why = False, str(error)
            return None

    def region(self, slot: int, length: int, beside: int | None = None) -> Region | None:
        if not self.usable or isinstance(self._device, NotHere):
            return None
        self.enter()
        region = self._regions.pop((slot, length), None)
        if region is not None and beside is None and region.borrows:
            region.close()  # it holds something else from now on
            region = None
        region = region or self._new(slot, length, beside)
        if region is not None:
            region.used = self._calls
            self._regions[slot, length] = region
        return region

    def _new(self, slot: int, length: int, beside: int | None) -> Region | None:
        """One more, in place of the oldest where there are too many."""
        owner = self._regions.get((beside, length)) if beside is not None else None
        if owner is None:
            self._make_room(length)
        try:
            region = Region(self, slot, length, owner)
        except DeviceError as error:
            self.why = str(error)
            return None
        self._untold.append(region)
        return region

    def _make_room(self, length: int) -> None:
        held = sum(region.size for region in self._regions.values() if not region.borrows) + length
        for key, region in list(self._regions.items()):
            if held <= self._room or region.used >= self._calls - _LATELY:
                return
            held -= 0 if region.borrows else region.size
            del self._regions[key]
            region.close()
            self._untold.append(region)

    def doubt(self) -> None:
        for region in self._regions.values():
            region.doubt()

    def refuse(self, why: str) -> None:
        self.usable, self.why = False, why
        self._regions, self._untold = {}, []  # where the device itself has failed, there is nothing to give back either

    def news(self, *, everything: bool) -> list[Region]:
        self._calls += 1
        told, self._untold = self._untold, []
        return list(self._regions.values()) if everything else told

    def look(self, rows: Sequence[Row], weighed: Sequence[tuple[Any, Any]] = ()) -> list[int]:
        self.enter()
        known = []
        for taken, right in weighed:
            at, size = taken.place or (taken.twin.address, taken.twin.size)
            measure, taken.weighed = self.measures.fits(right, at, size), (right, None)
            if measure is not None:
                known.append((taken, right, Weighed(at, measure, take=taken.place is not None)))
        counts, weights = self.looking.look(rows, [what for _, _, what in known])
        for (taken, right, what), weight in zip(known, weights, strict=True):
            taken.weighed = right, weight
            if what.take:
                taken.place = None
                twin = Twin(what.measure.parts[0], what.measure.size)
                self.twins.put(taken, twin, self.measures.used_up(right))
        return [
            row.of.differing(row) if count and isinstance(row, Digested) and row.of is not None else count
            for row, count in zip(rows, counts, strict=True)
        ]

    def weighs_once(self, right: Any, address: int, size: int) -> bool:
        """Whether a result that lies there is taken as it is weighed."""
        measure = self.measures.fits(right, address, size) if right is not None else None
        return measure is not None and measure.once

    def expect(self, right: Any, trusted: Any, away: Any, yard: Any, *, once: bool) -> None:
        if self._ready:
            with suppress(DeviceError):  # without room there, it is brought here and judged here
                self.measures.coming(right, trusted, away, yard, once)

    def knows(self, result: Any) -> None:
        if self._ready and result.flags.c_contiguous:
            with suppress(DeviceError):
                self.digests.send(result, result.reshape(-1).view(np.uint8), None)

    @property
    def _ready(self) -> bool:
        """Something lies there."""
        if not self.usable or isinstance(self._device, NotHere) or "memory" not in self.__dict__:
            return False
        self.enter()
        return True

    def alike(self, taken: Any, known: Any) -> None:
        self.twins.pass_on(taken, known)

    def settle(self) -> None:
        self.enter()
        self.looking.laid()
        self.device.synchronize()

    def close(self) -> None:
        if "_device" not in self.__dict__ or isinstance(self._device, NotHere):
            return
        try:
            with suppress(DeviceError):  # what has failed gives nothing back: its context ends with this process
                self.settle()
                for region in self._regions.values():
                    region.close()
                self.twins.close()
                self.measures.close()
                self.memory.clear()
        finally:
            self._regions, self.usable = {}, False
            self.sender.close()

    def shared(self, size: int) -> tuple[int, Any]:
        """(address, handle) of memory that can be exported."""
        handle = self.device.call("cuMemCreate", size, self._place, 0)
        address = int(self.device.call("cuMemAddressReserve", size, 0, 0, 0))
        self.device.call("cuMemMap", address, size, 0, handle, 0)
        access = self.device.types.CUmemAccessDesc()
        access.location = self._place.location
        access.flags = self.device.types.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        self.device.call("cuMemSetAccess", address, size, [access], 1)
        self._shared += size
        return address, handle

    def unshared(self, address: int, handle: Any, size: int) -> None:
        self.device.synchronize()
        self.device.call("cuMemUnmap", address, size)
        self.device.call("cuMemAddressFree", address, size)
        self.device.call("cuMemRelease", handle)
        self._shared -= size

    @cached_property
    def identifier(self) -> bytes:
        """The device's."""
        return bytes(self.device.call("cuDeviceGetUuid", self.device.ordinal).bytes)

    @cached_property
    def page(self) -> int:
        """Bytes."""
        least = self.device.types.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        return int(self.device.call("cuMemGetAllocationGranularity", self._place, least))

    @cached_property
    def _place(self) -> Any:
        types = self.device.types
        place = types.CUmemAllocationProp()
        place.type = types.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        place.location.type = types.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        place.location.id = self.device.ordinal
        place.requestedHandleTypes = types.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        return place

    @cached_property
    def _room(self) -> int:
        """Bytes for regions."""
        return min(_ROOM, int(self.device.call("cuDeviceTotalMem", self.device.ordinal)) // _SHARE)
