"""`CheckResult`: everything one `validator check` run found. Computed before any format; every format renders this."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from enum import IntEnum
from typing import TYPE_CHECKING

from validator.verdict.model import Evidence, Finding, Location, Obligation, Severity, Status, Verdict

if TYPE_CHECKING:
    from validator.change.model import Change
    from validator.manifest.model import Manifest
    from validator.policy.model import Policy

__all__ = ["CheckResult", "Environment", "Place", "WaiverUse", "deciding", "site", "where_to_look"]

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
    since: tuple[str, ...] = ()
    """What changed since an earlier run that was named, each a sentence; no part of the result's document."""

    def finding_ids(self) -> dict[str, Finding]:
        """Id → finding."""
        return {f.id: f for f in self.findings}


def where_to_look(result: CheckResult, limit: int = MOST_PLACES) -> tuple[Place, ...]:
    """The places the verdict rests on most, in the order of `_Rank`; each place once, for its weightiest reason."""
    users = _users(result.obligations)
    ranked = [*_findings(result, users), *_undecided(result), *_existing(result), *_assumed(result, users)]
    ordered = sorted(ranked, key=lambda r: r[0])
    return _distinct((place for _, place in ordered), limit)


def deciding(result: CheckResult, obligation: Obligation) -> Finding | None:
    """The finding that decided an obligation: of its open ones the weightiest, the smallest id among equals."""
    own = [f for f in result.findings if f.id in obligation.findings and f.status is not Status.WAIVED]
    decided = [f for f in own if f.severity in (Severity.ERROR, Severity.UNPROVEN)]
    return min(decided, key=lambda f: (_SEVERITY[f.severity], f.id), default=None)


_SOURCE = re.compile(r"(?s)(.+):([1-9]\d{0,8})")


def site(change: Change, where: Location) -> tuple[str, int | None, str]:
    """(path, line, the artifact that the finding was read from).

    The source line comes first where it is known and one changed file, and only one, ends in the path that the line
    information names: that is what a reviewer opens.
    """
    inside = f"{where.path}:{where.line}" if where.line else where.path
    if where.pc is not None:
        inside += f" at 0x{where.pc:x}"
    source = _SOURCE.fullmatch(where.source)
    if source is None:
        return where.path, where.line, "" if where.pc is None else inside
    named = [f.path for f in change.files if f"/{f.path}".endswith(f"/{source[1].removeprefix('/')}")]
    if len(named) != 1:
        return where.path, where.line, f"{where.source}, {inside}" if where.pc is not None else where.source
    return named[0], int(source[2]), inside


class _Rank(IntEnum):
    REFUTED = 0
    UNDECIDED = 1
    WAIVED = 2
    WARNING = 3
    EXISTING = 4
    """Code that was there before and that this change edits: the one thing that can reach those who never asked."""
    ASSUMED = 5
    NOTE = 6


_Ranked = tuple[tuple[_Rank, int, str], Place]
"""(rank, minus the number of obligations that rest on it, id), place."""

_SEVERITY = {
    Severity.ERROR: _Rank.REFUTED,
    Severity.UNPROVEN: _Rank.UNDECIDED,
    Severity.WARNING: _Rank.WARNING,
    Severity.NOTE: _Rank.NOTE,
}


def _users(obligations: Iterable[Obligation]) -> Counter[str]:
    """Finding or evidence id → how many obligations rest on it."""
    return Counter(used for o in obligations for used in (*o.evidence, *o.findings))


def _findings(result: CheckResult, users: Counter[str]) -> Iterator[_Ranked]:
    """One place for each rule that a kernel (or a file) breaks: the first of its findings, and how many more."""
    groups: dict[tuple[_Rank, str, str], list[Finding]] = {}
    for finding in result.findings:
        rank = _Rank.WAIVED if finding.status is Status.WAIVED else _SEVERITY[finding.severity]
        groups.setdefault((rank, finding.rule, finding.where.kernel or finding.where.path), []).append(finding)
    for (rank, _, _), found in groups.items():
        first = found[0]
        waived = "waived, not mended: " if rank is _Rank.WAIVED else ""
        more = f" (and {len(found) - 1} more findings of {first.rule})" if len(found) > 1 else ""
        path, line, inside = site(result.change, first.where)
        read = f" ({inside})" if inside else ""
        place = Place(path, line, first.where.kernel, f"{waived}{first.message}{read}{more}")
        yield (rank, -max(users[f.id] for f in found), first.id), place


def _undecided(result: CheckResult) -> Iterator[_Ranked]:
    """Obligations that nothing settled and no finding speaks of: the manifest is where a person would start."""
    for obligation in result.obligations:
        if obligation.status is Status.UNPROVEN and not obligation.findings:
            path = result.manifest_path or "no manifest"
            why = f"{obligation.id} is unproven: {obligation.reason}"
            yield (_Rank.UNDECIDED, 0, obligation.id), Place(path, None, obligation.id, why)


def _existing(result: CheckResult) -> Iterator[_Ranked]:
    named = {f.where.path for f in result.findings if f.severity is not Severity.NOTE} | {result.manifest_path}
    for file in result.change.files:
        if file.status.name != "ADDED" and file.path not in named:
            why = f"existing file, {file.status.name.lower().replace('_', ' ')}: +{file.added} -{file.deleted} lines"
            yield (_Rank.EXISTING, -file.lines, file.path), Place(file.path, file.first_line, None, why)


def _assumed(result: CheckResult, users: Counter[str]) -> Iterator[_Ranked]:
    """Evidence that settles something and rests on what nobody proved; once for all builds of a kernel."""
    seen: set[tuple[str, ...]] = set()
    for evidence in result.evidence:
        carries = users[evidence.id] and evidence.assumptions and evidence.inputs and evidence.status is Status.PROVEN
        if not carries or evidence.assumptions in seen:
            continue
        seen.add(evidence.assumptions)
        more = f" (and {len(evidence.assumptions) - 1} more)" if len(evidence.assumptions) > 1 else ""
        why = f"rests on: {evidence.assumptions[0]}{more}; {evidence.summary}"
        kernel = str(evidence.figures["kernel"]) if "kernel" in evidence.figures else None
        place = Place(min(evidence.inputs), None, kernel, why)
        yield (_Rank.ASSUMED, -len(evidence.assumptions), evidence.id), place


def _distinct(places: Iterable[Place], limit: int) -> tuple[Place, ...]:
    seen: dict[tuple[str, int | None, str | None], Place] = {}
    for place in places:
        seen.setdefault((place.path, place.line, place.kernel), place)
    return tuple(seen.values())[:limit]
