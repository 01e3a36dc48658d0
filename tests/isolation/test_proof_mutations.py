"""The honest change is proven; each way of breaking it is found, on the line that breaks it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support.isolation_case import FOLDER, context_of, edited, honest, line_of_edit
from tests.support.repository import Node
from validator.isolation.proof import run
from validator.isolation.rules.proof import PROOF_RULES
from validator.verdict.model import Severity, StageResult, Status

MUTATIONS: list[dict[str, Any]] = tomllib.loads((FOLDER / "mutations.toml").read_text())["mutations"]
QUIET = {"isolation/residue", "isolation/entry"}
"""Listed for the honest change too."""
ELSEWHERE = {"isolation/test-fails"}
"""Needs tests that run: `test_tests_run`."""


def _run(head: dict[bytes, Any], folder: Path) -> StageResult:
    base, _ = honest()
    return run(context_of(base, head, folder))


def test_the_honest_change_is_proven(tmp_path: Path) -> None:
    result = _run(honest()[1], tmp_path)
    left = {o.id: o.status for o in result.obligations if o.status is not Status.PROVEN}
    assert left == {f"isolation/tests-run/{way}": Status.NOT_ASKED for way in ("off", "on")}
    assert [f.rule for f in result.findings if f.severity is not Severity.NOTE] == []
    files = {o.id.removeprefix("isolation/off-path/") for o in result.obligations if "/off-path/" in o.id}
    assert files == {"engine/config.py", "engine/models/k3.py"}
    facts = [a for e in result.evidence for a in e.assumptions]
    assert any("`.fused_executor` is None" in fact for fact in facts)
    new = [p for p in honest()[1] if p not in honest()[0]]
    assert 40 <= len(new) <= 60


def test_every_rule_is_fired_by_some_mutation() -> None:
    assert {m["rule"] for m in MUTATIONS} | QUIET | ELSEWHERE == {check.RULE.id for check in PROOF_RULES}
    assert sum(m.get("outcome", "refuted") == "refuted" for m in MUTATIONS) >= 25
    assert len({m["name"] for m in MUTATIONS}) == len(MUTATIONS)


OPERATOR = """import torch
@torch.library.custom_op("k3::fused", mutates_args=())
def fused(x: torch.Tensor) -> torch.Tensor:
    return x
"""
LAZY = "            from engine.models.k3_fused.executor import build\n"
TOP = "from engine.worker.model_states import DefaultModelState\n"


@pytest.mark.parametrize(
    ("old", "more", "proven"),
    [
        (LAZY, "            from engine.k3_ops import fused\n", True),
        (TOP, "from engine.k3_ops import fused\n", False),
        ("    def get_model_state_cls(self):\n", "        import engine.k3_ops\n", False),
    ],
)
def test_an_operator_in_a_new_shared_file(old: str, more: str, proven: bool, tmp_path: Path) -> None:
    edits = [{"path": "engine/models/k3.py", "old": old, "new": old + more}]
    added = {b"engine/k3_ops.py": Node(OPERATOR.encode())}
    result = _run(edited(honest()[1] | added, edits), tmp_path)
    bad = [o.id for o in result.obligations if o.status in (Status.REFUTED, Status.UNPROVEN)]
    expected: list[str] = [] if proven else ["isolation/off-path/engine/k3_ops.py", "isolation/additions"]
    assert set(expected) <= set(bad), bad
    assert proven is not bool(bad)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m["name"].replace(" ", "-"))
def test_mutation(mutation: dict[str, Any], tmp_path: Path) -> None:
    head = edited(honest()[1], mutation["edits"])
    result = _run(head, tmp_path)
    line = line_of_edit(head, mutation["path"], mutation["at"]) if "at" in mutation else None
    here = [f for f in result.findings if f.rule == mutation["rule"] and f.where.path == mutation["path"]]
    assert line in {f.where.line for f in here}, [(f.where.line, f.message) for f in here or result.findings]
    found = next(f for f in here if f.where.line == line)
    outcome = mutation.get("outcome", "refuted")
    owners = [o for o in result.obligations if found.id in o.findings]
    assert owners
    assert {o.status for o in owners} == {Status(outcome)}
    if mutation["rule"] == "isolation/found-by-name":
        others = [o for o in result.obligations if o not in owners and o.status is Status.UNPROVEN]
        assert others == [], "exactly this obligation is unproven"
