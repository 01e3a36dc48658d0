"""Devices: what is the candidate where, what is said where it cannot run, and the torch adapter on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from validator.differential import cells
from validator.differential import device as devices
from validator.differential.cases import Case
from validator.differential.device import Device, NotRunHere, candidate_of, devices_asked, launch_of, offered
from validator.differential.engine import planned_cases, run_kernel
from validator.differential.errors import DifferentialError
from validator.differential.processes import Trees, runner_for
from validator.differential.results import CaseResult
from validator.differential.running import run_case
from validator.differential.session import run_contracts
from validator.differential.settle import together
from validator.manifest.contract import KernelContract
from validator.run.adapters import ADAPTERS, Adapter
from validator.verdict.model import Evidence, Obligation, StageResult, Status, Strength

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")

KERNEL: dict[str, Any] = {
    "match": "scale",
    "reference": "stock:scale",
    "dims": ["B in 1..6", "D in 1..40"],
    "launch": {"grid": ["B", "ceil_div(D, 16)"], "block": [128], "shared": 64},
    "args": [
        {"name": "x", "role": "activation", "dtype": ["float32", "bfloat16"], "shape": ["B", "D"],
         "layouts": ["contiguous", "strided", "transposed", "offset"]},
        {"name": "w", "role": "weight", "dtype": "float32", "shape": ["D"]},
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["B", "D"]},
        {"name": "pitch", "role": "scalar", "dtype": "int64", "stride": "x.0", "model": False},
        {"name": "n", "role": "scalar", "dtype": "int32", "value": "D", "model": False},
    ],
}  # fmt: skip
STOCK = "import numpy as np\ndef scale(x, w, out):\n    out[...] = x.astype(np.result_type(x.dtype, np.float32)) * w\n"
TORCH = """
import torch

def right(x, w, out):
    assert type(x) is torch.Tensor
    torch.mul(x.float(), w, out=out)

def tail(x, w, out):
    right(x, w, out)
    out[:, 32:] = 0

def dense(x, w, out):
    right(torch.as_strided(x, x.shape, (x.shape[1], 1)), w, out)

def beyond(x, w, out):
    right(x, w, out)
    torch.as_strided(out, (1,), (1,), out.storage_offset() + out.numel()).zero_()

def at_the_start(x, w, out):
    right(torch.as_strided(x, x.shape, x.stride(), x.storage_offset() // 64 * 64), w, out)
"""


@pytest.fixture
def trees(tmp_path: Path) -> Trees:
    for name, source in (("stock", STOCK), ("fast", TORCH)):
        (tmp_path / f"{name}.py").write_text(source)
    return Trees(tmp_path, tmp_path)


def contract(**changes: Any) -> KernelContract:
    return KernelContract.model_validate({**KERNEL, **changes})


FEW = ["B in {1, 3}", "D in {1, 40}"]
"""Sizes that make few cases."""
COMPILED = {"compiled": {"artifact": "k/scale.ptx", "kernel": "_Z5scale"}}


@pytest.mark.parametrize(
    ("keys", "device", "adapter", "target"),
    [
        ({"candidate": "m:f"}, Device.CPU, "numpy", "m:f"),
        ({"candidate": "m:f", "torch": "m:t"}, Device.CPU, "numpy", "m:f"),
        ({"torch": "m:t"}, Device.CPU, "torch", "m:t"),
        ({"candidate": "m:f", "torch": "m:t"}, Device.CUDA, "torch-cuda", "m:t"),
        ({"torch": "m:t", **COMPILED}, Device.CUDA, "cuda", "k/scale.ptx:_Z5scale"),
        ({"candidate": "m:f", **COMPILED}, Device.PTX, "ptx", "k/scale.ptx:_Z5scale"),
    ],
)
def test_what_runs_where(
    keys: dict[str, Any], device: Device, adapter: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "ADAPTERS", {n: replace(a, module="numpy", gpu=False) for n, a in ADAPTERS.items()})
    monkeypatch.setattr(Adapter, "lacking", lambda self: "")
    found = candidate_of(contract(**keys), device)
    assert (found.adapter.name, found.target) == (adapter, target)
    assert (
        found.device.strength is {"cpu": Strength.CPU_MODEL, "ptx": Strength.PTX_RUN, "cuda": Strength.GPU_RUN}[device]
    )


@pytest.mark.parametrize(("keys", "device"), [({}, Device.CPU), ({"candidate": "m:f"}, Device.PTX), ({}, Device.CUDA)])
def test_a_device_that_the_contract_offers_nothing_for(keys: dict[str, Any], device: Device) -> None:
    with pytest.raises(DifferentialError, match="nothing was run"):
        candidate_of(contract(**keys), device)


def test_what_compiles_when_it_is_called_may_take_longer() -> None:
    contract = KernelContract.model_validate(KERNEL | {"candidate": "fast:scale", "torch": "fast:scale"})
    usual, compiles = (offered(contract, device).patience for device in (Device.CPU, Device.CUDA))
    assert (usual, compiles) == (1, 3)


def test_what_this_machine_lacks_is_told_and_unproven(trees: Trees, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = {n: replace(a, libraries=("no_such_package",), extra="install it") for n, a in ADAPTERS.items()}
    monkeypatch.setattr(devices, "ADAPTERS", bare)
    for keys, device in (({"torch": "fast:right"}, Device.CPU), (COMPILED, Device.PTX), (COMPILED, Device.CUDA)):
        ((_, result, stage),) = run_contracts([contract(**keys)], trees, 1, 1, device=device)
        (obligation,) = stage.obligations
        assert result is None
        assert obligation.status is Status.UNPROVEN
        assert obligation.reason == "not run here: no_such_package is not installed (install it)"


def test_a_compiled_kernel_takes_every_parameter_and_its_launch(trees: Trees) -> None:
    seen = contract(**COMPILED).as_compiled
    assert list(seen.values) == ["x", "w", "out", "pitch", "n"]
    assert launch_of(seen, {"B": 3, "D": 33}) == (3, 3, 1, 128, 1, 1, 64, 0, 0, 0)
    with pytest.raises(NotRunHere, match="`launch` gives no"):
        launch_of(contract(launch={}, **COMPILED), {"B": 3, "D": 33})


_AS_COMPILED = """
import json
import numpy as np

def prepare(target, tree, options):
    return {"asked of": target}

def load(target, tree, options):
    assert options["asked of"] == target
    said = json.loads(options["parameters"])
    assert [p["parameter"] for p in said] == [0, 1, 2, 3, 4], said
    assert said[3]["stride"] == "x.0" and said[0]["memory"] and not said[4]["memory"]
    def run(x, w, out, pitch, n, *, launch):
        if launch["grid"] != (x.shape[0], -(-n // 16), 1) or pitch * x.itemsize != x.strides[0]:
            raise ValueError(f"{launch} {pitch} {x.strides}")
        if target == "k/scale.ptx:absent" and n > 3:
            raise NotRunHere("instruction `foo` is not known")
        out[...] = x.astype(np.float32) * w
    return run

class NotRunHere(Exception):
    pass
"""


@pytest.fixture
def as_if_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., KernelContract]:
    """An adapter of compiled kernels that computes in numpy what the kernel of that name would."""
    package = tmp_path / "site" / "made_up_adapter"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "adapter.py").write_text(_AS_COMPILED)
    monkeypatch.syspath_prepend(str(package.parent))
    made_up = replace(
        ADAPTERS["ptx"], module="made_up_adapter.adapter", libraries=("numpy", "ml_dtypes", "made_up_adapter")
    )
    monkeypatch.setattr(devices, "ADAPTERS", {**ADAPTERS, "ptx": made_up})
    return lambda kernel: contract(dims=FEW, compiled={"artifact": "k/scale.ptx", "kernel": kernel})


FAR = [{**a, "layouts": ["contiguous", "distant"]} if a["name"] == "x" else a for a in KERNEL["args"]]


def test_an_adapter_of_compiled_kernels_is_told_of_rows_far_apart(
    trees: Trees, as_if_compiled: Callable[..., KernelContract]
) -> None:
    kernel = contract(args=FAR, dims=FEW, compiled={"artifact": "k/scale.ptx", "kernel": "present"})
    ((_, result, stage),) = run_contracts([kernel], trees, 1, 0, device=Device.PTX)
    assert result is not None
    assert result.of("failed") == []  # the adapter says what it was told
    (row,) = (r for r in stage.evidence[0].details["coverage"] if r["class"] == "I1")
    assert row["cases"] > 0


def test_rows_far_apart_are_not_claimed_where_they_lie_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Adapter, "lacking", lambda self: "")
    seen = candidate_of(contract(args=FAR, torch="fast:right"), Device.CUDA).contract
    assert planned_cases(seen, 1, 5)
    assert not any("distant" in dict(case.layouts).values() for case in planned_cases(seen, 1, 5))


def test_what_a_compiled_kernel_can_choose_reaches_its_launch(
    trees: Trees, as_if_compiled: Callable[..., KernelContract]
) -> None:
    kernel = contract(
        launch={"grid": ["B", "ceil_div(D, tile)"], "block": [128], "shared": 64},
        configurations={"tile": [16, 1]},
        dims=FEW,
        compiled={"artifact": "k/scale.ptx", "kernel": "present"},
    )
    ((_, result, _),) = run_contracts([kernel], trees, 1, 0, device=Device.PTX)
    assert result is not None
    # The adapter refuses any other grid than that of tiles of 16; where D is 1, both are the same.
    wide = [r for r in result.results if dict(r.case.dims)["D"] > 1]
    assert {(r.status == "failed", dict(r.case.configuration)["tile"]) for r in wide} == {(True, 1), (False, 16)}


@pytest.mark.parametrize("shape", [["B", "tile"], ["tile", "D"]])
def test_what_a_kernel_can_choose_is_no_size_of_its_arguments(shape: list[str]) -> None:
    args = [{**a, "shape": shape} if a["name"] == "x" else a for a in KERNEL["args"]]
    with pytest.raises(ValueError, match="dimension 'tile' has no range"):
        contract(args=args, launch={"grid": ["tile"], "block": [1]}, configurations={"tile": [16]}, **COMPILED)


def test_launches_and_strides_reach_the_adapter(trees: Trees, as_if_compiled: Callable[..., KernelContract]) -> None:
    ((_, result, stage),) = run_contracts([as_if_compiled("present")], trees, 1, 0, device=Device.PTX)
    assert result is not None
    assert [f for r in result.of("failed") for f in r.faults] == []
    (obligation,) = stage.obligations
    assert (obligation.status, obligation.strength) == (Status.PROVEN, Strength.PTX_RUN)
    assert stage.evidence[0].id == "differential/scale@ptx"


def test_what_an_adapter_cannot_run_is_not_held_against_the_kernel(
    trees: Trees, as_if_compiled: Callable[..., KernelContract]
) -> None:
    ((_, result, stage),) = run_contracts([as_if_compiled("absent")], trees, 1, 0, device=Device.PTX)
    assert result is not None
    assert result.of("failed") == []
    assert result.of("unusable")
    assert stage.obligations[0].status is Status.UNPROVEN
    assert "not run here: instruction `foo` is not known" in stage.obligations[0].reason


@needs_torch
def test_a_right_torch_candidate_is_right_in_every_layout_and_type(trees: Trees) -> None:
    kernel = contract(torch="fast:right", dims=FEW)
    with runner_for(kernel, trees) as runner:
        result = run_kernel(runner, 1, 0)
    assert [f for r in result.of("failed") for f in r.faults] == []
    passed = [r.case for r in result.of("passed")]
    (x, *_) = kernel.args
    assert {dict(case.layouts).get("x", "contiguous") for case in passed} == set(x.layouts)
    assert {dict(case.dtypes).get("x", "float32") for case in passed} == {"float32", "bfloat16"}


@needs_torch
@pytest.mark.parametrize(
    ("function", "kind", "case"),
    [
        ("tail", "wrong-value", Case("scale", (("B", 2), ("D", 40)), 1)),
        ("dense", "depends-on-old-contents", Case("scale", (("B", 4), ("D", 8)), 1, layouts=(("x", "strided"),))),
        ("beyond", "guard-zone-written", Case("scale", (("B", 2), ("D", 8)), 1)),
        ("at_the_start", "depends-on-old-contents", Case("scale", (("B", 2), ("D", 8)), 1, layouts=(("x", "offset"),))),
    ],
)
def test_a_wrong_torch_candidate_is_found(trees: Trees, function: str, kind: str, case: Case) -> None:
    with runner_for(contract(torch=f"fast:{function}"), trees) as runner:
        result = run_case(runner, case).result
    assert kind in {f.kind.value for f in result.faults}


def _run(status: Status, strength: Strength, reason: str = "") -> StageResult:
    name = f"differential/k@{strength.value}"
    evidence = Evidence(id=name, kind="differential", strength=strength, summary="", status=status)
    return StageResult(
        (Obligation("differential/k", f"k: {strength.value}", status, reason, (name,), (), strength),), (evidence,)
    )


def test_several_devices_settle_one_obligation() -> None:
    model, gpu = _run(Status.PROVEN, Strength.CPU_MODEL), _run(Status.PROVEN, Strength.GPU_RUN)
    (both,) = together([model, gpu]).obligations
    assert (both.status, both.strength, len(both.evidence)) == (Status.PROVEN, Strength.GPU_RUN, 2)
    absent = _run(Status.UNPROVEN, Strength.GPU_RUN, "not run here: no GPU")
    (one,) = together([model, absent]).obligations
    assert one.status is Status.UNPROVEN
    assert "not run here: no GPU" in one.reason
    (bad,) = together([_run(Status.REFUTED, Strength.CPU_MODEL, "3 fail"), gpu]).obligations
    assert bad.status is Status.REFUTED


@pytest.mark.parametrize(
    ("keys", "least", "asked"),
    [
        ({"candidate": "m:f"}, Strength.CPU_MODEL, ["cpu"]),
        ({"candidate": "m:f", "devices": ["cpu", "ptx"], **COMPILED}, Strength.CPU_MODEL, ["cpu", "ptx"]),
        ({"candidate": "m:f"}, Strength.PTX_RUN, ["cpu", "ptx"]),
        (COMPILED, Strength.CPU_MODEL, ["ptx"]),
        (COMPILED, Strength.GPU_RUN, ["ptx", "cuda"]),
    ],
)
def test_manifest_and_policy_ask_for_devices(keys: dict[str, Any], least: Strength, asked: list[str]) -> None:
    assert [d.value for d in devices_asked(contract(**keys), least)] == asked


def _two(trees: Trees) -> list[KernelContract]:
    (trees.head / "plain.py").write_text(
        "def right(x, out):\n    out[...] = x * 2\n\ndef tail(x, out):\n    right(x, out)\n    out[32:] = 0\n"
    )
    args = [{"name": n, "role": role, "dtype": "float32", "shape": ["D"]} for n, role in _INTO]
    keys = {"args": args, "dims": ["D in {8, 40}"], "launch": {}, "reference": "plain:right"}
    return [contract(match=name, candidate=f"plain:{name}", **keys) for name in ("tail", "right")]


_INTO = (("x", "activation"), ("out", "output"))


@pytest.fixture
def small_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few cases are several cells already."""
    monkeypatch.setitem(cells._CASES, Device.CPU, 10)


def test_several_kernels_at_once_give_what_each_gives_alone(trees: Trees, small_cells: None) -> None:
    both = _two(trees)
    assert all(len(list(cells.parts_of(one, Device.CPU, planned_cases(one, 5, 8)))) > 1 for one in both)
    together_ = run_contracts(both, trees, 5, 8)
    alone = [run_contracts([one], trees, 5, 8)[0] for one in both]
    assert [stage for _, _, stage in together_] == [stage for _, _, stage in alone]
    assert [stage.obligations[0].status for _, _, stage in together_] == [Status.REFUTED, Status.PROVEN]


def test_an_interrupt_ends_all_kernels_and_keeps_what_was_found(trees: Trees) -> None:
    found: list[str] = []

    def keep(failed: CaseResult, simpler: CaseResult | None) -> None:
        found.append(failed.case.kernel)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_contracts(_two(trees), trees, 5, 200, keep=keep)
    assert found == ["tail"]
