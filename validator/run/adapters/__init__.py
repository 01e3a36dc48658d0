"""Adapters: how a worker makes a callable out of what a contract names, and what it must see of the machine for it.

An adapter is a module with

    def load(target: str, tree: str, options: Mapping[str, str]) -> Callable[..., Any]

The callable takes the contract's arguments in the contract's order: numpy arrays that lie in the worker's arenas, and
Python scalars. It fills outputs in place, or returns arrays. An adapter of compiled kernels is called with one more
argument, `launch`: `{"grid": (x, y, z), "block": (x, y, z), "shared": bytes, "cluster": (x, y, z) or None}`, as the
contract gives them for the call's sizes. `target` is `module:function`, importable from `tree`, or `path:kernel` below
it. An exception whose class is called `NotRunHere` means that this machine or this adapter cannot run the target: then
nothing is shown, and nothing is held against the candidate. One whose class is called `DeviceBroken` means that a
kernel failed, and that the device refuses whatever this process asks of it from then on: a fresh one is started.

A module that has a function `prepare(target, tree, options)` is asked by the gate, before the worker starts, for more
options: what takes tools that a confined process may not start. It reads untrusted files and runs none.

This file is the gate's side: which adapters there are, and whether they can work here. It imports none of them itself.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

__all__ = ["ADAPTERS", "Adapter"]

_NUMPY = ("numpy", "ml_dtypes")
_DEVICE_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset",
                 "/dev/nvidia-caps", *(f"/dev/nvidia{ordinal}" for ordinal in range(16)))  # fmt: skip
_DRIVER_FILES = ("/proc/driver/nvidia", "/proc/devices", "/proc/self", "/proc/sys/vm", "/sys/module/nvidia",
                 "/sys/bus/pci", "/etc/alternatives", "/usr/local/cuda", "/usr/local/nvidia")  # fmt: skip

_PROGRAMS = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/libexec", "/usr/include", "/etc/alternatives")

_DRIVER_WRITES = ("/proc/self",)
"""The worker's own process: the driver names its threads there."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """One way of running a candidate, and what its worker may see and use for it."""

    name: str
    module: str
    """A file beside this one (`numpy`), or the dotted name of a module of an installed package."""
    libraries: tuple[str, ...] = _NUMPY
    """Top-level names that the worker may import besides the standard library; all must be installed."""
    optional: tuple[str, ...] = ()
    """More of them, used where installed."""
    entry_points: tuple[str, ...] = ()
    """Distributions among them that find their own parts by their entry points."""
    launches: bool = False
    """It runs compiled kernels: the target is `path:kernel`, and calls carry their launch."""
    gpu: bool = False
    """The worker sees NVIDIA's device nodes and has no limit on its address space, which the driver fills."""
    programs: bool = False
    """Its worker may start programs, each confined as it is: kernels that compile themselves when they are called."""
    reserve: int = 0
    """Bytes of address space that its libraries take for themselves (code, thread pools), beyond the limit."""
    prepares: bool = False
    """It has a `prepare`."""
    beside: tuple[str, ...] = ()
    """More files beside this one, which its own imports."""
    extra: str = ""
    """What to install where a library is missing."""

    def prepared(self, target: str, tree: Path, options: Mapping[str, str]) -> Mapping[str, str]:
        """The options that its worker is started with."""
        if not self.prepares:
            return options
        found: Mapping[str, str] = import_module(self.module).prepare(target, tree, options)
        return {**options, **found}

    @property
    def open_files(self) -> tuple[str, ...]:
        """Files that the worker may read and write besides its own folder."""
        device = (*(path for path in _DEVICE_NODES if os.path.exists(path)), *_DRIVER_WRITES) if self.gpu else ()
        return (*device, *((os.devnull,) if self.programs else ()))  # what compilers print goes there

    @property
    def readable(self) -> tuple[str, ...]:
        """Files and folders that the worker may read besides what every worker may."""
        return (*(_DRIVER_FILES if self.gpu else ()), *(_compilers() if self.programs else ()))

    def lacking(self, found: Callable[[str], bool] = lambda name: find_spec(name) is not None) -> str:
        """Why it cannot work on this machine; empty when it can, as far as can be seen from outside."""
        missing = [name for name in self.libraries if not found(name)]
        if "." in self.module and not missing and not _exists(self.module):
            missing = [self.module]
        if missing:
            return f"{', '.join(missing)} is not installed" + (f" ({self.extra})" if self.extra else "")
        if self.gpu and not os.path.exists("/dev/nvidiactl"):
            return "this machine has no NVIDIA device"
        return ""


def _compilers() -> tuple[str, ...]:
    """What a host compiler reads, and this interpreter's headers."""
    return (*_PROGRAMS, sysconfig.get_paths()["include"])


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


_TORCH = ("torch", "typing_extensions", "filelock", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "fsspec")
_TORCH_OPTIONAL = (
    "torchgen", "functorch", "nvidia", "triton", "setuptools", "_distutils_hack", "packaging", "cusparselt", "nvshmem",
)  # fmt: skip
_TORCH_FILES = ("torch_copies",)
_CUTLASS = ("cutlass", "nvidia_cutlass_dsl", "cuda", "google")
_OURS = ("validator", "pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection")

ADAPTERS: dict[str, Adapter] = {
    a.name: a
    for a in (
        Adapter("numpy", "numpy"),
        Adapter(
            "torch", "torch", (*_NUMPY, *_TORCH), _TORCH_OPTIONAL, reserve=12 << 30,
            extra="pip install 'validator[torch]'", beside=_TORCH_FILES,
        ),
        Adapter(
            "torch-cuda", "torch", (*_NUMPY, *_TORCH), (*_TORCH_OPTIONAL, *_CUTLASS), ("triton",), gpu=True,
            programs=True, beside=_TORCH_FILES, extra="pip install 'validator[torch]'",
        ),
        Adapter(
            "cuda", "validator.gpu.adapter", (*_NUMPY, *_OURS, "cuda", "elftools"), ("nvidia",), launches=True,
            gpu=True, extra="pip install 'validator[gpu]'",
        ),
        Adapter(
            "steps", "validator.gpu.steps", (*_NUMPY, *_TORCH, *_OURS), _TORCH_OPTIONAL, reserve=12 << 30,
            extra="pip install 'validator[torch]'",
        ),
        Adapter(
            "steps-cuda", "validator.gpu.steps", (*_NUMPY, *_TORCH, *_OURS), (*_TORCH_OPTIONAL, *_CUTLASS),
            ("triton",), gpu=True, programs=True, extra="pip install 'validator[torch]'",
        ),
        Adapter("ptx", "validator.emulate.adapter", (*_NUMPY, *_OURS), launches=True, prepares=True),
    )
}  # fmt: skip
"""By name."""
