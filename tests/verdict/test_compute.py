"""Obligations → verdict: only a settled obligation passes, and a waiver settles no more than it names."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validator.verdict.compute import apply_waivers, compute, settle, verdict_reason
from validator.verdict.model import (
    Evidence,
    Finding,
    Location,
    Obligation,
    Severity,
    StageResult,
    Status,
    Strength,
    Verdict,
)


def obligation(status: Status, reason: str = "because", **more: object) -> Obligation:
    return replace(Obligation("a/b", "it holds", status, reason), **more)  # type: ignore[arg-type]


def finding(rule: str = "order/early-read", severity: Severity = Severity.ERROR, name: str = "x") -> Finding:
    return Finding(rule, severity, f"{name} is read early", Location("k.ptx"), identity=(name,))


def test_no_obligation_is_unproven() -> None:
    assert compute([]) is Verdict.UNPROVEN
    assert "no evidence is never a pass" in verdict_reason([])


@given(st.lists(st.sampled_from(Status), min_size=1))
def test_verdict_follows_from_the_obligations(statuses: list[Status]) -> None:
    verdict = compute([obligation(s) for s in statuses])
    if Status.REFUTED in statuses:
        assert verdict is Verdict.FAIL
    elif Status.UNPROVEN in statuses:
        assert verdict is Verdict.UNPROVEN
    else:
        assert verdict is Verdict.PASS


@pytest.mark.parametrize("status", [Status.NOT_APPLICABLE, Status.NOT_ASKED, Status.WAIVED])
def test_not_applicable_and_waived_need_a_reason(status: Status) -> None:
    assert settle(obligation(status, " ")) is Status.UNPROVEN
    assert compute([obligation(status, "")]) is Verdict.UNPROVEN


def test_reason_names_what_decides_and_counts_the_rest() -> None:
    statuses = [Status.PROVEN, Status.PROVEN, Status.UNPROVEN, Status.REFUTED]
    text = verdict_reason([replace(obligation(s), id=f"a/{n}") for n, s in enumerate(statuses)])
    assert text == "a/3 refuted; of 4 obligations, 2 proven, 1 refuted, 1 unproven"
    many = verdict_reason([replace(obligation(Status.UNPROVEN), id=f"a/{n}") for n in range(5)])
    assert many == "a/0, a/1, a/2 and 2 more unproven; of 5 obligations, 5 unproven"
    assert verdict_reason([obligation(Status.PROVEN)]) == "of 1 obligation, 1 proven"


def apply(
    findings: list[Finding], before: Obligation, *covered: str, evidence: tuple[Evidence, ...] = ()
) -> tuple[Obligation, tuple[Finding, ...]]:
    after = apply_waivers(StageResult((before,), evidence, tuple(findings)), covered)
    return after.obligations[0], after.findings


def test_waivers_over_every_deciding_finding_settle_the_obligation() -> None:
    fault = finding()
    after, findings = apply([fault], obligation(Status.REFUTED, findings=(fault.id,)), fault.id)
    assert after.status is Status.WAIVED
    assert fault.id in after.reason
    assert findings[0].status is Status.WAIVED


def test_one_open_finding_keeps_it_refuted() -> None:
    fault, other = finding(name="x"), finding(name="y")
    after, _ = apply([fault, other], obligation(Status.REFUTED, findings=(fault.id, other.id)), fault.id)
    assert after.status is Status.REFUTED
    assert "1 of 2" in after.reason


def test_waiving_the_error_leaves_an_open_unproven_finding() -> None:
    fault, open_ = finding(name="x"), finding(severity=Severity.UNPROVEN, name="y")
    after, _ = apply([fault, open_], obligation(Status.REFUTED, findings=(fault.id, open_.id)), fault.id)
    assert after.status is Status.UNPROVEN


def test_waiving_the_error_does_not_hide_what_was_unproven_beside_it() -> None:
    fault = finding()
    silent = Evidence("e", "ordering-audit", Strength.PTX, "nvdisasm is missing", Status.UNPROVEN)
    before = obligation(Status.REFUTED, findings=(fault.id,), evidence=("e",))
    after, _ = apply([fault], before, fault.id, evidence=(silent,))
    assert after.status is Status.UNPROVEN


def test_waiving_a_warning_settles_nothing() -> None:
    warning = finding(severity=Severity.WARNING)
    after, _ = apply([warning], obligation(Status.UNPROVEN, findings=(warning.id,)), warning.id)
    assert after.status is Status.UNPROVEN


def test_an_id_that_no_finding_has_changes_nothing() -> None:
    fault = finding()
    after, findings = apply([fault], obligation(Status.REFUTED, findings=(fault.id,)), "order/early-read:000000000000")
    assert after.status is Status.REFUTED
    assert findings == (fault,)


def test_gate_findings_are_never_waived() -> None:
    fault = finding("gate/policy-edited")
    after, findings = apply([fault], obligation(Status.REFUTED, findings=(fault.id,)), fault.id)
    assert after.status is Status.REFUTED
    assert findings == (fault,)
