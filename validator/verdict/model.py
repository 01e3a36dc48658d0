"""Findings, evidence, obligations and the verdict: the nouns every stage produces and every report renders.

Nothing here holds a time, an absolute path or a severity inside an identity, so two runs over the same input give
the same ids (what waivers, baselines and SARIF fingerprints rest on).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, cast

__all__ = [
    "Evidence",
    "Finding",
    "Location",
    "Obligation",
    "Outcome",
    "Severity",
    "StageResult",
    "Status",
    "Strength",
    "Verdict",
    "octets",
    "worst",
]


Outcome = Literal["proven", "refuted", "unproven", "waived", "not-applicable"]


class Status(StrEnum):
    """How an obligation, a kernel or a finding stands."""

    PROVEN = "proven"
    REFUTED = "refuted"
    UNPROVEN = "unproven"
    WAIVED = "waived"
    NOT_APPLICABLE = "not-applicable"
    NOT_ASKED = "not-asked"
    """Unproven, and the policy does not ask for it: it counts neither way. Documents know five outcomes: they say
    `unproven`, and `asked` is false."""

    @classmethod
    def of(cls, outcome: str, asked: bool = True) -> Status:
        """From a document. Raises `ValueError` on a word that is no outcome."""
        return cls.NOT_ASKED if cls(outcome) is cls.UNPROVEN and not asked else cls(outcome)

    @property
    def outcome(self) -> Outcome:
        """As documents say it."""
        return cast("Outcome", (Status.UNPROVEN if self is Status.NOT_ASKED else self).value)


class Verdict(StrEnum):
    """The answer for a whole change or audit."""

    PASS = "pass"
    FAIL = "fail"
    UNPROVEN = "unproven"


class Severity(StrEnum):
    """What a finding does to the obligation it belongs to."""

    ERROR = "error"
    """Refutes its obligation."""
    UNPROVEN = "unproven"
    """Leaves its obligation unproven: something could not be decided."""
    WARNING = "warning"
    """Worth a look; settles nothing."""
    NOTE = "note"
    """Listed for completeness."""


class Strength(StrEnum):
    """What kind of evidence it is, strongest first."""

    MACHINE_CODE = "proof-on-machine-code"
    PTX = "proof-on-ptx"
    GPU_RUN = "run-on-gpu"
    PTX_RUN = "ptx-run-on-cpu"
    CPU_MODEL = "run-of-cpu-model"
    SOURCE = "read-from-source"
    """Facts read from git objects or source text, with nothing run."""
    DECLARED = "declared-only"


_ORDER = (Status.NOT_APPLICABLE, Status.NOT_ASKED, Status.PROVEN, Status.WAIVED, Status.UNPROVEN, Status.REFUTED)


def worst(statuses: list[Status] | tuple[Status, ...]) -> Status:
    """The one place that decides worst-of. Nothing examined is `UNPROVEN`: no evidence is never a pass."""
    return max(statuses, key=_ORDER.index) if statuses else Status.UNPROVEN


def octets(text: str) -> bytes:
    """Bytes of a path as they were; a surrogate that no path leads to (a document may hold one) as it stands."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class Location:
    """Where a finding points. All fields optional but `path`."""

    path: str
    """Path in the tree, or the artifact's name; untrusted text, escape before display."""
    line: int | None = None
    """1-based line in `path`."""
    end_line: int | None = None
    pc: int | None = None
    """Byte offset in the kernel's machine code."""
    kernel: str | None = None
    """Mangled kernel name."""
    source: str = ""
    """`file:line` of the source that `path` was compiled from, where line information says so; untrusted text."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule at a place."""

    rule: str
    """Rule id such as `order/early-read`."""
    severity: Severity
    message: str
    """What is wrong, one sentence, with the names that matter."""
    where: Location
    why: str = ""
    """Why it matters here."""
    fix: str = ""
    """How to mend it; may hold code to paste."""
    steps: tuple[str, ...] = ()
    """A path a person can follow, one step a line."""
    identity: tuple[str, ...] = ()
    """What makes this finding the same finding in another run (names, not line numbers)."""
    count: int = 1
    """How many places have the same fault; `others` lists some of them."""
    others: tuple[Location, ...] = ()
    status: Status = Status.REFUTED
    """`WAIVED` once a waiver from the base revision covers it."""

    @property
    def id(self) -> str:
        """Stable id: rule plus 12 hex digits over the identity."""
        key = self.identity or (self.where.path, self.where.kernel or "", self.message)
        text = chr(0).join((self.rule, *key))
        digest = hashlib.sha256(octets(text)).hexdigest()
        return f"{self.rule}:{digest[:12]}"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was examined or run to settle an obligation."""

    id: str
    """Unique in one result, e.g. `ordering/decode.ptx/kda_decode`."""
    kind: str
    """`change`, `ordering-audit`, `differential`, …"""
    strength: Strength
    summary: str
    """One sentence with the counts that matter."""
    status: Status
    inputs: dict[str, str] = field(default_factory=dict)
    """Name → `sha256:…` of everything that was examined."""
    figures: dict[str, int | float | str] = field(default_factory=dict)
    not_covered: tuple[str, ...] = ()
    """What this evidence does not show, each a sentence."""
    assumptions: tuple[str, ...] = ()
    """What it rests on and nobody proved, each a sentence."""
    details: dict[str, Any] = field(default_factory=dict)
    """Rows for whoever drills down, as plain JSON (`validator.report.details` says which keys each kind fills)."""


@dataclass(frozen=True, slots=True)
class Obligation:
    """One statement that the policy wants settled for this change."""

    id: str
    statement: str
    status: Status
    reason: str
    """Why the status is what it is; never empty unless proven."""
    evidence: tuple[str, ...] = ()
    """Ids of `Evidence`."""
    findings: tuple[str, ...] = ()
    """Ids of `Finding`."""
    strength: Strength | None = None
    """The weakest strength among the evidence that settles it; None when there is none."""
    denial: str = ""
    """What is the case where it is refuted, as a sentence; empty: that the statement does not hold."""


@dataclass(frozen=True, slots=True)
class StageResult:
    """What a stage hands back: it never prints, exits, reads a clock or calls git."""

    obligations: tuple[Obligation, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    findings: tuple[Finding, ...] = ()
