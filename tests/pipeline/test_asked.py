"""Whatever the stages hand back, the policy gets what it asked for."""

from __future__ import annotations

import pytest

from validator.pipeline.asked import as_policy_asks
from validator.policy.model import Policy
from validator.verdict.model import Obligation, StageResult, Status, Strength


def asked(policy: dict[str, object], *obligations: Obligation) -> dict[str, tuple[Status, str]]:
    after = as_policy_asks(StageResult(tuple(obligations)), Policy.model_validate(policy))
    return {o.id: (o.status, o.reason) for o in after.obligations}


def proven(id_: str, strength: Strength | None = Strength.SOURCE) -> Obligation:
    return Obligation(id_, "s", Status.PROVEN, "", strength=strength)


def test_what_no_stage_settled_is_unproven() -> None:
    found = asked({"obligations": ["gate", "gatehouse", "scope/bounds"]}, proven("gate/policy"), proven("scope/x"))
    assert found["gatehouse"] == (Status.UNPROVEN, "no stage examined it")
    assert found["scope/bounds"] == (Status.UNPROVEN, "no stage examined it")
    assert "gate" not in found


@pytest.mark.parametrize("policy", [{"obligations": ["gate"]}, {"differential": {"required": False}}])
def test_undecided_and_not_asked_for_is_set_aside_and_said(policy: dict[str, object]) -> None:
    found = asked(policy, Obligation("differential/k", "s", Status.UNPROVEN, "nothing ran"))
    status, reason = found["differential/k"]
    assert status is Status.NOT_ASKED
    assert "nothing ran" in reason


def test_refuted_stays_refuted_even_if_nobody_asked() -> None:
    found = asked({"obligations": ["gate"]}, Obligation("differential/k", "s", Status.REFUTED, "wrong"))
    assert found["differential/k"] == (Status.REFUTED, "wrong")


@pytest.mark.parametrize(
    ("strength", "status"),
    [
        (Strength.GPU_RUN, Status.PROVEN),
        (Strength.PTX_RUN, Status.PROVEN),
        (Strength.CPU_MODEL, Status.UNPROVEN),
        (Strength.DECLARED, Status.UNPROVEN),
        (None, Status.UNPROVEN),
    ],
)
def test_a_run_weaker_than_the_policy_demands_proves_nothing(strength: Strength | None, status: Status) -> None:
    policy = {"differential": {"min_strength": "ptx-run-on-cpu"}}
    found = asked(policy, proven("differential/k", strength))
    assert found["differential/k"][0] is status
