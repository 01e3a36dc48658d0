"""`CheckResult`: everything one `validator check` run found. Computed before any format; every format renders this."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING

from validator.verdict.model import Evidence, Finding, Obligation, Severity, Status, Strength, Verdict

if TYPE_CHECKING:
    from validator.change.model import Change
    from validator.manifest.model import Manifest
    from validator.policy.model import Policy

__all__ = ["CheckResult", "Environment", "Place", "WaiverUse", "where_to_look"]

MOST_PLACES = 7
"""How many places a reviewer is sent to: what fits into ten minutes."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The only part of a result that may differ between two runs over the same input."""

    validator: str
    python: str
    platform: str
    repository: str
    """Absolute path."""
    started: str
    """ISO 8601, UTC."""
    seconds: float
    tools: dict[str, str] = field(default_factory=dict)
    """Tool → version, for every tool that took part."""


@dataclass(frozen=True, slots=True)
class WaiverUse:
    """A waiver of the trusted revision and what it did in this run; every one is shown."""

    finding: str
    """Exact finding id."""
    owner: str
    reason: str
    link: str
    created: date
    expires: date
    """Last day on which it counts."""
    applied: bool
    notes: tuple[str, ...] = ()
    """Why it does not count, or that it ends soon."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a reviewer should look, and why."""

    path: str
    line: int | None
    kernel: str | None
    why: str


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Facts, evidence and the verdict over one change."""

    change: Change
    policy: Policy | None
    policy_digest: str
    """`sha256:…` over the policy files at the trusted revision."""
    policy_source: str
    """Where the policy came from, as a revision or a folder name."""
    manifest: Manifest | None
    manifest_path: str | None
    """Path in the head tree."""
    manifest_digest: str | None
    obligations: tuple[Obligation, ...]
    evidence: tuple[Evidence, ...]
    findings: tuple[Finding, ...]
    waivers: tuple[WaiverUse, ...]
    verdict: Verdict
    reason: str
    not_covered: tuple[str, ...]
    """What nothing in this run shows, each a sentence."""
    assumptions: tuple[str, ...]
    """What the verdict rests on and nobody proved, each a sentence."""
    seed: int
    reproduce: str
    """One command line that runs this check again."""
    environment: Environment

    def finding_ids(self) -> dict[str, Finding]:
        """Id → finding."""
        return {f.id: f for f in self.findings}


_WEIGHT = {Severity.ERROR: 3, Severity.UNPROVEN: 2, Severity.WARNING: 1, Severity.NOTE: 0}


def where_to_look(result: CheckResult, limit: int = MOST_PLACES) -> tuple[Place, ...]:
    """The places the verdict rests on most: open findings first, then evidence that rests on assumptions."""
    ranked: list[tuple[tuple[int, int, str], Place]] = []
    users = _users(result.obligations)
    for finding in result.findings:
        if finding.severity is Severity.NOTE:
            continue
        open_ = finding.status is not Status.WAIVED
        rank = (-(_WEIGHT[finding.severity] + (4 if open_ else 0)), -len(users.get(finding.id, ())), finding.id)
        why = finding.message if open_ else f"waived, not mended: {finding.message}"
        where = finding.where
        ranked.append((rank, Place(where.path, where.line, where.kernel, why)))
    for evidence in result.evidence:
        place = _weak_place(evidence, len(users.get(evidence.id, ())))
        if place:
            ranked.append(((0, -len(users.get(evidence.id, ())), evidence.id), place))
    return _distinct((place for _, place in sorted(ranked, key=lambda r: r[0])), limit)


def _users(obligations: Iterable[Obligation]) -> dict[str, list[str]]:
    users: dict[str, list[str]] = {}
    for obligation in obligations:
        for used in (*obligation.evidence, *obligation.findings):
            users.setdefault(used, []).append(obligation.id)
    return users


def _weak_place(evidence: Evidence, used: int) -> Place | None:
    """Evidence that a person should not take on trust: it rests on assumptions, or on a declaration alone."""
    path = next(iter(sorted(evidence.inputs)), None)
    if not used or path is None or not (evidence.assumptions or evidence.strength is Strength.DECLARED):
        return None
    why = f"{evidence.summary}; rests on: {evidence.assumptions[0]}" if evidence.assumptions else evidence.summary
    return Place(path, None, str(evidence.figures["kernel"]) if "kernel" in evidence.figures else None, why)


def _distinct(places: Iterable[Place], limit: int) -> tuple[Place, ...]:
    seen: dict[tuple[str, int | None, str | None], Place] = {}
    for place in places:
        seen.setdefault((place.path, place.line, place.kernel), place)
    return tuple(seen.values())[:limit]
