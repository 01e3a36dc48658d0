"""The manifest cannot be read.

Malformed TOML, an unknown or missing key, a wrong type, a scope that contradicts itself: a manifest with a mistake says
nothing, so nothing that it would declare counts. Every mistake is reported at once, each with its line, its key and the
nearest valid name. The finding cannot be waived, because there would be nothing to judge the change by.

To mend it, correct the lines that are named; `validator schema manifest` prints the schema that editors can use.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.rule import Rule
from validator.scope.manifests import look_up
from validator.stage import StageContext
from validator.tables import line_of
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("scope/manifest-invalid", "manifest that cannot be read", Severity.ERROR, waivable=False)


def check(context: StageContext) -> Iterator[Finding]:
    found = look_up(context.change, context.policy, context.manifest_path)
    if found.path is None:
        return
    for problem in found.problems:
        line = line_of(problem, found.path)
        key = problem.where.removeprefix(found.path).lstrip(":0123456789 ")
        yield finding(
            RULE,
            found.path,
            f"{key}: {problem.what}" if key else problem.what,
            line=line,
            why="a manifest with a mistake declares nothing",
            fix=problem.fix or "correct it; `validator schema manifest` prints what is valid",
            identity=(found.path, key, problem.what),
        )
