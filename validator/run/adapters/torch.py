"""Python callables on torch tensors. Loaded by path in the worker: imports the standard library, numpy and torch alone.

On the CPU a tensor shares its memory with the array it stands for: strides, gaps, aliases and guard zones are the
arena's own. On a GPU the whole arena is copied, guard zones and gaps too, into device memory that keeps its address
as long as the arena keeps its own; after the call, when all streams are idle, every arena that has changed there is
copied back. An arena that the callable may not write to cannot be written here either: then this process ends. What the
gate says has lain in an arena before (`holding`) comes from the device itself.

Calls on a GPU differ in how they are made, in turn: on the stream that torch has by itself; on another one, on which
the arguments' values come late, so that whoever launches elsewhere reads what is no value; and, where the callable can
be captured, as the replay of a graph, on other contents than it was captured with and with its own results poisoned.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import shutil
from collections.abc import Callable, Mapping
from functools import cache, cached_property, partial
from typing import Any

import ml_dtypes
import numpy as np
import torch

__all__ = ["NotRunHere", "load"]


class NotRunHere(Exception):
    """This machine, or torch, has no way to run the callable."""


_CARRIERS: dict[str, tuple[Any, Any]] = {
    "bfloat16": (np.int16, torch.bfloat16),
    "float8_e4m3fn": (np.uint8, torch.float8_e4m3fn),
    "float8_e5m2": (np.uint8, torch.float8_e5m2),
}
"""numpy's name of a type that numpy itself does not have → an integer type of its size, and torch's type."""
_PLAIN = frozenset(
    ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool")
)
"""Types that both have, by the same name."""
_COMPILERS = ("triton", "cutlass")
_CUDA: Any = torch.cuda
"""Parts of it have no types."""
_HOST_COMPILERS = ("gcc", "clang", "cc")
_LATE_CYCLES = 1 << 21
"""About a millisecond: how late values come on another stream."""
_NONE: Mapping[int, int] = {}
_KEPT = 64
"""Device copies and returned tensors that are kept, as many as the worker keeps calls."""
_LARGE = 1 << 20
"""Bytes from which an arena is compared where it lies; smaller ones are sooner brought than compared there."""
_SHARE = 4
"""Device copies of arenas take no more than such a part of the device's memory, those of the running call aside."""


def load(target: str, tree: str, options: Mapping[str, str]) -> Callable[..., Any]:
    """The function of `module:function`, on tensors of `options["device"]` (`cpu`, `cuda`).

    With `options["timed"] == "yes"` on a GPU, the callable's attribute `milliseconds` is the time of its last call
    between two events on the current stream.
    """
    device = options.get("device", "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        raise NotRunHere("torch finds no CUDA device")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    os.environ.setdefault(
        "LOGNAME", "nobody"
    )  # torch.compile names its cache after the user, and no file says who that is
    module, _, name = target.partition(":")
    function = getattr(importlib.import_module(module), name)
    if not callable(function):
        raise TypeError(f"{target} is no function")
    if device == "cuda" and _compiler_of(function) == "triton" and not any(map(shutil.which, _HOST_COMPILERS)):
        raise NotRunHere("triton compiles a kernel when it is called, and needs a C compiler for that (gcc or clang)")
    return _OnDevice(function, options.get("timed") == "yes") if device == "cuda" else _OnCpu(function)


def _compiler_of(function: Callable[..., Any]) -> str:
    """The package whose own kernel objects stand in the callable's module; empty for torch's own operations."""
    held = getattr(function, "__globals__", {}).values()
    packages = (type(value).__module__.partition(".")[0] for value in held)
    return next((package for package in packages if package in _COMPILERS), "")


def _called(function: Callable[..., Any], args: list[Any]) -> Any:
    """The callable's result. It cannot say of itself that it is not run here."""
    try:
        return function(*args)
    except NotRunHere as error:
        raise RuntimeError(f"{error}") from None


class _OnCpu:
    """Tensors that share the arenas' memory."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any) -> Any:
        given = [_shared(value) if isinstance(value, np.ndarray) else value for value in args]
        return _each(_called(self._function, given), lambda tensor: _array(tensor, "cpu"))


Place = tuple[int, int]
"""(address, bytes) of an arena in the host's memory."""
Signature = tuple[Any, ...]


class _Contents:
    """What arenas held, on the device, by the gate's numbers."""

    def __init__(self) -> None:
        self._held: dict[int, Any] = {}
        self.used: set[int] = set()
        """Numbers of the running call."""

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(map(len, self._held.values()))

    def of(self, number: int, host: Any, edge: int) -> Any:
        """What lies in an arena: its ends alone come from there where the rest has been here before."""
        held = self._held.pop(number, None) if number else None
        if held is None or len(held) != len(host):
            held = torch.empty(len(host), dtype=torch.uint8, device="cuda")
            held.copy_(host)
        else:
            for part in (slice(None, edge), slice(-edge, None)):
                held[part].copy_(host[part])
        if number:
            self._held[number] = held
            self.used.add(number)
        return held

    def drop(self) -> int:
        """The one that nobody has asked for the longest time, of those that the running call does not need; its bytes,
        0 where there is none."""
        oldest = next((number for number in self._held if number not in self.used), None)
        return 0 if oldest is None else len(self._held.pop(oldest))


class _Pinned:
    """Memory that a device reads and writes by itself, at several times the speed, for as long as this lives.

    Where the driver refuses (memory that only the gate can write, a limit), it is memory like any other.
    """

    def __init__(self, host: Any) -> None:
        self._host = host  # nothing else may be mapped there before it is let go of
        page = os.sysconf("SC_PAGESIZE")
        self._start = host.data_ptr() // page * page
        size = -(-(host.data_ptr() + len(host) - self._start) // page) * page
        self._driver = _driver()
        # Not through the runtime, which would hand a refusal to whatever is launched next.
        self._refused = self._driver is None or self._driver.cuMemHostRegister_v2(self._start, ctypes.c_size_t(size), 0)

    def __del__(self) -> None:
        if self._refused == 0:
            self._driver.cuMemHostUnregister(self._start)


@cache
def _driver() -> Any:
    """CUDA's driver; None where there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    driver.cuMemHostRegister_v2.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint)
    driver.cuMemHostUnregister.argtypes = (ctypes.c_void_p,)
    return driver


class _Copy:
    """An arena and its copy on the device, as bytes."""

    def __init__(self, host: Any) -> None:
        self.host = host
        self.device = torch.empty(len(host), dtype=torch.uint8, device="cuda")
        self.written = False
        """By the last call that used it."""
        self._pinned = _Pinned(host) if len(host) >= _LARGE else None

    @property
    def size(self) -> int:
        """Bytes on the device."""
        return len(self.device)

    def send(self, host: Any, contents: _Contents, number: int = 0, edge: int = 0) -> Any:
        """The values; what they are compared with afterwards, on the device if there are many of them."""
        self.host = host
        before = host if len(host) < _LARGE else contents.of(number, host, edge)
        self.device.copy_(before)
        return before

    def bring(self, before: Any) -> None:
        """Back into the arena, if anything is not as it was before."""
        now = self.device if before.is_cuda else self.device.cpu()
        self.written = not _same_bytes(now, before)
        if self.written:
            bytes_ = self.host.numpy()
            bytes_[0] = bytes_[0]  # a copy from a device may fail in another way where nobody may write
            self.host.copy_(now)


class _There:
    """An arena that the gate has on the device: it lays it, and looks at it, there."""

    written = False

    size = 0
    """Bytes of its own."""

    def __init__(self, address: int, size: int) -> None:
        self.device = _bytes_at(address, size)

    def bring(self, before: Any) -> None:
        """Nothing: nobody looks at the host's memory."""


def _bytes_at(address: int, size: int) -> Any:
    """Memory that somebody else keeps, as bytes."""
    what = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3, "strides": None}
    return torch.as_tensor(type("Memory", (), {"__cuda_array_interface__": what})(), device="cuda")


class _Known:
    """What is known of calls with the same tensors and numbers."""

    def __init__(self) -> None:
        self.calls = 0
        self.capturable = True
        self.graph: Any = None
        self.value: Any = None
        """What the captured call returned: the graph's own memory."""


class _OnDevice:
    """Tensors in device copies of the arenas."""

    def __init__(self, function: Callable[..., Any], timed: bool) -> None:
        self._function, self._timed = function, timed
        self._copies: dict[Place, Any] = {}
        """`_Copy` or `_There`."""
        self._elsewhere: Mapping[int, int] = {}
        self._contents = _Contents()
        self._numbers: Mapping[int, int] = {}
        self._edge = 0
        self._other = _CUDA.Stream()
        self._known: dict[Signature, _Known] = {}
        self._returned: list[tuple[Any, Any]] = []
        self._back: Place = (0, 0)
        self._places: Callable[[list[int]], list[tuple[int, int]]] = _no_places
        self._left: dict[int, tuple[Any, Any, Any]] = {}
        """By the identity of an array that stands for it: (that array, the tensor, where the gate takes it)."""
        self.milliseconds: float | None = None

    def holding(self, numbers: Mapping[int, int], edge: int, elsewhere: Mapping[int, int] = _NONE) -> None:
        """What lies in the next call's arenas, by their addresses; 0: anything. Equal numbers: the same bytes, `edge`
        of them at either end aside. `elsewhere`: device addresses of those that the gate has there."""
        self._numbers, self._edge, self._elsewhere = numbers, edge, elsewhere

    def leaving(self, room: Place, places: Callable[[list[int]], list[tuple[int, int]]]) -> None:
        """Where the next call's results go, at these places: in a room that the gate has on the device, if it has."""
        self._back, self._places = room, places

    def leave(self, returned: list[Any]) -> None:
        """Put results of an earlier call where the gate takes them, as they are now."""
        for array in returned:
            if (known := self._left.get(id(array))) is not None and known[0] is array:
                known[2].copy_(known[1])
        torch.cuda.synchronize()

    def __call__(self, *args: Any) -> Any:
        self._contents.used.clear()
        used: dict[Place, Any] = {_place(value): value.base for value in args if isinstance(value, np.ndarray)}
        before = {at: self._send(at, torch.from_numpy(np.frombuffer(base, np.uint8))) for at, base in used.items()}
        self._let_go(len(used))
        given = [self._view(value) if isinstance(value, np.ndarray) else value for value in args]
        torch.cuda.synchronize()
        value = self._made(given, before)
        torch.cuda.synchronize()
        for place, values in before.items():
            self._copies[place].bring(values)
        value = _each(value, lambda item: item if (at := _among(item, given)) < 0 else args[at])
        left = self._left_there(value)
        return _each(value, self._fetched) if left is None else left

    def collect(self) -> None:
        """Bring every buffer that its call wrote to, and every returned tensor, back again, as they are now."""
        torch.cuda.synchronize()
        for copy in self._copies.values():
            if copy.written:
                copy.host.copy_(copy.device)
        for tensor, array in self._returned:
            array[...] = _array(tensor, "cuda")

    def _made(self, given: list[Any], before: Mapping[Place, Any]) -> Any:
        """One call, made as it is this one's turn."""
        known = self._known.setdefault(_signature(given), _Known())
        if len(self._known) > _KEPT:
            del self._known[next(iter(self._known))]
        known.calls += 1
        turn = known.calls % 3
        if turn == 2:
            return self._called_late(given, before)
        if turn == 0 and known.capturable:
            return self._replayed(given, known)
        return self._call(given)

    def _called_late(self, given: list[Any], before: Mapping[Place, Any]) -> Any:
        """On another stream, behind a copy of the values that takes its time to begin."""
        kept = [
            (device, values if values is not None and values.is_cuda else device.clone())
            for device, values in ((self._copies[place].device, values) for place, values in before.items())
        ]
        for device, _ in kept:
            device.fill_(0xFF)
        torch.cuda.synchronize()
        with torch.cuda.stream(self._other):
            _CUDA._sleep(_LATE_CYCLES)
            for device, values in kept:
                device.copy_(values)
            value = self._call(given)
        torch.cuda.synchronize()
        return value

    def _replayed(self, given: list[Any], known: _Known) -> Any:
        """As a graph, captured now or earlier; what cannot be captured is called."""
        if known.graph is None:
            graph = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(graph):
                    known.value = _called(self._function, given)
            except Exception:  # it waits for the device, or uses what a capture does not know: no fault of its own
                known.capturable = False
                torch.cuda.synchronize()
                return self._call(given)
            known.graph = graph
        # Its own results stay where they are and are overwritten: a caller copies them. Not what it was given.
        own = partial(_unless_given, given)
        _each(known.value, lambda item: own(item, _poison))
        self._time(known.graph.replay)
        return _each(known.value, lambda item: own(item, torch.clone) if isinstance(item, torch.Tensor) else item)

    def _send(self, place: Place, host: Any) -> Any:
        """To the device; what it is compared with after the call."""
        copy, address = self._copies.pop(place, None), self._elsewhere.get(place[0])
        if address is not None:
            known = isinstance(copy, _There) and copy.device.data_ptr() == address
            self._copies[place] = copy if known else _There(address, place[1])
            return None
        self._copies[place] = copy = copy if isinstance(copy, _Copy) else _Copy(host)
        return copy.send(host, self._contents, self._numbers.get(place[0], 0), self._edge)

    @cached_property
    def _room(self) -> int:
        """Bytes for copies."""
        return int(_CUDA.mem_get_info()[1]) // _SHARE

    def _let_go(self, used: int) -> None:
        """Of the oldest copies, those of the running call aside, what is more than there is room for."""
        held = sum(copy.size for copy in self._copies.values()) + self._contents.size
        while held > self._room and (gone := self._contents.drop()):
            held -= gone
        while len(self._copies) > used and (len(self._copies) > 4 * _KEPT or held > self._room):
            held -= self._copies.pop(next(iter(self._copies))).size
            self._known.clear()  # graphs write to memory that is gone

    def _view(self, array: Any) -> Any:
        """The same elements in the device's copy of the arena."""
        return _within(self._copies[_place(array)].device, array)

    def _call(self, given: list[Any]) -> Any:
        return self._time(lambda: _called(self._function, given))

    def _time(self, work: Callable[[], Any]) -> Any:
        """What `work` gives, timed between two events where that is asked for."""
        if not self._timed:
            return work()
        begun, ended = (_CUDA.Event(enable_timing=True) for _ in range(2))
        begun.record()
        value = work()
        ended.record()
        ended.synchronize()
        self.milliseconds = begun.elapsed_time(ended)
        return value

    def _left_there(self, value: Any) -> list[Any] | None:
        """Arrays that stand for what was returned, which the gate takes on the device; None where it cannot."""
        room, size = self._back
        there = self._elsewhere.get(room)
        tensors = list(value) if type(value) in (tuple, list) else [value]
        if there is None or not all(_is_plain(item) and item.is_contiguous() for item in tensors):
            return None
        places = self._places([item.nbytes for item in tensors])
        if any(end > size for _, end in places):
            return None
        arrays = []
        for item, (start, end) in zip(tensors, places, strict=True):
            target = _bytes_at(there + start, end - start).view(item.dtype).view(item.shape)
            host: Any = (ctypes.c_uint8 * (end - start)).from_address(room + start)
            arrays.append(np.ndarray(tuple(item.shape), _dtype(item), host))
            self._left[id(arrays[-1])] = (arrays[-1], item, target)
        self.leave(arrays)
        while len(self._left) > _KEPT:
            del self._left[next(iter(self._left))]
        return arrays

    def _fetched(self, tensor: Any) -> Any:
        array = _array(tensor, "cuda")
        if isinstance(array, np.ndarray):
            self._returned = [*self._returned[-_KEPT:], (tensor, array)]
        return array


def _same_bytes(now: Any, before: Any) -> bool:
    """Whether both, on one device, hold the same bytes."""
    words = len(now) // 8 * 8
    same = torch.equal(now[:words].view(torch.int64), before[:words].view(torch.int64))
    return bool(same and torch.equal(now[words:], before[words:]))


def _among(item: Any, given: list[Any]) -> int:
    """The position of a returned tensor among those that were given: `return out` beside filling it; -1: it is none."""
    if not isinstance(item, torch.Tensor) or not item.numel():
        return -1
    (own,), all_ = _signature([item]), _signature(given)
    return next((at for at, one in enumerate(all_) if one == own and isinstance(given[at], torch.Tensor)), -1)


def _unless_given(given: list[Any], item: Any, change: Callable[[Any], Any]) -> Any:
    return change(item) if _among(item, given) < 0 else item


def _signature(given: list[Any]) -> Signature:
    """Equal for calls on the same memory, seen in the same way, with the same numbers."""
    return tuple(
        (item.data_ptr(), item.dtype, tuple(item.shape), item.stride()) if isinstance(item, torch.Tensor) else item
        for item in given
    )


def _poison(item: Any) -> Any:
    """Nothing of an earlier result is left in it."""
    if isinstance(item, torch.Tensor) and item.numel():
        item.fill_(float("nan") if item.is_floating_point() else 1)
    return item


def _place(array: Any) -> Place:
    """(address, bytes) of the arena that an array lies in."""
    base: Any = array.base
    arena = np.frombuffer(base, np.uint8)
    return arena.ctypes.data, len(arena)


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """What was returned, with every tensor changed."""
    if type(value) in (tuple, list):
        return [change(item) for item in value]
    return None if value is None else change(value)


def _carrier(dtype: Any) -> Any:
    """torch's type."""
    if dtype.name in _PLAIN:
        return getattr(torch, dtype.name)
    if dtype.name in _CARRIERS:
        return _CARRIERS[dtype.name][1]
    raise NotRunHere(f"torch has no tensors of {dtype.name} with one element in each byte")


def _shared(array: Any) -> Any:
    """A tensor over the array's own memory."""
    return _within(torch.from_numpy(np.frombuffer(array.base, np.uint8)), array)


def _within(arena: Any, array: Any) -> Any:
    """The array's elements in a tensor of its arena's bytes: a view with an offset, as of a larger tensor."""
    address, _ = _place(array)
    size, element = array.dtype.itemsize, _carrier(array.dtype)
    typed = arena[: len(arena) // size * size].view(element)
    strides = [stride // size for stride in array.strides]
    return typed.as_strided(array.shape, strides, (array.ctypes.data - address) // size)


def _no_places(lengths: list[int]) -> list[tuple[int, int]]:
    """Where there is no room."""
    return []


def _is_plain(value: Any) -> bool:
    """A plain tensor on the device, of a type that an array has too, whose elements are as they stand there."""
    if type(value) is not torch.Tensor or value.layout is not torch.strided or value.device.type != "cuda":
        return False
    return not (value.is_conj() or value.is_neg()) and _dtype(value) is not None


def _dtype(tensor: Any) -> Any:
    """numpy's type; None where it has none."""
    for name, (_, element) in _CARRIERS.items():
        if tensor.dtype is element:
            return np.dtype(getattr(ml_dtypes, name))
    name = str(tensor.dtype).removeprefix("torch.")
    return np.dtype(name) if name in _PLAIN else None


def _array(value: Any, device: str) -> Any:
    """A numpy array of a plain tensor of the device; anything else as it is, for the worker to refuse."""
    if type(value) is not torch.Tensor or value.layout is not torch.strided or value.device.type != device:
        return value
    tensor = value.detach().resolve_conj().resolve_neg().cpu()
    for name, (carrier, element) in _CARRIERS.items():
        if tensor.dtype is element:
            plain = tensor.view(torch.int16 if carrier is np.int16 else torch.uint8)
            return plain.numpy().view(getattr(ml_dtypes, name))
    return tensor.numpy() if str(tensor.dtype).removeprefix("torch.") in _PLAIN else value
