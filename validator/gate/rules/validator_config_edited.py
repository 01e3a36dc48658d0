"""The change edits what configures the validator, pytest or Python itself.

Some files act from where they lie: `conftest.py` and pytest plugins run before the tests, `sitecustomize.py` and `.pth`
files run at every start of Python, a `numpy.py` at the top level is imported instead of the library. With one of them a
change could decide what every later run sees. Policy may list more (`trusted.validator`). In `pyproject.toml`,
`setup.cfg` and `tox.ini` only the tables that steer tests, plugins, the build or the validator count.

The validator's own workers start isolated from all of these; other test runs of the project do not.

To mend it, take the edit out and send it as an ordinary change; give fixtures a name in the new test file instead of
a `conftest.py`, and rename a module that hides another.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from validator.change.model import ChangeStatus, FileChange
from validator.checks import finding
from validator.gate.configuration import import_roots, ini_sections, is_hook, project_keys, shadowed
from validator.gate.files import after, before, deed
from validator.globs import matches
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule(
    "gate/validator-config-edited",
    "configuration of validator, pytest or Python edited",
    Severity.ERROR,
    waivable=False,
)


def check(context: StageContext) -> Iterator[Finding]:
    for file in context.change.files:
        reason, steps, line = _reason(context, file)
        if reason:
            yield finding(
                RULE,
                file.path,
                f"{deed(file)}: {reason}",
                line=line or file.first_line,
                why="it decides what this and every later test run sees",
                fix="take it out and send it as an ordinary change",
                steps=steps,
            )


def _reason(context: StageContext, file: FileChange) -> tuple[str, tuple[str, ...], int | None]:
    for path in file.paths:
        if matches(path, context.policy.trusted.validator):
            return "policy lists it as the validator's configuration", (), None
        if hook := is_hook(path):
            return hook, (), None
    if file.status in (ChangeStatus.ADDED, ChangeStatus.RENAMED):
        module = shadowed(file.path, context.change.head_tree, import_roots(context.manifest))
        if module:
            return f"it would be imported instead of {module}", (), None
    name = posixpath.basename(file.path)
    if name == "pyproject.toml":
        keys, line = project_keys(before(context, file), after(context, file), file.path)
        return ("it steers tests, plugins or the build" if keys else "", keys, line)
    if name in ("setup.cfg", "tox.ini"):
        sections = ini_sections(before(context, file), after(context, file))
        return ("it steers tests or plugins" if sections else "", sections, None)
    return "", (), None
