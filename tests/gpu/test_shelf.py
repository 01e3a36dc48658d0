"""Buffers that the gate shares with a worker on a device, played in memory of this machine: descriptors, poison, guard
zones, what is compared where it lies, and whole calls through a confined worker that maps what it is sent.

The driver of the worker is a small library under the driver's name; a device's memory is an anonymous file.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.digest import KEY, added
from tests.support.weight import weight_of
from validator.differential import runner as runner_module
from validator.differential.buffers import place
from validator.differential.cases import Case
from validator.differential.processes import Trees, runner_for
from validator.differential.runner import Runner
from validator.differential.running import run_case
from validator.errors import Problem
from validator.gpu import shelf as module
from validator.gpu.driver import DeviceError, Function, Launch, NotHere, Parameters
from validator.gpu.shelf import Shelf
from validator.manifest.load import load_contract
from validator.run.adapters import Adapter
from validator.run.sandbox import Worker

SIZE = 600
"""Bytes of a buffer."""
BODY = (256, 88)
HALF = np.full(22, 32, np.uint8)
"""Exact results half a yardstick away, as `validator.differential.packed` says it."""
POISON = b"\x41\xbe"


@dataclass
class Played:
    """A device whose addresses are this process's own."""

    room: int = 1 << 30
    files: dict[int, int] = field(default_factory=dict)
    """Address of mapped memory → the descriptor behind it."""
    kept: list[Any] = field(default_factory=list)
    sent: int = 0
    weighed: int = 0
    ordinal: int = 0

    def enter(self) -> None:
        """Any thread."""

    def synchronize(self, stream: Any = None) -> None:
        """Everything is done at once."""

    @property
    def types(self) -> Any:
        class Anything:
            def __getattr__(self, name: str) -> Any:
                return Anything()

            def __call__(self) -> Any:
                return SimpleNamespace(location=SimpleNamespace())

        return Anything()

    def call(self, name: str, *args: Any) -> Any:
        match name:
            case "cuMemAlloc":
                return self._mapped(mmap.mmap(-1, args[0]))
            case "cuMemCreate":
                if args[0] > self.room:
                    raise DeviceError(Problem("CUDA_ERROR_OUT_OF_MEMORY"))
                descriptor = os.memfd_create("device")
                os.ftruncate(descriptor, args[0])
                return descriptor
            case "cuMemAddressReserve":
                return mmap.mmap(-1, args[0])
            case "cuMemExportToShareableHandle":
                return os.dup(args[0])
            case "cuMemGetAllocationGranularity":
                return mmap.PAGESIZE
            case "cuDeviceTotalMem":
                return 4 * self.room
            case "cuDeviceGetUuid":
                return SimpleNamespace(bytes=bytes(range(16)))
            case "cuMemHostRegister":
                raise DeviceError(Problem("CUDA_ERROR_NOT_SUPPORTED"))
        return None

    def _mapped(self, memory: mmap.mmap) -> int:
        self.kept.append(memory)
        return ctypes.addressof(ctypes.c_char.from_buffer(memory))

    def functions(self, image: bytes, *names: str) -> tuple[Function, ...]:
        return tuple(Function(name, name) for name in names)

    def upload(self, address: int, data: Any, stream: Any = None) -> None:
        if len(data) != KEY:
            self.sent += len(data)
        ctypes.memmove(address, bytes(data), len(data))

    def copy(self, to: int, source: int, size: int, stream: Any = None) -> None:
        ctypes.memmove(to, source, size)

    def clear(self, address: int, size: int, stream: Any = None) -> None:
        ctypes.memset(address, 0, size)

    def download(self, address: int, size: int, stream: Any = None) -> bytes:
        return ctypes.string_at(address, size)

    def fetch(self, address: int, into: Any, stream: Any = None) -> None:
        into[...] = np.frombuffer(ctypes.string_at(address, len(into)), np.uint8)

    def launch(self, function: Function, how: Launch, parameters: Parameters, stream: Any = None) -> None:
        """What `shelf.cu` does."""
        block = parameters.block
        if function.name.startswith("weigh_"):
            self.weighed += 1
            weigh(np.dtype(getattr(ml_dtypes, function.name[6:], function.name[6:])), *struct.unpack("<7Q", block))
            return
        (count,) = struct.unpack_from("<I", block, 16 * 48)
        if function.name == "digest":
            key, into = struct.unpack_from("<QQ", block, 16 * 48 + 8)
            digest(block, count, key, into)
            return
        for row in range(count):
            at, other, size, pattern = struct.unpack_from("<QQQ8x16s", block, 48 * row)
            assert not other or at % 16 == other % 16
            due = (
                ctypes.string_at(other, size)
                if other
                else bytes(pattern[(at + i) % 16] for i in range(16)) * (size // 16 + 1)
            )
            if function.name == "lay":
                ctypes.memmove(at, due[:size], size)
            else:
                now = np.frombuffer(ctypes.string_at(at, size), np.uint8)
                wrong = int(np.count_nonzero(now != np.frombuffer(due[:size], np.uint8)))
                ctypes.c_uint64.from_address(struct.unpack_from("<Q", block, 16 * 48 + 8)[0] + 8 * row).value += wrong


def digest(block: bytes, count: int, key: int, into: int) -> None:
    for row in range(count):
        at, first, size = struct.unpack_from("<QQQ", block, 48 * row)
        for k, more in enumerate(added(ctypes.string_at(at, size), first, ctypes.string_at(key, KEY))):
            ctypes.c_uint64.from_address(into + 32 * row + 8 * k).value += more


def weigh(dtype: Any, got: int, trusted: int, away: int, yard: int, count: int, into: int, take: int) -> None:
    assert not any(at % 16 for at in (got, trusted, away, yard))
    types = (dtype, dtype, np.dtype(np.uint8), np.dtype(np.uint16))
    arrays = (
        np.frombuffer(ctypes.string_at(at, count * t.itemsize), t)
        for at, t in zip((got, trusted, away, yard), types, strict=True)
    )
    assert ctypes.string_at(into, 32) == bytes(32), "nothing was found before"
    ctypes.memmove(into, struct.pack("<dddQ", *weight_of(*arrays)), 32)
    if take:
        ctypes.memmove(trusted, got, count * dtype.itemsize)


class PlayedShelf(Shelf):
    """Memory that two processes map; `least` as the test wants it."""

    def __init__(self, device: Any, least: int = SIZE) -> None:
        super().__init__(lambda: device)
        self.least = least

    def shared(self, size: int) -> tuple[int, Any]:
        descriptor = self.device.call("cuMemCreate", size)
        return self.device._mapped(mmap.mmap(descriptor, size)), descriptor

    def unshared(self, address: int, handle: Any, size: int) -> None:
        os.close(handle)


@pytest.fixture
def device() -> Played:
    return Played()


@pytest.fixture
def shelf(device: Played) -> PlayedShelf:
    return PlayedShelf(device)


def region_of(shelf: Shelf, slot: int = 3, length: int = SIZE, beside: int | None = None) -> module.Region:
    region = shelf.region(slot, length, beside)
    assert region is not None
    return region


def arena_of(value: Any) -> memoryview:
    return memoryview(bytearray(b"\xee" * 256 + value.tobytes() + b"\xee" * (SIZE - 256 - value.nbytes)))


def values(seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(22).astype(np.float32)


def wrong(shelf: Shelf, rows: Any) -> int:
    return sum(shelf.look(rows))


def poke(region: module.Region, at: int) -> None:
    region._shelf.settle()
    byte = ctypes.c_uint8.from_address(region.address + at)
    byte.value ^= 0x5F


def test_a_slot_keeps_its_memory_and_lengths_have_their_own(shelf: PlayedShelf):
    region = region_of(shelf)
    assert region_of(shelf) is region
    assert region_of(shelf, length=SIZE + 1) is not region
    assert region_of(shelf, slot=4).address != region.address
    assert [r.slot for r in shelf.news(everything=False)] == [3, 3, 4]
    assert not shelf.news(everything=False)
    assert len(shelf.news(everything=True)) == 3, "a new worker is told of all"
    assert region.start + SIZE <= region.size
    assert not region.address % 256


def test_poison_stands_throughout_and_the_pattern_around_it(shelf: PlayedShelf):
    region, here = region_of(shelf), memoryview(bytearray(SIZE))
    region.poison(BODY, POISON, 0x5A)
    region.fetch(here)
    assert bytes(here) == b"\x5a" * 256 + POISON * 44 + b"\x5a" * (SIZE - 344)
    assert wrong(shelf, region.around(BODY, 0x5A)) == 0
    assert wrong(shelf, region.around(BODY, 0xFF)) == SIZE - 88


@pytest.mark.parametrize("at", [0, 255, 344, SIZE - 1])
def test_one_byte_beside_the_elements_is_counted(shelf: PlayedShelf, at: int):
    region = region_of(shelf)
    region.poison(BODY, POISON, 0xFF)
    poke(region, at)
    assert wrong(shelf, region.around(BODY, 0xFF)) == 1


@pytest.mark.parametrize("at", [256, 300, 343])
def test_an_input_that_changes_is_counted_and_whole_in_the_next_call(shelf: PlayedShelf, at: int):
    region, value = region_of(shelf), values(1)
    region.hold(value, BODY, arena_of(value), 0xFF)
    poke(region, at)
    assert wrong(shelf, region.around(BODY, 0xFF)) == 0
    assert wrong(shelf, region.held(BODY, 0xFF)) == 1
    region.hold(value, BODY, arena_of(value), 0xFF)
    assert wrong(shelf, region.held(BODY, 0xFF)) == 0


def test_values_are_sent_once_for_all_places_and_calls_with_them(shelf: PlayedShelf, device: Played):
    one, two, value = region_of(shelf, 0), region_of(shelf, 1, beside=0), values(1)
    for region, pattern in ((one, 0xFF), (two, 0x5A), (one, 0x5A)):
        region.hold(value, BODY, arena_of(value), pattern)
        assert wrong(shelf, region.held(BODY, pattern)) == 0
        region.confirm()
    assert device.sent == value.nbytes
    assert one.address == two.address
    assert one.export() != two.export(), "a worker maps it at two addresses"
    other = value.view()  # as where one element changes in place: another array, of which nothing is known
    value[5] += 1
    one.hold(other, BODY, arena_of(other), 0xFF)
    assert device.sent == 2 * value.nbytes
    here = memoryview(bytearray(SIZE))
    one.fetch(here)
    assert bytes(here[256:344]) == value.tobytes()


def test_what_nobody_has_looked_at_since_a_call_is_seen_after_the_next(shelf: PlayedShelf):
    region, value = region_of(shelf), values(1)
    region.hold(value, BODY, arena_of(value), 0xFF)
    poke(region, 300)  # by a call that nobody asked about
    region.hold(value, BODY, arena_of(value), 0xFF)
    assert wrong(shelf, region.held(BODY, 0xFF)) == 1
    assert wrong(shelf, region.held(BODY, 0xFF)) == 0, "and is whole again"


def test_what_a_process_that_ended_has_done_is_laid_again_for_the_next(shelf: PlayedShelf, device: Played):
    region, value = region_of(shelf), values(1)
    region.hold(value, BODY, arena_of(value), 0xFF)
    for at in (0, 300, SIZE - 1):
        poke(region, at)
    shelf.doubt()
    region.hold(value, BODY, arena_of(value), 0xFF)
    assert wrong(shelf, region.held(BODY, 0xFF)) == 0
    assert device.sent == 2 * value.nbytes


@pytest.mark.parametrize("offset", [256, 257, 262, 270])
@pytest.mark.parametrize("bit", [0, 13, 88 * 8 - 1])
def test_one_bit_of_an_input_shows_by_its_digest(shelf: PlayedShelf, offset: int, bit: int):
    region, value = region_of(shelf), values(1)
    body, arena = (offset, 88), memoryview(bytearray(SIZE))
    arena[offset : offset + 88] = value.tobytes()
    region.hold(value, body, arena, 0xFF)
    assert wrong(shelf, region.held(body, 0xFF)) == 0
    shelf.settle()
    ctypes.c_uint8.from_address(region.address + offset + bit // 8).value ^= 1 << bit % 8
    assert wrong(shelf, region.held(body, 0xFF)) == 1
    region.confirm()
    region.hold(value, body, arena, 0x5A)
    assert wrong(shelf, region.held(body, 0x5A)) == 0


def test_a_digest_has_its_key_and_tells_where_bytes_stand(shelf: PlayedShelf):
    def of(data: Any) -> Any:
        shelf.enter()
        return shelf.digests.send(data, data, None).result()

    draw = np.random.default_rng(1)
    data = draw.integers(0, 256, 3 * 4096 + 5, np.uint8)
    swapped = np.concatenate([data[4096:8192], data[:4096], data[8192:]])
    found = [of(data), of(swapped), of(data[:-1].copy()), of(np.append(data, np.uint8(0)))]
    assert len({(one.numbers, one.size) for one in found}) == 4
    assert of(data.copy()) == found[0]
    other = PlayedShelf(Played())
    other.enter()
    assert other.digests.send(data, data, None).result() != found[0], "another key"


@pytest.mark.parametrize("at", [None, 0, 255, 344, SIZE - 1])
def test_what_stood_around_is_counted_before_the_next_call_has_another_pattern(shelf: PlayedShelf, at: int | None):
    one, two, value = region_of(shelf, 0), region_of(shelf, 1, beside=0), values(1)
    one.hold(value, BODY, arena_of(value), 0xFF)
    shelf.settle()
    if at is not None:
        poke(one, at)
    two.hold(value, BODY, arena_of(value), 0x5A)
    shelf.settle()
    assert wrong(shelf, one.held(BODY, 0xFF)) == (at is not None)
    one.confirm()
    assert wrong(shelf, two.held(BODY, 0x5A)) == 0
    poke(two, 0)
    one.hold(value, BODY, arena_of(value), 0xFF)
    assert wrong(shelf, two.held(BODY, 0x5A)) == 1, "the first one's look says nothing of the second call"
    assert wrong(shelf, one.held(BODY, 0xFF)) == 0


def test_a_slot_that_has_to_hold_something_else_gets_memory_of_its_own(shelf: PlayedShelf):
    one, two = region_of(shelf, 0), region_of(shelf, 1, beside=0)
    assert region_of(shelf, 1, beside=0) is two
    own = region_of(shelf, 1)
    assert own.address != one.address
    assert [r.slot for r in shelf.news(everything=False)] == [0, 1, 1]
    assert region_of(shelf, 1, beside=0) is own, "it stays there"
    one.close()
    shelf.close()


def test_a_result_that_lies_here_is_known_there_by_its_digest(shelf: PlayedShelf, device: Played):
    region, value = region_of(shelf), values(3)
    shelf.settle()
    shelf.knows(value)
    region.load(arena_of(value))
    before = len(device.kept)
    assert wrong(shelf, [region.as_known(BODY, value)]) == 0
    poke(region, 300)
    assert wrong(shelf, [region.as_known(BODY, value)]) == 1
    assert len(device.kept) <= before + 1, "no copy: figures alone"


def test_a_result_is_taken_as_it_is_weighed(shelf: PlayedShelf, device: Played):
    region, value = region_of(shelf), values(3)
    right, yard = value.astype(np.float64), np.full(22, 0x3F80, np.uint16)
    shelf.settle()
    shelf.expect(right, value, HALF, yard, once=True)
    got = value + np.float32(0.25)
    region.load(arena_of(got))
    shelf.arrived()
    before = len(device.kept)
    taken = region.take(BODY, right)
    shelf.look([], [(taken, right)])
    assert len(device.kept) <= before + 1, "no copy: figures alone"
    worst, _, _, differing = taken.weight(right) or (0, 0, 0, 0)
    assert (round(worst, 2), differing) == (0.27, 22)
    here = np.empty(88, np.uint8)
    taken.fetch(here)
    assert here.tobytes() == got.tobytes()
    assert wrong(shelf, [region.as_known(BODY, taken)]) == 0
    poke(region, 256)
    assert wrong(shelf, [region.as_known(BODY, taken)]) == 1
    again = region.take(BODY, right)
    shelf.look([], [(again, right)])
    assert again.weight(right) is None, "what it would be weighed by is gone: it is looked at here"


def test_what_lies_there_in_another_layout_is_compared_as_a_whole(shelf: PlayedShelf):
    region, arena = region_of(shelf), arena_of(values(2))
    region.load(arena, keep=True)
    assert wrong(shelf, region.held(BODY, 0xFF)) == 0
    poke(region, 400)
    assert wrong(shelf, region.held(BODY, 0xFF)) == 1
    region.load(arena)
    here = memoryview(bytearray(SIZE))
    region.fetch(here)
    assert here == arena


def test_a_result_is_taken_where_nobody_changes_it_and_known_by_its_bits(shelf: PlayedShelf):
    region, value = region_of(shelf), values(3)
    region.load(arena_of(value))
    assert region.as_known(BODY, value) is None, "nothing is known of it"
    first = region.take(BODY)
    here = np.empty(88, np.uint8)
    first.fetch(here)
    assert here.tobytes() == value.tobytes()
    assert wrong(shelf, [region.as_known(BODY, first)]) == 0
    again = region.take(BODY)
    shelf.alike(again, value)
    assert wrong(shelf, [region.as_known(BODY, value)]) == 0
    assert region.as_known(BODY, again) is None, "the other one stands for it"
    poke(region, 343)
    assert wrong(shelf, [region.as_known(BODY, first)]) == 1
    few = np.empty(4, np.uint8)
    first.fetch(few, 84)
    assert few.tobytes() == value.tobytes()[84:]


def test_a_result_is_weighed_by_what_was_sent_and_asked_for_once(shelf: PlayedShelf, device: Played):
    region, value = region_of(shelf), values(3)
    right, yard = value.astype(np.float64), np.full(22, 0x3F80, np.uint16)
    shelf.settle()
    shelf.expect(right, value, HALF, yard, once=False)
    region.load(arena_of(value + np.float32(0.25)))
    taken = region.take(BODY)
    assert shelf.look([region.around(BODY, 0xEE)[0]], [(taken, right)]) == [0]
    worst, error, due, differing = taken.weight(right) or (0, 0, 0, 0)
    assert (round(worst, 2), round(error, 1), due, differing) == (0.27, 1.6, 22, 22)
    assert device.weighed == 1
    assert taken.weight(right.copy()) is None, "of which nobody has said anything"
    del right
    assert len(shelf.measures) == 0


def test_arrays_that_are_gone_leave_their_memory_to_others(shelf: PlayedShelf, device: Played):
    region = region_of(shelf)
    before = len(device.kept)
    for seed in range(5):
        value = values(seed)
        region.hold(value, BODY, arena_of(value), 0xFF)
        assert wrong(shelf, region.held(BODY, 0xFF)) == 0
    assert len(device.kept) - before <= 4, "key, sums and room of digests, and where differences are counted"
    del value
    assert len(shelf.digests) == 0


def test_the_oldest_memory_goes_where_there_is_too_much(shelf: PlayedShelf, device: Played, monkeypatch: Any):
    monkeypatch.setattr(module, "_LATELY", 1)
    device.room = 3 * mmap.PAGESIZE
    for slot in range(4):
        region_of(shelf, slot)
        shelf.news(everything=False)
        shelf.news(everything=False)
    assert [slot for slot, _ in shelf._regions] == [1, 2, 3]
    region_of(shelf, 4)
    assert [(r.slot, bool(r.size)) for r in shelf.news(everything=False)] == [(1, False), (4, True)]


def test_without_room_or_a_device_there_is_no_region(device: Played):
    device.room = mmap.PAGESIZE
    assert PlayedShelf(device).region(0, 2 * mmap.PAGESIZE) is None
    none = Shelf(lambda: NotHere("no device"))
    assert none.probe() is None
    assert (none.usable, none.why) == (False, "not run here: no device")
    assert none.region(0, 1 << 20) is None
    none.close()


@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
def test_the_stored_ptx_is_made_from_the_source(tmp_path: Path):
    """Another toolkit allocates registers differently: entries, parameters and what touches memory must agree."""
    folder, made = Path(module.__file__).parent, tmp_path / "shelf.ptx"
    command = ["nvcc", "-std=c++17", "-arch=compute_90", "-ptx", str(folder / "shelf.cu"), "-o", str(made)]
    subprocess.run(command, check=True, timeout=120)

    def code(path: Path) -> list[str]:
        lines = (line.strip() for line in path.read_text().splitlines())
        return [line for line in lines if line.startswith((".visible .entry", ".param", "ld.volatile", "atom"))]

    assert code(made) == code(folder / "shelf.ptx")
    assert code(made)


DRIVER = r"""
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
int cuInit(unsigned flags) { return REFUSES; }
int cuCtxSynchronize(void) { return 0; }
int cuDeviceGetUuid_v2(char *uuid, int device) { for (int i = 0; i < 16; ++i) uuid[i] = i; return 0; }
int cuMemImportFromShareableHandle(uint64_t *handle, void *fd, int kind) { *handle = dup((intptr_t)fd); return 0; }
int cuMemAddressReserve(uint64_t *at, size_t size, size_t a, uint64_t b, uint64_t c) {
  void *got = mmap(0, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *at = (uint64_t)got;
  return got == MAP_FAILED;
}
int cuMemMap(uint64_t at, size_t size, size_t offset, uint64_t handle, uint64_t flags) {
  return mmap((void *)at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, (int)handle, 0) == MAP_FAILED;
}
int cuMemSetAccess(uint64_t at, size_t size, void *access, size_t count) { return 0; }
int cuMemRelease(uint64_t handle) { return close((int)handle); }
int cuMemUnmap(uint64_t at, size_t size) { return munmap((void *)at, size); }
int cuMemAddressFree(uint64_t at, size_t size) { return munmap((void *)at, size); }
"""
ADAPTER = '''
import ctypes, importlib
import numpy as np

class NotRunHere(Exception):
    pass

def load(target, tree, options):
    ctypes.CDLL(tree + "/driver.so")
    file, _, name = target.partition(":")
    return Called(getattr(importlib.import_module(file), name), options)

class Called:
    """On what the gate has on its device; `here` says that it must be in the host's memory."""

    def __init__(self, function, options):
        self.function, self.here, self.left = function, options["here"] == "yes", {}

    def holding(self, numbers, edge, elsewhere):
        self.elsewhere = elsewhere

    def leaving(self, room, places):
        self.room, self.places = room, places

    def __call__(self, *args):
        value = self.function(*map(self.seen, args))
        if value is None or self.here or not value.flags.c_contiguous:
            return value
        (start, end), = self.places([value.nbytes])
        target = self.memory(self.elsewhere[self.room[0]] + start, end - start)
        array = np.ndarray(value.shape, value.dtype, self.memory(self.room[0] + start, end - start))
        self.left[id(array)] = (array, value, target)
        self.leave([array])
        return array

    def leave(self, returned):
        for array in returned:
            if id(array) in self.left:
                _, value, target = self.left[id(array)]
                np.ndarray(value.shape, value.dtype, target)[...] = value

    @staticmethod
    def memory(address, size):
        return (ctypes.c_uint8 * size).from_address(address)

    def seen(self, value):
        if not isinstance(value, np.ndarray):
            return value
        at = value.base.ctypes.data
        if self.here:
            assert not self.elsewhere
            return value
        place = self.elsewhere[at] + value.ctypes.data - at
        size = sum((n - 1) * s for n, s in zip(value.shape, value.strides)) + value.itemsize
        return np.ndarray(value.shape, value.dtype, (ctypes.c_uint8 * size).from_address(place), 0, value.strides)
'''
CANDIDATES = """
import numpy as np

def right(x, out):
    out[...] = x * np.float32(2)

def thrice(x, out):
    out[...] = x * np.float32(3)

def returned(x):
    return x * np.float32(2)

def returned_thrice(x):
    return x * np.float32(3)

result = []

def returned_in_one_place(x):
    if not result:
        result.append(np.empty_like(x))
    result[0][...] = x * np.float32(2)
    return result[0]

def returned_from_a_column(x):
    return (np.repeat(x, 2) * np.float32(2))[::2]

def leaves_a_tail(x, out):
    out[:-1] = x[:-1] * np.float32(2)

def changes_its_input(x, out):
    out[...] = x * np.float32(2)
    x[3] = 7

def writes_behind(x, out):
    out[...] = x * np.float32(2)
    np.lib.stride_tricks.as_strided(out, (out.size + 1,), out.strides)[-1] = 7

kept = []

def by_address(x, out):
    if not kept:
        kept.append(x * np.float32(2))
    out[...] = kept[0]

def ends(x, out):
    import os
    if not np.isnan(out[0]):
        os._exit(3)
    out[...] = x * np.float32(2)
"""
REFERENCE = CANDIDATES.partition("def returned_thrice")[0]
CONTRACT = """
schema = "validator/manifest/1"
[[kernels]]
match = "twice"
reference = "stock:{stock}"
candidate = "mine:{name}"
{more}
dims = ["N in 1..4096"]
args = [
    {{ name = "x", role = "activation", dtype = "float32", shape = ["N"], layouts = ["strided", "offset"] }},
    {{ name = "out", role = "output", dtype = "float32", shape = ["N"], layouts = ["contiguous", "strided"] }},
]
"""
PLANS = ("repeat", "same-buffer", "other-buffer", "flip", "recheck", "a-b-a", "many-calls")


@contextmanager
def running(folder: Path, name: str, monkeypatch: Any, refuses: int = 0) -> Iterator[Runner]:
    """The processes of a contract whose candidate has its buffers on the played device."""
    package = folder / "packages" / "played"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "adapter.py").write_text(ADAPTER)
    monkeypatch.syspath_prepend(str(package.parent))
    (folder / "mine.py").write_text(CANDIDATES)
    (folder / "stock.py").write_text(REFERENCE)
    (folder / "driver.c").write_text(DRIVER)
    command = ["cc", "-shared", "-fPIC", f"-DREFUSES={refuses}", "-Wl,-soname,libcuda.so.1", "-o", "driver.so"]
    subprocess.run([*command, "driver.c"], cwd=folder, check=True, timeout=60)
    gives = name.startswith("returned")
    more = {"stock": "returned", "more": 'returns = "out"'} if gives else {"stock": "right", "more": ""}
    (contract,), _ = load_contract(CONTRACT.format(name=name, **more).encode(), "contract.toml")
    adapter = Adapter("torch-cuda", "played.adapter", ("numpy", "ml_dtypes", "played"), gpu=True)
    options = {"here": "yes" if refuses else "no"}
    with runner_for(contract, Trees(folder, folder)) as runner:
        runner.chosen = replace(runner.chosen, adapter=adapter)
        with Worker(f"mine:{name}", folder, adapter=adapter, options=options) as worker:
            worker.elsewhere = PlayedShelf(Played(), least=1)
            runner.candidate = worker
            yield runner


def found(runner: Runner, plans: Sequence[str] = PLANS, layouts: tuple[tuple[str, str], ...] = ()) -> list[Any]:
    return [
        run_case(runner, Case("twice", (("N", 300),), seed, plan, layouts=layouts)).result
        for seed, plan in enumerate(plans)
    ]


@pytest.mark.parametrize("name", ["right", "returned", "returned_from_a_column"])
def test_a_right_candidate_is_right_under_every_plan(tmp_path: Path, monkeypatch: Any, name: str):
    with running(tmp_path, name, monkeypatch) as runner:
        results = found(runner)
        for layouts in ((("x", "offset"), ("out", "strided")), (("x", "strided"),)):
            results += found(runner, ("repeat", "same-buffer"), layouts)
        assert [(r.case.plan, r.status, r.faults, r.unusable) for r in results if r.status != "passed"] == []
        shelf: Any = runner.candidate.elsewhere
        assert shelf._regions, "it ran there"


@pytest.mark.parametrize(
    ("name", "plan", "kind"),
    [
        ("thrice", "repeat", "wrong-value"),
        ("leaves_a_tail", "repeat", "depends-on-old-contents"),
        ("changes_its_input", "repeat", "input-changed"),
        ("writes_behind", "repeat", "guard-zone-written"),
        ("by_address", "same-buffer", "hidden-state"),
        ("ends", "repeat", "no-result"),
        ("returned_thrice", "repeat", "wrong-value"),
        ("returned_in_one_place", "recheck", "earlier-result-changed"),
    ],
)
def test_a_wrong_one_shows_as_what_it_is(tmp_path: Path, monkeypatch: Any, name: str, plan: str, kind: str):
    with running(tmp_path, name, monkeypatch) as runner:
        assert kind in {fault.kind.value for result in found(runner, [plan]) for fault in result.faults}


@pytest.mark.parametrize(("name", "status"), [("right", "passed"), ("thrice", "failed"), ("leaves_a_tail", "failed")])
def test_large_calls_are_laid_once(tmp_path: Path, monkeypatch: Any, name: str, status: str):
    """What is laid before the reference is asked is the first call; a poison on a device is laid by itself."""
    placed: list[Any] = []

    def counted(*args: Any, **keys: Any) -> Any:
        placed.append(place(*args, **keys))
        return placed[-1]

    monkeypatch.setattr(runner_module, "_LARGE", 1)
    monkeypatch.setattr(runner_module, "place", counted)
    with running(tmp_path, name, monkeypatch) as runner:
        (result,) = found(runner, ["repeat"])
        assert result.status == status
        if status == "passed":
            assert (len(placed), runner.calls) == (5, 5)


def test_where_a_worker_cannot_map_it_buffers_lie_in_the_hosts_memory(tmp_path: Path, monkeypatch: Any):
    with running(tmp_path, "right", monkeypatch, refuses=100) as runner:
        assert [r.status for r in found(runner, ("repeat", "recheck"))] == ["passed"] * 2
        assert runner.candidate.elsewhere is not None
        assert not runner.candidate.elsewhere.usable
        assert runner.candidate.elsewhere.why.startswith("the worker maps no memory of the device: error, ")
