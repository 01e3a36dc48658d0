"""One kernel behind the adversarial neighbour, asked and answered in JSON: what a process beside the gate does.

A request is `{"image": path, "kernel": mangled name, "contract": a [[kernels]] table}`, or `{}` for the machine alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from validator.gpu.driver import Device, NotHere
from validator.gpu.launch import NotLaunchable, plan_launch
from validator.gpu.neighbour import Observation, observe
from validator.manifest.contract import KernelContract

__all__ = ["answering", "summary"]


def answering(device: Device | NotHere) -> Callable[[Any], dict[str, Any]]:
    """Answers requests. The answer is `not_here` or `not_launchable` with the reason, the machine, or a `summary`."""

    def answer(request: Any) -> dict[str, Any]:
        if isinstance(device, NotHere):
            return {"not_here": device.reason}
        if not request:
            return {"device": device.name, "capability": device.capability, "cuda": device.driver_version}
        return _observed(device, request)

    return answer


def _observed(device: Device, request: Any) -> dict[str, Any]:
    contract = KernelContract.model_validate(request["contract"])
    function = device.function(Path(request["image"]).read_bytes(), request["kernel"])
    block = device.block_of(function)
    plan = plan_launch(contract, device.parameters(function), block_size=block)
    if isinstance(plan, NotLaunchable):
        return {"not_launchable": plan.reason}
    seen = observe(device, function, plan)
    device.free()
    return summary(seen)


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
