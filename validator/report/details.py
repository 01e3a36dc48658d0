"""`Evidence.details` as typed rows. A bundle is untrusted: what has not the expected shape is left out, never believed.

Which keys there are is said where they are filled: `validator.ordering.details`, `validator.differential.details`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

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
    "counterexamples",
    "coverage",
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
            _text(r, "access"),
            _text(r, "memory"),
            _text(r, "role") or "undeclared",
            r.get("allowed") is True,
            _count(r, "count"),
            _text(r, "instruction"),
            _text(r, "at"),
            _text(r, "reason"),
        )
        for r in _rows(evidence, key)
    )


def resources(evidence: Evidence) -> dict[str, int]:
    """What a kernel takes of the hardware; empty where nobody said."""
    known = _mapping(evidence.details, "resources")
    return {str(k): v for k, v in known.items() if isinstance(v, int) and not isinstance(v, bool)}


def waits(evidence: Evidence) -> tuple[Wait, ...]:
    """What orders a kernel behind its predecessors."""
    return tuple(Wait(_text(r, "kind"), _text(r, "text"), _text(r, "at")) for r in _rows(evidence, "waits"))


def cases(evidence: Evidence) -> tuple[Case, ...]:
    """Every case of a differential run, in the order in which they ran."""
    return tuple(
        Case(
            _text(r, "id"),
            _text(r, "status"),
            {str(k): v for k, v in _mapping(r, "dims").items() if isinstance(v, int)},
            {str(k): str(v) for k, v in _mapping(r, "dtypes").items()},
            _text(r, "class"),
            _text(r, "inputs"),
            _text(r, "origin"),
            tuple(str(f) for f in r.get("faults") or () if isinstance(f, str)),
            _number(r, "error"),
            _number(r, "baseline"),
        )
        for r in _rows(evidence, "cases")
    )


def coverage(evidence: Evidence) -> tuple[Covered, ...]:
    """Every input class, held or not."""
    return tuple(
        Covered(
            _text(r, "class"), _text(r, "words"), _count(r, "cases"), r.get("applies") is not False, _text(r, "reason")
        )
        for r in _rows(evidence, "coverage")
    )


def counterexamples(evidence: Evidence) -> tuple[Counterexample, ...]:
    """The smallest cases that fail."""
    rows = _rows(evidence, "counterexamples")
    return tuple(
        Counterexample(name, _text(r, "kernel"), _text(r, "case"))
        for r in rows
        if _CASE_ID.fullmatch(name := _text(r, "id"))
    )


def _rows(evidence: Evidence, key: str) -> list[dict[str, Any]]:
    rows = evidence.details.get(key)
    return [r for r in rows if isinstance(r, dict)] if isinstance(rows, list) else []


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    return value if isinstance(value, str) else ""


def _count(row: Mapping[str, Any], key: str) -> int:
    value = row.get(key)
    return value if isinstance(value, int) and value >= 0 else 0


def _number(row: Mapping[str, Any], key: str) -> float | None:
    value = row.get(key)
    return float(value) if isinstance(value, int | float) and 0 <= value < float("inf") else None


def _mapping(row: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = row.get(key)
    return value if isinstance(value, dict) else {}
