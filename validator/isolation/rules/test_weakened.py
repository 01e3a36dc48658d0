"""A test that covers a touched shared file has lost assertions.

The tests at the base say what shared code has to do. A change that touches shared code and drops or loosens what its
tests assert takes away the evidence that nothing changed.

To mend it, put the assertion back; a test that has to change is an ordinary change of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import analyse
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/test-weakened", "a covering test lost assertions", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    for test in analyse(context).coverage:
        for line, what in test.edited if not test.lost else ():
            yield finding(
                RULE,
                test.path,
                f"{test.path}, which covers shared code that the change touches, is not the test it was: {what}",
                line=line,
                why="whether it still runs and asserts the same is for a person to see",
                fix="leave it alone, and add tests of the change in a file of their own",
                identity=(test.path, what),
                severity=Severity.UNPROVEN,
            )
        if not test.lost:
            continue
        first = test.lost[0][1]
        what = "is gone" if test.gone else f"no longer has `{first if len(first) <= 100 else first[:99] + '…'}`"
        more = f" and {len(test.lost) - 1} more assertions" if len(test.lost) > 1 and not test.gone else ""
        yield finding(
            RULE,
            test.path,
            f"{test.path}, which covers shared code that the change touches, {what}{more}",
            line=None if test.gone else test.lost[0][0],
            why="it says what shared code has to do",
            fix="put it back",
            steps=tuple(f"base {line}: {text}" for line, text in test.lost[:20]),
        )
