"""Buffers on a device that one worker sees too: the gate lays them, and looks at them, without bringing them to a host.

Memory of its own, which no worker sees, holds what inputs and results that are known should be. It is compared bit by
bit on the device (`shelf.cu`); what differs, and what nobody has looked at before, comes to the host.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np

from validator.gpu.driver import Device, DeviceError, NotHere, open_device
from validator.gpu.looking import Looking, Stretch
from validator.gpu.measures import Measures
from validator.gpu.memory import Memory
from validator.gpu.sending import Sender, up
from validator.gpu.twins import QUAD, Twin, Twins

__all__ = ["Region", "Shelf", "Stretch", "Taken"]

Weight: TypeAlias = tuple[float, float, float, int]
"""See `validator.run.elsewhere.Weight`."""
_ALIGNED = 256
"""Bytes: what every allocator gives."""
_SHARE = 4
"""Regions take no more than such a part of the device's memory, those of the last calls aside."""
_LATELY = 64
"""Calls."""


class Taken:
    """See `validator.run.elsewhere.Taken`."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self.weighed: tuple[Any, Weight | None] = (None, None)
        """(by what, its weight)."""

    def fetch(self, into: Any, start: int = 0) -> None:
        self._shelf.enter()
        self._shelf.device.fetch(self.twin.address + start, into)

    def weight(self, right: Any) -> Weight | None:
        if self.weighed[0] is not right:
            self._shelf.look((), [(self, right)])
        return self.weighed[1]

    @property
    def twin(self) -> Twin:
        twin = self._shelf.twins.has(self)
        assert twin is not None, "it lives as long as this does"
        return twin


class Region:
    """See `validator.run.elsewhere.Region`."""

    def __init__(self, shelf: Shelf, slot: int, length: int) -> None:
        """Raises `DeviceError` where the device has no room."""
        self._shelf, self.slot, self.length = shelf, slot, length
        self.size, self.used = up(length, shelf.page), 0
        self.device = shelf.identifier
        self._made = shelf.shared(self.size)
        self.start = self.size - up(length, _ALIGNED)
        self.address = self._made[0] + self.start
        self._value: weakref.ref[Any] | None = None
        self._pattern = -1
        self._intact = False
        """Nobody has had it since it was last seen to hold what it should."""
        self._whole: tuple[int, int] | None = None
        """The gate's copy of all of it, where that is what should stand there."""

    def export(self) -> int:
        types = self._shelf.device.types
        kind = types.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        return int(self._shelf.device.call("cuMemExportToShareableHandle", self._made[1], kind, 0))

    def poison(self, body: tuple[int, int], element: bytes, pattern: int) -> None:
        self._other_contents()
        (offset, size), throughout = body, element * (QUAD // len(element))
        elements = Stretch(self.address + offset, size, pattern=throughout)
        self._shelf.looking.lay([elements, *self.around(body, pattern)])

    def hold(self, value: Any, body: tuple[int, int], source: memoryview, pattern: int) -> None:
        self._shelf.enter()
        held = self._intact and self._value is not None and self._value() is value
        rows = [] if held else [self._body(body, self._shelf.twins.twin(value, body, source))]
        if not held or self._pattern != pattern:
            rows += self.around(body, pattern)
        self._shelf.looking.lay(rows)
        self._other_contents()
        self._value, self._pattern = weakref.ref(value), pattern

    def coming(self, value: Any, body: tuple[int, int], source: memoryview) -> None:
        self._shelf.enter()
        self._shelf.twins.coming(value, body, source)

    def load(self, source: memoryview, *, keep: bool = False) -> None:
        self._other_contents()
        self._shelf.looking.laid()
        self._shelf.device.upload(self.address, np.frombuffer(source, np.uint8))
        if keep:
            self._whole = (self._shelf.memory.get(self.length), self.length)
            self._shelf.device.copy(self._whole[0], self.address, self.length)

    def fetch(self, into: memoryview) -> None:
        self._shelf.enter()
        self._shelf.looking.laid()
        self._shelf.device.fetch(self.address, np.frombuffer(into, np.uint8))

    def around(self, body: tuple[int, int], pattern: int) -> list[Stretch]:
        end = sum(body)
        sides = ((self.address, body[0]), (self.address + end, self.length - end))
        return [Stretch(at, size, pattern=bytes([pattern]) * QUAD) for at, size in sides]

    def held(self, body: tuple[int, int], pattern: int) -> list[Stretch]:
        if self._whole is not None:
            return [Stretch(self.address, self.length, self._whole[0])]
        value = self._value() if self._value is not None else None
        twin = self._shelf.twins.known(value, body)
        assert twin is not None, "an array that lies here is alive as long as its call is"
        return [self._body(body, twin), *self.around(body, pattern)]

    def confirm(self) -> None:
        self._intact = self._value is not None

    def as_known(self, body: tuple[int, int], known: Any) -> Stretch | None:
        twin = self._shelf.twins.known(known, body)
        return None if twin is None else self._body(body, twin)

    def take(self, body: tuple[int, int]) -> Taken:
        self._shelf.enter()
        self._shelf.looking.laid()
        taken = Taken(self._shelf)
        self._shelf.twins.take(self.address + body[0], body, taken)
        return taken

    def close(self) -> None:
        """Its memory is gone, as soon as no worker maps it either."""
        self._other_contents()
        self._shelf.looking.laid()
        if self.size:
            self._shelf.unshared(*self._made, self.size)
        self.size = 0

    def _body(self, body: tuple[int, int], twin: Twin) -> Stretch:
        return Stretch(self.address + body[0], body[1], twin.address)

    def _other_contents(self) -> None:
        """What stood there does no longer, or somebody may write to it."""
        self._shelf.enter()
        if self._whole is not None:
            self._shelf.memory.give_back(*self._whole)
        self._value, self._whole, self._intact = None, None, False


class Shelf:
    """See `validator.run.elsewhere.Elsewhere`. Opens the device when a region is asked for."""

    least = 1 << 20

    def __init__(self, opened: Callable[[], Device | NotHere] | None = None) -> None:
        self._opened, self.usable = opened or partial(open_device, beside=True), True
        self._regions: dict[tuple[int, int], Region] = {}
        self._untold: list[Region] = []
        self._calls = 0

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

    @cached_property
    def twins(self) -> Twins:
        """What arrays of the host hold."""
        return Twins(self.memory, self.sender)

    @cached_property
    def measures(self) -> Measures:
        return Measures(self.memory, self.sender)

    @cached_property
    def looking(self) -> Looking:
        return Looking(self.memory, self.measures)

    @cached_property
    def sender(self) -> Sender:
        return Sender(self.device)

    def arrived(self) -> None:
        if "memory" in self.__dict__:
            self.twins.arrived()
            self.measures.arrived()

    def enter(self) -> None:
        """This thread may ask the device; what belonged to arrays that are no more serves others."""
        self.device.enter()
        self.twins.collect()
        self.measures.collect()

    def probe(self) -> Region | None:
        if isinstance(self._device, NotHere):
            self.usable = False
            return None
        self.enter()
        try:
            return Region(self, 0, self.least)
        except DeviceError:
            self.usable = False
            return None

    def region(self, slot: int, length: int) -> Region | None:
        if not self.usable or isinstance(self._device, NotHere):
            return None
        self.enter()
        region = self._regions.pop((slot, length), None) or self._new(slot, length)
        if region is not None:
            region.used = self._calls
            self._regions[slot, length] = region
        return region

    def _new(self, slot: int, length: int) -> Region | None:
        """One more, in place of the oldest where there are too many."""
        self._make_room(length)
        try:
            region = Region(self, slot, length)
        except DeviceError:
            return None
        self._untold.append(region)
        return region

    def _make_room(self, length: int) -> None:
        held = sum(region.size for region in self._regions.values()) + length
        for key, region in list(self._regions.items()):
            if held <= self._room or region.used >= self._calls - _LATELY:
                return
            held -= region.size
            del self._regions[key]
            region.close()
            self._untold.append(region)

    def refuse(self) -> None:
        self.usable = False

    def news(self, *, everything: bool) -> list[Region]:
        self._calls += 1
        told, self._untold = self._untold, []
        return list(self._regions.values()) if everything else told

    def look(self, stretches: Sequence[Stretch], weighed: Sequence[tuple[Any, Any]] = ()) -> list[int]:
        self.enter()
        measures = {taken: self.measures.of(right, taken.twin) for taken, right in weighed}
        known = {taken: measure for taken, measure in measures.items() if measure is not None}
        counts, weights = self.looking.look(stretches, [(taken.twin, measure) for taken, measure in known.items()])
        found = dict(zip(known, weights, strict=True))
        for taken, right in weighed:
            taken.weighed = right, found.get(taken)
        return counts

    def expect(self, right: Any, trusted: Any, away: Any, yard: Any) -> None:
        if not self.usable or isinstance(self._device, NotHere) or "memory" not in self.__dict__:
            return
        self.enter()
        with suppress(DeviceError):  # without room there, it is brought here and judged here
            self.measures.coming(right, trusted, away, yard)

    def alike(self, taken: Any, known: Any) -> None:
        self.twins.pass_on(taken, known)

    def settle(self) -> None:
        self.enter()
        self.looking.laid()
        self.device.synchronize()

    def close(self) -> None:
        if "_device" not in self.__dict__ or isinstance(self._device, NotHere):
            return
        self.settle()
        for region in self._regions.values():
            region.close()
        self._regions, self.usable = {}, False
        self.sender.close()
        self.twins.close()
        self.measures.close()
        self.memory.clear()

    def shared(self, size: int) -> tuple[int, Any]:
        """(address, handle) of memory that can be exported."""
        handle = self.device.call("cuMemCreate", size, self._place, 0)
        address = int(self.device.call("cuMemAddressReserve", size, 0, 0, 0))
        self.device.call("cuMemMap", address, size, 0, handle, 0)
        access = self.device.types.CUmemAccessDesc()
        access.location = self._place.location
        access.flags = self.device.types.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        self.device.call("cuMemSetAccess", address, size, [access], 1)
        return address, handle

    def unshared(self, address: int, handle: Any, size: int) -> None:
        self.device.synchronize()
        self.device.call("cuMemUnmap", address, size)
        self.device.call("cuMemAddressFree", address, size)
        self.device.call("cuMemRelease", handle)

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
        return int(self.device.call("cuDeviceTotalMem", self.device.ordinal)) // _SHARE
