"""The stage: what runs from which tree, and what it means for the change."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from validator.change.model import MAX_READ, Change, ChangeStatus, Entry, FileChange, MissingFile
from validator.differential import run
from validator.differential.cases import Case, case_text, load_case
from validator.differential.controls import Controlled
from validator.differential.device import candidate_of
from validator.differential.results import CaseResult, KernelResult
from validator.differential.settle import Demands, settle
from validator.differential.tolerances import granted
from validator.manifest.contract import KernelContract
from validator.manifest.model import BatchRange, IsolationDeclaration, Manifest, ScopeDeclaration
from validator.policy.model import DifferentialPolicy, Policy
from validator.run.adapters import ADAPTERS
from validator.scale.cell import Cell, InPlace, Outcome
from validator.stage import StageContext
from validator.verdict.model import StageResult, Status, Strength

STOCK = "import numpy as np\n\n\ndef scale(x, w, out):\n    out[...] = x * w\n"
GOOD = (
    "def scale(x, w, out):\n    for column in range(x.shape[1]):\n        out[:, column] = x[:, column] * w[column]\n"
)
BAD = "def scale(x, w, out):\n    out[...] = x * w\n    out[:, 16:] = 0\n"
KERNEL: dict[str, Any] = {
    "match": "scale",
    "candidate": "fast.model:scale",
    "reference": "stock.ops:scale",
    "dims": ["B in 1..4", "D in 1..40"],
    "args": [
        {"name": "x", "role": "activation", "dtype": "float32", "shape": ["B", "D"]},
        {"name": "w", "role": "weight", "dtype": "float32", "shape": ["D"]},
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["B", "D"]},
    ],
}


class Files:
    """A tree held in memory."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = {path: text.encode() for path, text in files.items()}

    revision = "0" * 40

    def entry(self, path: str) -> Entry | None:
        return Entry(path, 0o100644, "0") if path in self.files else None

    def list(self, prefix: str = "") -> Sequence[Entry]:
        wanted = [p for p in self.files if not prefix or p == prefix or p.startswith(prefix + "/")]
        return [Entry(p, 0o100644, "0") for p in sorted(wanted)]

    def read(self, path: str, limit: int = MAX_READ) -> bytes:
        if path not in self.files:
            raise MissingFile("no such file")
        return self.files[path]


def judged(
    tmp_path: Path, base: dict[str, str], head: dict[str, str], policy: Policy | None = None, **changes: Any
) -> StageResult:
    kernels = (KernelContract.model_validate({**KERNEL, **changes}),)
    return run(context_of(tmp_path, base, head, kernels, policy))


def context_of(
    tmp_path: Path,
    base: dict[str, str],
    head: dict[str, str],
    kernels: tuple[KernelContract, ...] = (),
    policy: Policy | None = None,
) -> StageContext:
    manifest = Manifest(
        id="scale",
        title="scale",
        created=date(2026, 11, 1),
        expires=date(2027, 1, 1),
        summary="scale",
        isolation=IsolationDeclaration(paths=("fast/**",)),
        scope=ScopeDeclaration(models=("m",), architectures=("sm_90",), dtypes=("float32",), batch=BatchRange(max=4)),
        kernels=kernels,
    )
    before, after = Files(base), Files(base | head)
    files = tuple(FileChange(path, ChangeStatus.ADDED) for path in sorted(head))
    change = Change("b", "h", "b", files, before, before, after)
    return StageContext(
        change, policy or QUICK, manifest, date(2026, 12, 1), 7, tmp_path, lambda line: None, "rfcs/scale.toml"
    )


QUICK = Policy(differential=DifferentialPolicy(min_cases=8))
BASE = {"stock/ops.py": STOCK}


def test_a_right_candidate_is_proven_with_evidence(tmp_path: Path) -> None:
    result = judged(tmp_path, BASE, {"fast/model.py": GOOD})
    (obligation,) = result.obligations
    assert (obligation.id, obligation.status, obligation.reason) == ("differential/scale", Status.PROVEN, "")
    (evidence,) = result.evidence
    assert evidence.strength is Strength.CPU_MODEL
    assert int(evidence.figures["cases passed"]) >= QUICK.differential.min_cases
    assert set(evidence.inputs) == {"candidate fast.model:scale", "reference stock.ops:scale"}
    assert all(digest.startswith("sha256:") for digest in evidence.inputs.values())
    assert any("compiled kernel" in text for text in evidence.not_covered)
    assert [f for f in result.findings if f.severity.value == "error"] == []


def test_a_wrong_candidate_is_refuted_with_a_case_to_replay(tmp_path: Path) -> None:
    result = judged(tmp_path, BASE, {"fast/model.py": BAD})
    assert result.obligations[0].status is Status.REFUTED
    finding = next(f for f in result.findings if f.rule == "differential/wrong-result")
    assert "validator replay" in finding.fix
    assert "D = 17" in finding.steps[0]
    assert finding.id in result.obligations[0].findings


class Interrupted(InPlace):
    """Ctrl-C before the cell that runs has ended."""

    def run(self, cells: Iterable[Cell], total: int) -> Iterator[Outcome]:
        for _ in super().run(cells, total):
            raise KeyboardInterrupt
        yield from ()


def test_an_interrupted_check_tells_what_was_found(tmp_path: Path) -> None:
    kernels = (KernelContract.model_validate(KERNEL),)
    context = replace(context_of(tmp_path, BASE, {"fast/model.py": BAD}, kernels), work=Interrupted())
    with pytest.raises(KeyboardInterrupt) as stopped:
        run(context)
    (told, *_) = stopped.value.__notes__
    assert told.startswith("scale fails with ")
    assert "wrong-value" in told
    assert "validator replay" in told


def test_the_reference_is_the_bases_own(tmp_path: Path) -> None:
    """A head that edits the reference to agree with its candidate is judged by what the base says."""
    edited = {"stock/ops.py": STOCK + "    out[:, 16:] = 0\n", "fast/model.py": BAD}
    assert judged(tmp_path, BASE, edited).obligations[0].status is Status.REFUTED


def test_a_reference_that_the_base_lacks_is_no_reference(tmp_path: Path) -> None:
    result = judged(tmp_path, {"README.md": ""}, {"stock/ops.py": STOCK, "fast/model.py": GOOD})
    assert result.obligations[0].status is Status.UNPROVEN
    assert "stock.ops:scale" in result.obligations[0].reason


@pytest.mark.parametrize(
    ("changes", "told"),
    [({"candidate": None}, "names no CPU callable"), ({"dims": ["B in 1..4", "D in 1..40", "D > 90"]}, "no sizes")],
)
def test_what_cannot_run_is_unproven(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    (obligation,) = judged(tmp_path, BASE, {"fast/model.py": GOOD}, **changes).obligations
    assert obligation.status is Status.UNPROVEN
    assert told in obligation.reason


def test_a_candidate_that_does_not_import_is_refuted_at_once(tmp_path: Path) -> None:
    result = judged(tmp_path, BASE, {"fast/model.py": "import fast.nothing_of_that_name\n"})
    assert result.obligations[0].status is Status.REFUTED
    assert "nothing_of_that_name" in result.findings[0].message


def test_a_candidate_that_imports_what_is_not_here_is_unproven(tmp_path: Path) -> None:
    result = judged(tmp_path, BASE, {"fast/model.py": "import nothing_of_that_name\n"})
    assert result.obligations[0].status is Status.UNPROVEN
    assert "imports nothing_of_that_name, which is not installed here" in result.obligations[0].reason


def test_too_few_judged_cases_are_unproven() -> None:
    cases = tuple(Case("scale", (), number) for number in range(4))
    judged = [CaseResult(case, controlled=Controlled(("zeros of out",), (), ())) for case in cases]
    contract = KernelContract.model_validate(KERNEL)
    few, enough = (
        settle(contract, KernelResult(cases, judged), Demands(needed), candidate_of(contract)) for needed in (5, 4)
    )
    assert (few.obligations[0].status, enough.obligations[0].status) == (Status.UNPROVEN, Status.PROVEN)
    assert "policy asks for 5" in few.obligations[0].reason


@pytest.mark.parametrize(
    ("state", "status"),
    [("yes", Status.PROVEN), ("no: EPERM", Status.UNPROVEN), (None, Status.UNPROVEN)],
)
def test_confinement_that_policy_asks_for_and_a_machine_lacks(state: str | None, status: Status) -> None:
    case = Case("scale", (), 1)
    judged = [CaseResult(case, controlled=Controlled(("zeros of out",), (), ()))]
    enforced = {"limits": "yes", **({} if state is None else {"namespaces": state})}
    result = KernelResult((case,), judged, enforced=enforced)
    contract = KernelContract.model_validate(KERNEL)
    chosen = candidate_of(contract)
    assert settle(contract, result, Demands(1), chosen).obligations[0].status is Status.PROVEN
    (obligation,) = settle(contract, result, Demands(1, ("limits", "namespaces")), chosen).obligations
    assert obligation.status is status
    assert obligation.reason == "" or "confinement" in obligation.reason
    assert (f"namespaces ({state})" in obligation.reason) is (state == "no: EPERM")


def stored(**dims: int) -> str:
    return case_text(Case("scale", tuple(dims.items()), 3, origin="failed once"))


def test_cases_of_the_bases_corpus_are_tried_first(tmp_path: Path) -> None:
    policy = Policy(differential=DifferentialPolicy(min_cases=8, corpus="kernels/corpus"))
    corpus = {"kernels/corpus/a.json": stored(B=3, D=23), "kernels/corpus/b.json": stored(B=3, D=99)}
    result = judged(tmp_path, BASE | corpus, {"fast/model.py": GOOD}, policy)
    assert result.obligations[0].status is Status.PROVEN
    (evidence,) = result.evidence
    assert evidence.details["cases"][0]["origin"] == "failed once"
    assert any("1 stored cases" in text and "outside the contract" in text for text in evidence.not_covered)


def test_a_corpus_of_the_change_itself_is_not_read(tmp_path: Path) -> None:
    policy = Policy(differential=DifferentialPolicy(min_cases=8, corpus="corpus"))
    result = judged(tmp_path, BASE, {"fast/model.py": GOOD, "corpus/a.json": "no case"}, policy)
    assert result.obligations[0].status is Status.PROVEN


def test_a_corpus_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    policy = Policy(differential=DifferentialPolicy(min_cases=8, corpus="corpus"))
    result = judged(tmp_path, BASE | {"corpus/a.json": "no case"}, {"fast/model.py": GOOD}, policy)
    assert result.obligations[0].status is Status.UNPROVEN
    assert "a.json" in result.obligations[0].reason


def test_counterexamples_are_handed_on_as_replay_takes_them(tmp_path: Path) -> None:
    (evidence,) = judged(tmp_path, BASE, {"fast/model.py": BAD}).evidence
    found = evidence.details["counterexamples"]
    assert found
    for one in found:
        assert load_case(one["case"], "here").id == one["id"]


def test_no_manifest_is_unproven(tmp_path: Path) -> None:
    context = replace(context_of(tmp_path, BASE, {"fast/model.py": GOOD}), manifest=None)
    assert [o.status for o in run(context).obligations] == [Status.UNPROVEN]


@pytest.mark.parametrize(
    ("head", "status", "told"),
    [
        ({"fast/model.py": GOOD}, Status.NOT_APPLICABLE, "no changed file looks like one"),
        ({"fast/model.py": "import triton\n"}, Status.UNPROVEN, "brings kernel code (fast/model.py)"),
        ({"fast/k.cu": "", "fast/k.ptx": ""}, Status.UNPROVEN, "(fast/k.cu, fast/k.ptx)"),
    ],
)
def test_a_change_without_declared_kernels(tmp_path: Path, head: dict[str, str], status: Status, told: str) -> None:
    (obligation,) = run(context_of(tmp_path, BASE, head)).obligations
    assert obligation.status is status
    assert told in obligation.reason


def test_a_change_without_candidates_does_not_pay_for_what_runs_them(tmp_path: Path) -> None:
    code = "import sys, validator.differential.stage; print({'numpy', 'hypothesis', 'ml_dtypes'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "set()\n"


def asked(**tolerance: Any) -> KernelContract:
    return KernelContract.model_validate({**KERNEL, "tolerance": tolerance})


@pytest.mark.parametrize(
    ("tolerance", "policy", "fires"),
    [
        ({}, {}, False),
        ({"rms_ratio": 3.0}, {}, True),
        ({"rms_ratio": 3.0}, {"*": {"rms_ratio": 4.0}}, False),
        ({"policy": "absolute", "atol": 1e-3}, {}, True),
        ({"policy": "absolute", "atol": 1e-3}, {"sc*": {"kind": "absolute", "atol": 1e-2, "rtol": 0}}, False),
        ({"policy": "absolute", "atol": 1e-1}, {"sc*": {"kind": "absolute", "atol": 1e-2, "rtol": 0}}, True),
        ({"policy": "ulp", "ulp": 4}, {"*": {"kind": "ulp", "ulp": 2}}, True),
        ({"policy": "exact"}, {}, False),
    ],
)
def test_policy_caps_what_a_manifest_asks_for(tolerance: dict[str, Any], policy: dict[str, Any], fires: bool) -> None:
    capped, findings = granted(asked(**tolerance), DifferentialPolicy.model_validate({"tolerances": policy}), "m.toml")
    assert [f.rule for f in findings] == (["differential/tolerance-too-wide"] if fires else [])
    assert (capped.tolerance == asked(**tolerance).tolerance) is not fires


def test_a_run_without_results_misses_every_case() -> None:
    result = KernelResult((Case("k", (), 1), Case("k", (), 2)))
    assert len(result.missing) == 2


COMPILED = {"artifact": "kernels/scale.ptx", "kernel": "scale"}


@pytest.mark.parametrize(
    ("changes", "head", "told"),
    [
        ({"devices": ["cpu", "ptx"]}, {}, "names no compiled kernel"),
        ({"compiled": COMPILED}, {}, "no file of the head"),
        ({"compiled": COMPILED, "devices": ["cuda"]}, {"kernels/scale.ptx": "//"}, "not run here"),
    ],
)
def test_a_device_that_is_asked_for_and_cannot_run_leaves_the_kernel_unproven(
    tmp_path: Path, changes: dict[str, Any], head: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = {n: replace(a, gpu=False, libraries=("no_such_package",)) for n, a in ADAPTERS.items() if a.launches}
    monkeypatch.setattr("validator.differential.device.ADAPTERS", {**ADAPTERS, **bare})
    result = judged(tmp_path, BASE, {"fast/model.py": GOOD, **head}, **changes)
    (obligation,) = result.obligations
    assert obligation.status is Status.UNPROVEN
    assert told in obligation.reason
