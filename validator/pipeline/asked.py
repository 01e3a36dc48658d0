"""Obligations as the policy asks for them: none is missing, and none is proven by less than it demands."""

from __future__ import annotations

from dataclasses import replace

from validator.policy.model import Policy
from validator.verdict.model import Obligation, StageResult, Status, Strength

__all__ = ["as_policy_asks"]


def as_policy_asks(result: StageResult, policy: Policy) -> StageResult:
    """Add what the policy asks for and no stage settled, refuse evidence that is too weak, and set aside what is
    undecided and nobody asked for. What is refuted stays refuted, asked for or not."""
    asked = _asked(policy)
    missing = tuple(
        Obligation(name, "the policy asks for it", Status.UNPROVEN, "no stage examined it")
        for name in asked
        if not any(_covers(name, o) for o in result.obligations)
    )
    strong = (_strong_enough(o, policy) for o in result.obligations)
    kept = tuple(o if any(_covers(name, o) for name in asked) else _not_asked(o) for o in strong)
    return replace(result, obligations=kept + missing)


def _asked(policy: Policy) -> tuple[str, ...]:
    dropped = {
        family
        for family, required in (
            ("ordering", policy.ordering.required),
            ("differential", policy.differential.required),
        )
        if not required
    }
    return tuple(name for name in policy.obligations if name.partition("/")[0] not in dropped)


def _covers(asked: str, obligation: Obligation) -> bool:
    return obligation.id == asked or obligation.id.startswith(f"{asked}/")


def _strong_enough(obligation: Obligation, policy: Policy) -> Obligation:
    """A run of less than the policy demands proves nothing to it. (Ordering sees to this per architecture.)"""
    demanded = policy.differential.min_strength
    order = list(Strength)
    if obligation.status is not Status.PROVEN or not _covers("differential", obligation):
        return obligation
    if obligation.strength is not None and order.index(obligation.strength) <= order.index(demanded):
        return obligation
    had = obligation.strength.value if obligation.strength else "nothing"
    reason = f"settled by {had}; the policy asks for {demanded.value} (`differential.min_strength`)"
    return replace(obligation, status=Status.UNPROVEN, reason=reason)


def _not_asked(obligation: Obligation) -> Obligation:
    if obligation.status is not Status.UNPROVEN:
        return obligation
    reason = f"the policy does not ask for it; it stands unproven: {obligation.reason}"
    return replace(obligation, status=Status.NOT_ASKED, reason=reason)
