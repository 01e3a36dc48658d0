"""What the process beside the gate answers, on a device that is played."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from validator.gpu import observer
from validator.gpu.driver import Function, NotHere, Parameter
from validator.gpu.neighbour import Observation, Trial
from validator.gpu.observer import answering

NOTHING = Trial(("x",), 100, 200, 0)
SEEN = Observation(NOTHING, (NOTHING,), (Trial(("x",), 100, 200, 200, {"out": 200}),), (), None, (), ())


class Device:
    name, capability, driver_version = "NVIDIA Played", (9, 0), 13000
    freed = 0

    def function(self, image: bytes, name: str) -> Function:
        assert image == b"cubin"
        return Function(name, None)

    def block_of(self, function: Function) -> tuple[int, int, int]:
        return (256, 1, 1)

    def parameters(self, function: Function) -> tuple[Parameter, ...]:
        return (Parameter(0, 8), Parameter(8, 8))

    def free(self) -> None:
        self.freed += 1


def request(tmp_path: Path, *args: Any) -> dict[str, Any]:
    image = tmp_path / "k.cubin"
    image.write_bytes(b"cubin")
    return {"what": "neighbour", "image": str(image), "kernel": "k", "contract": {"match": "k", "args": list(args)}}


def test_the_machine_is_named_and_a_missing_one_says_why():
    assert answering(Device())({}) == {"device": "NVIDIA Played", "capability": (9, 0), "cuda": 13000}  # type: ignore[arg-type]
    assert answering(NotHere("no driver"))({}) == {"not_here": "no driver"}


def test_a_kernel_is_planned_from_its_contract_and_observed(tmp_path: Path, monkeypatch: Any):
    planned: list[Any] = []

    def observe(device: Any, function: Function, plan: Any, settled: Any) -> Observation:
        planned.append(plan)
        assert settled == ["w"]
        return SEEN

    monkeypatch.setattr(observer, "observe", observe)
    device: Any = Device()
    asked = request(tmp_path, {"name": "out", "role": "output"}, {"name": "x", "role": "activation"})
    asked["settled"] = ["w"]
    said = answering(device)(asked)
    assert planned[0].launch.block == (256, 1, 1)
    assert (said["shown"], said["arguments"], said["by_argument"]) == (True, ["x"], {"x": 200})
    assert said["chain"] is None
    assert device.freed == 1


def test_what_cannot_be_launched_says_why(tmp_path: Path):
    device: Any = SimpleNamespace(**{n: getattr(Device(), n) for n in ("function", "block_of", "parameters", "free")})
    said = answering(device)(request(tmp_path, {"name": "out", "role": "output"}))
    assert said == {"not_launchable": "the contract lists 1 arguments, the kernel has 2"}
