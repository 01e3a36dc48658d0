"""The change brings no manifest.

The manifest (`rfcs/<id>.toml`) is where the author says what the change is, which paths are its own, what turns it on,
for which models and hardware it is meant, and what its kernels' arguments are. Without it nothing of that can be
checked, and a reviewer has only the diff. Policy says where manifests live (`manifest.files`).

To mend it, add one (`validator init` writes a skeleton), or name one that is in the head already with `--rfc`.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.rule import Rule
from validator.scope.manifests import look_up
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("scope/manifest-missing", "no manifest", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    found = look_up(context.change, context.policy, context.manifest_path)
    places = ", ".join(context.policy.manifest.files)
    if found.path is None:
        if found.brought or not context.policy.manifest.required or not context.change.files:
            return
        message, where = f"the change brings no manifest ({places})", context.policy.manifest.files[0]
    elif context.change.head_tree.entry(found.path) is None:
        message, where = f"there is no {found.path} in the head", found.path
    else:
        return
    yield finding(
        RULE,
        where,
        message,
        why="nobody says which paths are the change's own, what turns it on, or where it may run",
        fix="add one (`validator init` writes a skeleton), or name one that is in the head already with --rfc",
        identity=("manifest",),
    )
