"""Code outside calls into the isolated package where the manifest declares no entry.

The manifest's `isolation.entry_points` are the doors of the package (`module:name`). A reviewer looks at these and at
the conditions around them, and at nothing else inside. A second door would not be looked at, and a door that is
declared and not there says nothing: then it is unproven how the package is reached.

To mend it, go through a declared entry point, or declare this one; correct or remove an entry that is not there.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import analyse
from validator.isolation.blast.imports import Import, When
from validator.isolation.paths import manifest_path
from validator.isolation.source import Sources
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check", "declared"]

RULE = Rule("isolation/undeclared-entry", "call into the isolated package past its entry points", Severity.ERROR)


def declared(found: Import, entries: tuple[str, ...]) -> bool:
    """Whether an import goes through a declared entry point."""
    for entry in entries:
        module, _, name = entry.partition(":")
        if found.module == module and (not found.name or not name or found.name == name.split(".")[0]):
            return True
        if found.name and f"{found.module}.{found.name}" == module:
            return True
    return False


def check(context: StageContext) -> Iterator[Finding]:
    analysis = analyse(context)
    if context.manifest is None:
        return
    entries = context.manifest.isolation.entry_points
    yield from (_absent(entry, context) for entry in entries if not _is_there(entry, analysis.head))
    for found in analysis.radius.inward:
        if found.when is When.TYPE_CHECKING or analysis.is_test(found.path) or declared(found, entries):
            continue
        name = f"{found.module}:{found.name}" if found.name else found.module
        yield finding(
            RULE,
            found.path,
            f"{found.path} reaches `{name}`, which is not among the manifest's entry points",
            line=found.line,
            severity=Severity.ERROR if entries else Severity.WARNING,
            fix=f'add "{name}" to `isolation.entry_points`, or go through one that stands there',
            identity=(found.path, name),
        )


def _is_there(entry: str, head: Sources) -> bool:
    """Whether the head has the module, and the module the name."""
    module, _, name = entry.partition(":")
    path = head.module_path(module)
    return path is not None and name.split(".")[0].encode() in head.data(path)


def _absent(entry: str, context: StageContext) -> Finding:
    return finding(
        RULE,
        manifest_path(context),
        f"the manifest declares the entry point `{entry}`, which is not in the head",
        severity=Severity.UNPROVEN,
        fix="correct it in `isolation.entry_points`, or remove it",
        identity=(entry,),
    )
