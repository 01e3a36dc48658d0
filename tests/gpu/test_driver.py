"""The thin layer over the driver API: parameter blocks, checked calls, and every reason why nothing runs here."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from validator.gpu.driver import Device, DeviceError, Function, NotHere, Parameters, open_device
from validator.gpu.shelf import Shelf


def test_values_are_aligned_to_their_own_size():
    parameters = Parameters.of(0x1122334455667788, ctypes.c_uint32(9), 7)
    assert parameters.offsets == (0, 8, 16)
    assert parameters.block == bytes.fromhex("8877665544332211 09000000 00000000 0700000000000000")


def test_the_driver_finds_each_parameter_through_its_pointer():
    parameters = Parameters(bytes(range(16)), (0, 12))
    pointers = (ctypes.c_void_p * 2).from_address(parameters.address)
    assert ctypes.string_at(pointers[1], 4) == bytes((12, 13, 14, 15))


def test_a_parameter_outside_its_block_is_refused():
    with pytest.raises(DeviceError, match="leave a block of 4 bytes"):
        Parameters(bytes(4), (0, 4))


def test_a_thread_enters_once():
    entered: list[int] = []
    flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=SimpleNamespace(value=1))
    driver = fake(
        CUstream_flags=flags,
        cuStreamCreate=lambda flags: (Result.CUDA_SUCCESS, 0),
        cuCtxSetCurrent=lambda context: (Result.CUDA_SUCCESS, entered.append(threading.get_ident()))[:1],
    )
    device = Device(driver, "Played", (9, 0), 13000, context=7)
    threads = [threading.Thread(target=lambda: [device.enter() for _ in range(3)]) for _ in range(2)]
    for one in threads:
        one.start()
    device.enter()
    device.enter()
    for one in threads:
        one.join()
    assert entered.count(threading.get_ident()) == 1
    assert len(entered) == 3


class Result(Enum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_NO_DEVICE = 100


def fake(**functions: Any) -> ModuleType:
    """A `cuda.bindings.driver` of a machine with one Ampere device, but for `functions`."""
    prefix = "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY"
    said = {
        "CUresult": Result,
        "CUdevice_attribute": SimpleNamespace(**{f"{prefix}_MAJOR": 8, f"{prefix}_MINOR": 6}),
        "cuInit": lambda flags: (Result.CUDA_SUCCESS,),
        "cuDeviceGetCount": lambda: (Result.CUDA_SUCCESS, 1),
        "cuDeviceGet": lambda ordinal: (Result.CUDA_SUCCESS, ordinal),
        "cuDeviceGetName": lambda length, device: (Result.CUDA_SUCCESS, b"Old One\0\0"),
        "cuDeviceGetAttribute": lambda attribute, device: (Result.CUDA_SUCCESS, attribute),
    }
    driver = ModuleType("cuda.bindings.driver")
    vars(driver).update(said | functions)
    return driver


@pytest.fixture
def machine(monkeypatch):
    def become(driver: ModuleType | None) -> None:
        bindings = None if driver is None else ModuleType("cuda.bindings")
        if bindings is not None:
            vars(bindings)["driver"] = driver
        monkeypatch.setitem(sys.modules, "cuda", ModuleType("cuda"))
        monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
        monkeypatch.setitem(sys.modules, "cuda.bindings.driver", driver)

    monkeypatch.setenv("CUDA_MODULE_LOADING", "LAZY")
    return become


def reason(device: Device | NotHere) -> str:
    assert isinstance(device, NotHere)
    assert str(device).startswith("not run here: ")
    return device.reason


def test_without_the_package(machine):
    machine(None)
    assert "install `validator[gpu]`" in reason(open_device())


def test_without_a_driver(machine):
    def missing(flags: int) -> None:
        raise RuntimeError("Failed to dlopen libcuda.so.1")

    machine(fake(cuInit=missing))
    assert reason(open_device()) == "no usable CUDA driver (Failed to dlopen libcuda.so.1)"


def test_without_a_device(machine):
    machine(fake(cuInit=lambda flags: (Result.CUDA_ERROR_NO_DEVICE,)))
    assert "cuInit failed with CUDA_ERROR_NO_DEVICE" in reason(open_device())
    machine(fake())
    assert reason(open_device(1)) == "no CUDA device 1, there are 1"


def test_on_an_older_device(machine):
    machine(fake())
    assert "Old One has compute capability 8.6" in reason(open_device())


def test_with_an_older_driver(machine):
    new = "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY"
    hopper = SimpleNamespace(**{f"{new}_MAJOR": 9, f"{new}_MINOR": 0})
    machine(fake(CUdevice_attribute=hopper, cuDriverGetVersion=lambda: (Result.CUDA_SUCCESS, 12080)))
    assert reason(open_device()) == "the driver is for CUDA 12.8, 13.0 is needed"


def test_a_device_of_one_process_is_not_taken_from_another(machine):
    """In exclusive mode the first context keeps all others out: the worker needs it."""
    prefix = "CU_DEVICE_ATTRIBUTE_COMPUTE"
    new = {f"{prefix}_CAPABILITY_MAJOR": 9, f"{prefix}_CAPABILITY_MINOR": 0, f"{prefix}_MODE": 3}
    version = {"cuDriverGetVersion": lambda: (Result.CUDA_SUCCESS, 13000)}
    machine(fake(CUdevice_attribute=SimpleNamespace(**new), **version))
    assert "serves one process at a time" in reason(open_device(beside=True))
    assert reason(Shelf()._device) == "Old One serves one process at a time"


def test_modules_load_eagerly(machine):
    machine(fake())
    open_device()
    assert os.environ["CUDA_MODULE_LOADING"] == "EAGER"


def opened(**functions: Any) -> Device:
    said = {
        "cuStreamCreate": lambda flags: (Result.CUDA_SUCCESS, 7),
        "CUstream_flags": SimpleNamespace(CU_STREAM_NON_BLOCKING=SimpleNamespace(value=1)),
        "cuModuleLoadData": lambda image: (Result.CUDA_SUCCESS, image),
    }
    return Device(fake(**said, **functions), "Played", (9, 0), 13000)


def test_parameters_are_those_of_the_compiled_kernel():
    places = [(0, 8), (8, 24)]

    def info(handle: Any, index: int) -> tuple[Any, ...]:
        return (Result.CUDA_SUCCESS, *places[index]) if index < 2 else (Result.CUDA_ERROR_NO_DEVICE, 0, 0)

    device = opened(cuFuncGetParamInfo=info)
    assert [(p.offset, p.size) for p in device.parameters(Function("k", 1))] == places


def test_every_kernel_of_an_image_is_listed():
    device = opened(
        cuModuleGetFunctionCount=lambda module: (Result.CUDA_SUCCESS, 2),
        cuModuleEnumerateFunctions=lambda count, module: (Result.CUDA_SUCCESS, list(range(count))),
        cuFuncGetName=lambda handle: (Result.CUDA_SUCCESS, f"k{handle}".encode()),
    )
    assert device.kernels(b"cubin") == (Function("k0", 0), Function("k1", 1))


def test_a_block_is_known_where_the_kernel_was_compiled_for_one():
    attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK=0)
    threads = {
        "CUfunction_attribute": attribute,
        "cuFuncGetAttribute": lambda what, handle: (Result.CUDA_SUCCESS, handle),
    }
    device = opened(**threads)
    assert device.block_of(Function("k", 128)) == (128, 1, 1)
    assert device.block_of(Function("k", 1024)) is None


def test_what_is_queued_while_a_graph_is_captured_does_not_run():
    told: list[str] = []

    def note(name: str, *result: Any) -> Any:
        return lambda *args: (told.append(name), (Result.CUDA_SUCCESS, *result))[1]

    device = opened(
        CUstreamCaptureMode=SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1),
        cuStreamBeginCapture=note("begin"),
        cuStreamEndCapture=note("end", "graph"),
        cuGraphInstantiate=note("instantiate", "ready"),
        cuGraphLaunch=note("launch"),
    )
    graph = device.captured(lambda: told.append("work"))
    assert (graph, told) == ("ready", ["begin", "work", "end", "instantiate"])
    device.replay(graph)
    assert told[-1] == "launch"
