"""Python callables on torch tensors. Loaded by path in the worker: imports the standard library, numpy and torch, and
what lies beside it.

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
from functools import cached_property, partial
from typing import Any

import ml_dtypes
import numpy as np
import torch

from .torch_copies import Contents, Copy, There, bytes_at, in_words

__all__ = ["DeviceBroken", "NotRunHere", "load"]


class NotRunHere(Exception):
    """This machine, or torch, has no way to run the callable."""


class DeviceBroken(Exception):
    """A kernel failed on the device, which refuses everything that this process asks of it from then on."""


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
_LATE_CYCLES = 1 << 20
"""About half a millisecond: how late values come on another stream."""
_NONE: Mapping[int, int] = {}
_KEPT = 64
"""Device copies and returned tensors that are kept, as many as the worker keeps calls."""
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
    # torch.compile names its cache after the user, and no file says who that is.
    os.environ.setdefault("LOGNAME", "nobody")
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
        """`Copy` or `There`."""
        self._elsewhere: Mapping[int, int] = {}
        self._contents = Contents()
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
        try:
            return self._answered(*args)
        except Exception:
            _still_there()
            raise

    def _answered(self, *args: Any) -> Any:
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
        """On another stream, on which the values come late: until then every bit of them is another."""
        arenas = [part for place in before for part in in_words(self._copies[place].device)]
        with torch.cuda.stream(self._other):
            _CUDA._sleep(_LATE_CYCLES)
        for arena in arenas:
            arena.bitwise_not_()
        _CUDA.current_stream().synchronize()
        with torch.cuda.stream(self._other):
            for arena in arenas:
                arena.bitwise_not_()
            value = self._call(given)
        torch.cuda.synchronize()
        return value

    def _replayed(self, given: list[Any], known: _Known) -> Any:
        """As a graph, captured now or earlier; what cannot be captured is called."""
        if known.graph is None:
            graph = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(graph, pool=self._pool, stream=self._other):  # which has a workspace already
                    known.value = _called(self._function, given)
            except Exception:  # it waits for the device, or uses what a capture does not know: no fault of its own
                known.capturable = False
                torch.cuda.synchronize()
                return self._call(given)
            known.graph = graph
        # Its own results stay where they are and are overwritten: a caller copies them. Not what it was given, and not
        # what it has given before.
        own = partial(_unless_given, given)
        _each(known.value, lambda item: own(item, _poison))
        self._time(known.graph.replay)
        return _each(known.value, lambda item: own(item, self._copied))

    def _copied(self, item: Any) -> Any:
        """A copy of what a graph has made; what is kept from an earlier call lies in no graph's memory."""
        kept = {tensor.data_ptr() for _, tensor, _ in self._left.values()}
        kept |= {tensor.data_ptr() for tensor, _ in self._returned if isinstance(tensor, torch.Tensor)}
        return torch.clone(item) if isinstance(item, torch.Tensor) and item.data_ptr() not in kept else item

    def _send(self, place: Place, host: Any) -> Any:
        """To the device; what it is compared with after the call."""
        copy, address = self._copies.pop(place, None), self._elsewhere.get(place[0])
        if address is not None:
            known = isinstance(copy, There) and copy.device.data_ptr() == address
            self._copies[place] = copy if known else There(address, place[1])
            return None
        self._copies[place] = copy = copy if isinstance(copy, Copy) else Copy(host)
        return copy.send(host, self._contents, self._numbers.get(place[0], 0), self._edge)

    @cached_property
    def _pool(self) -> Any:
        """All graphs work in one memory: none runs beside another, and what one gives is copied before the next."""
        return torch.cuda.graph_pool_handle()

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
            target = bytes_at(there + start, end - start).view(item.dtype).view(item.shape)
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


def _still_there() -> None:
    """Raises `DeviceBroken` where an error of the device has come to stay. One that has not (too much shared memory, no
    memory left) is the callable's own and leaves the next call as it would be."""
    try:
        torch.cuda.synchronize()
    except Exception as error:
        raise DeviceBroken(str(error).partition("\n")[0]) from None


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
    dtype = _dtype(tensor)
    if dtype is None:
        return value
    carrier = _CARRIERS.get(dtype.name)
    return tensor.numpy() if carrier is None else tensor.view(_carrier(np.dtype(carrier[0]))).numpy().view(dtype)
