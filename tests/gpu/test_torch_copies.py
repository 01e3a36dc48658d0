"""Device copies of the torch adapter, played on a CPU: what comes back, and how many are kept."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from validator.run.worker import _sibling

torch: Any = None


@pytest.fixture(autouse=True, scope="module")
def _torch() -> None:
    """Imported by the process that runs these tests, not by every one that collects them: it takes seconds."""
    global torch
    torch = pytest.importorskip("torch")


def copies(adapter: ModuleType) -> dict[str, Any]:
    """Names of the module beside it, which is not among the loaded ones."""
    found: dict[str, Any] = adapter.Copy.__init__.__globals__
    return found


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The adapter's module, its device memory on the CPU."""
    module = _sibling("torch", "adapters")
    on_cpu = SimpleNamespace(**vars(torch))
    on_cpu.empty = lambda size, dtype, device: torch.empty(size, dtype=dtype)
    on_cpu.cuda = SimpleNamespace(Stream=object, mem_get_info=lambda: (0, 4000), synchronize=lambda: None)
    for part in (vars(module), copies(module)):
        monkeypatch.setitem(part, "torch", on_cpu)
    monkeypatch.setattr(module, "_CUDA", on_cpu.cuda)
    return module


class Watched:
    """Host memory that counts how often it is written to."""

    def __init__(self, values: Any) -> None:
        self.values, self.copies = torch.from_numpy(values), 0
        self.is_cuda = False

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, part: slice) -> Any:
        return self.values[part]

    def numpy(self) -> Any:
        return self.values.numpy()

    def copy_(self, now: Any) -> None:
        self.copies += 1
        self.values.copy_(now)


@pytest.mark.parametrize("changed", [None, 0, 7, 8, 12])
def test_an_arena_is_written_back_where_a_byte_of_it_has_changed(adapter: ModuleType, changed: int | None):
    """13 bytes: the last five make no word."""
    host = Watched(np.arange(13, dtype=np.uint8))
    copy = adapter.Copy(host)
    copy.device.copy_(host.values)
    if changed is not None:
        copy.device[changed] += 1
    copy.bring(host)
    assert (host.copies, copy.written) == ((0, False) if changed is None else (1, True))
    assert torch.equal(host.values, copy.device)


def test_what_is_looked_at_later_is_what_calls_have_written(adapter: ModuleType):
    function = adapter._OnDevice(lambda *args: None, timed=False)
    kept, written = (Watched(np.zeros(16, np.uint8)) for _ in range(2))
    for at, host in enumerate((kept, written)):
        function._copies[at, 16] = copy = adapter.Copy(host)
        copy.device.fill_(3)
        copy.written = host is written
    function.collect()
    assert (kept.copies, written.copies) == (0, 1)


def test_what_a_graph_gives_is_copied_unless_it_was_given_before(adapter: ModuleType):
    function = adapter._OnDevice(lambda *args: None, timed=False)
    before, left, made = (torch.zeros(4) for _ in range(3))
    function._returned.append((before, np.zeros(4)))
    function._left[1] = (np.zeros(4), left, None)
    assert function._copied(before) is before
    assert function._copied(left) is left
    again = function._copied(made)
    assert again.data_ptr() != made.data_ptr()
    assert function._copied(None) is None


def bytes_of(value: int, size: int = 64) -> Any:
    return torch.full((size,), value, dtype=torch.uint8)


def test_what_has_been_sent_before_comes_from_the_device_but_for_its_ends(adapter: ModuleType):
    contents = adapter.Contents()
    contents.of(7, bytes_of(1), 4)
    assert contents.of(7, bytes_of(2), 4).tolist() == [2] * 4 + [1] * 56 + [2] * 4
    assert contents.of(8, bytes_of(3), 4).tolist() == [3] * 64
    assert contents.of(7, bytes_of(4, 32), 4).tolist() == [4] * 32, "of another length"
    assert contents.of(0, bytes_of(5), 4).tolist() == contents.of(0, bytes_of(5), 4).tolist() == [5] * 64
    assert contents.size == 96


def test_the_oldest_contents_go_and_those_of_the_running_call_stay(adapter: ModuleType):
    contents = adapter.Contents()
    for number in (1, 2, 1, 3):
        contents.of(number, bytes_of(number), 4)
    contents.used = {1}
    assert [contents.drop() for _ in range(3)] == [64, 64, 0]
    assert contents.size == 64
    assert contents.of(1, bytes_of(9), 4)[32] == 1


@pytest.mark.parametrize("large", [False, True])
def test_calls_are_right_whatever_the_numbers_save(adapter: ModuleType, monkeypatch: pytest.MonkeyPatch, large: bool):
    """Values, then the same under their number, then others; an input that is written is seen, and is whole again."""
    monkeypatch.setitem(copies(adapter), "_LARGE", 16 if large else 1 << 20)
    monkeypatch.setattr(adapter._OnDevice, "_made", lambda self, given, before: self._call(given))

    def doubles(x: Any, out: Any) -> None:
        out.copy_(x * 2)
        x.fill_(9)

    function = adapter._OnDevice(doubles, timed=False)
    x, out = (np.ndarray((8,), np.float32, np.zeros(64, np.uint8), 16) for _ in range(2))
    for value, number in ((3, 7), (3, 7), (4, 8), (3, 7)):
        x[...], out[...] = value, 0
        function.holding({x.base.ctypes.data: number, out.base.ctypes.data: 5}, 16)
        function(x, out)
        assert out.tolist() == [2.0 * value] * 8
        assert x.tolist() == [9.0] * 8


def test_old_copies_go_when_they_take_too_much_of_the_device(adapter: ModuleType):
    function = adapter._OnDevice(lambda *args: None, timed=False)
    for at in range(5):
        function._copies[at, 400] = adapter.Copy(Watched(np.zeros(400, np.uint8)))
    function._known["a graph"] = object()
    function._let_go(1)
    assert [at for at, _ in function._copies] == [3, 4], "a quarter of 4000 bytes"
    assert not function._known, "a graph would write to memory that is gone"
    function._copies[9, 4000] = adapter.Copy(Watched(np.zeros(4000, np.uint8)))
    function._let_go(1)
    assert [at for at, _ in function._copies] == [9], "what the running call uses stays"


def test_what_the_gate_has_on_the_device_is_called_on_and_left_there(adapter: ModuleType, monkeypatch: Any):
    """Arguments and results lie in memory of the gate's: nothing is sent, brought or copied to the host."""
    for part in (vars(adapter), copies(adapter)):
        monkeypatch.setitem(part, "bytes_at", lambda address, size: torch.from_numpy(there[address : address + size]))
    monkeypatch.setattr(adapter, "_is_plain", lambda value: isinstance(value, torch.Tensor))
    monkeypatch.setattr(adapter._OnDevice, "_made", lambda self, given, before: self._call(given))
    there = np.zeros(4096, np.uint8)
    there[64:96].view(np.float32)[...] = 3
    kept = torch.zeros(8)
    results = iter((lambda x: x * 2, lambda x: kept.copy_(x * 4), lambda x: x * 5, lambda x: x.repeat(99)))
    function = adapter._OnDevice(lambda x: next(results)(x), timed=False)
    x = np.ndarray((8,), np.float32, np.full(64, 0xEE, np.uint8), 16)
    room = np.full(512, 0xEE, np.uint8)

    def called() -> Any:
        function.holding({}, 0, {x.base.ctypes.data: 48, room.ctypes.data: 1024})
        function.leaving((room.ctypes.data, len(room)), lambda sizes: [(0, sizes[0])])
        return function(x)

    (first,), (second,) = called(), called()
    assert (first.ctypes.data, first.shape, first.dtype) == (room.ctypes.data, (8,), np.float32)
    assert there[1024:1056].view(np.float32).tolist() == [12.0] * 8
    kept.fill_(7)
    function.leave([second])
    assert there[1024:1056].view(np.float32).tolist() == [7.0] * 8, "as it is now"
    function.leave([first])
    assert there[1024:1056].view(np.float32).tolist() == [6.0] * 8
    monkeypatch.setattr(adapter._OnDevice, "_fetched", lambda self, tensor: tensor.tolist())
    called()
    assert there[1024:1056].view(np.float32).tolist() == [15.0] * 8
    assert len(called()) == 792, "more than there is room for: by way of the host"
    assert bytes(room) == b"\xee" * 512
    assert bytes(x.base) == b"\xee" * 64
