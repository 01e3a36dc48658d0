"""Guard pages: what is asked of the driver's virtual memory API, and that what surrounds a buffer stays unmapped."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from validator.gpu.guarded import guarded

PAGE = 1 << 21
BASE = 1 << 40


class Device:
    """Keeps what was called, and maps nothing outside of a reservation."""

    ordinal = 3

    def __init__(self) -> None:
        names = SimpleNamespace
        self.types: Any = names(
            CUmemAllocationProp=lambda: names(location=names()),
            CUmemAllocationType=names(CU_MEM_ALLOCATION_TYPE_PINNED=1),
            CUmemLocationType=names(CU_MEM_LOCATION_TYPE_DEVICE=1),
            CUmemAllocationGranularity_flags=names(CU_MEM_ALLOC_GRANULARITY_MINIMUM=0),
            CUmemAccessDesc=names,
            CUmemAccess_flags=names(CU_MEM_ACCESS_FLAGS_PROT_READWRITE=3),
            CUdeviceptr=int,
        )
        self.mapped: list[tuple[int, int]] = []
        self.open: set[tuple[int, int]] = set()
        self.handles: set[int] = set()
        self.reserved = 0

    def call(self, name: str, *args: Any) -> Any:
        match name:
            case "cuMemGetAllocationGranularity":
                assert (args[0].location.id, args[0].location.type) == (3, 1)
                return PAGE
            case "cuMemAddressReserve":
                self.reserved = args[0]
                return BASE
            case "cuMemCreate":
                assert args[0] % PAGE == 0
                self.handles.add(len(self.mapped))
                return len(self.mapped)
            case "cuMemMap":
                assert args[3] in self.handles
                self.mapped.append(args[:2])
            case "cuMemRelease":
                self.handles.remove(args[0])
            case "cuMemSetAccess":
                assert [access.flags for access in args[2]] == [3]
                self.open.add(args[:2])
        return None


def test_a_buffer_stands_between_two_pages_that_are_not_mapped():
    device = Device()
    made = guarded(device, [(0, PAGE + 5)])  # type: ignore[arg-type]
    assert device.mapped == [(BASE + PAGE, 2 * PAGE)]
    assert device.open == set(device.mapped)
    assert (made.address, made.size, device.reserved) == (BASE, 4 * PAGE, 4 * PAGE)
    assert made.end == BASE + 3 * PAGE
    assert device.handles == set(), "the mapping alone keeps the memory"


def test_nothing_is_mapped_between_pieces_far_apart():
    device = Device()
    made = guarded(device, [(0, 10), (5 << 30, 10), ((5 << 30) + PAGE, 10)])  # type: ignore[arg-type]
    assert device.mapped == [(BASE + PAGE, PAGE), (BASE + PAGE + (5 << 30), 2 * PAGE)]
    assert made.size == (5 << 30) + 4 * PAGE
