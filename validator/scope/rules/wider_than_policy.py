"""The declared scope is wider than policy allows.

The narrower the scope, the more of it can be validated: policy bounds models, architectures, dtypes, batch sizes and
parallelism (`[scope]`). What a manifest declares beyond that was not agreed to, whatever the tests say. A dimension
that policy leaves out is not limited. Each dimension is a finding of its own.

To mend it, narrow the manifest's `[scope]`; a wider scope is a change of policy, made first and by a maintainer.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.globs import name_matches
from validator.manifest.model import ScopeDeclaration
from validator.policy.model import ScopePolicy
from validator.rule import Rule
from validator.scope.manifests import look_up
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("scope/wider-than-policy", "declared scope wider than policy allows", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    found = look_up(context.change, context.policy, context.manifest_path)
    if not found.manifest or not found.path:
        return
    for key, wide, allowed in _wider(found.manifest.scope, context.policy.scope):
        yield finding(
            RULE,
            found.path,
            f"scope.{key} declares {', '.join(wide)}; policy allows {allowed}",
            line=found.line("scope", key),
            why="nobody agreed to that scope, and the evidence asked for does not cover it",
            fix="narrow it; a wider scope is a change of policy, made first",
            identity=(found.path, key, *wide),
        )


def _wider(declared: ScopeDeclaration, policy: ScopePolicy) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """(key, what is too wide, what is allowed)."""
    for key in ("models", "architectures", "dtypes", "parallelism"):
        allowed: tuple[str, ...] | None = getattr(policy, key)
        if allowed is None:
            continue
        free = ("none",) if key == "parallelism" else ()
        wide = tuple(name for name in getattr(declared, key) if not name_matches(name, (*free, *allowed)))
        if wide:
            yield key, wide, ", ".join(allowed) or "none"
    batch, limit = declared.batch, policy.batch
    if limit is not None and (batch.min < limit.min or batch.max > limit.max):
        yield "batch", (f"{batch.min} to {batch.max}",), f"{limit.min} to {limit.max}"
