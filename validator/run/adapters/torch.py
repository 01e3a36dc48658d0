"""Python callables on torch tensors. Loaded by path in the worker: imports the standard library, numpy and torch alone.

On the CPU a tensor shares its memory with the array it stands for: strides, gaps, aliases and guard zones are the
arena's own. On a GPU the whole arena is copied, guard zones and gaps too, into device memory that keeps its address
as long as the arena keeps its own; after the call everything is copied back, when all streams are idle.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
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
_KEPT = 64
"""Device copies and returned tensors that are kept, as many as the worker keeps calls."""


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
    module, _, name = target.partition(":")
    function = getattr(importlib.import_module(module), name)
    if device == "cuda" and (maker := _compiler_of(function)):
        raise NotRunHere(
            f"{maker} compiles a kernel when it is called, with programs that a worker may not start; name the cubin "
            "that it makes (`compiled`)"
        )
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


class _OnDevice:
    """Tensors in device copies of the arenas."""

    def __init__(self, function: Callable[..., Any], timed: bool) -> None:
        self._function, self._timed = function, timed
        self._copies: dict[tuple[int, int], tuple[Any, Any]] = {}
        self._returned: list[tuple[Any, Any]] = []
        self.milliseconds: float | None = None

    def __call__(self, *args: Any) -> Any:
        used: dict[tuple[int, int], Any] = {
            _place(value): value.base for value in args if isinstance(value, np.ndarray)
        }
        for place, base in used.items():
            self._send(place, torch.from_numpy(np.frombuffer(base, np.uint8)))
        given = [self._view(value) if isinstance(value, np.ndarray) else value for value in args]
        torch.cuda.synchronize()
        value = self._call(given)
        torch.cuda.synchronize()
        for place in used:
            device, host = self._copies[place]
            host.copy_(device)
        return _each(value, self._fetched)

    def collect(self) -> None:
        """Bring every buffer and every returned tensor back again, as they are now."""
        torch.cuda.synchronize()
        for device, host in self._copies.values():
            host.copy_(device)
        for tensor, array in self._returned:
            array[...] = _array(tensor, "cuda")

    def _send(self, place: tuple[int, int], host: Any) -> None:
        known = self._copies.pop(place, None)
        device = known[0] if known is not None else torch.empty(len(host), dtype=torch.uint8, device="cuda")
        device.copy_(host)
        self._copies[place] = (device, host)
        while len(self._copies) > 4 * _KEPT:
            del self._copies[next(iter(self._copies))]

    def _view(self, array: Any) -> Any:
        """The same elements in the device's copy of the arena."""
        address, _ = place = _place(array)
        element = _carrier(array.dtype)
        size, copy = array.dtype.itemsize, self._copies[place][0]
        typed = copy[: len(copy) // size * size].view(element)
        strides = [stride // size for stride in array.strides]
        return typed.as_strided(array.shape, strides, (array.ctypes.data - address) // size)

    def _call(self, given: list[Any]) -> Any:
        if not self._timed:
            return _called(self._function, given)
        event: Any = torch.cuda.Event
        begun, ended = (event(enable_timing=True) for _ in range(2))
        begun.record()
        value = _called(self._function, given)
        ended.record()
        ended.synchronize()
        self.milliseconds = begun.elapsed_time(ended)
        return value

    def _fetched(self, tensor: Any) -> Any:
        array = _array(tensor, "cuda")
        if isinstance(array, np.ndarray):
            self._returned = [*self._returned[-_KEPT:], (tensor, array)]
        return array


def _place(array: Any) -> tuple[int, int]:
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
    element = _carrier(array.dtype)
    if array.dtype.name in _CARRIERS:
        return torch.from_numpy(array.view(_CARRIERS[array.dtype.name][0])).view(element)
    return torch.from_numpy(array)


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
