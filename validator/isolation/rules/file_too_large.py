"""The change brings a file that is larger than policy allows.

A very large file hides what is in it and stays in the history of every clone. The limit is `isolation.max_file_bytes`
in policy. The file's size comes from the object's header; its content is not read.

To mend it, split the file, generate it at build time, or keep it in an artifact store.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/file-too-large", "file larger than policy allows", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    limit = context.policy.isolation.max_file_bytes
    for file in context.change.files:
        if file.size is not None and file.size > limit:
            yield finding(
                RULE,
                file.path,
                f"{file.path} has {file.size:,} bytes, policy allows {limit:,}",
                why="it cannot be reviewed, and every clone carries it from now on",
                fix="split it, generate it at build time, or keep it in an artifact store",
                identity=(file.path, file.new_id),
            )
