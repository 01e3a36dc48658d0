"""A verdict that does not follow from its own evidence is found, whatever the digests say."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from validator.verdict.follows import does_not_follow
from validator.verdict.model import Finding, Location, Severity

BROKEN = Finding("order/early-read", Severity.ERROR, "m", Location("k.ptx"), identity=("k", "x"))
SOUND: dict[str, Any] = {
    "verdict": "fail",
    "obligations": [
        {"id": "a", "statement": "s", "status": "proven", "reason": "", "evidence": ["e"], "findings": []},
        {"id": "b", "statement": "s", "status": "refuted", "reason": "r", "evidence": ["f"], "findings": [BROKEN.id]},
        {"id": "c", "statement": "s", "status": "not-applicable", "reason": "r", "evidence": [], "findings": []},
    ],
    "evidence": [{"id": "e", "status": "proven"}, {"id": "f", "status": "refuted"}],
    "findings": [
        {
            "id": BROKEN.id,
            "rule": BROKEN.rule,
            "severity": "error",
            "status": "refuted",
            "identity": list(BROKEN.identity),
        }
    ],
    "waivers": [],
}


def test_what_hangs_together_is_left_alone() -> None:
    assert list(does_not_follow(SOUND)) == []


def said(**edits: Any) -> list[str]:
    """What is said of the sound document after edits named `list__index__key`."""
    result = copy.deepcopy(SOUND)
    for path, value in edits.items():
        *steps, last = path.split("__")
        at: Any = result
        for step in steps:
            at = at[int(step)] if step.isdigit() else at[step]
        at[last] = value
    return list(does_not_follow(result))


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ({"verdict": "pass"}, "the verdict does not follow from the obligations, which give fail"),
        ({"obligations__0__evidence": []}, "a is proven without evidence"),
        ({"obligations__0__evidence": ["gone"]}, "a rests on gone, which is not there"),
        ({"obligations__0__findings": [BROKEN.id]}, f"a is proven against {BROKEN.id}"),
        ({"obligations__0__evidence": ["f"]}, "a is proven against the evidence f"),
        ({"obligations__1__status": "proven", "verdict": "pass"}, f"b is proven against {BROKEN.id}"),
        ({"obligations__1__status": "waived", "verdict": "pass"}, f"b is waived against {BROKEN.id}"),
        ({"findings__0__status": "waived"}, f"{BROKEN.id} is waived by no waiver that counts"),
        ({"findings__0__identity": ["k", "y"]}, f"{BROKEN.id} is not the id of what it names"),
        ({"reason": "all is well"}, "the reason is not the one that the obligations give"),
    ],
)
def test_every_break_is_said(edits: dict[str, Any], words: str) -> None:
    assert words in said(**edits)


def test_a_waiver_that_counts_settles_its_finding_and_no_other() -> None:
    waived = {"findings__0__status": "waived", "obligations__1__status": "waived", "verdict": "pass"}
    assert said(**waived, waivers=[{"finding": BROKEN.id, "applied": True}]) == []
    assert said(**waived, waivers=[{"finding": BROKEN.id, "applied": False}]) != []
    assert said(**waived, waivers=[{"finding": "order/early-read:000000000000", "applied": True}]) != []
    gate = {**waived, "findings__0__rule": "gate/policy-edited", "findings__0__identity": []}
    assert f"{BROKEN.id} is waived, and nothing waives a gate" in said(
        **gate, waivers=[{"finding": BROKEN.id, "applied": True}]
    )
