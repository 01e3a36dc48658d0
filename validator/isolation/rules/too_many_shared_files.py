"""The change touches more shared files than policy allows.

Files outside the change's own paths are where it can reach people who did not ask for it. A switch and a dispatch fit
in a few files; more of them means that the change is not isolated, however small each edit is.
The limit is `isolation.max_shared_files` in policy; renamed and deleted files count.

To mend it, move what is new into the change's own paths and leave one place that calls it.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.paths import shared_files
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/too-many-shared-files", "more shared files touched than policy allows", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    shared = list(shared_files(context))
    limit = context.policy.isolation.max_shared_files
    if len(shared) > limit:
        largest = max(shared, key=lambda file: (file.lines, file.path))
        yield finding(
            RULE,
            largest.path,
            f"{len(shared)} shared files are touched, policy allows {limit}",
            line=largest.first_line,
            why="each shared file is a place where the change reaches people who did not ask for it",
            fix="move what is new into the change's own paths and leave one place that calls it",
            steps=tuple(f"{file.path}: +{file.added} -{file.deleted}" for file in shared),
            identity=tuple(sorted(file.path for file in shared)),
        )
