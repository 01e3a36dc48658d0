"""Ways round the gate that were tried on it are refused by name; honest changes that look like one stay quiet."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.rule_fixtures import RuleFixture, gate_fixtures, open_context
from validator.gate import run
from validator.verdict.model import Finding, Severity

EVASIONS, HONEST = gate_fixtures("evasion"), gate_fixtures("honest")


def errors(fixture: RuleFixture, folder: Path) -> list[Finding]:
    found = run(open_context(fixture, folder)).findings
    return [f for f in found if f.severity in (Severity.ERROR, Severity.UNPROVEN)]


@pytest.mark.parametrize("fixture", EVASIONS.values(), ids=EVASIONS)
def test_an_evasion_is_refused(fixture: RuleFixture, tmp_path: Path) -> None:
    (wanted,) = fixture.expect
    found = errors(fixture, tmp_path)
    assert (wanted["rule"], wanted["path"]) in {(f.rule, f.where.path) for f in found}


@pytest.mark.parametrize("fixture", HONEST.values(), ids=HONEST)
def test_an_honest_change_is_not(fixture: RuleFixture, tmp_path: Path) -> None:
    assert errors(fixture, tmp_path) == []


def test_there_are_enough_of_both() -> None:
    assert len(EVASIONS) >= 30
    assert len(HONEST) >= 15
