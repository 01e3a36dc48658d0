"""The manifest has expired.

A fast-track path is a loan: by `expires` it is removed, or promoted by an ordinary review. Past that day nothing more
may be added to it.

To mend it, remove or promote the path; or renew `expires`, within policy's limit, and say why in the summary.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.rule import Rule
from validator.scope.manifests import look_up
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("scope/manifest-expired", "manifest that has expired", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    found = look_up(context.change, context.policy, context.manifest_path)
    if found.manifest and found.path and found.manifest.expires < context.today:
        yield finding(
            RULE,
            found.path,
            f"the manifest expired on {found.manifest.expires}",
            line=found.line("expires"),
            why="past that day the path is to be removed or promoted, not extended",
            fix="remove or promote the path, or renew `expires` within policy's limit",
            identity=(found.path, str(found.manifest.expires)),
        )
