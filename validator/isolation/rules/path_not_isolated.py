"""A changed file is neither the change's own nor a shared file that it may touch.

A fast-track change lives in paths of its own, so that a reviewer can judge the design instead of every line: whoever
does not turn the switch on is not reached by it. The manifest says which paths those are (`isolation.paths`), policy
says where such paths may be (`isolation.roots`). Where policy names none, a file that the base holds already is no
change's own, unless the same manifest declared it there. A change needs a few lines elsewhere, to add the switch and
to call the new path: those files stand in the manifest's `isolation.shared`, and policy says which may
(`isolation.shared`).
Every other path is refused. A renamed file counts under both names.

To mend it, move the file below a declared path; or declare it as shared when the change cannot do without; or take
it out and send it as an ordinary change.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.globs import matches
from validator.isolation.paths import is_own, is_taken, shared_files
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/path-not-isolated", "file outside the paths the change may touch", Severity.ERROR)

_WHY = "code that other users run is reached by lines that nobody is asked to read in full"


def check(context: StageContext) -> Iterator[Finding]:
    for file in shared_files(context):
        for path in file.paths:
            reason = _reason(context, path)
            if reason:
                message, fix = reason
                line = file.first_line if path == file.path else None
                yield finding(RULE, path, message, line=line, why=_WHY, fix=fix)


def _reason(context: StageContext, path: str) -> tuple[str, str] | None:
    policy, manifest = context.policy.isolation, context.manifest
    if is_own(context, path):
        return None
    roots = f"move it below a path that policy lets a change have for its own: {', '.join(policy.roots)}"
    if not matches(path, policy.shared):
        declared = manifest is not None and matches(path, (*manifest.isolation.paths, *manifest.isolation.shared))
        what = "is declared in the manifest, but policy does not let a fast-track change touch it"
        return (f"{path} {what if declared else 'may not be touched by a fast-track change'}", roots)
    if manifest is None or matches(path, manifest.isolation.shared):
        return None
    if matches(path, manifest.isolation.paths) and matches(path, policy.roots) and is_taken(context, path):
        fix = "add it to `isolation.shared` in the manifest if the change cannot do without, or take it out"
        return f"{path} is declared as isolated, but the base holds it already: it is everybody's", fix
    if matches(path, manifest.isolation.paths):
        return f"{path} is declared as isolated, but lies outside policy's isolation roots", roots
    fix = "move it below one of them, or add it to `isolation.shared` in the manifest if it has to be there"
    return f"{path} is outside the manifest's isolated paths ({', '.join(manifest.isolation.paths)})", fix
