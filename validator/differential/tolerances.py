"""Tolerances: what a manifest asks for, and how much of it policy grants."""

from __future__ import annotations

import fnmatch

from validator.differential.rules import tolerance_too_wide
from validator.manifest.contract import KernelContract, Tolerance
from validator.policy.model import DifferentialPolicy
from validator.verdict.model import Finding, Location

__all__ = ["granted", "in_words"]


def granted(
    contract: KernelContract, policy: DifferentialPolicy, where: str
) -> tuple[KernelContract, tuple[Finding, ...]]:
    """The contract with a tolerance no wider than policy grants, and a finding where it asked for more."""
    grant = next((t for glob, t in policy.tolerances.items() if fnmatch.fnmatchcase(contract.match, glob)), None)
    asked = contract.tolerance
    cap = Tolerance() if grant is None else _as_contract(grant, asked)
    if _within(asked, cap):
        return contract, ()
    message = f"{contract.match} asks for {in_words(asked)}; policy grants {in_words(cap)}, which was used"
    finding = Finding(
        tolerance_too_wide.RULE.id,
        tolerance_too_wide.RULE.severity,
        message,
        Location(where, kernel=contract.match),
        fix="drop `tolerance` from the manifest, or change the policy first, in a change of its own",
        identity=(contract.match,),
    )
    return contract.model_copy(update={"tolerance": cap}), (finding,)


def _as_contract(grant: object, asked: Tolerance) -> Tolerance:
    keys = {k: v for k in ("rms_ratio", "max_ratio", "atol", "rtol", "ulp") if (v := getattr(grant, k)) is not None}
    return Tolerance.model_construct(policy=str(getattr(grant, "kind", asked.policy)), checker=asked.checker, **keys)


def _within(asked: Tolerance, cap: Tolerance) -> bool:
    if asked.policy == "exact":
        return True
    if asked.policy != cap.policy:
        return False
    keys = {"relative-to-baseline": ("rms_ratio", "max_ratio"), "absolute": ("atol", "rtol"), "ulp": ("ulp",)}
    return all(getattr(asked, k) <= getattr(cap, k) for k in keys.get(asked.policy, ()))


def in_words(tolerance: Tolerance) -> str:
    """What a result may be off by before it counts as wrong."""
    match tolerance.policy:
        case "absolute":
            return f"absolute (atol {tolerance.atol:g}, rtol {tolerance.rtol:g})"
        case "ulp":
            return f"{tolerance.ulp} ulp"
        case "relative-to-baseline":
            return f"{tolerance.rms_ratio:g} times the baseline's error ({tolerance.max_ratio:g} for single elements)"
        case _:
            return tolerance.policy
