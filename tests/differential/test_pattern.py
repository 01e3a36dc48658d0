"""What failing cases share is said where one simple rule separates them from the others, and only there."""

from __future__ import annotations

import random

import pytest

from validator.differential.cases import Case
from validator.differential.controls import Controlled
from validator.differential.faults import Fault, FaultKind
from validator.differential.pattern import pattern
from validator.differential.results import CaseResult

FAULT = Fault(FaultKind.VALUE, "out", "wrong")


def results(wrong: object, count: int = 80) -> list[CaseResult]:
    """Cases of random sizes; `wrong`: a predicate over them."""
    drawn = random.Random(5)
    cases = [
        Case(
            "k",
            (("B", drawn.randint(1, 8)), ("T", drawn.randint(1, 64))),
            number,
            plan=drawn.choice(("repeat", "flip")),
            dtypes=(("x", drawn.choice(("float32", "bfloat16"))),),
        )
        for number in range(count)
    ]
    right = Controlled(("zeros of out",), (), ())
    return [CaseResult(c, (FAULT,) if wrong(c) else (), right) for c in cases]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda c: dict(c.dims)["B"] >= 5, "B >= 5"),
        (lambda c: dict(c.dims)["T"] % 2 == 1, "T odd"),
        (lambda c: dict(c.dims)["B"] >= 5 and dict(c.dims)["T"] % 2 == 1, "B >= 5 and T odd"),
        (lambda c: dict(c.dims)["T"] % 12 != 0, "T no multiple of 12"),
        (lambda c: dict(c.dtypes)["x"] == "bfloat16", "x as bfloat16"),
        (lambda c: c.plan == "flip", "plan flip"),
    ],
)
def test_a_simple_rule_is_told_with_its_figures(wrong: object, words: str) -> None:
    found = results(wrong)
    failed = sum(r.status == "failed" for r in found)
    assert pattern(found, {"T": [12]}) == (
        f"fails in {failed} of {failed} cases with {words}, in 0 of {len(found) - failed} others"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda c: True,  # nothing to compare with
        lambda c: c.seed == 7,  # a single one
        lambda c: c.seed * 2654435761 % 97 < 40,  # nothing that the sizes tell
    ],
)
def test_nothing_is_said_where_no_simple_rule_separates_them(wrong: object) -> None:
    assert pattern(results(wrong), {"T": [12]}) == ""
