"""Every finding of a gate rule is owed to the file it names: without that file's edit it is gone, and no other is."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.rule_fixtures import RuleFixture, fixture_names, open_context, rule_fixture
from validator.gate import run
from validator.verdict.model import Severity

RULES = [name for name in fixture_names() if name.startswith("gate/")]


def found(fixture: RuleFixture, folder: Path) -> set[str]:
    """Paths at which the fixture's own rule fires."""
    findings = run(open_context(fixture, folder)).findings
    return {f.where.path for f in findings if f.rule == fixture.rule and f.severity is Severity.ERROR}


@pytest.mark.parametrize("rule", RULES)
def test_a_finding_goes_with_the_edit_it_names(rule: str, tmp_path: Path) -> None:
    fixture = rule_fixture(rule, "bad")
    whole = found(fixture, tmp_path / "whole")
    assert whole
    for number, path in enumerate(sorted(whole)):
        key = os.fsencode(path)
        head = {name: node for name, node in fixture.head.items() if name != key}
        if key in fixture.base:
            head[key] = fixture.base[key]
        assert found(replace(fixture, head=head), tmp_path / str(number)) == whole - {path}
