"""Runs of compiled PTX and the audit's word: agreement, a defect of the audit, a fault that no run shows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from validator.emulate import explain
from validator.emulate.explain import headline, read_headline
from validator.emulate.hazard import Hazard, HazardKind, Place
from validator.manifest.contract import KernelContract
from validator.pipeline.emulated import compare_runs
from validator.verdict.model import Evidence, Finding, Location, Obligation, Severity, StageResult, Status, Strength

FAULT = "the candidate raised: Fault: early-read: thread 3 of CTA 1 reads 'x' at byte 0 before the wait (k.cu:4)"
EARLY = Finding("order/early-read", Severity.ERROR, "'x' (activation) is read early", Location("k.cubin", kernel="k1"))


def said(
    status: Status, findings: tuple[Finding, ...], faults: list[str], strength: Strength = Strength.PTX_RUN
) -> Any:
    audit = Evidence(
        "ordering/k", "ordering-audit", Strength.MACHINE_CODE, "", status,
        figures={"kernel": "k1", "artifact": "k.cubin", "isa": "sass", "arch": "sm_90a"},
        details={"early": [{"memory": "x", "allowed": False}] if findings else []},
    )  # fmt: skip
    run = Evidence("differential/k*@ptx", "differential", strength, "", status, details={"cases": [{"faults": faults}]})
    obligations = tuple(
        Obligation(f"{stage}/k*", "", status, "", (e.id,)) for stage, e in (("ordering", audit), ("differential", run))
    )
    context: Any = SimpleNamespace(manifest=SimpleNamespace(kernels=(KernelContract(match="k*"),)))
    return compare_runs(context, StageResult(obligations, (audit, run), findings)).obligations


@pytest.mark.parametrize(
    ("status", "findings", "faults", "expected", "words"),
    [
        (Status.PROVEN, (), [], Status.PROVEN, "neither shows a fault"),
        (Status.REFUTED, (EARLY,), [FAULT], Status.PROVEN, "both show early-read of 'x'"),
        (Status.PROVEN, (), [FAULT], Status.REFUTED, "the audit missed early-read of 'x' is a defect of the audit"),
        (Status.REFUTED, (EARLY,), [FAULT.replace("'x'", "'y'")], Status.REFUTED, "missed early-read of 'y'"),
        (Status.REFUTED, (EARLY,), [], Status.UNPROVEN, "no run shows it: order/early-read"),
        (Status.UNPROVEN, (), [FAULT], Status.UNPROVEN, "which the audit leaves open"),
        (Status.PROVEN, (), ["wrong-value: out is wrong"], Status.PROVEN, "neither"),
    ],
)
def test_what_runs_and_audit_say_together(
    status: Status, findings: tuple[Finding, ...], faults: list[str], expected: Status, words: str
) -> None:
    (obligation,) = said(status, findings, faults)
    assert obligation.id == "emulated/k*"
    assert obligation.status is expected
    assert words in obligation.reason


def test_what_ran_otherwise_is_not_compared() -> None:
    assert said(Status.PROVEN, (), [FAULT], Strength.CPU_MODEL) == ()


def test_a_headline_is_read_as_it_was_written() -> None:
    decoded: Any = SimpleNamespace(line=lambda index: f"k.cu:{index}")
    words = explain._WORDS
    for kind in HazardKind:
        for memory in ("x", ""):
            hazard = Hazard(kind, Place(0, 2, 7), memory, 4 if memory else None, detail="'other' words")
            found = read_headline(f"the candidate raised: Fault: {headline(hazard, decoded)}")
            assert found is not None
            assert (found.kind, found.place.cta, found.place.thread) == (kind, 2, 7)
            assert found.memory == (memory if "{what}" in words[kind] else "")
    assert read_headline("the candidate raised: ValueError: 3") is None
