"""The change brings a binary file where policy expects none.

Nobody can read a binary file in a review, and a compiled one may not be what its source says. Policy lists where they
may be (`isolation.binary`), such as the compiled kernels that the ordering audit examines. A file counts as binary when
it holds a NUL byte near its start or is too large for a line diff, whatever attributes the repository gives it.

To mend it, build it from source instead, or ask the maintainers to list the place in policy.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.change.model import ChangeStatus
from validator.checks import finding
from validator.globs import matches
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/binary-file", "binary file where policy expects none", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    for file in context.change.files:
        if (
            file.binary
            and file.status is not ChangeStatus.DELETED
            and not matches(file.path, context.policy.isolation.binary)
        ):
            yield finding(
                RULE,
                file.path,
                f"{file.path} is binary ({file.size or 0:,} bytes)",
                why="nobody can read it in a review",
                fix="build it from source, or ask for its place to be listed in policy's `isolation.binary`",
                identity=(file.path, file.new_id),
            )
