"""The worker's adapter for recorded steps: calls a function once a step and watches the kernels that it calls.

A kernel is a contract's `torch` callable. Each is replaced in its module, before the function's own module is imported,
by one that keeps which memory it was given and what lies in all memory that is declared fixed (`Recorder`). Tensors lie
on whatever device the function puts them.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np

from validator.gpu.recording import Recorder, dumped
from validator.manifest.contract import KernelContract

__all__ = ["NotRunHere", "load"]


_FACTOR = 0x1E3779B97F4A7C15
"""An odd number without a pattern."""


class NotRunHere(Exception):
    """This machine cannot run the steps."""


def load(target: str, tree: str, options: Mapping[str, str]) -> Callable[[], Any]:
    """A callable that runs `options["steps"]` steps of `module:function` and returns the recording, as UTF-8 JSON.

    `options["contracts"]`: JSON, a list of [[kernels]] tables; those without `torch` are not watched.
    `options["device"]`: `cuda` needs a device that torch finds.
    """
    import torch

    if options["device"] == "cuda" and not torch.cuda.is_available():
        raise NotRunHere("torch finds no CUDA device")
    torch.set_grad_enabled(False)
    recorder = Watch(options["device"] == "cuda")
    for table in json.loads(options["contracts"]):
        recorder.watch(KernelContract.model_validate(table))
    step = _resolved(target)

    def run() -> Any:
        for _ in range(int(options["steps"])):
            recorder.recorder.step()
            step()
        return np.frombuffer(dumped(recorder.recorder.recording).encode(), np.uint8)

    return run


def _resolved(target: str) -> Callable[..., Any]:
    module, _, name = target.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


class Watch:
    """Puts a recorder around callables on torch tensors."""

    def __init__(self, cuda: bool) -> None:
        self.recorder = Recorder(self._digest)
        self._cuda = cuda
        self._tensors: dict[tuple[int, int], Any] = {}
        """Memory that was given, kept alive: what is allocated anew then lies elsewhere, and shows."""

    def watch(self, contract: KernelContract) -> None:
        """Record every call of the contract's `torch` callable from now on."""
        if contract.torch is None:
            return
        module, _, name = contract.torch.partition(":")
        original = _resolved(contract.torch)
        setattr(importlib.import_module(module), name, self._around(contract, original))

    def _around(self, contract: KernelContract, original: Callable[..., Any]) -> Callable[..., Any]:
        names = list(contract.values)

        @wraps(original)
        def recorded(*args: Any, **named: Any) -> Any:
            value: list[Any] = []
            memory = self._memory(names, args, named)
            self.recorder.launch(
                contract, contract.match, memory, lambda: value.append(original(*args, **named)), contract.launch.pdl
            )
            return value[0]

        return recorded

    def _memory(
        self, names: Sequence[str], args: Sequence[Any], named: Mapping[str, Any]
    ) -> dict[str, tuple[int, int]]:
        """Argument → (address, bytes) of every tensor among a call's arguments."""
        given = {**dict(zip(names, args, strict=False)), **named}
        tensors = {name: value for name, value in given.items() if hasattr(value, "data_ptr")}
        memory = {name: (tensor.data_ptr(), _span(tensor)) for name, tensor in tensors.items() if tensor.numel()}
        self._tensors.update((place, tensors[name]) for name, place in memory.items())
        return memory

    def _digest(self, address: int, size: int) -> str:
        """Of the elements, where they lie: weights are gigabytes, and there are many launches.

        A sum of words times odd numbers, modulo 2^64: one word that changes always changes it.
        """
        import torch

        if self._cuda:
            torch.cuda.synchronize()
        plain = self._tensors[address, size].detach().contiguous().reshape(-1).view(torch.uint8)
        words = torch.nn.functional.pad(plain, (0, -len(plain) % 8)).view(torch.int64)
        factors = torch.arange(1, 2 * len(words), 2, device=words.device) * _FACTOR
        return f"{int((words * factors).sum()) & (1 << 64) - 1:016x}"


def _span(tensor: Any) -> int:
    """Bytes from the first element to behind the last; strides are not negative."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return int((last + 1) * tensor.element_size())
