"""Obligations → verdict, and what a waiver changes on the way. Runs before any report is written and reads none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from validator.verdict.model import Evidence, Finding, Obligation, Severity, StageResult, Status, Verdict, worst

__all__ = ["apply_waivers", "compute", "settle", "verdict_reason"]

_SETTLED = (Status.PROVEN, Status.WAIVED)
_ASIDE = (Status.NOT_APPLICABLE, Status.NOT_ASKED)
_COUNTED = {Status.NOT_ASKED: "unproven but not asked for"}
"""How a status is counted where its own name says too little."""
_NAMED = 3
"""Obligations that the verdict's sentence names."""


def settle(obligation: Obligation) -> Status:
    """The status that counts: `not-applicable`, `not-asked` and `waived` without a reason settle nothing."""
    needs_reason = obligation.status in (*_ASIDE, Status.WAIVED)
    return Status.UNPROVEN if needs_reason and not obligation.reason.strip() else obligation.status


def compute(obligations: Sequence[Obligation]) -> Verdict:
    """`pass` only when there are obligations and each is proven, or waived, not applicable or not asked for with its
    reason."""
    statuses = [settle(o) for o in obligations]
    if Status.REFUTED in statuses:
        return Verdict.FAIL
    settled = all(s in (*_SETTLED, *_ASIDE) for s in statuses)
    return Verdict.PASS if settled and statuses else Verdict.UNPROVEN


def verdict_reason(obligations: Sequence[Obligation]) -> str:
    """One sentence that says why the verdict is what it is: what was refuted or left open by name, then the counts."""
    if not obligations:
        return "no obligation was examined, and no evidence is never a pass"
    counts = Counter(settle(o) for o in obligations)
    said = ", ".join(f"{counts[s]} {_COUNTED.get(s, s.value)}" for s in Status if counts[s])
    totals = f"of {len(obligations)} obligation{'s' if len(obligations) != 1 else ''}, {said}"
    for status in (Status.REFUTED, Status.UNPROVEN):
        names = sorted(o.id for o in obligations if settle(o) is status)
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            return f"{', '.join(names[:_NAMED])}{more} {status.value}; {totals}"
    return totals


def apply_waivers(result: StageResult, covered: Collection[str]) -> StageResult:
    """Mark the findings that active waivers cover and settle again the obligations that hung on them.

    `covered` are finding ids (`validator.policy.waivers` decides which waivers count today). Findings of the `gate/`
    family stay, whatever is handed in.
    """
    ids = {f.id for f in result.findings if f.id in covered and not f.rule.startswith("gate/")}
    findings = tuple(replace(f, status=Status.WAIVED) if f.id in ids else f for f in result.findings)
    evidence = {e.id: e for e in result.evidence}
    obligations = tuple(_after(o, findings, ids, evidence) for o in result.obligations)
    return replace(result, findings=findings, obligations=obligations)


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
