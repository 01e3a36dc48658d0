"""Obligations → verdict: only a settled obligation passes, and a waiver settles no more than it names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validator.verdict.compute import WaiverState, apply_waivers, compute, settle, verdict_reason
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

TODAY = date(2026, 11, 29)


def obligation(status: Status, reason: str = "because", **more: object) -> Obligation:
    return replace(Obligation("a/b", "it holds", status, reason), **more)  # type: ignore[arg-type]


def finding(rule: str = "order/early-read", severity: Severity = Severity.ERROR, name: str = "x") -> Finding:
    return Finding(rule, severity, f"{name} is read early", Location("k.ptx"), identity=(name,))


@dataclass(frozen=True)
class FakeWaiver:
    finding: str
    owner: str = "@ann"
    reason: str = "accepted for the trial"
    link: str = "https://tracker.example/1"
    created: date = date(2026, 11, 1)
    expires: date = date(2026, 12, 1)


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


@pytest.mark.parametrize("status", [Status.NOT_APPLICABLE, Status.WAIVED])
def test_not_applicable_and_waived_need_a_reason(status: Status) -> None:
    assert settle(obligation(status, " ")) is Status.UNPROVEN
    assert compute([obligation(status, "")]) is Verdict.UNPROVEN


def test_reason_counts_what_stands_how() -> None:
    text = verdict_reason([obligation(Status.PROVEN), obligation(Status.PROVEN), obligation(Status.REFUTED)])
    assert text == "of 3 obligations: 2 proven, 1 refuted"


def apply(findings: list[Finding], obligation_: Obligation, waivers: list[FakeWaiver], **more: object) -> tuple:
    stage = StageResult((obligation_,), more.pop("evidence", ()), tuple(findings))  # type: ignore[arg-type]
    waived = apply_waivers(stage, waivers, TODAY, **more)  # type: ignore[arg-type]
    return waived.result.obligations[0], waived.result.findings, [u.state for u in waived.uses]


def test_a_waiver_that_covers_every_deciding_finding_settles_the_obligation() -> None:
    fault = finding()
    after, findings, states = apply([fault], obligation(Status.REFUTED, findings=(fault.id,)), [FakeWaiver(fault.id)])
    assert after.status is Status.WAIVED
    assert fault.id in after.reason
    assert findings[0].status is Status.WAIVED
    assert states == [WaiverState.APPLIED]


def test_one_open_finding_keeps_it_refuted() -> None:
    fault, other = finding(name="x"), finding(name="y")
    before = obligation(Status.REFUTED, findings=(fault.id, other.id))
    after, _, _ = apply([fault, other], before, [FakeWaiver(fault.id)])
    assert after.status is Status.REFUTED
    assert "1 of 2" in after.reason


def test_waiving_the_error_does_not_hide_what_was_unproven_beside_it() -> None:
    fault = finding()
    silent = Evidence("e", "ordering-audit", Strength.PTX, "nvdisasm is missing", Status.UNPROVEN)
    before = obligation(Status.REFUTED, findings=(fault.id,), evidence=("e",))
    after, _, _ = apply([fault], before, [FakeWaiver(fault.id)], evidence=(silent,))
    assert after.status is Status.UNPROVEN


def test_waiving_a_warning_settles_nothing() -> None:
    warning = finding(severity=Severity.WARNING)
    before = obligation(Status.UNPROVEN, findings=(warning.id,))
    after, _, _ = apply([warning], before, [FakeWaiver(warning.id)])
    assert after.status is Status.UNPROVEN


@pytest.mark.parametrize(
    ("waiver", "state"),
    [
        (FakeWaiver("order/early-read:000000000000"), WaiverState.UNMATCHED),
        (replace(FakeWaiver(finding().id), expires=date(2026, 11, 28)), WaiverState.EXPIRED),
        (replace(FakeWaiver(finding().id), created=date(2026, 11, 30)), WaiverState.NOT_YET),
    ],
)
def test_waivers_that_do_not_count_are_said(waiver: FakeWaiver, state: WaiverState) -> None:
    fault = finding()
    after, findings, states = apply([fault], obligation(Status.REFUTED, findings=(fault.id,)), [waiver])
    assert states == [state]
    assert after.status is Status.REFUTED
    assert findings[0].status is Status.REFUTED


def test_the_last_day_of_a_waiver_counts() -> None:
    waiver = replace(FakeWaiver(finding().id), expires=TODAY)
    _, _, states = apply([finding()], obligation(Status.REFUTED, findings=(finding().id,)), [waiver])
    assert states == [WaiverState.APPLIED]


@pytest.mark.parametrize("rule", ["gate/policy-edited", "scope/no-way-round"])
def test_gate_findings_and_other_unwaivable_rules_stay(rule: str) -> None:
    fault = finding(rule)
    after, _, states = apply(
        [fault],
        obligation(Status.REFUTED, findings=(fault.id,)),
        [FakeWaiver(fault.id)],
        unwaivable=frozenset({"scope/no-way-round"}),
    )
    assert states == [WaiverState.REFUSED]
    assert after.status is Status.REFUTED


def test_a_waiver_by_a_former_rule_id_still_counts() -> None:
    fault = finding("order/early-read")
    former = replace(fault, rule="order/read-early")
    after, _, states = apply(
        [fault],
        obligation(Status.REFUTED, findings=(fault.id,)),
        [FakeWaiver(former.id)],
        aliases={"order/early-read": ("order/read-early",)},
    )
    assert states == [WaiverState.APPLIED]
    assert after.status is Status.WAIVED


def test_a_former_id_does_not_smuggle_a_gate_finding_out() -> None:
    fault = finding("gate/policy-edited")
    former = replace(fault, rule="order/renamed")
    _, _, states = apply(
        [fault],
        obligation(Status.REFUTED, findings=(fault.id,)),
        [FakeWaiver(former.id)],
        aliases={"gate/policy-edited": ("order/renamed",)},
    )
    assert states == [WaiverState.REFUSED]
