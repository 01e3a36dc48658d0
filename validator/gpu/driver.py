"""The CUDA driver API, as little of it as launching and comparing needs. Every call is checked.

`cuda.bindings` is imported when a device is opened, never before: the package is the optional extra `[gpu]`.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from validator.errors import Problem, ValidatorError

__all__ = ["Bytes", "Device", "DeviceError", "Function", "Launch", "NotHere", "Parameter", "Parameters", "open_device"]

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
"""One axis, contiguous."""
LEAST_CAPABILITY = (9, 0)
"""Programmatic dependent launch exists from here on."""
LEAST_DRIVER = 13000
"""CUDA 13.0, as the driver API counts: the PTX beside this module needs it."""
_ANY_BLOCK = 1024
_OPT_IN_SHARED = 48 * 1024
"""Bytes of dynamic shared memory that need no permission."""


@dataclass(frozen=True, slots=True)
class NotHere:
    """Nothing ran, and why."""

    reason: str

    def __str__(self) -> str:
        return f"not run here: {self.reason}"


class DeviceError(ValidatorError):
    """A driver call failed. After an illegal access every later call of the process fails too."""


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel of a loaded module."""

    name: str
    handle: Any


@dataclass(frozen=True, slots=True)
class Parameter:
    """Where one parameter lies in the parameter block, in bytes, as the compiled kernel says."""

    offset: int
    size: int


class Parameters:
    """A parameter block as the driver takes it: one pointer per parameter, each into its place in `block`.

    The driver copies each parameter's bytes by the sizes in the cubin when the launch is queued, not before.
    """

    def __init__(self, block: bytes, offsets: Sequence[int]) -> None:
        if any(not 0 <= offset < len(block) for offset in offsets):
            raise DeviceError(Problem(f"parameter offsets {list(offsets)} leave a block of {len(block)} bytes"))
        self.block, self.offsets = block, tuple(offsets)
        self._bytes = ctypes.create_string_buffer(block, max(len(block), 1))
        base = ctypes.addressof(self._bytes)
        self._pointers = (ctypes.c_void_p * max(len(offsets), 1))(*(base + offset for offset in offsets))
        self.address = ctypes.addressof(self._pointers)

    @classmethod
    def of(cls, *values: int | ctypes._SimpleCData[Any]) -> Parameters:
        """Naturally aligned values; a plain `int` is a device address or another 64-bit number."""
        block, offsets = b"", []
        for value in values:
            raw = bytes(ctypes.c_uint64(value)) if isinstance(value, int) else bytes(value)
            block += b"\0" * (-len(block) % len(raw))
            offsets.append(len(block))
            block += raw
        return cls(block, offsets)


@dataclass(frozen=True, slots=True)
class Launch:
    """How to launch: sizes in threads and CTAs, `shared` in bytes of dynamic shared memory."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int = 0
    cluster: tuple[int, int, int] | None = None
    pdl: bool = False
    """With the programmatic stream serialization attribute."""


def open_device(ordinal: int = 0, *, beside: bool = False) -> Device | NotHere:
    """The device, ready: its primary context is current, modules load eagerly. `beside`: another process needs it."""
    # Lazy loading would make the first launch of one kernel wait for another that is spinning: both would hang.
    os.environ["CUDA_MODULE_LOADING"] = "EAGER"
    try:
        from cuda.bindings import driver
    except ImportError as error:
        return NotHere(f"package `cuda-bindings` is missing ({error}); install `validator[gpu]`")
    try:
        _call(driver, "cuInit", 0)
        count = _call(driver, "cuDeviceGetCount")
        if ordinal >= count:
            return NotHere(f"no CUDA device {ordinal}, there are {count}")
        return _open(driver, _call(driver, "cuDeviceGet", ordinal), beside)
    # The package raises RuntimeError itself when it finds no libcuda.
    except (DeviceError, RuntimeError) as error:
        return NotHere(f"no usable CUDA driver ({error})")


def _open(driver: Any, handle: Any, beside: bool) -> Device | NotHere:
    prefix = "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY"
    attributes = [getattr(driver.CUdevice_attribute, f"{prefix}_{part}") for part in ("MAJOR", "MINOR")]
    major, minor = (_call(driver, "cuDeviceGetAttribute", attribute, handle) for attribute in attributes)
    name = _call(driver, "cuDeviceGetName", 256, handle).split(b"\0")[0].decode()
    if (major, minor) < LEAST_CAPABILITY:
        return NotHere(f"{name} has compute capability {major}.{minor}, programmatic dependent launch needs 9.0")
    version = _call(driver, "cuDriverGetVersion")
    if version < LEAST_DRIVER:
        return NotHere(f"the driver is for CUDA {version // 1000}.{version % 1000 // 10}, 13.0 is needed")
    mode = "CU_DEVICE_ATTRIBUTE_COMPUTE_MODE"
    if beside and int(_call(driver, "cuDeviceGetAttribute", getattr(driver.CUdevice_attribute, mode), handle)):
        return NotHere(f"{name} serves one process at a time")
    context = _call(driver, "cuDevicePrimaryCtxRetain", handle)
    _call(driver, "cuCtxSetCurrent", context)
    return Device(driver, name, (major, minor), version, int(handle), context)


def _call(driver: Any, name: str, *args: Any) -> Any:
    """Result of one driver function. Raises DeviceError with the driver's own word for what went wrong."""
    error, *values = getattr(driver, name)(*args)
    if error != driver.CUresult.CUDA_SUCCESS:
        word = getattr(error, "name", str(error))
        raise DeviceError(Problem(f"{name} failed with {word}"))
    return values[0] if len(values) == 1 else None


class Device:
    """One device with one stream, which everything is queued on where no other is named. Addresses are plain integers,
    sizes bytes."""

    def __init__(
        self,
        driver: Any,
        name: str,
        capability: tuple[int, int],
        driver_version: int,
        ordinal: int = 0,
        context: Any = None,
    ) -> None:
        """`driver_version` as the driver API counts: 13000 is CUDA 13.0."""
        self._driver, self.ordinal, self._context = driver, ordinal, context
        self.name, self.capability, self.driver_version = name, capability, driver_version
        self._stream = _call(driver, "cuStreamCreate", driver.CUstream_flags.CU_STREAM_NON_BLOCKING.value)
        self._modules: list[Any] = []
        self._memory: list[int] = []
        self._host: list[int] = []
        self._threads = threading.local()

    def call(self, name: str, *args: Any) -> Any:
        """Result of the driver function `name`. Raises DeviceError with the driver's own word for what went wrong."""
        return _call(self._driver, name, *args)

    def enter(self) -> None:
        """Use it in this thread from now on; the thread that opened it does."""
        if self._context is not None and not hasattr(self._threads, "entered"):
            _call(self._driver, "cuCtxSetCurrent", self._context)
            self._threads.entered = True  # nobody in this process uses another context

    @property
    def types(self) -> Any:
        """The module with the driver's structures and enumerations."""
        return self._driver

    @property
    def stream(self) -> Any:
        """The stream on which everything here is queued."""
        return self._stream

    def function(self, image: bytes, name: str) -> Function:
        """Kernel `name` of a cubin or PTX image; PTX is compiled by the driver."""
        return self.functions(image, name)[0]

    def functions(self, image: bytes, *names: str) -> tuple[Function, ...]:
        module = self._load(image)
        return tuple(Function(n, _call(self._driver, "cuModuleGetFunction", module, n.encode())) for n in names)

    def kernels(self, image: bytes) -> tuple[Function, ...]:
        """Every kernel of an image, by its mangled name."""
        module = self._load(image)
        count = _call(self._driver, "cuModuleGetFunctionCount", module)
        handles = _call(self._driver, "cuModuleEnumerateFunctions", count, module)
        return tuple(Function(_call(self._driver, "cuFuncGetName", handle).decode(), handle) for handle in handles)

    def parameters(self, function: Function) -> tuple[Parameter, ...]:
        """The kernel's parameters in order, as it was compiled."""
        found: list[Parameter] = []
        while True:
            error, *where = self._driver.cuFuncGetParamInfo(function.handle, len(found))
            if error != self._driver.CUresult.CUDA_SUCCESS:
                return tuple(found)
            found.append(Parameter(*map(int, where)))

    def block_of(self, function: Function) -> tuple[int, int, int] | None:
        """Threads of a block as the kernel was compiled for them; None where it takes any number."""
        most = self._driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
        threads = int(_call(self._driver, "cuFuncGetAttribute", most, function.handle))
        return (threads, 1, 1) if threads < _ANY_BLOCK else None

    def _load(self, image: bytes) -> Any:
        module = _call(self._driver, "cuModuleLoadData", image + b"\0")
        self._modules.append(module)
        return module

    def milliseconds(self, work: Callable[[], None]) -> float:
        """Time on the device between two events around what `work` queues."""
        begin, end = (_call(self._driver, "cuEventCreate", 0) for _ in range(2))
        try:
            _call(self._driver, "cuEventRecord", begin, self._stream)
            work()
            _call(self._driver, "cuEventRecord", end, self._stream)
            _call(self._driver, "cuEventSynchronize", end)
            return float(_call(self._driver, "cuEventElapsedTime", begin, end))
        finally:
            for event in (begin, end):
                _call(self._driver, "cuEventDestroy", event)

    def allocate(self, size: int) -> int:
        """Address of `size` bytes of device memory, aligned to 256."""
        address = int(_call(self._driver, "cuMemAlloc", max(size, 1)))
        self._memory.append(address)
        return address

    def allocate_host(self, size: int) -> int:
        """Address of pinned host memory that kernels can read, the same on both sides."""
        flags = self._driver.CU_MEMHOSTALLOC_DEVICEMAP | self._driver.CU_MEMHOSTALLOC_PORTABLE
        address = int(_call(self._driver, "cuMemHostAlloc", size, flags))
        self._host.append(address)
        return address

    def upload(self, address: int, data: bytes | Bytes, stream: Any = None) -> None:
        """Queues a copy to the device. The bytes are taken at once from ordinary memory, later from pinned memory."""
        _call(self._driver, "cuMemcpyHtoDAsync", address, data, len(data), stream or self._stream)

    def copy(self, to: int, source: int, size: int, stream: Any = None) -> None:
        """Device to device, queued."""
        _call(self._driver, "cuMemcpyDtoDAsync", to, source, size, stream or self._stream)

    def clear(self, address: int, size: int, stream: Any = None) -> None:
        """Zeroes, queued."""
        _call(self._driver, "cuMemsetD8Async", address, 0, size, stream or self._stream)

    def download(self, address: int, size: int, stream: Any = None) -> bytes:
        """Waits for everything queued, then copies."""
        data = np.empty(size, np.uint8)
        self.fetch(address, data, stream)
        return data.tobytes()

    def fetch(self, address: int, into: Bytes, stream: Any = None) -> None:
        """Waits for everything queued, then fills the bytes."""
        _call(self._driver, "cuMemcpyDtoHAsync", into, address, len(into), stream or self._stream)
        self.synchronize(stream)

    def launch(self, function: Function, how: Launch, parameters: Parameters, stream: Any = None) -> None:
        """Queues one launch."""
        driver = self._driver
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = how.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = how.block
        config.sharedMemBytes, config.hStream = how.shared, stream or self._stream
        attributes = []
        if how.pdl:
            attributes.append(self._attribute("PROGRAMMATIC_STREAM_SERIALIZATION"))
            attributes[-1].value.programmaticStreamSerializationAllowed = 1
        if how.cluster is not None:
            attributes.append(self._attribute("CLUSTER_DIMENSION"))
            size = attributes[-1].value.clusterDim
            size.x, size.y, size.z = how.cluster
        config.attrs, config.numAttrs = attributes, len(attributes)
        if how.shared > _OPT_IN_SHARED:
            kind = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            _call(driver, "cuFuncSetAttribute", function.handle, kind, how.shared)
        _call(driver, "cuLaunchKernelEx", config, function.handle, parameters.address, 0)

    def captured(self, work: Callable[[], None]) -> Any:
        """What `work` queues, as a graph that can be replayed; nothing runs yet."""
        mode = self._driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        _call(self._driver, "cuStreamBeginCapture", self._stream, mode)
        try:
            work()
        finally:
            graph = _call(self._driver, "cuStreamEndCapture", self._stream)
        return _call(self._driver, "cuGraphInstantiate", graph, 0)

    def replay(self, graph: Any) -> None:
        """Queues a captured graph."""
        _call(self._driver, "cuGraphLaunch", graph, self._stream)

    def _attribute(self, name: str) -> Any:
        attribute = self._driver.CUlaunchAttribute()
        attribute.id = getattr(self._driver.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}")
        return attribute

    def synchronize(self, stream: Any = None) -> None:
        """Waits for everything queued. Raises DeviceError for what went wrong in a kernel."""
        _call(self._driver, "cuStreamSynchronize", stream or self._stream)

    def free(self) -> None:
        """Gives back all memory and modules; the device stays open."""
        self.synchronize()
        for address in self._memory:
            _call(self._driver, "cuMemFree", address)
        for address in self._host:
            _call(self._driver, "cuMemFreeHost", address)
        for module in self._modules:
            _call(self._driver, "cuModuleUnload", module)
        self._memory, self._host, self._modules = [], [], []
