"""What a proof rests on is said with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from validator.ordering.audit import audit_program
from validator.ordering.ptx import read_ptx

PATTERNS = Path(__file__).parents[2] / "fixtures/ordering/patterns"


@pytest.mark.parametrize(("pattern", "told"), [("full-empty-ring", True), ("each-stage-behind-its-mbarrier", False)])
def test_what_a_ring_hands_on_is_assumed_and_one_copy_needs_no_such_thing(pattern: str, told: bool) -> None:
    (program,) = read_ptx((PATTERNS / pattern / "sm_90a.ptx").read_bytes(), "k.ptx").programs
    audit = audit_program(program, None, artifact="k.ptx")
    assert any("handed from thread to thread" in text for text in audit.assumptions) is told
