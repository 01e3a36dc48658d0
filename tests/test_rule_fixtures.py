"""Every rule of isolation, scope and gate on its pair: it fires where it should, and stays quiet beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import validator.gate
import validator.isolation
import validator.scope
from tests.support.rule_fixtures import fixture_names, open_context, path_of, rule_fixture
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity, StageResult, Status

STAGES = (validator.isolation, validator.scope, validator.gate)
RULES = {
    check.RULE.id: check
    for checks in (validator.isolation.RULES, validator.scope.RULES, validator.gate.RULES)
    for check in checks
}
PAIRS = fixture_names()
ELSEWHERE = frozenset({"isolation/default-path-changed"})
"""Rules over the program instead of the change: their pairs lie in `fixtures/isolation`."""


def _run(context: StageContext) -> list[StageResult]:
    return [stage.run(context) for stage in STAGES]


def _errors(findings: list[Finding]) -> set[str]:
    return {f.rule for f in findings if f.severity in (Severity.ERROR, Severity.UNPROVEN)}


def test_every_rule_of_these_stages_has_a_pair_and_a_page() -> None:
    assert set(PAIRS) == set(RULES) - ELSEWHERE
    for rule, check in RULES.items():
        page = check.__doc__ or ""
        assert len(page.split("\n\n")) >= 3, f"{rule}: a page says what, why and how to mend it"
        assert "To mend it" in page, rule


def test_ids_have_their_family_and_their_modules_name() -> None:
    for rule, check in RULES.items():
        family, _, name = rule.partition("/")
        assert check.__name__.split(".")[1] == family
        assert check.__name__.rpartition(".")[2] == name.replace("-", "_")
        assert check.RULE.waivable is not rule.startswith("gate/") or rule == "scope/manifest-invalid"


@pytest.mark.parametrize("side", ["bad", "good"])
@pytest.mark.parametrize("rule", PAIRS)
def test_pair(rule: str, side: str, tmp_path: Path) -> None:
    fixture = rule_fixture(rule, side)
    context = open_context(fixture, tmp_path)
    results = _run(context)
    findings = [f for result in results for f in result.findings]
    own = sorted((f for f in findings if f.rule == rule), key=lambda f: (f.where.path, f.where.line or 0, f.message))
    expected = sorted(fixture.expect, key=lambda e: (os.fsdecode(path_of(e)), e.get("line", 0)))
    assert [f.where.path for f in own] == [os.fsdecode(path_of(e)) for e in expected], own
    for one, wanted in zip(_matched(own, expected), expected, strict=True):
        assert wanted["says"] in one.message
        assert one.severity == wanted.get("severity", "error")
        assert wanted.get("fix", "") in one.fix
        assert one.where.line == wanted["line"] if "line" in wanted else True, one
        assert set(wanted.get("steps", ())) <= set(one.steps)
        assert one.why or one.severity is Severity.NOTE
        assert one.fix or one.severity is Severity.NOTE or "cannot be read" in one.message
    others = _errors(findings) - {rule}
    assert others == fixture.also, [f for f in findings if f.rule in others ^ fixture.also]
    assert len({f.id for f in findings}) == len(findings), "ids are unique"
    refuted = {o.id for r in results for o in r.obligations if o.status is not Status.PROVEN}
    assert bool(refuted) is bool(_errors(findings))
    for obligation in (o for r in results for o in r.obligations):
        assert obligation.reason or obligation.status is Status.PROVEN


def _matched(own: list[Finding], expected: list[Mapping[str, Any]]) -> list[Finding]:
    """Findings in the order of the expectations: those of one path are told apart by what they say."""
    rest = list(own)
    found = []
    for wanted in expected:
        path = os.fsdecode(path_of(wanted))
        one = next((f for f in rest if f.where.path == path and str(wanted["says"]) in f.message), None)
        assert one is not None, (wanted, rest)
        rest.remove(one)
        found.append(one)
    return found
