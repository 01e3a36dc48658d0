"""What launches on a GPU mean, held against what the ordering audit says of the same build: one outcome for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from validator.gpu.rules import delayed_inside, missed_by_audit, sanitizer_report, shown_early_access
from validator.manifest.contract import KernelContract, Role
from validator.ordering.program import Isa
from validator.pipeline.audited import Build
from validator.verdict.model import Finding, Severity, Status

__all__ = ["Answer", "Outcome", "beside_neighbours", "delayed", "not_launched", "under_sanitizer", "worst_of"]

Answer = Mapping[str, Any]
"""Of the process that launches (`validator.gpu.observer`)."""

_REASONS = (("not_launchable", "not launched"), ("failed", "the launch failed"), ("not_here", "not run here"))


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one obligation stands by what was launched of one build."""

    status: Status
    said: str
    findings: tuple[Finding, ...] = ()
    ran: bool = False
    """Something was launched to the end."""


def worst_of(outcomes: Sequence[Outcome]) -> Outcome:
    """The one that decides, with the findings of all."""
    order = (Status.REFUTED, Status.UNPROVEN, Status.PROVEN)
    first = min(outcomes, key=lambda outcome: order.index(outcome.status))
    findings = dict.fromkeys(finding for outcome in outcomes for finding in outcome.findings)
    return Outcome(first.status, first.said, tuple(findings), any(o.ran for o in outcomes))


def not_launched(answer: Answer) -> str:
    """Why nothing was launched to the end; empty where it was."""
    return next((f"{words}: {answer[key]}" for key, words in _REASONS if key in answer), "")


def beside_neighbours(contract: KernelContract, build: Build, seen: Answer) -> Outcome:
    """Behind a late producer, publisher and reader."""
    refuted = build.evidence.status is Status.REFUTED
    early = build.early if refuted else ()
    before = "refuted statically for another fault" if refuted else "no early access found statically"
    before = f"refuted statically ({', '.join(early)})" if early else before
    if reason := not_launched(seen):
        return Outcome(Status.UNPROVEN, f"{before}; {reason}")
    if seen["ordinary"]:
        said = f"{seen['ordinary']} of the ordinary launches differ from one another, so that a delay proves nothing"
        return Outcome(Status.UNPROVEN, f"{before}; {said}", ran=True)
    if seen["shown"]:
        return _shown(contract, build, early, before, seen)
    blind = f"; nothing would show of {', '.join(seen['blind'])}, which reach no result" if seen["blind"] else ""
    if early:
        return Outcome(Status.UNPROVEN, f"{before}, no delay showed it{blind}", ran=True)
    return Outcome(Status.PROVEN, f"{before}, and no delay showed one{blind}", ran=True)


def _shown(contract: KernelContract, build: Build, early: tuple[str, ...], before: str, seen: Answer) -> Outcome:
    """Some delay gave another result."""
    arguments = tuple(seen["arguments"])
    named = f", argument {', '.join(arguments)}" if arguments else ""
    said = f"{before}, shown dynamically at ≥ {seen['least_delay_us']} µs delay{named}"
    missed = tuple(name for name in arguments if name not in early)
    if contract.deterministic == "spread" and (not early or missed):
        why = "the contract promises no bitwise determinism, so that other bytes prove nothing alone"
        return Outcome(Status.UNPROVEN, f"{said}; {why}", ran=True)
    if build.evidence.status is Status.REFUTED and not missed:
        return Outcome(
            Status.REFUTED, said, (shown_early_access.find(contract.match, build.where, arguments, said),), True
        )
    if build.isa is Isa.PTX:
        said += ": the audit read the PTX, and nobody the machine code that the driver makes of it"
        return Outcome(
            Status.REFUTED, said, (shown_early_access.find(contract.match, build.where, arguments, said),), True
        )
    finding = missed_by_audit.find(contract.match, build.where, missed, said)
    return Outcome(Status.REFUTED, finding.message.partition(": ")[2], (finding,), True)


def delayed(contract: KernelContract, build: Build, seen: Answer) -> Outcome:
    """With some of its own threads held up."""
    if reason := not_launched(seen):
        return Outcome(Status.UNPROVEN, reason)
    if not seen["sites"]:
        return Outcome(Status.PROVEN, "its PTX has no instruction that orders threads", ran=True)
    if seen["undelayed"]:
        said = f"{seen['undelayed']} undelayed launches differ from one another, so that a delay proves nothing"
        return Outcome(Status.UNPROVEN, said, ran=True)
    if not seen["wrong"]:
        return Outcome(Status.PROVEN, f"{seen['launches']} delayed launches compute the same", ran=True)
    sites = tuple(seen["where"])
    said = (
        f"{seen['wrong']} launches compute something else with {len(sites)} of {seen['sites']} sites delayed by "
        f"{seen['nanoseconds'] / 1000:g} µs ({'; '.join(sites[:3])}; seed {seen['seed']})"
    )
    if contract.deterministic == "spread":
        why = "the contract promises no bitwise determinism, so that other bytes prove nothing alone"
        return Outcome(Status.UNPROVEN, f"{said}; {why}", ran=True)
    guessed = _is_guessed(contract)
    finding = delayed_inside.find(contract.match, build.where, sites, said, guessed)
    if guessed:
        said += "; the contract leaves sizes or the launch open, and with those it has this need not happen"
    return Outcome(Status.UNPROVEN if guessed else Status.REFUTED, said, (finding,), True)


def under_sanitizer(contract: KernelContract, build: Build, seen: Sequence[Answer]) -> Outcome:
    """Launched once under each of compute-sanitizer's tools: an answer has `tool`, `errors`, `reports`, or a reason."""
    guessed = _is_guessed(contract)
    findings = [
        sanitizer_report.find(contract.match, build.where, row["tool"], report, row["errors"], guessed)
        for row in seen
        if not not_launched(row) and row["errors"]
        for report in row["reports"] or (f"{row['errors']} errors, and shows none",)
    ]
    ran = any(not not_launched(row) for row in seen)
    if any(f.severity is Severity.ERROR for f in findings):
        return Outcome(Status.REFUTED, findings[0].message.partition(": ")[2], tuple(findings), ran)
    if findings:
        return Outcome(Status.UNPROVEN, findings[0].message.partition(": ")[2], tuple(findings), ran)
    if missing := [reason for row in seen if (reason := not_launched(row))]:
        return Outcome(Status.UNPROVEN, missing[0], ran=ran)
    return Outcome(Status.PROVEN, f"{', '.join(row['tool'] for row in seen)} report nothing", ran=True)


def _is_guessed(contract: KernelContract) -> bool:
    """Whether a launch from the contract alone takes sizes or values that it does not give."""
    parts = [part for argument in contract.args for part in argument.fields or (argument,)]
    memory = [part for part in parts if part.role is None or part.role.memory]
    sized = all(part.shape is not None and part.dtype for part in memory)
    given = all(part.value is not None for part in parts if part.role is Role.SCALAR)
    return not (parts and sized and given and contract.launch.grid and contract.launch.block)
