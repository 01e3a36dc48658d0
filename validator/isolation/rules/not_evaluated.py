"""A changed shared file could not be evaluated with the switch off.

It does not parse, cannot be decoded, is too large or nested too deeply, is written in another language, or there is no
switch to turn off. What was not looked at is never taken as unchanged: the file stays unproven, with the reason.

To mend it, declare the switch in the manifest; keep shared files in Python readable by `ast`; and send changes of
shared C++ and CUDA code separately, where the compiled kernels can be compared.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import Analysis, analyse
from validator.isolation.effects import import_effects
from validator.isolation.offpath.loading import is_needed
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "built", "check", "expected", "shadowing", "walked"]

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
    yield from walked(analysis)
    yield from shadowing(analysis)
    yield from expected(analysis)
    yield from built(analysis)
    for path in sorted(analysis.own):
        source = analysis.head.parse(path)
        if source.module is None:
            yield finding(
                RULE, path, f"{path} {source.problem}: what it does when it is loaded is unknown", line=source.line
            )


_FINDERS = re.compile(rb"\b(iter_modules|walk_packages|listdir|scandir|glob|iterdir|import_module|__import__)\b")


_WALKERS = re.compile(
    rb"\b(?:iter_modules|walk_packages)\b"
    rb"|\b(?:listdir|scandir|iterdir|r?glob|os\.walk)\([\s\S]{0,1000}?"
    rb"\b(?:import_module|__import__|spec_from_file_location)\("
)
"""Code that loads modules that it finds: a list of files, and within some lines of it modules are loaded by name."""


def walked(analysis: Analysis) -> Iterator[Finding]:
    """Shared code that loads whatever modules it finds around the isolated package."""
    words = ("iter_modules", "walk_packages", "import_module", "__import__", "spec_from_file_location")
    for walker in sorted({p for word in words for p in analysis.base.mentions(word)}):
        folder = walker.rpartition("/")[0]
        found = next((p for p in sorted(analysis.own) if p.startswith(f"{folder}/")), None) if folder else None
        line = _walk(analysis.base.data(walker)) if found and not analysis.is_test(walker) else None
        if found is not None and line is not None:
            what = f"{walker}:{line} loads modules by looking for files: whether it finds {found} was not worked out"
            yield finding(RULE, found, what, identity=(walker,))


def _walk(data: bytes) -> int | None:
    """Line on which a file looks for modules that it loads."""
    match = _WALKERS.search(data)
    return data.count(b"\n", 0, match.start()) + 1 if match else None


def expected(analysis: Analysis) -> Iterator[Finding]:
    """New modules, shared or isolated, that the base already asks for: an optional import that failed until now."""
    for found in analysis.awaited:
        asks = "puts together names of modules and can ask for" if found.in_parts else "asks for"
        what = f"{found.asked_by}:{found.line} {asks} `{found.name}`, which only the head has: what it does then"
        yield finding(RULE, found.path, f"{what} was not worked out", identity=(found.asked_by, found.name))


def built(analysis: Analysis) -> Iterator[Finding]:
    """Native files of the isolated package that a build of the base compiles into what everybody loads."""
    for found in analysis.globbed:
        what = f"{found.build}:{found.line} compiles every `{found.pattern}`, and so {found.path} for everybody"
        yield finding(RULE, found.path, f"{what}: what it does when it is loaded was not examined")


def shadowing(analysis: Analysis) -> Iterator[Finding]:
    """Compiled modules that the change brings and that Python loads instead of a module of the same name."""
    for file in analysis.shared:
        folder, _, name = file.path.rpartition("/")
        stem = f"{folder}/{name.partition('.')[0]}".lstrip("/")
        if name.endswith((".so", ".pyd")) and (f"{stem}.py" in analysis.head or f"{stem}/__init__.py" in analysis.head):
            yield finding(
                RULE, file.path, f"{file.path} is loaded instead of {stem}.py, and what it does was not examined"
            )


def _new_file(analysis: Analysis, path: str) -> tuple[str, int | None] | None:
    """(why a new shared file may matter with the switch off, line); None when it cannot."""
    source = analysis.head.parse(path)
    if source.module is None:
        return source.problem, source.line
    effect = next(import_effects(source, analysis.names.at(path)), None)
    if effect is not None and path not in analysis.behind_the_switch:
        return f"it {effect.what} when it is loaded", effect.line
    if path.rsplit("/", 1)[-1] in ("__init__.py", "conftest.py", "sitecustomize.py", "usercustomize.py"):
        return "files of this name are loaded without being named", None
    folders = path.split("/")[:-1]
    if not folders and path.removesuffix(".py") in sys.stdlib_module_names:
        return "a module of Python itself has this name, and this one takes its place", None
    if not folders and is_needed(analysis.base, path.removesuffix(".py")):
        return "the base imports a package of this name, and this file takes its place", None
    for depth in range(len(folders), 0, -1):
        package = "/".join([*folders[:depth], "__init__.py"])
        if package in analysis.head and _FINDERS.search(analysis.head.data(package)):
            return f"{package} loads modules by looking for files", None
    return None
