"""The change adds and deletes more lines in shared files than policy allows.

Lines in shared files have to be read one by one, as in any change; the fast track is for changes where they are few.
Added and deleted lines of all shared files are summed; the limit is `isolation.max_shared_lines` in policy.

To mend it, move code into the change's own paths; leave reformatting and clean-ups to a change of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.paths import shared_files
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/too-many-shared-lines", "more lines changed in shared files than policy allows", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    shared = list(shared_files(context))
    lines = sum(file.lines for file in shared)
    limit = context.policy.isolation.max_shared_lines
    if lines > limit:
        largest = max(shared, key=lambda file: (file.lines, file.path))
        yield finding(
            RULE,
            largest.path,
            f"{lines:,} lines are changed in shared files, policy allows {limit:,}",
            line=largest.first_line,
            why="these lines are reached without the switch and have to be read one by one",
            fix="move code into the change's own paths; leave clean-ups to a change of their own",
            steps=tuple(f"{file.path}: +{file.added} -{file.deleted}" for file in shared),
            identity=(*sorted(file.path for file in shared), str(lines)),
        )
