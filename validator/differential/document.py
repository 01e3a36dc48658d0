"""`validator/diff/1`: a run as plain data, sorted, free of paths and times."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version
from typing import Final, Literal, NotRequired

from typing_extensions import TypedDict

from validator.differential.cases import case_text
from validator.differential.coverage import coverage
from validator.differential.faults import Fault
from validator.differential.results import CaseResult, KernelResult
from validator.manifest.contract import KernelContract
from validator.verdict.model import StageResult, Status, Verdict

__all__ = ["SCHEMA", "DiffDocument", "diff_document", "verdict_of"]

SCHEMA: Final = "validator/diff/1"


class ErrorDocument(TypedDict):
    """One fault of a case."""

    kind: str
    output: str
    message: str
    figures: dict[str, int | float | str]
    story: NotRequired[list[str]]


class CaseDocument(TypedDict):
    """One case. `reproduce` is an argument of `validator replay`."""

    id: str
    kernel: str
    inputs: str
    status: str
    origin: str
    error: NotRequired[list[ErrorDocument]]
    shrunk_to: NotRequired[str]
    reproduce: str


class ControlDocument(TypedDict):
    """Controls of one kernel: known-bad results, by whether the judgement refused them."""

    kernel: str
    control: str
    refused: int
    accepted: int


class CoverageDocument(TypedDict):
    """One input class."""

    input_class: str
    words: str
    cases: int
    applies: bool
    reason: str


class KernelDocument(TypedDict):
    """One kernel."""

    name: str
    status: str
    reason: str
    candidate: str
    reference: str
    figures: dict[str, int | float | str]
    coverage: list[CoverageDocument]
    not_covered: list[str]
    blind: list[str]
    confinement: dict[str, str]


class DiffDocument(TypedDict):
    schema: Literal["validator/diff/1"]
    verdict: Literal["pass", "fail", "unproven"]
    seed: int
    kernels: list[KernelDocument]
    cases: list[CaseDocument]
    controls: list[ControlDocument]
    environment: dict[str, str]


"""The whole of `validator diff --format json`."""


def verdict_of(stages: Sequence[StageResult]) -> Verdict:
    """Computed from the obligations alone; nothing examined is no pass."""
    statuses = {o.status for s in stages for o in s.obligations}
    if Status.REFUTED in statuses:
        return Verdict.FAIL
    return Verdict.PASS if statuses == {Status.PROVEN} else Verdict.UNPROVEN


def diff_document(
    seed: int, kernels: Sequence[tuple[KernelContract, KernelResult | None, StageResult]]
) -> DiffDocument:
    """Everything one run found. A kernel without a result was not run; its obligation says why."""
    run = [(contract, result) for contract, result, _ in kernels if result is not None]
    cases = [_case(r, result) for _, result in run for r in result.results]
    cases += [_case(r, result) for _, result in run for r in result.shrunk.values() if r.case not in result.planned]
    return {
        "schema": SCHEMA,
        "verdict": verdict_of([stage for _, _, stage in kernels]).value,
        "seed": seed,
        "kernels": [_kernel(*entry) for entry in kernels],
        "cases": sorted(cases, key=lambda c: (c["kernel"], c["id"])),
        "controls": [control for contract, result in run for control in _controls(contract, result)],
        "environment": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "ml_dtypes", "hypothesis")},
        },
    }


def _kernel(contract: KernelContract, result: KernelResult | None, stage: StageResult) -> KernelDocument:
    (obligation,) = stage.obligations
    evidence = stage.evidence[0] if stage.evidence else None
    rows = coverage(contract, [r.case for r in result.results if not r.unusable]) if result is not None else ()
    return {
        "name": contract.match,
        "status": obligation.status.value,
        "reason": obligation.reason,
        "candidate": contract.candidate or "",
        "reference": contract.reference or "",
        "figures": dict(evidence.figures) if evidence else {},
        "coverage": [
            {"input_class": r.input_class, "words": r.words, "cases": r.cases, "applies": r.applies, "reason": r.reason}
            for r in rows
        ],
        "not_covered": list(evidence.not_covered) if evidence else [],
        "blind": list(result.blind) if result is not None else [],
        "confinement": dict(sorted(result.enforced.items())) if result is not None else {},
    }


def _case(result: CaseResult, kernel: KernelResult) -> CaseDocument:
    document: CaseDocument = {
        "id": result.case.id,
        "kernel": result.case.kernel,
        "inputs": result.words(),
        "status": result.status,
        "origin": result.case.origin,
        "reproduce": case_text(result.case),
    }
    if result.faults:
        document["error"] = [_fault(f) for f in result.faults]
    elif result.unusable:
        document["error"] = [{"kind": "unusable", "output": "", "message": result.unusable, "figures": {}}]
    if result.case.id in kernel.shrunk:
        document["shrunk_to"] = kernel.shrunk[result.case.id].case.id
    return document


def _fault(fault: Fault) -> ErrorDocument:
    document: ErrorDocument = {
        "kind": fault.kind.value,
        "output": fault.output,
        "message": fault.message,
        "figures": dict(fault.figures),
    }
    if fault.story:
        document["story"] = list(fault.story)
    return document


def _controls(contract: KernelContract, result: KernelResult) -> list[ControlDocument]:
    counts: dict[str, list[int]] = {}
    for r in result.results:
        if r.controlled is not None:
            for at, names in enumerate((r.controlled.refused, r.controlled.passed)):
                for name in names:
                    counts.setdefault(name, [0, 0])[at] += 1
    return [
        {"kernel": contract.match, "control": name, "refused": refused, "accepted": accepted}
        for name, (refused, accepted) in sorted(counts.items())
    ]
