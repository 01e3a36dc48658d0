"""The change edits a policy.

Policy is read from the base revision, so an edit does not judge the change that carries it. It is shown all the same,
key by key: after the merge it would judge everybody. Nothing waives this finding, because a change could otherwise
bring its own waiver and its own limits in two steps. The edited file is parsed, and its errors are reported.

To mend it, take the edit out and send it as an ordinary change that a maintainer reviews.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.change.model import FileChange
from validator.checks import finding
from validator.errors import ValidatorError
from validator.gate.files import after, before, deed, touched
from validator.gate.keys import changed_keys, try_document
from validator.policy.load import load_policy
from validator.rule import Rule
from validator.stage import StageContext
from validator.tables import line_of
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("gate/policy-edited", "policy edited by the change it judges", Severity.ERROR, waivable=False)


def check(context: StageContext) -> Iterator[Finding]:
    trusted = context.policy.trusted
    for file in touched(context, trusted.policies, but=trusted.waivers):
        steps, line = _keys(context, file)
        more = f": {steps[0]}" if len(steps) == 1 else f": {len(steps)} keys" if steps else ""
        yield finding(
            RULE,
            file.path,
            f"{deed(file)}, a policy{more}",
            line=line or file.first_line,
            why="the policy at the base judges this change; after the merge the edit would judge everybody",
            fix="take it out and send it as an ordinary change",
            steps=steps,
        )
        yield from _errors(context, file)


def _keys(context: StageContext, file: FileChange) -> tuple[tuple[str, ...], int | None]:
    old, _ = try_document(before(context, file), file.path)
    new, _ = try_document(after(context, file), file.path)
    if old is None or new is None or not file.path.endswith(".toml"):
        return (), None
    keys = changed_keys(old, new)
    return tuple(key.text for key in keys), next((key.line for key in keys if key.line), None)


def _errors(context: StageContext, file: FileChange) -> Iterator[Finding]:
    """What is wrong with the edited file, taken alone."""
    data = after(context, file)
    if data is None or not file.path.endswith(".toml"):
        return
    try:
        load_policy({file.path: data})
    except ValidatorError as error:
        for problem in error.problems:
            yield finding(
                RULE,
                file.path,
                f"the edited policy cannot be read: {problem}",
                line=line_of(problem, file.path),
                why="after the merge no change could be judged by it",
                fix=problem.fix,
                identity=(file.path, problem.what),
            )
