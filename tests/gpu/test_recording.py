"""Recorded runs: what is declared fixed and was not, with the launch that changed it; and the step for the audit."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.ordering.labels import contract_of
from validator.gpu.recording import Bound, Launched, Recorder, Recording, broken_roles, memory_of, step_of
from validator.manifest.contract import Argument, KernelContract, Launch, Role
from validator.manifest.matching import match_contract
from validator.ordering.artifacts import audit_artifacts
from validator.verdict.model import Status

NORM = KernelContract(
    match="norm",
    launch=Launch(pdl=True),
    args=(Argument(name="x", role="activation"), Argument(name="w", role="weight"), Argument(name="h", role="output")),
)
MIX = KernelContract(
    match="mix",
    args=(
        Argument(name="h", role="activation"),
        Argument(name="bias", role="stable"),
        Argument(name="y", role="output"),
    ),
)


class Run:
    """Memory by address, and launches on it."""

    def __init__(self) -> None:
        self.memory: dict[int, bytes] = {}
        self.recorder = Recorder(lambda address, size: self.memory.get(address, b"").hex())

    def norm(self, x: int = 10, w: int = 20, h: int = 30, effect: Callable[[], None] = lambda: None) -> None:
        memory = {"x": (x, 8), "w": (w, 8), "h": (h, 8)}
        self.recorder.launch(NORM, "norm", memory, effect)

    def mix(self, bias: int = 40, y: int = 50, effect: Callable[[], None] = lambda: None) -> None:
        self.recorder.launch(MIX, "mix", {"h": (30, 8), "bias": (bias, 8), "y": (y, 8)}, effect)

    def write(self, address: int, data: bytes) -> Callable[[], None]:
        return lambda: self.memory.update({address: data})


@pytest.fixture
def run() -> Run:
    return Run()


def test_what_stays_fixed_is_left_in_peace(run: Run):
    for step in range(3):
        run.recorder.step()
        run.norm(effect=run.write(30, bytes([step])))
        run.mix(effect=run.write(50, bytes([step])))
    assert broken_roles(run.recorder.recording) == ()
    assert [(n.step, n.number) for n in run.recorder.recording.launches] == [(s, k) for s in range(3) for k in range(2)]


def test_contents_that_change_are_refuted_with_the_launch_that_did_it(run: Run):
    for step in range(3):
        run.recorder.step()
        run.norm()
        run.mix(effect=run.write(20, bytes([step // 2])))
    (broken,) = broken_roles(run.recorder.recording)
    assert (broken.kernel, broken.argument, broken.role, broken.what) == ("norm", "w", Role.WEIGHT, "contents")
    assert str(broken) == ("w of norm is declared `weight`, and launch 2 of step 1 (mix) changed its contents")


def test_a_fresh_tensor_at_each_call_is_no_weight(run: Run):
    for step in range(2):
        run.recorder.step()
        run.mix(bias=40 + 100 * step)
    (broken,) = broken_roles(run.recorder.recording)
    assert str(broken).endswith("`stable`, and launch 1 of step 2 (mix) was given other memory for it")


def test_tensors_are_memory(run: Run):
    class Tensor:
        def __init__(self, address: int) -> None:
            self.nbytes, self.data_ptr = 8, lambda: address

    for step in range(2):
        run.recorder.step()
        memory = memory_of(h=Tensor(30), bias=Tensor(40), y=Tensor(50))
        run.recorder.launch(MIX, "mix", memory, run.write(40, bytes([step])))
    (broken,) = broken_roles(run.recorder.recording)
    assert (broken.argument, broken.what) == ("bias", "contents")


def test_contents_are_read_when_every_stream_is_idle():
    told: list[str] = []

    class Device:
        def call(self, name: str) -> None:
            told.append(name)

        def download(self, address: int, size: int) -> bytes:
            told.append(f"{size} bytes")
            return bytes(size)

    recorder = Recorder.on(Device())  # type: ignore[arg-type]
    recorder.launch(NORM, "norm", {"w": (20, 8)}, lambda: told.append("launch"))
    assert told == ["cuCtxSynchronize", "8 bytes", "launch", "cuCtxSynchronize", "8 bytes"]
    assert broken_roles(recorder.recording) == ()


def test_one_kernel_may_run_with_several_weights_in_one_step(run: Run):
    for _ in range(2):
        run.recorder.step()
        run.norm(w=20)
        run.norm(w=60)
    assert broken_roles(run.recorder.recording) == ()


def test_the_step_names_memory_by_where_it_is(run: Run):
    run.norm()
    run.recorder.step()
    run.norm(h=30)
    run.mix(y=54)
    run.norm(x=50, h=70)
    step = step_of(run.recorder.recording)
    assert [launch.kernel for launch in step.launches] == ["norm", "mix", "norm"]
    assert [launch.pdl for launch in step.launches] == [True, False, True]
    first, second, third = (dict(launch.args) for launch in step.launches)
    assert first["h"] == second["h"] == "h"
    assert second["y"] == third["x"], "they overlap"
    assert third["h"] != first["h"]
    assert len(step_of(run.recorder.recording, 0).launches) == 1


def test_a_recorded_step_reaches_the_ordering_audit():
    """What a kernel takes for a weight is written by the one before it: its declared role is refuted."""
    folder = Path(__file__).parents[2] / "fixtures/ordering/labelled/h01_ok"
    case = tomllib.loads((folder / "case.toml").read_text())
    contract = contract_of(case)
    blob = (folder / "sm_90a.ptx").read_bytes()
    weight = next(a.name for a in contract.args if a.role is Role.WEIGHT)
    out = next(a.name for a in contract.args if a.role is Role.OUTPUT)
    memory = {a.name: (1000 * (i + 1), 64) for i, a in enumerate(contract.args) if a.role and a.role.memory}

    def audited(fed: bool) -> Status:
        recorder = Recorder(lambda address, size: "")
        recorder.launch(contract, case["kernel"], memory, lambda: None, pdl=True)
        again = {name: (where[0] + 50_000, where[1]) for name, where in memory.items()}
        again[weight] = memory[out] if fed else memory[weight]
        recorder.launch(contract, case["kernel"], again, lambda: None, pdl=True)
        steps = (step_of(recorder.recording),)
        (kernel,) = audit_artifacts([("k.ptx", blob)], (contract,), steps).kernels
        assert match_contract((contract,), kernel.name) is contract
        return kernel.status

    assert audited(fed=False) is Status.PROVEN
    assert audited(fed=True) is Status.REFUTED


def test_a_long_step_is_named_in_time():
    """Another process wrote the recording: its length must not cost its square."""
    bounds = tuple(Bound(f"a{n}", Role.ACTIVATION, 64 * n, 64) for n in range(20_000))
    step = step_of(Recording([Launched("k", 0, 0, True, bounds, {})]))
    assert step.launches[0].args["a19999"] == "a19999"
