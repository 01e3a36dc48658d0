"""One kernel launched on a device, asked and answered in JSON: what a process beside the gate does.

A request is `{"what": …, "image": path, "kernel": mangled name, "contract": a [[kernels]] table}`, or `{}` for the
machine alone. `what` is `neighbour` (late producers, publishers and readers) or `delays` (inside the kernel; its image
is PTX then). `settled`: arguments that are never late.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from validator.gpu.driver import Device, Function, NotHere
from validator.gpu.launch import Launchable, NotLaunchable, pack, plan_launch
from validator.gpu.neighbour import Observation, observe
from validator.gpu.perturb import NANOSECONDS, Perturbed, perturb
from validator.gpu.tensormap import encode
from validator.manifest.contract import KernelContract, Role

__all__ = ["answering", "delays_summary", "launch_once", "summary"]

_EMPTY = (Role.OUTPUT, Role.WORKSPACE)
"""What holds nothing before a launch."""


def answering(device: Device | NotHere) -> Callable[[Any], dict[str, Any]]:
    """Answers requests. The answer is `not_here` or `not_launchable` with the reason, the machine, or a summary."""

    def answer(request: Any) -> dict[str, Any]:
        if isinstance(device, NotHere):
            return {"not_here": device.reason}
        if not request:
            return {"device": device.name, "capability": device.capability, "cuda": device.driver_version}
        return _observed(device, request)

    return answer


def _observed(device: Device, request: Any) -> dict[str, Any]:
    image = Path(request["image"]).read_bytes()
    planned = _planned(device, image, request)
    if isinstance(planned, NotLaunchable):
        return {"not_launchable": planned.reason}
    function, plan = planned
    if request["what"] == "delays":
        said = delays_summary(perturb(device, image.decode("utf-8", "replace"), function.name, plan))
    else:
        said = summary(observe(device, function, plan, settled=request.get("settled", ())))
    device.free()
    return said


def _planned(device: Device, image: bytes, request: Any) -> tuple[Function, Launchable] | NotLaunchable:
    contract = KernelContract.model_validate(request["contract"])
    function = device.function(image, request["kernel"])
    plan = plan_launch(contract, device.parameters(function), block_size=device.block_of(function))
    return plan if isinstance(plan, NotLaunchable) else (function, plan)


def launch_once(device: Device, request: Any) -> str:
    """One ordinary launch on the true values, waited for; outputs and workspace hold nothing before.

    Returns why it was not made; empty where it was.
    """
    planned = _planned(device, Path(request["image"]).read_bytes(), request)
    if isinstance(planned, NotLaunchable):
        return planned.reason
    function, plan = planned
    addresses = {buffer.name: device.allocate(buffer.extent or buffer.size) for buffer in plan.buffers}
    for buffer in plan.buffers:
        if buffer.role not in _EMPTY:
            raw = buffer.contents(0, addresses)
            device.upload(addresses[buffer.name], raw[: buffer.extent or buffer.size])
    device.launch(function, plan.launch, pack(plan, addresses, partial(encode, device)))
    device.synchronize()
    device.free()
    return ""


def summary(seen: Observation) -> dict[str, Any]:
    """Counts of wrong launches; by delay where there is a list."""
    return {
        "shown": seen.shown,
        "arguments": list(seen.arguments),
        "least_delay_us": seen.least_delay_us,
        "blind": list(seen.blind),
        "ordinary": seen.control.wrong,
        "late_producer": [t.wrong for t in seen.late_producer],
        "by_argument": {t.arguments[0]: t.wrong for t in seen.by_argument},
        "late_reader": [t.wrong for t in seen.late_reader],
        "publisher": [t.wrong for t in seen.publisher],
        "chain": {"wrong": seen.chain.wrong, "overlapped": seen.chain.overlapped} if seen.chain else None,
    }


def delays_summary(seen: Perturbed) -> dict[str, Any]:
    """What came of delays inside a kernel, and which replay it."""
    return {
        "sites": seen.sites,
        "launches": seen.launches,
        "undelayed": seen.undelayed,
        "wrong": seen.wrong,
        "nanoseconds": NANOSECONDS,
        "seed": seen.delays.seed if seen.delays else None,
        "chosen": list(seen.delays.chosen) if seen.delays else [],
        "where": [str(site) for site in seen.where],
    }
