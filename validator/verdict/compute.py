"""Obligations → verdict, and what a waiver changes on the way. Runs before any report is written and reads none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from typing import Protocol

from validator.verdict.model import Evidence, Finding, Obligation, Severity, StageResult, Status, Verdict, worst

__all__ = ["Waived", "Waiver", "WaiverState", "WaiverUse", "apply_waivers", "compute", "settle", "verdict_reason"]

_SETTLED = (Status.PROVEN, Status.WAIVED)


def settle(obligation: Obligation) -> Status:
    """The status that counts: `not-applicable` and `waived` without a reason settle nothing."""
    needs_reason = obligation.status in (Status.NOT_APPLICABLE, Status.WAIVED)
    return Status.UNPROVEN if needs_reason and not obligation.reason.strip() else obligation.status


def compute(obligations: Sequence[Obligation]) -> Verdict:
    """`pass` only when there are obligations and each is proven, or waived or not applicable with its reason."""
    statuses = [settle(o) for o in obligations]
    if Status.REFUTED in statuses:
        return Verdict.FAIL
    settled = all(s in (*_SETTLED, Status.NOT_APPLICABLE) for s in statuses)
    return Verdict.PASS if settled and statuses else Verdict.UNPROVEN


def verdict_reason(obligations: Sequence[Obligation]) -> str:
    """One sentence that says why the verdict is what it is."""
    if not obligations:
        return "no obligation was examined, and no evidence is never a pass"
    counts = Counter(settle(o) for o in obligations)
    parts = [f"{counts[s]} {s.value}" for s in Status if counts[s]]
    return f"of {len(obligations)} obligation{'s' if len(obligations) != 1 else ''}: {', '.join(parts)}"


class Waiver(Protocol):
    """What a waiver must say (`validator.policy` reads them from the base revision)."""

    @property
    def finding(self) -> str: ...
    @property
    def owner(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def link(self) -> str: ...
    @property
    def created(self) -> date: ...
    @property
    def expires(self) -> date: ...


class WaiverState(StrEnum):
    """What became of a waiver in this run."""

    APPLIED = "applied"
    EXPIRED = "expired"
    NOT_YET = "not-yet-valid"
    REFUSED = "refused"
    """It names a finding that no waiver can cover."""
    UNMATCHED = "unmatched"
    """No finding of this run has its id."""


@dataclass(frozen=True, slots=True)
class WaiverUse:
    """A waiver of the base revision and what it did; every one is shown."""

    finding: str
    owner: str
    reason: str
    link: str
    created: date
    expires: date
    """Last day on which it counts."""
    state: WaiverState


@dataclass(frozen=True, slots=True)
class Waived:
    """A stage result after the waivers."""

    result: StageResult
    uses: tuple[WaiverUse, ...]


def apply_waivers(
    result: StageResult,
    waivers: Iterable[Waiver],
    today: date,
    *,
    unwaivable: frozenset[str] = frozenset(),
    aliases: Mapping[str, Sequence[str]] | None = None,
) -> Waived:
    """Mark waived findings and settle again the obligations that hung on them.

    `unwaivable` are rule ids beside the whole `gate/` family; `aliases` are the former ids of a rule.
    """
    by_id: dict[str, list[Finding]] = {}
    for finding in result.findings:
        for rule in (finding.rule, *(aliases or {}).get(finding.rule, ())):
            by_id.setdefault(replace(finding, rule=rule).id, []).append(finding)
    uses: list[WaiverUse] = []
    covered: set[str] = set()
    for waiver in sorted(waivers, key=lambda w: (w.finding, w.owner)):
        matched = by_id.get(waiver.finding, [])
        state = _state(waiver, matched, today, unwaivable)
        if state is WaiverState.APPLIED:
            covered.update(f.id for f in matched)
        uses.append(
            WaiverUse(waiver.finding, waiver.owner, waiver.reason, waiver.link, waiver.created, waiver.expires, state)
        )
    findings = tuple(replace(f, status=Status.WAIVED) if f.id in covered else f for f in result.findings)
    evidence = {e.id: e for e in result.evidence}
    obligations = tuple(_after(o, findings, covered, evidence) for o in result.obligations)
    return Waived(replace(result, findings=findings, obligations=obligations), tuple(uses))


def _state(waiver: Waiver, matched: list[Finding], today: date, unwaivable: frozenset[str]) -> WaiverState:
    rule = waiver.finding.rpartition(":")[0]
    rules = {rule, *(f.rule for f in matched)}
    if any(r.startswith("gate/") or r in unwaivable for r in rules):
        return WaiverState.REFUSED
    if today > waiver.expires:
        return WaiverState.EXPIRED
    if today < waiver.created:
        return WaiverState.NOT_YET
    return WaiverState.APPLIED if matched else WaiverState.UNMATCHED


def _after(
    obligation: Obligation, findings: Sequence[Finding], covered: set[str], evidence: Mapping[str, Evidence]
) -> Obligation:
    """An obligation is waived when waivers cover every finding that decided it and nothing else speaks against it."""
    if obligation.status not in (Status.REFUTED, Status.UNPROVEN) or not covered & set(obligation.findings):
        return obligation
    own = [f for f in findings if f.id in obligation.findings]
    deciding = [f for f in own if f.severity in (Severity.ERROR, Severity.UNPROVEN)]
    open_ = [f for f in deciding if f.id not in covered]
    left = [Status.REFUTED if f.severity is Severity.ERROR else Status.UNPROVEN for f in open_]
    # Evidence that is unproven without a finding that says so (a tool was missing) is not waived by the way.
    said = any(f.severity is Severity.UNPROVEN for f in deciding)
    silent = [e for e in obligation.evidence if e in evidence and evidence[e].status is Status.UNPROVEN]
    if (silent and not said) or not deciding:
        left.append(Status.UNPROVEN)
    if left:
        status = worst(left)
        reason = f"{obligation.reason}; waivers cover {len(deciding) - len(open_)} of {len(deciding)} findings"
    else:
        status, reason = Status.WAIVED, f"waived: {', '.join(sorted(f.id for f in deciding))}; was: {obligation.reason}"
    return replace(obligation, status=status, reason=reason)
