"""A kernel that already shipped could not be compared.

A compiled file of the base is another one at the head and could not be opened (the program that unpacks fat binaries is
missing, the file is damaged or too large); or it holds host code and other files besides its kernels, which nobody
compares; or a source that the change touches could not be built at the base and at the head with the same compiler.
What was not compared is never taken as unchanged.

To mend it, leave the shipped files alone, and build the new kernels into files of their own; install what opens them
(`pip install 'validator[sass]'`) and the compiler; or declare how the source is built in a `[[builds]]` table.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import analyse
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule(
    "isolation/shipped-kernel-not-compared", "a kernel that already shipped was not compared", Severity.UNPROVEN
)


def check(context: StageContext) -> Iterator[Finding]:
    for item in analyse(context).shipped.unsettled:
        yield finding(
            RULE,
            item.path,
            f"{item.path} {item.why}",
            why="its kernels run with the switch off",
            fix="leave it alone, or see `validator explain isolation/shipped-kernel-not-compared`",
            identity=(item.path, item.why),
        )
