"""The manifest names too few owners, or people whom policy does not accept.

Somebody by name answers for the path after the merge: for its faults, its removal or its promotion. Policy says how
many owners there must be (`manifest.min_owners`) and, if it wishes, who may be one (`manifest.owners`, globs).

To mend it, add an owner that policy accepts.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.globs import name_matches
from validator.rule import Rule
from validator.scope.manifests import look_up
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("scope/manifest-without-owner", "too few owners that policy accepts", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    found = look_up(context.change, context.policy, context.manifest_path)
    if not found.manifest or not found.path:
        return
    policy = context.policy.manifest
    owners = {owner.strip() for owner in found.manifest.owners} - {""}
    accepted = {owner for owner in owners if policy.owners is None or name_matches(owner, policy.owners)}
    if len(accepted) >= policy.min_owners:
        return
    refused = sorted(owners - accepted)
    said = f"; policy does not accept {', '.join(refused)}" if refused else ""
    known = f" out of {', '.join(policy.owners)}" if policy.owners else ""
    yield finding(
        RULE,
        found.path,
        f"the manifest has {len(accepted)} owners, policy asks for {policy.min_owners}{said}",
        line=found.line("owners"),
        why="somebody by name answers for the path after the merge",
        fix=f"name at least {policy.min_owners} in `owners`{known}",
    )
