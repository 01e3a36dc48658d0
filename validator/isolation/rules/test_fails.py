"""A test of the base fails over the head's code.

The base's tests of the touched shared files are run over the head's code, in a sandbox, with the switch off and with it
on (where the switch is an environment variable), when policy asks for it (`isolation.run_tests`). A test that passes
over the base's own code and fails over the head's says that shared code no longer does what it did.

To mend it, keep what the test asserts.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check", "failed"]

RULE = Rule("isolation/test-fails", "a test of the base fails over the head", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    """Nothing by itself: tests are run by `validator.isolation.tests_run`, which calls `failed`."""
    yield from ()


def failed(name: str, way: str) -> Finding:
    """The finding for one test, by pytest's name for it."""
    path = name.partition("::")[0].partition(": ")[0]
    return finding(
        RULE,
        path,
        f"with the switch {way}, {name} fails, and passes over the base's code",
        why="it says what shared code has to do",
        fix="keep what it asserts",
        identity=(name, way),
    )
