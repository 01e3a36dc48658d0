"""The cross-check as a check makes it, on a real GPU: its own process, confined, every kind of launch. Else skipped."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.gpu.labelled import ARCH, CORPUS, described
from fixtures.ordering.labels import contract_of
from validator.pipeline.crosscheck import HERE, cross_check
from validator.pipeline.roles import record
from validator.run.adapters import ADAPTERS
from validator.stage import StageContext
from validator.verdict.model import Evidence, Obligation, StageResult, Status, Strength

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(HERE.lacking()), reason=f"not run here: {HERE.lacking()}"),
]

LACKING = ADAPTERS["steps-cuda"].lacking()

CASES = {
    # name: (as it ships, arguments that the audit found, what the launches must come to)
    "h07_bad": ("cubin", ("act",), {"neighbour": Status.REFUTED, "sanitizer": Status.PROVEN}),
    "h07_ok": ("cubin", (), {"neighbour": Status.PROVEN, "delays": Status.UNPROVEN, "sanitizer": Status.PROVEN}),
    "h01_ok": ("ptx", (), {"neighbour": Status.PROVEN, "delays": Status.PROVEN, "sanitizer": Status.PROVEN}),
    "h11_bad": ("ptx", (), {"neighbour": Status.PROVEN, "delays": Status.UNPROVEN}),
    "h17_bad": ("cubin", (), {"sanitizer": Status.UNPROVEN}),
    "h01_bad": ("cubin", (), {"neighbour": Status.REFUTED}),
}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> StageResult:
    contracts, evidence, settled, files = [], [], [], {}
    for name, (ships, early, _) in CASES.items():
        case = tomllib.loads((CORPUS / name / "case.toml").read_text())
        kernel, isa = case["kernel"], "ptx" if ships == "ptx" else "sass"
        contract = described(contract_of(case), (CORPUS / name / f"{ARCH}.ptx").read_text())
        contracts.append(contract.model_copy(update={"match": name}))
        files[f"{name}.{ships}"] = (CORPUS / name / f"{ARCH}.{ships}").read_bytes()
        figures = {"kernel": kernel, "artifact": f"{name}.{ships}", "isa": isa, "arch": ARCH}
        rows = [{"memory": argument, "allowed": False} for argument in early]
        status = Status.REFUTED if early else Status.PROVEN
        strength = Strength.MACHINE_CODE if isa == "sass" else Strength.PTX
        evidence.append(
            Evidence(name, "ordering-audit", strength, "", status, figures=figures, details={"early": rows})
        )
        settled.append(Obligation(f"ordering/{name}", "", status, "", evidence=(name,)))
    context: Any = StageContext(
        change=SimpleNamespace(head_tree=SimpleNamespace(read=lambda path, limit: files[path])),  # type: ignore[arg-type]
        policy=None,  # type: ignore[arg-type]
        manifest=SimpleNamespace(kernels=tuple(contracts)),  # type: ignore[arg-type]
        today=date(2026, 11, 30),
        seed=1,
        workdir=tmp_path_factory.mktemp("check"),
        progress=lambda line: None,
    )
    return cross_check(context, StageResult(tuple(settled), tuple(evidence)))


@pytest.mark.parametrize("name", CASES)
def test_each_kind_of_launch_comes_to_what_the_kernel_is(result: StageResult, name: str):
    stands = {o.id: (o.status, o.reason) for o in result.obligations}
    for family, status in CASES[name][2].items():
        if family == "sanitizer" and "not installed" in stands[f"sanitizer/{name}"][1]:
            pytest.skip(stands[f"sanitizer/{name}"][1])
        assert stands[f"{family}/{name}"][0] is status, stands[f"{family}/{name}"]


def test_delays_that_show_a_fault_under_guessed_sizes_name_the_site(result: StageResult):
    """h11_bad reads non-coherently what it writes; its contract declares roles alone."""
    (found,) = (f for f in result.findings if f.rule == "gpu/delayed-inside")
    assert (found.where.path, len(found.steps)) == ("h11_bad.ptx", 1)


def test_an_audit_that_misses_a_read_is_told_so(result: StageResult):
    """h01_bad reads early, and its audit is made out here to have found nothing."""
    (missed,) = (f for f in result.findings if f.rule == "gpu/missed-by-audit")
    assert missed.where.path == "h01_bad.cubin"


@pytest.mark.skipif(bool(LACKING), reason=f"not run here: {LACKING}")
def test_steps_are_recorded_on_the_device(tmp_path: Path):
    from validator.manifest.load import load_contract

    (tmp_path / "kernels.py").write_text("def scale(x, w, y):\n    y.copy_(x * w)\n")
    (tmp_path / "caller.py").write_text(
        "import torch\nfrom kernels import scale\n"
        "x, w, y = (torch.ones(64, device='cuda') for _ in range(3))\n"
        "def step():\n    scale(x, w, y)\n    scale(y, w, w)\n"
    )
    arguments = [("x", "activation"), ("w", "weight"), ("y", "output")]
    args = ", ".join(f'{{ name = "{n}", role = "{r}", dtype = "float32", shape = ["D"] }}' for n, r in arguments)
    text = (
        'schema = "validator/manifest/1"\n[[kernels]]\nmatch = "scale"\ntorch = "kernels:scale"\n'
        f'reference = "kernels:scale"\ndims = ["D in 1..64"]\nargs = [{args}]\n'
    )
    contracts, _ = load_contract(text.encode(), "contract")
    recording = record(contracts, tmp_path, "caller:step", "cuda")
    assert len(recording.launches) == 6
