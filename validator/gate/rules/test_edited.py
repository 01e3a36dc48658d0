"""The change edits or deletes a test that was there before.

Existing tests hold what the project promised so far; a change that edits them can make itself right. What counts is
seen in the syntax tree: a test that is gone, skipped, expected to fail, with fewer assertions, a looser tolerance or
fewer parameters, or changed in any other way; and an addition that runs around the existing tests or takes a name they
use (an automatic fixture, a `setup_…` function, a second definition, a statement at the top level).

Adding tests is welcome: a new test file, or new tests in an existing file, is listed as a note. Reformatting and
comments change nothing. Golden data and tests in other languages cannot be compared like that: any edit counts, and
lines that are only added leave it unproven.

To mend it, keep the old tests as they are and add new ones; if an old test is wrong, mend it in a change of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.change.model import ChangeStatus, FileChange
from validator.checks import finding
from validator.gate.edits import Edit, compare_tests
from validator.gate.files import after, before, deed, existed, touched
from validator.gate.reaching import reaches_others
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("gate/test-edited", "existing test edited or deleted", Severity.ERROR, waivable=False)

_WHY = "existing tests hold what was promised so far; who edits them can make the change right"
_FIX = "keep the old tests as they are and add new ones; mend a wrong test in a change of its own"


def check(context: StageContext) -> Iterator[Finding]:
    for file in touched(context, context.policy.trusted.tests):
        severity, message, edits = _judge(context, file)
        note = severity is Severity.NOTE
        yield finding(
            RULE,
            file.path,
            message,
            line=next((edit.line for edit in edits if edit.line), file.first_line),
            why="" if note else _WHY,
            fix="" if note else _FIX,
            steps=tuple(edit.what for edit in edits),
            severity=severity,
        )


def _judge(context: StageContext, file: FileChange) -> tuple[Severity, str, tuple[Edit, ...]]:
    old, new = before(context, file), after(context, file)
    if not existed(context, file):
        reaching = reaches_others(new or b"") if file.path.endswith(".py") else ()
        if reaching:
            told = f"the change brings {file.path}, which reaches into all other tests: {reaching[0].what}"
            return Severity.ERROR, told, reaching
        return Severity.NOTE, f"the change brings a test of its own, {file.path}", ()
    same_kind = file.status is ChangeStatus.MODIFIED and file.old_kind is file.kind
    if not same_kind or old is None or new is None:
        return Severity.ERROR, f"{deed(file)}, an existing test", ()
    edits = compare_tests(old, new) if file.path.endswith(".py") else None
    if edits:
        more = f" and {len(edits) - 1} more" if len(edits) > 1 else ""
        return Severity.ERROR, f"{deed(file)}, an existing test: {edits[0].what}{more}", edits
    if edits is not None:
        return Severity.NOTE, f"the change only adds to {file.path}; its existing tests are unchanged", ()
    if file.binary or file.deleted or file.path.endswith(".py"):
        return Severity.ERROR, f"{deed(file)}, an existing test (+{file.added} -{file.deleted} lines)", ()
    added = f"the change adds {file.added} lines to {file.path}; whether its existing tests still mean the same"
    return Severity.UNPROVEN, f"{added} cannot be told", ()
