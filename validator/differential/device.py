"""Devices: which of a contract's ways of running is the candidate there, through which adapter, and what that shows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from validator.differential.errors import DifferentialError
from validator.manifest.contract import KernelContract, Role
from validator.manifest.dims import parse_expression
from validator.run.adapters import ADAPTERS, Adapter
from validator.verdict.model import Strength

__all__ = ["Candidate", "Device", "NotRunHere", "candidate_of", "devices_asked", "launch_of", "offered"]


class Device(StrEnum):
    """Where a candidate runs."""

    CPU = "cpu"
    """A callable on numpy arrays, or else on torch's CPU tensors."""
    PTX = "ptx"
    """The compiled kernel's PTX on a CPU, with memory that plays against it."""
    CUDA = "cuda"
    """The compiled kernel on a GPU, or else a callable on torch's CUDA tensors."""

    @property
    def strength(self) -> Strength:
        """What a run on it is worth."""
        return {"cpu": Strength.CPU_MODEL, "ptx": Strength.PTX_RUN, "cuda": Strength.GPU_RUN}[self.value]


class NotRunHere(DifferentialError):
    """This machine cannot run the candidate on the device that was asked for. Nothing is shown, nothing is held against
    the candidate."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"not run here: {reason}")


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is run on a device."""

    device: Device
    adapter: Adapter
    target: str
    """As the adapter takes it: `module:function`, or `path:kernel`."""
    contract: KernelContract
    """As the candidate sees it: a compiled kernel takes every parameter."""
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def compiled(self) -> bool:
        return self.adapter.launches

    @property
    def patience(self) -> int:
        """How many times the usual seconds one call may take."""
        if self.device is Device.PTX:
            return 6
        return (
            3 if self.adapter.programs else 1
        )  # torch.compile alone takes most of the usual seconds, on an idle machine

    @property
    def words(self) -> str:
        """What ran, as a subject."""
        match self.device:
            case Device.CPU:
                return "the CPU callable of the new path"
            case Device.PTX:
                return "the new path's compiled PTX, run on a CPU,"
            case Device.CUDA:
                return "the new path's compiled kernel on a GPU" if self.compiled else "the new path on a GPU"

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What a run of it leaves open, whatever comes of it."""
        match self.device:
            case Device.CPU:
                return ("the CPU callable was run, not the compiled kernel: that both compute the same is not shown",)
            case Device.PTX:
                return ("the PTX was run, not what an assembler makes of it for a GPU",)
            case Device.CUDA:
                return ("one GPU model was used",)

    @property
    def source(self) -> str:
        """The file that it comes from, as far as its name says."""
        if self.compiled:
            return self.target.rpartition(":")[0]
        return self.target.partition(":")[0].replace(".", "/") + ".py"


def candidate_of(contract: KernelContract, device: Device = Device.CPU) -> Candidate:
    """What the contract offers for a device. Raises `NotRunHere` where nothing of it can run on this machine."""
    found = offered(contract, device)
    if lacking := found.adapter.lacking():
        raise NotRunHere(lacking)
    return found


def offered(contract: KernelContract, device: Device) -> Candidate:
    """The same, whether or not this machine can run it."""
    if device is not Device.CPU and contract.compiled is not None:
        target = f"{contract.compiled.artifact}:{contract.compiled.kernel}"
        seen = contract.as_compiled
        if bare := [n for n, (_, v) in seen.values.items() if v.value is None and v.stride is None and not v.dtype]:
            raise NotRunHere(f"the contract gives {', '.join(bare)} neither `value` nor `dtype`")
        return Candidate(device, ADAPTERS[device.value], target, seen, _compiled_options(seen))
    if device is Device.CPU and contract.candidate is not None:
        return Candidate(device, ADAPTERS["numpy"], contract.candidate, contract)
    if device is not Device.PTX and contract.torch is not None:
        adapter = ADAPTERS["torch" if device is Device.CPU else "torch-cuda"]
        seen = contract if device is Device.CPU else contract.without_distance
        return Candidate(device, adapter, contract.torch, seen, {"device": device.value})
    wanted = {
        Device.CPU: "CPU callable (`candidate`, or `torch`)",
        Device.PTX: "compiled kernel (`compiled`)",
        Device.CUDA: "way to run on a GPU (`compiled` or `torch`)",
    }[device]
    raise DifferentialError(f"the manifest names no {wanted}, nothing was run")


def devices_asked(contract: KernelContract, least: Strength = Strength.CPU_MODEL) -> tuple[Device, ...]:
    """Where a check runs a kernel: what its manifest asks for, and what policy needs at least."""
    asked = {Device(name) for name in contract.devices} or {_usual(contract)}
    order = list(Strength)
    if not any(order.index(d.strength) <= order.index(least) for d in asked):
        asked.add(next(d for d in Device if d.strength is least))
    return tuple(d for d in Device if d in asked)


def _usual(contract: KernelContract) -> Device:
    """Where a kernel runs of which nothing else is said."""
    if contract.compiled is None or contract.candidate is not None or contract.torch is not None:
        return Device.CPU
    return Device.PTX if contract.compiled.artifact.endswith(".ptx") else Device.CUDA


def _compiled_options(contract: KernelContract) -> dict[str, str]:
    """What an adapter of compiled kernels is told.

    `parameters`: JSON, an object for every argument of a call, in order: `parameter`, the index of the kernel's
    parameter; `memory`, false for what is passed by value; `dtype`, the element type or null; `distant`, whether its
    rows may lie so far apart that offsets leave 32 bits; and every other key that the contract gives (`name`, `role`,
    `via`, `box`, …; `offset` in bytes where the argument is a field of a struct).
    `pdl`: `yes` where the kernel is launched with the programmatic stream serialization attribute.
    """
    parameters = [
        {
            "parameter": index,
            "memory": part.shape is not None and part.role is not Role.SCALAR,
            "dtype": part.dtype[0] if part.dtype else None,
            "distant": "distant" in part.layouts,
            **part.model_dump(mode="json", exclude_defaults=True, exclude={"fields", "model", "dtype", "layouts"}),
        }
        for index, argument in enumerate(contract.args)
        for part in (argument.fields or (argument,))
    ]
    return {"parameters": json.dumps(parameters), "pdl": "yes" if contract.launch.pdl else "no"}


def launch_of(contract: KernelContract, dims: Mapping[str, int]) -> tuple[int, ...]:
    """Grid, block, dynamic shared memory in bytes and cluster (zeros: none) for these sizes: ten numbers.

    Raises `NotRunHere` where the contract does not say how its kernel is launched.
    """
    launch = contract.launch
    if launch.grid is None or launch.block is None:
        raise NotRunHere(f"{contract.match}: `launch` gives no `grid` and `block`")
    grid, block = (_three(sizes, dims) for sizes in (launch.grid, launch.block))
    cluster = _three(launch.cluster, dims) if launch.cluster else (0, 0, 0)
    return (*grid, *block, launch.shared or 0, *cluster)


def _three(sizes: Sequence[int | str], dims: Mapping[str, int]) -> tuple[int, int, int]:
    """Sizes along x, y and z; what is not given is 1."""
    try:
        x, y, z = ([s if isinstance(s, int) else parse_expression(s).value(dims) for s in sizes] + [1, 1, 1])[:3]
    except ValueError as error:
        raise NotRunHere(f"launch {list(sizes)}: {error}") from None
    return x, y, z
