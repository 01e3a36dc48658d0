"""The manifest names no switch.

A fast-track path is off until somebody turns it on. The `[switch]` table says what turns it on (an environment
variable, a flag, a configuration key, a build option), with which value, and what its default is; the two may not be
the same. Policy can do without (`manifest.switch_required`).

To mend it, add:

    [switch]
    kind = "env"
    name = "MY_FAST_PATH"
    value = "1"
    default = "0"
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.rule import Rule
from validator.scope.manifests import look_up
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("scope/switch-missing", "no switch that is off by default", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    found = look_up(context.change, context.policy, context.manifest_path)
    if found.manifest and found.path and context.policy.manifest.switch_required and found.manifest.switch is None:
        yield finding(
            RULE,
            found.path,
            "the manifest names no switch",
            why="without one the new path is on for everybody as soon as it is merged",
            fix='add: [switch] kind = "env", name = "…", value = "1", default = "0"',
        )
