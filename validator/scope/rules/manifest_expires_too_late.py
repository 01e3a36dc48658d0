"""The manifest lives longer than policy allows.

What never expires is never looked at again. Policy bounds the time from `created` to `expires` (`manifest.max_days`); a
`created` that lies in the future counts as today, so that it cannot lengthen the life.

To mend it, choose an earlier `expires`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from validator.checks import finding
from validator.rule import Rule
from validator.scope.manifests import look_up
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("scope/manifest-expires-too-late", "manifest that lives longer than policy allows", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    found = look_up(context.change, context.policy, context.manifest_path)
    if not found.manifest or not found.path:
        return
    start = min(found.manifest.created, context.today)
    days, limit = (found.manifest.expires - start).days, context.policy.manifest.max_days
    if days > limit:
        yield finding(
            RULE,
            found.path,
            f"the manifest lives {days} days, until {found.manifest.expires}; policy allows {limit}",
            line=found.line("expires"),
            why="what does not expire is not looked at again",
            fix=f"expires = {_latest(start, limit)}",
            identity=(found.path, str(found.manifest.expires)),
        )


def _latest(start: date, days: int) -> date:
    return start + timedelta(days=min(days, (date.max - start).days))
