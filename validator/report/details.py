"""`Evidence.details` as typed rows. A bundle is untrusted: what has not the expected shape is left out, never believed.

Which keys there are is said where they are filled: `validator.ordering.details`, `validator.differential.details`. What
evidence of any kind may bring besides is said in `validator.report.story`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from validator.report.rows import count, mapping, number, rows, text, texts
from validator.verdict.model import Evidence

__all__ = [
    "DIFFERENTIAL",
    "ORDERING",
    "Access",
    "Case",
    "Counterexample",
    "Covered",
    "Wait",
    "accesses",
    "cases",
    "confinement",
    "counterexamples",
    "coverage",
    "limits",
    "resources",
    "waits",
]

ORDERING: Final = "ordering-audit"
DIFFERENTIAL: Final = "differential"
_CASE_ID = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Access:
    """What a kernel does to one argument's memory."""

    access: str
    memory: str
    """Argument, or several that cannot be told apart; empty: of unknown source."""
    role: str
    allowed: bool
    count: int
    """Static instructions."""
    instruction: str
    at: str
    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    kind: str
    text: str
    at: str


@dataclass(frozen=True, slots=True)
class Case:
    """One differential case."""

    id: str
    status: str
    dims: Mapping[str, int]
    dtypes: Mapping[str, str]
    input_class: str
    inputs: str
    origin: str
    faults: tuple[str, ...]
    error: float | None
    """RMS error over what an honest implementation may be off by."""
    baseline: float | None
    """The trusted implementation's own."""


@dataclass(frozen=True, slots=True)
class Covered:
    """One input class."""

    input_class: str
    words: str
    cases: int
    applies: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Counterexample:
    """The smallest case that fails in one way."""

    id: str
    """Twelve hexadecimal digits: safe in a file name."""
    kernel: str
    case: str
    """One line of JSON, as `validator replay` takes it."""


def accesses(evidence: Evidence, key: str) -> tuple[Access, ...]:
    """`early`, `movable` or `accesses` of an ordering audit."""
    return tuple(
        Access(
            text(r, "access"),
            text(r, "memory"),
            text(r, "role") or "undeclared",
            r.get("allowed") is True,
            count(r, "count"),
            text(r, "instruction"),
            text(r, "at"),
            text(r, "reason"),
        )
        for r in rows(evidence, key)
    )


def resources(evidence: Evidence) -> dict[str, int]:
    """What a kernel takes of the hardware; empty where nobody said."""
    known = mapping(evidence.details, "resources")
    return {str(k): v for k, v in known.items() if isinstance(v, int) and not isinstance(v, bool)}


def waits(evidence: Evidence) -> tuple[Wait, ...]:
    """What orders a kernel behind its predecessors."""
    return tuple(Wait(text(r, "kind"), text(r, "text"), text(r, "at")) for r in rows(evidence, "waits"))


def cases(evidence: Evidence) -> tuple[Case, ...]:
    """Every case of a differential run, in the order in which they ran."""
    return tuple(
        Case(
            text(r, "id"),
            text(r, "status"),
            {str(k): v for k, v in mapping(r, "dims").items() if isinstance(v, int)},
            {str(k): str(v) for k, v in mapping(r, "dtypes").items()},
            text(r, "class"),
            text(r, "inputs"),
            text(r, "origin"),
            texts(r, "faults"),
            number(r, "error"),
            number(r, "baseline"),
        )
        for r in rows(evidence, "cases")
    )


def coverage(evidence: Evidence) -> tuple[Covered, ...]:
    """Every input class, held or not."""
    return tuple(
        Covered(text(r, "class"), text(r, "words"), count(r, "cases"), r.get("applies") is not False, text(r, "reason"))
        for r in rows(evidence, "coverage")
    )


def confinement(evidence: Evidence) -> dict[str, str]:
    """What held the candidate's process in: what → `yes`, or why not; empty where nobody said."""
    return {str(k): v for k, v in mapping(evidence.details, "confinement").items() if isinstance(v, str)}


def limits(evidence: Evidence) -> str:
    """What a differential case may be off by before it counts as wrong, in words; empty where nobody said."""
    return text(evidence.details, "limits")


def counterexamples(evidence: Evidence) -> tuple[Counterexample, ...]:
    """The smallest cases that fail."""
    found = rows(evidence, "counterexamples")
    return tuple(
        Counterexample(name, text(r, "kernel"), text(r, "case"))
        for r in found
        if _CASE_ID.fullmatch(name := text(r, "id"))
    )
