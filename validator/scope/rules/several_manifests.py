"""The change brings several manifests.

One change is judged by one manifest: with two, each could declare what the other needs. A change that edits the
manifest of an earlier change is of this kind too. Where `--rfc` says which one counts, the others are listed: nothing
that they declare was judged, and their paths are everybody's.

To mend it, split the change, or say with `--rfc` which manifest counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.rule import Rule
from validator.scope.manifests import look_up
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("scope/several-manifests", "several manifests in one change", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    found = look_up(context.change, context.policy, context.manifest_path)
    if found.path is None and len(found.brought) > 1:
        yield finding(
            RULE,
            found.brought[0],
            f"the change brings {len(found.brought)} manifests: {', '.join(found.brought)}",
            why="each could declare what the other needs",
            fix="split the change, or say with --rfc which one counts",
            identity=found.brought,
        )
    for path in found.others:
        yield finding(
            RULE,
            path,
            f"the change also brings {path}, which was not judged: {found.path} is the manifest that counts",
            why="what it declares takes effect when it is merged, and nobody looked at it",
            fix="split the change, or judge it again with that manifest",
            severity=Severity.WARNING,
        )
