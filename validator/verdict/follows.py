"""Whether a verdict follows from what the result itself says was examined. The document is believed in nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from validator.verdict.compute import compute, verdict_reason
from validator.verdict.model import Finding, Location, Obligation, Severity, Status

__all__ = ["does_not_follow"]


def does_not_follow(result: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for everything that does not hang together. Raises what a malformed document leads to."""
    evidence = {e["id"]: e for e in result.get("evidence", ())}
    findings = {f["id"]: f for f in result.get("findings", ())}
    obligations = [
        Obligation(
            o["id"],
            o["statement"],
            Status.of(o["status"], o.get("asked", True)),
            o["reason"],
            tuple(o.get("evidence", ())),
            tuple(o.get("findings", ())),
        )
        for o in result["obligations"]
    ]
    for obligation in obligations:
        yield from _obligation(obligation, evidence, findings)
    applied = {w["finding"] for w in result.get("waivers", ()) if w["applied"]}
    yield from _waived(findings.values(), applied)
    yield from _ids(findings.values())
    verdict = compute(obligations).value
    if result["verdict"] != verdict:
        yield f"the verdict does not follow from the obligations, which give {verdict}"
    if result.get("reason", verdict_reason(obligations)) != verdict_reason(obligations):
        yield "the reason is not the one that the obligations give"


def _obligation(
    obligation: Obligation, evidence: Mapping[str, Mapping[str, Any]], findings: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    missing = [i for i in obligation.evidence if i not in evidence] + [
        i for i in obligation.findings if i not in findings
    ]
    if missing:
        yield f"{obligation.id} rests on {missing[0]}, which is not there"
        return
    if obligation.status not in (Status.PROVEN, Status.WAIVED):
        return
    if not obligation.evidence:
        yield f"{obligation.id} is {obligation.status} without evidence"
    against = [
        f["id"]
        for f in (findings[i] for i in obligation.findings)
        if Severity(f["severity"]) in (Severity.ERROR, Severity.UNPROVEN) and f["status"] != Status.WAIVED.value
    ]
    if against:
        yield f"{obligation.id} is {obligation.status} against {against[0]}"
    if obligation.status is Status.PROVEN:
        refuted = [i for i in obligation.evidence if evidence[i]["status"] == Status.REFUTED.value]
        if refuted:
            yield f"{obligation.id} is proven against the evidence {refuted[0]}"


def _waived(findings: Iterable[Mapping[str, Any]], applied: set[str]) -> Iterator[str]:
    for finding in findings:
        if finding["status"] != Status.WAIVED.value:
            continue
        if finding["rule"].startswith("gate/"):
            yield f"{finding['id']} is waived, and nothing waives a gate"
        elif not applied.intersection({finding["id"], *_former_ids(finding)}):
            yield f"{finding['id']} is waived by no waiver that counts"


def _former_ids(finding: Mapping[str, Any]) -> Iterator[str]:
    """Ids under which a waiver may know it: a renamed rule keeps its aliases."""
    from validator.rules import aliases_of

    for alias in aliases_of(finding["rule"]):
        yield Finding(alias, Severity.NOTE, "", Location(""), identity=tuple(finding.get("identity", ()))).id


def _ids(findings: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for finding in findings:
        identity = finding.get("identity")
        if not identity:
            continue
        made = Finding(finding["rule"], Severity.NOTE, "", Location(""), identity=tuple(identity))
        if made.id != finding["id"]:
            yield f"{finding['id']} is not the id of what it names"
