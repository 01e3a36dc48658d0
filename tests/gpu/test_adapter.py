"""The adapter of compiled kernels on a device that is played: what is sent, launched, and brought back."""

from __future__ import annotations

import json
import mmap
import struct
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from validator.errors import Problem
from validator.gpu import adapter, placement
from validator.gpu.adapter import DeviceBroken, Kernel, NotRunHere, Said, load, named
from validator.gpu.driver import DeviceError, Function, Launch, NotHere, Parameter, Parameters
from validator.gpu.guarded import Guarded, Island, islands
from validator.gpu.sources import CompileError, compile_source, image_of

PAGE = 2 << 20
LAUNCH = {"grid": (2, 1, 1), "block": (32, 1, 1), "shared": 0, "cluster": None}


class Illegal(DeviceError):
    pass


@dataclass
class Memory:
    """A device whose memory has holes; a kernel is a function on it."""

    kernel: Any
    slots: tuple[Parameter, ...]
    mapped: dict[int, bytearray] = field(default_factory=dict)
    launches: list[Launch] = field(default_factory=list)
    broken: bool = False
    graphs: int = 0
    replays: int = 0
    brought: list[int] = field(default_factory=list)
    """Bytes of each array that came back."""
    sent: list[int] = field(default_factory=list)
    """Bytes of every upload."""
    pinned: list[int] = field(default_factory=list)
    refuses: bool = False
    """To pin memory."""

    def call(self, name: str, address: int, *_: int) -> None:
        if self.refuses:
            raise DeviceError(Problem(f"{name} failed"))
        (self.pinned.append if name == "cuMemHostRegister" else self.pinned.remove)(address)

    def parameters(self, function: Function) -> tuple[Parameter, ...]:
        return self.slots

    def at(self, address: int, size: int) -> memoryview:
        for start, data in self.mapped.items():
            if start <= address and address + size <= start + len(data):
                return memoryview(data)[address - start : address - start + size]
        raise Illegal(f"{size} bytes at {address:#x}")

    def upload(self, address: int, data: Any) -> None:
        self.sent.append(len(data))
        self.at(address, len(data))[:] = bytes(data)

    def download(self, address: int, size: int) -> bytes:
        return bytes(self.at(address, size))

    def fetch(self, address: int, into: Any) -> None:
        self.brought.append(len(into))
        into[:] = np.frombuffer(self.at(address, len(into)), np.uint8)

    def copy(self, to: int, source: int, size: int) -> None:
        self.at(to, size)[:] = self.at(source, size)

    def launch(self, function: Function, how: Launch, parameters: Parameters) -> None:
        self.launches.append(how)
        try:
            self.kernel(self, parameters.block)
        except Illegal:
            self.broken = True

    def captured(self, work: Any) -> Any:
        self.graphs += 1
        return work

    def replay(self, graph: Any) -> None:
        self.replays += 1
        graph()

    def synchronize(self) -> None:
        if self.broken:
            raise Illegal("CUDA_ERROR_ILLEGAL_ADDRESS")


@pytest.fixture(autouse=True)
def holes(monkeypatch: pytest.MonkeyPatch) -> None:
    def guarded(device: Memory, pieces: Any) -> Guarded:
        address = 1 << 40 if not device.mapped else max(device.mapped) + (1 << 39)
        mapped = islands([(start + PAGE, size) for start, size in pieces], PAGE)
        for island in mapped:
            device.mapped[address + island.start] = bytearray(island.size)
        return Guarded(address, mapped[-1].start + mapped[-1].size + PAGE, mapped)

    monkeypatch.setattr(placement, "guarded", guarded)


def kernel_of(device: Memory, said: list[Said], **keys: Any) -> Kernel:
    return Kernel(device, Function("k", None), said, **keys)  # type: ignore[arg-type]


def arena(values: Any, guard: int = 256) -> Any:
    """An array between guard zones, as the worker lays it."""
    memory = np.full(guard + values.nbytes + guard, 0xA5, np.uint8)
    array: Any = np.ndarray(values.shape, values.dtype, memory, guard)
    array[...] = values
    return array


XS = Said("x", 0)
OUT = Said("out", 1)
TWO = (Parameter(0, 8), Parameter(8, 8))


def doubling(beyond: int = 0, beside: bool = False) -> Any:
    def run(device: Memory, block: bytes) -> None:
        x, out = struct.unpack_from("<QQ", block)
        device.at(x, 32 * 4 + beyond)
        values = np.frombuffer(device.at(x, 32 * 4), np.float32) * 2
        device.at(out, 32 * 4)[:] = values.tobytes()
        if beside:
            device.at(out - 4, 4)[:] = b"oops"

    return run


def called(kernel: Any, **keys: Any) -> tuple[Memory, Any, Any]:
    device = Memory(kernel, TWO)
    x, out = arena(np.arange(32, dtype=np.float32)), arena(np.zeros(32, np.float32))
    kernel_of(device, [XS, OUT], **keys)(x, out, launch=LAUNCH)
    return device, x, out


def test_a_call_fills_outputs_and_keeps_guard_zones():
    device, x, out = called(doubling(), pdl=True)
    assert out.tolist() == [2.0 * i for i in range(32)]
    assert bytes(out.base)[:256] == b"\xa5" * 256
    assert bytes(x.base)[-256:] == b"\xa5" * 256
    assert device.launches == [Launch((2, 1, 1), (32, 1, 1), 0, None, True)] * 2


def test_what_is_written_beside_an_array_comes_back():
    _, _, out = called(doubling(beside=True))
    assert bytes(out.base)[252:256] == b"oops"


def unchanged(device: Memory) -> Any:
    return lambda address, other, size: device.at(address, size) == device.at(other, size)


@pytest.mark.parametrize("large", [False, True])
def test_only_what_changed_is_written_back(monkeypatch: pytest.MonkeyPatch, large: bool):
    """An input may lie where nobody can write, here or in the worker."""
    monkeypatch.setattr(placement, "Unchanged", unchanged)
    monkeypatch.setattr(placement, "_LARGE", 512 if large else 1 << 20)
    device = Memory(doubling(), TWO)
    x, out = arena(np.arange(32, dtype=np.float32)), arena(np.zeros(32, np.float32))
    x.base.flags.writeable = False
    kernel_of(device, [XS, OUT])(x, out, launch=LAUNCH)
    assert out.tolist() == [2.0 * i for i in range(32)]
    assert device.brought == [out.base.nbytes] * (1 if large else 2)

    device.kernel = lambda device, block: device.at(struct.unpack_from("<Q", block)[0], 4).__setitem__(0, 1)
    with pytest.raises(ValueError, match="read-only"):
        kernel_of(device, [XS, OUT])(x, out, launch=LAUNCH)


def address(array: Any) -> int:
    return int(array.base.ctypes.data)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every arena is one that is compared on the device."""
    monkeypatch.setattr(placement, "Unchanged", unchanged)
    monkeypatch.setattr(placement, "_LARGE", 512)


@pytest.mark.usefixtures("large")
def test_what_has_lain_in_an_arena_before_is_not_sent_again_but_for_its_ends():
    device = Memory(doubling(), TWO)
    kernel = kernel_of(device, [XS, OUT])
    x, again, other = (arena(np.full(32, value, np.float32)) for value in (3, 3, 4))
    again.base[:64], again.base[-64:] = 0x11, 0x22  # another guard pattern
    size = x.base.nbytes
    for values, number, sent in ((x, 7, [size]), (x, 7, [64, 64]), (again, 7, [64, 64]), (other, 8, [size])):
        out = arena(np.full(32, np.nan, np.float32))
        kernel.holding({address(values): number, address(out): 0}, 64)
        device.sent.clear()
        before = bytes(values.base)
        kernel(values, out, launch=LAUNCH)
        assert device.sent == [*sent, size]
        assert out.tolist() == [2.0 * values[0]] * 32
        assert bytes(values.base) == before, "neither the guard zones of another call came back"


@pytest.mark.usefixtures("large")
def test_an_input_that_is_written_is_seen_and_whole_in_the_next_call():
    seen: list[float] = []

    def run(device: Memory, block: bytes) -> None:
        x, _ = struct.unpack_from("<QQ", block)
        seen.append(float(np.frombuffer(device.at(x, 4), np.float32)[0]))
        device.at(x, 4)[:] = struct.pack("<f", 99.0)

    device = Memory(run, TWO)
    kernel = kernel_of(device, [XS, OUT])
    x, out = arena(np.full(32, 3, np.float32)), arena(np.zeros(32, np.float32))
    for _ in range(2):
        kernel.holding({address(x): 7, address(out): 8}, 64)
        kernel(x, out, launch=LAUNCH)
        assert x[0] == 99.0
        x[0] = 3.0
    assert seen == [3.0] * 4, "against the end, and as a whole"


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("refuses", [False, True])
def test_memory_of_large_arenas_is_pinned_where_the_driver_lets_it(monkeypatch: pytest.MonkeyPatch, refuses: bool):
    monkeypatch.setattr(placement, "_PINNED", 2)
    device = Memory(doubling(), TWO, refuses=refuses)
    kernel = kernel_of(device, [XS, OUT])
    kept = []
    for value in range(3):
        x, out = arena(np.full(32, value, np.float32)), arena(np.zeros(32, np.float32))
        kept.append((x, out))
        kernel(x, out, launch=LAUNCH)
        assert out.tolist() == [2.0 * value] * 32
    assert len(device.pinned) == (0 if refuses else 4), "two that stay, and those of the last call"
    assert all(not at % mmap.PAGESIZE for at in device.pinned)


@pytest.mark.parametrize("beyond", [256, 300, 4096])
def test_a_read_behind_an_array_falls_although_it_reaches_no_result(beyond: int):
    with pytest.raises(DeviceBroken, match="ILLEGAL_ADDRESS"):
        called(doubling(beyond=beyond))


def test_an_alias_is_one_buffer_on_the_device():
    seen: list[tuple[int, int]] = []

    def run(device: Memory, block: bytes) -> None:
        seen.append(struct.unpack("<QQ", block))

    device = Memory(run, TWO)
    x = arena(np.arange(8, dtype=np.int32))
    kernel_of(device, [XS, OUT])(x, np.ndarray(x.shape, x.dtype, x.base, 256), launch=LAUNCH)
    assert all(a == b for a, b in seen)
    assert len(device.mapped) == 2, "as a whole, and against its end"


def test_calls_of_many_sizes_take_no_more_memory():
    device = Memory(lambda device, block: None, TWO)
    kernel = kernel_of(device, [XS, OUT])
    for size in range(1, 60):
        kernel(arena(np.zeros(size, np.float32)), arena(np.zeros((size, 3), np.int8)), launch=LAUNCH)
    assert len(device.mapped) == 4, "each as a whole, and against its end"


def test_rows_that_may_be_distant_are_and_the_kernel_is_told():
    seen: list[tuple[int, int]] = []

    def run(device: Memory, block: bytes) -> None:
        address, step = struct.unpack("<Qq", block)
        seen.append((address, step))
        for row in range(3):
            data = device.at(address + row * step * 4, 20)
            data[:] = (np.frombuffer(data, np.float32) + row).tobytes()

    device = Memory(run, TWO)
    state = arena(np.arange(15, dtype=np.float32).reshape(3, 5))
    said = [Said("state", 0, distant=True), Said("step", 1, dtype="int64", memory=False, stride="state.0")]
    kernel_of(device, said)(state, 5, launch=LAUNCH)
    assert {step for _, step in seen} == {1 << 30}
    assert 2 * seen[0][1] >= 1 << 31
    # The first launch counts for nothing: every row was sent anew before the second.
    assert (state - np.arange(15).reshape(3, 5)).tolist() == [[0] * 5, [1] * 5, [2] * 5]

    there = 1 << 50  # where the gate has it: rows are carried there and back on the device
    device.mapped[there] = bytearray(state.base.tobytes())
    before, done = state.copy(), []
    device.synchronize = lambda: done.append(bytes(device.mapped[there]))  # type: ignore[method-assign]
    kernel = kernel_of(device, said)
    kernel.holding({}, 0, {address(state): there})
    kernel(state, 5, launch=LAUNCH)
    offset = state.ctypes.data - address(state)
    now = np.frombuffer(device.mapped[there], np.float32, 15, offset).reshape(3, 5)
    assert (now - before).tolist() == [[0] * 5, [1] * 5, [2] * 5]
    assert state.tolist() == before.tolist()
    assert done[-1] == bytes(device.mapped[there]), "it has arrived before anybody says so"

    def narrow(device: Memory, block: bytes) -> None:
        address, step = struct.unpack("<Qq", block)
        device.at(address + int(np.int64(2 * step).astype(np.int32)) * 4, 20)

    with pytest.raises(DeviceBroken):
        kernel_of(Memory(narrow, TWO), said)(state, 5, launch=LAUNCH)


@pytest.mark.parametrize(
    ("rows", "inside", "step"), [(1, 7, 7), (2, 7, 1 << 31), (5, 7, 1 << 29), (9, 1 << 30, 1 << 30)]
)
def test_the_last_row_begins_beyond_32_bits(rows: int, inside: int, step: int):
    assert placement.distance(rows, inside) == step
    assert rows == 1 or (rows - 1) * step >= 1 << 31


def test_fields_of_a_struct_and_numbers_are_packed_where_they_belong():
    blocks: list[bytes] = []
    slots = (Parameter(0, 24), Parameter(24, 4), Parameter(28, 2))
    device = Memory(lambda device, block: blocks.append(block), slots)
    said = [
        Said("x", 0, offset=0),
        Said("rows", 0, offset=8, dtype="int32", memory=False),
        Said("step", 0, offset=16, dtype="int32", memory=False, stride="x.0"),
        Said("eps", 1, dtype="float32", memory=False),
        Said("half", 2, dtype="bfloat16", memory=False),
    ]
    kernel_of(device, said)(arena(np.zeros((2, 6), np.int16)), 2, 99, 0.5, 1.0, launch=LAUNCH)
    assert struct.unpack("<iiii", blocks[-1][8:24]) == (2, 0, 6, 0)
    assert blocks[-1][24:] == struct.pack("<f", 0.5) + b"\x80\x3f"


def test_what_cannot_run_says_so():
    device = Memory(lambda device, block: None, TWO)
    packed = arena(np.zeros(4, ml_dtypes.int4))
    with pytest.raises(NotRunHere, match="four-bit"):
        kernel_of(device, [XS, OUT])(packed, arena(np.zeros(4, np.int8)), launch=LAUNCH)
    with pytest.raises(CompileError, match="lists 1 parameters, k has 2"):
        kernel_of(device, [XS])
    small = kernel_of(Memory(None, (Parameter(0, 4),)), [Said("n", 0, dtype="int32", memory=False)])
    with pytest.raises(CompileError, match="'n' is 1099511627776, too large for 4 bytes"):
        small(1 << 40, launch=LAUNCH)


def test_every_second_call_replays_a_graph_on_other_contents():
    device = Memory(doubling(), TWO)
    kernel = kernel_of(device, [XS, OUT])
    for call in range(6):
        x, out = arena(np.full(32, call, np.float32)), arena(np.full(32, np.nan, np.float32))
        kernel(x, out, launch=LAUNCH)
        assert out.tolist() == [2.0 * call] * 32
    assert (device.graphs, device.replays) == (1, 3)
    kernel(x, out, launch=LAUNCH)
    kernel(x, out, launch={**LAUNCH, "shared": 64})
    assert device.graphs == 2, "another launch is another graph"


def test_an_empty_grid_is_no_launch():
    device = Memory(None, TWO)
    x = arena(np.zeros(4, np.float32))
    kernel_of(device, [XS, OUT])(x, x, launch={**LAUNCH, "grid": (0, 1, 1)})
    assert device.launches == []


def test_kernels_are_found_by_name_mangled_name_or_glob():
    kernels = [Function("_Z4kerniPf", 1), Function("other", 2), Function("kernels_all", 3)]
    assert named(kernels, "other").handle == 2
    assert named(kernels, "kern").handle == 1
    assert named(kernels, "kernels_*").handle == 3
    with pytest.raises(CompileError, match="2 kernels are meant by '\\*er\\*'"):
        named([kernels[1], kernels[2]], "*er*")


def test_the_contracts_own_keys_are_understood():
    row = {"name": "x", "parameter": 1, "offset": 8, "memory": True, "role": "state", "dtype": ["bfloat16"]}
    row |= {"shape": ["T"], "layouts": ["contiguous", "distant"], "box": [8, 64], "swizzle": 128, "via": "tensormap"}
    assert Said.of(row) == Said("x", 1, 8, "bfloat16", True, None, True, (8, 64), 128)


def test_without_a_device_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(adapter, "open_device", lambda: NotHere("no device"))
    with pytest.raises(NotRunHere, match="no device"):
        load("k.cubin:k", ".", {"parameters": json.dumps([])})


def test_an_artifact_outside_of_the_tree_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Any):
    monkeypatch.setattr(adapter, "open_device", lambda: Memory(None, TWO))
    with pytest.raises(CompileError, match="outside of the tree"):
        load("../k.cubin:k", str(tmp_path), {"parameters": "[]"})


def test_what_is_no_kernel_is_refused(tmp_path: Any):
    with pytest.raises(CompileError, match="loaded from"):
        image_of(tmp_path / "k.so", (9, 0))
    with pytest.raises(CompileError, match="No such file"):
        image_of(tmp_path / "k.cubin", (9, 0))


def test_source_is_compiled_in_this_process(tmp_path: Any):
    pytest.importorskip("cuda.bindings.nvrtc", reason="`validator[gpu]` is not installed")
    (tmp_path / "one.cuh").write_text("#define ONE 1\n")
    source = b'#include "one.cuh"\nextern "C" __global__ void k(int* x) { *x = ONE; }\n'
    made = compile_source(source, tmp_path / "k.cu", "sm_90a")
    if isinstance(made, NotHere):
        pytest.skip(str(made))
    assert made.startswith(b"\x7fELF")
    with pytest.raises(CompileError, match="does not compile for sm_90a: "):
        compile_source(b"void k( {", tmp_path / "k.cu", "sm_90a")


def test_islands_are_whole_pages_and_neighbours_are_one():
    assert islands([(0, 1)], 10) == (Island(0, 10),)
    assert islands([(0, 10), (15, 10), (50, 0)], 10) == (Island(0, 30), Island(50, 10))
