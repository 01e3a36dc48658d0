"""Gate: whether the change touches what judges it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from validator.checks import Goal, settle
from validator.gate.files import touched
from validator.gate.rules import CONFIGURATION, POLICY, REFERENCES, TESTS
from validator.gate.rules.reference_edited import touched_references
from validator.policy.model import TrustedPaths
from validator.stage import StageContext
from validator.verdict.model import StageResult

__all__ = ["run"]


def _counts(*keys: str) -> Callable[[StageContext], Mapping[str, int]]:
    """Changed files, and how many of them policy trusts for each of these keys."""

    def figures(context: StageContext) -> dict[str, int]:
        trusted: TrustedPaths = context.policy.trusted
        counts = {f"trusted {key}": sum(1 for _ in touched(context, getattr(trusted, key))) for key in keys}
        return {"changed files": len(context.change.files), **counts}

    return figures


def _reference_counts(context: StageContext) -> dict[str, int]:
    return {"changed files": len(context.change.files), "references": sum(1 for _ in touched_references(context))}


GOALS = (
    Goal(
        "gate/policy",
        "The change edits no policy and no waiver.",
        POLICY,
        _counts("policies", "waivers"),
        denial="The change edits a policy or a waiver.",
    ),
    Goal(
        "gate/tests",
        "Every test that was there before is still there, and runs as it did.",
        TESTS,
        _counts("tests"),
        not_covered=("what new tests do to others when they run in the same process",),
        denial="A test that was there before is gone, changed, or may run otherwise.",
    ),
    Goal(
        "gate/references",
        "The change edits no reference that it is judged against.",
        REFERENCES,
        _reference_counts,
        denial="The change edits a reference that it is judged against.",
    ),
    Goal(
        "gate/configuration",
        "The change edits nothing that configures CI, pytest, Python or the validator.",
        CONFIGURATION,
        _counts("ci", "validator"),
        denial="The change edits what configures CI, pytest, Python or the validator.",
    ),
)


def run(context: StageContext) -> StageResult:
    """Obligations `gate/policy`, `gate/tests`, `gate/references` and `gate/configuration`."""
    return settle(context, GOALS)
