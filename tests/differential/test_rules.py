"""Rules, their pages and their fixtures: the same set."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from validator.differential.device import candidate_of
from validator.differential.faults import FaultKind
from validator.differential.rules import BY_FAULT, RULES
from validator.differential.settle import Demands, settle
from validator.differential.tolerances import granted
from validator.policy.model import DifferentialPolicy
from validator.rules import page

PAIRS: dict[str, list[dict[str, Any]]] = tomllib.loads(
    (Path(__file__).parents[2] / "fixtures" / "differential" / "tolerances.toml").read_text()
)
ASKED = {(rule, side): pair for rule, pairs in PAIRS.items() for pair in pairs for side in ("bad", "good")}


def test_every_rule_has_a_fixture_and_every_fault_a_rule(found_by_candidates: set[str]) -> None:
    known = {module.RULE.id for module in RULES}
    assert found_by_candidates | PAIRS.keys() == known
    assert set(BY_FAULT) == set(FaultKind)
    assert {rule.id for rule in BY_FAULT.values()} == found_by_candidates
    assert found_by_candidates.isdisjoint(PAIRS)


@pytest.mark.parametrize("rule", [module.RULE.id for module in RULES])
def test_every_rule_has_a_page(rule: str) -> None:
    text = page(rule)
    assert isinstance(text, str)
    title, what, *rest = text.split("\n\n")
    assert rule in title
    assert len(what.split()) > 10
    assert any(part.startswith("How to mend it: ") for part in rest)


@pytest.mark.parametrize(("rule", "side"), ASKED)
def test_a_tolerance_that_is_too_wide_or_blind(rule: str, side: str, under_tolerance: Callable[..., Any]) -> None:
    pair = ASKED[rule, side]
    contract, result = under_tolerance(pair["kernel"], pair["candidate"], pair[side])
    assert result.of("failed") == []
    _, beforehand = granted(contract, DifferentialPolicy(), "rfcs/x.toml")
    found = {
        finding.rule
        for finding in settle(contract, result, Demands(1), candidate_of(contract), findings=beforehand).findings
    }
    assert (rule in found) is (side == "bad")
