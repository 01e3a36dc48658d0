"""The change edits what configures the validator, pytest or Python itself.

Some files act from where they lie: `conftest.py` and pytest plugins run before the tests, `sitecustomize.py` and `.pth`
files run at every start of Python, a `numpy.py` at the top level is imported instead of the library. With one of them a
change could decide what every later run sees. Policy may list more (`trusted.validator`). In `pyproject.toml`,
`setup.cfg`, `tox.ini` and `setup.py` only what steers tests, plugins, the build or the validator counts, and in files
of dependencies the version of the validator. A package or an extension beside a module of its name, and compiled
Python, are imported instead of the source that everybody reads.

The validator's own workers start isolated from all of these; other test runs of the project do not.

To mend it, take the edit out and send it as an ordinary change; give fixtures a name in the new test file instead of
a `conftest.py`, and rename a module that hides another.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from validator.change.model import ChangeStatus, FileChange
from validator.checks import finding
from validator.gate.configuration import (
    ini_sections,
    is_hook,
    is_path_file,
    pins_of_validator,
    project_keys,
    setup_keywords,
)
from validator.gate.files import after, before, deed, means
from validator.gate.shadowing import import_roots, shadowed
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
        if means(file, path, context.policy.trusted.validator):
            return "policy lists it as the validator's configuration", (), None
        if hook := is_hook(path):
            return hook, (), None
    old, new = before(context, file), after(context, file)
    if is_path_file(file.path, new):
        return "Python runs its lines at every start", (), None
    if file.status in (ChangeStatus.ADDED, ChangeStatus.RENAMED):
        change = context.change
        hidden = shadowed(file.path, change.base_tree, change.head_tree, import_roots(context.manifest))
        if hidden:
            return f"it would be imported instead of {hidden}", (), None
    if pins_of_validator(old, new, file.path):
        return "it says which validator is installed", (), None
    return _tables(posixpath.basename(file.path), file.path, old, new)


def _tables(name: str, path: str, old: bytes | None, new: bytes | None) -> tuple[str, tuple[str, ...], int | None]:
    """Files of which only parts steer something."""
    if name == "pyproject.toml":
        keys, line = project_keys(old, new, path)
        return ("it steers tests, plugins or the build" if keys else "", keys, line)
    if name in ("setup.cfg", "tox.ini"):
        sections = ini_sections(old, new)
        return ("it steers tests or plugins" if sections else "", sections, None)
    if name == "setup.py":
        keywords = setup_keywords(old, new)
        return ("it puts modules, plugins or commands somewhere" if keywords else "", keywords, None)
    return "", (), None
