"""What a kernel's run means for the change: its obligation, its evidence, its findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from validator.differential.cases import LARGEST, MOST, Case, size_of
from validator.differential.constructed import left_out
from validator.differential.coverage import coverage, from_generator, not_covered
from validator.differential.details import kernel_details
from validator.differential.device import Candidate, Device
from validator.differential.faults import Fault
from validator.differential.pattern import pattern
from validator.differential.results import WHERE, CaseResult, KernelResult, replay_command
from validator.differential.rules import BY_FAULT, blind_tolerance, tolerance_too_wide
from validator.differential.shapes import Space
from validator.differential.tolerances import in_words
from validator.manifest.contract import KernelContract
from validator.manifest.parallel import left_whole
from validator.verdict.model import Evidence, Finding, Location, Obligation, StageResult, Status, Strength, worst

__all__ = ["Demands", "evidence_id", "settle", "together"]

_VOID_SHARE = 0.5
"""Share of cases that may show nothing before a kernel counts as not examined."""


@dataclass(frozen=True, slots=True)
class Demands:
    """What policy wants to see of a kernel's run."""

    cases: int
    """Judged ones; void ones do not count."""
    confinement: tuple[str, ...] = ()
    """What the candidate's process must not have been without."""


def settle(
    contract: KernelContract,
    result: KernelResult,
    demands: Demands,
    candidate: Candidate,
    inputs: Mapping[str, str] = MappingProxyType({}),
    findings: Sequence[Finding] = (),
    outside: Sequence[Case] = (),
    where: str = WHERE,
) -> StageResult:
    """What a kernel's run means: its obligation, the evidence, and a finding for every kind of fault.

    `outside`: stored cases that the contract does not allow any more, so that nothing was run of them. `where`: options
    of `validator replay` that find what was run.
    """
    found = (*findings, *_findings(contract, result, candidate, where))
    status, reason = _status(contract, result, demands, found)
    run = [r.case for r in result.results if not r.unusable]
    rows = coverage(contract, run)
    ident = evidence_id(contract, candidate.device)
    statuses = {s: len(result.of(s)) for s in ("passed", "failed", "void", "degenerate", "unusable")}
    figures: dict[str, int | float | str] = {
        "cases planned": len(result.planned),
        **{f"cases {name}": count for name, count in statuses.items()},
        "cases without a result": len(result.missing),
        "calls of the candidate": result.calls,
        "controls refused": sum(len(r.controlled.refused) for r in result.results if r.controlled),
        "controls accepted": sum(len(r.controlled.passed) for r in result.results if r.controlled),
        "mutants tried": result.mutated,
        "mutants not seen": len(result.blind),
        "input classes": ", ".join(r.input_class for r in rows if r.cases),
    }
    judged = len(result.results) - statuses["unusable"]
    evidence = Evidence(
        id=ident,
        kind="differential",
        strength=candidate.device.strength,
        summary=(
            f"{judged} of {len(result.planned)} cases run against {contract.reference}: {statuses['passed']} right, "
            f"{statuses['failed']} wrong, {statuses['void'] + statuses['degenerate']} show nothing"
        ),
        status=status,
        inputs=dict(inputs),
        figures=figures,
        not_covered=(
            *candidate.not_covered,
            *not_covered(rows),
            *from_generator(contract, run),
            *left_whole(contract),
            *_left_out(outside),
            *_beyond(contract, result),
            *_too_large(contract),
            *_unenforced(result),
            *(() if result.wide else (f"{contract.reference} refuses float64: it was its own exact result",)),
        ),
        assumptions=(f"{contract.reference} at the base revision is right",),
        details={**kernel_details(result, rows), "limits": in_words(contract.tolerance), **_told(result)},
    )
    obligation = Obligation(
        f"differential/{contract.match}",
        f"{contract.match}: {candidate.words} agrees with {contract.reference}",
        status,
        reason,
        (evidence.id,),
        tuple(f.id for f in found),
        candidate.device.strength,
        f"{contract.match}: {candidate.words} does not agree with {contract.reference}",
    )
    return StageResult((obligation,), (evidence,), found)


def evidence_id(contract: KernelContract, device: Device) -> str:
    """One for each kernel and device."""
    return f"differential/{contract.match}" + ("" if device is Device.CPU else f"@{device.value}")


def _on(device: Device) -> str:
    """The option of `validator replay` that runs a case where it failed."""
    return "" if device is Device.CPU else f" --device {device.value}"


def together(runs: Sequence[StageResult]) -> StageResult:
    """A kernel's runs on several devices as one obligation: as weak as its weakest run, as strong as its strongest."""
    if len(runs) == 1:
        return runs[0]
    obligations = [o for run in runs for o in run.obligations]
    status = worst([o.status for o in obligations])
    reasons = [f"{o.statement.partition(': ')[2]}: {o.reason}" for o in obligations if o.status is status and o.reason]
    shown = [o for o in obligations if o.strength is not None]
    strongest = min(shown, key=lambda o: list(Strength).index(o.strength or Strength.DECLARED), default=obligations[0])
    merged = replace(
        strongest,
        status=status,
        reason="; ".join(reasons),
        evidence=tuple(e for o in obligations for e in o.evidence),
        findings=tuple(dict.fromkeys(f for o in obligations for f in o.findings)),
    )
    found = {f.id: f for run in reversed(runs) for f in run.findings}
    return StageResult((merged,), tuple(e for run in runs for e in run.evidence), tuple(reversed(found.values())))


def _status(
    contract: KernelContract, result: KernelResult, demands: Demands, found: Sequence[Finding]
) -> tuple[Status, str]:
    failed, passed = result.of("failed"), result.of("passed")
    unusable = result.of("unusable")
    if failed:
        return Status.REFUTED, f"{len(failed)} of {len(result.results)} cases fail"
    if result.missing and result.why_missing:
        return (
            Status.UNPROVEN,
            f"{len(result.missing)} of {len(result.planned)} cases were not run: {result.why_missing}",
        )
    if lacking := [
        f"{name} ({result.enforced.get(name, 'no: not known here')})"
        for name in demands.confinement
        if result.enforced.get(name) != "yes"
    ]:
        listed = ", ".join(lacking)
        return Status.UNPROVEN, f"policy asks for confinement that this machine does not give: {listed}"
    if not result.sound:
        return Status.UNPROVEN, "a candidate that does nothing was accepted after the others: the run is void"
    if unusable:
        first = unusable[0]
        shown = "" if first.unusable.startswith("not run here") else f" (the first: {first.case.words()})"
        shared = pattern(result.results, contract.tiles, "unusable", "none can be")
        shown += f"; {shared}" if shared else ""
        return Status.UNPROVEN, f"{len(unusable)} cases cannot be judged: {first.unusable}{shown}"
    if result.missing:
        return Status.UNPROVEN, f"{len(result.missing)} cases have no result"
    shows_nothing = len(result.results) - len(passed)
    if shows_nothing > _VOID_SHARE * len(result.results):
        return Status.UNPROVEN, f"{shows_nothing} of {len(result.results)} cases show nothing: known-bad results pass"
    if len(passed) < demands.cases:
        return Status.UNPROVEN, f"{len(passed)} cases were judged, policy asks for {demands.cases}"
    if any(f.rule == tolerance_too_wide.RULE.id for f in found):
        return Status.UNPROVEN, "the manifest asks for a wider tolerance than policy grants"
    return Status.PROVEN, ""


def _left_out(outside: Sequence[Case]) -> Iterator[str]:
    if outside:
        listed = ", ".join(case.id for case in outside[:3]) + (" …" if outside[3:] else "")
        yield f"{len(outside)} stored cases that failed once are outside the contract as it stands now: {listed}"


def _beyond(contract: KernelContract, result: KernelResult) -> Iterator[str]:
    if len(result.planned) > MOST // 5 and (count := left_out(contract)):
        yield f"{count} cases that the contract's sizes, types and layouts would make are more than are run of a kernel"


def _too_large(contract: KernelContract) -> Iterator[str]:
    """Sizes that are allowed and so large that no case has them."""
    space = Space(contract)
    typical = space.complete({}) or {}
    for name, values in space.values.items():
        many = space.elements({**typical, name: values[-1]}) > LARGEST >> 6
        dims = space.complete({name: values[-1]}) if many else None
        if dims is not None and size_of(contract, Case(contract.match, tuple(dims.items()), 0)) > LARGEST:
            yield f"sizes at which arguments take more than {LARGEST >> 30} GiB ({name} = {values[-1]} for one)"


def _unenforced(result: KernelResult) -> Iterator[str]:
    for name, state in sorted(result.enforced.items()):
        if state != "yes":
            yield f"the candidate ran without confinement of {name} on this machine ({state})"


def _findings(contract: KernelContract, result: KernelResult, candidate: Candidate, where: str) -> Iterator[Finding]:
    """One finding per rule and output, told by the smallest case that shows it."""
    shared = pattern(result.results, contract.tiles)
    groups: dict[tuple[str, str], list[tuple[CaseResult, Fault]]] = {}
    for failed in result.of("failed"):
        for fault in failed.faults:
            groups.setdefault((BY_FAULT[fault.kind].id, fault.output), []).append((failed, fault))
    for (rule, output), shown in groups.items():
        first, fault = _clearest(result, rule, output, shown)
        figures = ", ".join(f"{k} {v}" for k, v in fault.figures.items())
        yield Finding(
            rule,
            BY_FAULT[fault.kind].severity,
            f"{contract.match}: {fault.message}",
            Location(candidate.source, kernel=contract.match),
            why=f"{len(shown)} of {len(result.results)} cases show it"
            + (f" ({figures})" if figures else "")
            + (f"; {contract.match} {shared}" if shared else ""),
            fix=replay_command(first.case, where) + ("" if "--device" in where else _on(candidate.device)),
            steps=(
                *fault.story,
                f"input: {first.words()}",
                f"made because: {first.case.origin}",
                f"case {first.case.id}",
            ),
            identity=(contract.match, output),
            count=len(shown),
        )
    if result.blind:
        shown_mutants = ", ".join(result.blind[:6]) + (f" and {len(result.blind) - 6} more" if result.blind[6:] else "")
        yield Finding(
            blind_tolerance.RULE.id,
            blind_tolerance.RULE.severity,
            f"{contract.match}: no case tells these mistakes from the right result: {shown_mutants}",
            Location(contract.match, kernel=contract.match),
            why=f"{len(result.blind)} of {result.mutated} mutants of the reference pass every case",
            fix="narrow the tolerance, or widen the domain so that the term dominates, or set the other terms to zero",
            identity=(contract.match,),
        )


def _told(result: KernelResult) -> dict[str, list[dict[str, str]]]:
    """`steps` for the page: the story of the first failure that has one, the smallest case first."""
    failed = (*result.shrunk.values(), *result.of("failed"))
    story = next((fault.story for one in failed for fault in one.faults if fault.story), ())
    return {"steps": [{"text": step, "at": "", "kind": "bad"} for step in story]} if story else {}


def _clearest(
    result: KernelResult, rule: str, output: str, shown: list[tuple[CaseResult, Fault]]
) -> tuple[CaseResult, Fault]:
    """The shrunk case that shows the same, or else the first that failed."""
    for small in result.shrunk.values():
        for fault in small.faults:
            if (BY_FAULT[fault.kind].id, fault.output) == (rule, output):
                return small, fault
    return shown[0]
