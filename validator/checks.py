"""Runs the rules of a stage and settles its obligations from what they find."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import (
    Evidence,
    Finding,
    Location,
    Obligation,
    Severity,
    StageResult,
    Status,
    Strength,
    worst,
)

__all__ = ["Check", "Goal", "finding", "settle"]


class Check(Protocol):
    """A rule's module: its docstring is the rule's page."""

    __name__: str

    @property
    def RULE(self) -> Rule: ...

    @property
    def check(self) -> Callable[[StageContext], Iterable[Finding]]: ...


@dataclass(frozen=True, slots=True)
class Goal:
    """An obligation, the rules that can refute it, and what they looked at."""

    id: str
    statement: str
    checks: Sequence[Check]
    figures: Callable[[StageContext], Mapping[str, int]]
    """What was examined, counted: name of the thing → how many."""
    blocked: Callable[[StageContext], str] = lambda _: ""
    """Why it cannot be settled here; empty when it can."""
    not_covered: tuple[str, ...] = ()
    denial: str = ""
    """What is the case where it is refuted, as a sentence."""


def finding(
    rule: Rule,
    path: str,
    message: str,
    *,
    line: int | None = None,
    why: str = "",
    fix: str = "",
    steps: tuple[str, ...] = (),
    identity: tuple[str, ...] = (),
    severity: Severity | None = None,
) -> Finding:
    """A finding of this rule. `identity` defaults to the path: one finding a file."""
    return Finding(
        rule=rule.id,
        severity=severity or rule.severity,
        message=message,
        where=Location(path, line),
        why=why,
        fix=fix,
        steps=steps,
        identity=identity or (path,),
    )


def settle(context: StageContext, goals: Iterable[Goal]) -> StageResult:
    """Every rule once; one obligation and one piece of evidence a goal."""
    obligations: list[Obligation] = []
    evidence: list[Evidence] = []
    findings: list[Finding] = []
    digest = _digest(context)
    for goal in goals:
        found = [one for check in goal.checks for one in check.check(context)]
        status, reason = _status(context, goal, found)
        proof = _evidence(context, goal, status, digest)
        evidence.append(proof)
        findings += found
        obligations.append(
            Obligation(
                id=goal.id,
                statement=goal.statement,
                status=status,
                reason=reason,
                evidence=(proof.id,),
                findings=tuple(one.id for one in found),
                strength=Strength.SOURCE,
                denial=goal.denial,
            )
        )
    return StageResult(tuple(obligations), tuple(evidence), tuple(findings))


_OUTCOME = {Severity.ERROR: Status.REFUTED, Severity.UNPROVEN: Status.UNPROVEN}


def _status(context: StageContext, goal: Goal, found: Sequence[Finding]) -> tuple[Status, str]:
    blocked = goal.blocked(context)
    deciding = [one for one in found if one.severity in _OUTCOME]
    if not context.change.files and not blocked and not deciding:
        return Status.NOT_APPLICABLE, "the change touches no file"
    outcomes = [Status.UNPROVEN if blocked else Status.PROVEN, *(_OUTCOME[one.severity] for one in deciding)]
    status = worst(outcomes)
    decided = [one for one in deciding if _OUTCOME[one.severity] is status]
    if not decided:
        return status, blocked
    more = f" (and {len(decided) - 1} more)" if len(decided) > 1 else ""
    return status, decided[0].message + more


def _evidence(context: StageContext, goal: Goal, status: Status, digest: str) -> Evidence:
    figures = goal.figures(context)
    looked = ", ".join(f"{name}: {count:,}" for name, count in (*figures.items(), ("rules", len(goal.checks))))
    return Evidence(
        id=goal.id,
        kind="change",
        strength=Strength.SOURCE,
        summary=looked,
        status=status,
        inputs={"change": digest},
        figures=dict(figures),
        not_covered=goal.not_covered,
    )


def _digest(context: StageContext) -> str:
    """Over every changed path with its modes and object ids."""
    digest = hashlib.sha256()
    for file in context.change.files:
        record = (file.status, oct(file.old_mode), oct(file.new_mode), file.old_id, file.new_id, *file.paths)
        digest.update("\0".join(record).encode("utf-8", "surrogateescape") + b"\0\0")
    return f"sha256:{digest.hexdigest()}"
