"""A changed shared file could not be evaluated with the switch off.

It does not parse, cannot be decoded, is too large or nested too deeply, is written in another language, or there is no
switch to turn off. What was not looked at is never taken as unchanged: the file stays unproven, with the reason.

To mend it, declare the switch in the manifest; keep shared files in Python readable by `ast`; and send changes of
shared C++ and CUDA code separately, where the compiled kernels can be compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import Analysis, analyse
from validator.isolation.effects import import_effects
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/not-evaluated", "shared file that could not be evaluated", Severity.UNPROVEN)


def check(context: StageContext) -> Iterator[Finding]:
    analysis = analyse(context)
    for proof in analysis.proofs:
        if proof.problem:
            yield finding(RULE, proof.path, f"{proof.path} {proof.problem}", line=proof.line)
    if analysis.switch is None:
        for _, path in analysis.pairs:
            yield finding(RULE, path, f"no manifest names a switch, so {path} was not evaluated with it off")
    for path in analysis.added:
        reason = _new_file(analysis, path)
        if reason:
            yield finding(RULE, path, f"{path} is new and lies outside the isolated paths: {reason[0]}", line=reason[1])
    for file in analysis.other:
        yield finding(
            RULE, file.path, f"{file.path} is not Python: what it does with the switch off was not examined",
            line=file.first_line,
        )  # fmt: skip
    for path in sorted(analysis.own):
        source = analysis.head.parse(path)
        if source.module is None:
            yield finding(
                RULE, path, f"{path} {source.problem}: what it does when it is loaded is unknown", line=source.line
            )


_FINDERS = re.compile(rb"\b(iter_modules|walk_packages|listdir|scandir|glob|iterdir|import_module|__import__)\b")


def _new_file(analysis: Analysis, path: str) -> tuple[str, int | None] | None:
    """(why a new shared file may matter with the switch off, line); None when it cannot."""
    source = analysis.head.parse(path)
    if source.module is None:
        return source.problem, source.line
    effect = next(import_effects(source), None)
    if effect is not None:
        return f"it {effect.what} when it is loaded", effect.line
    if path.rsplit("/", 1)[-1] in ("__init__.py", "conftest.py", "sitecustomize.py", "usercustomize.py"):
        return "files of this name are loaded without being named", None
    folders = path.split("/")[:-1]
    for depth in range(len(folders), 0, -1):
        package = "/".join([*folders[:depth], "__init__.py"])
        if package in analysis.head and _FINDERS.search(analysis.head.data(package)):
            return f"{package} loads modules by looking for files", None
    return None
