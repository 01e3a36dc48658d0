"""The change edits a reference that it is judged against.

A reference is what the candidate is compared with: files that policy lists (`trusted.references`), files that the
manifest names, the modules of each kernel's `reference`, `baseline`, `generator` and `checker`, and stored cases that
failed once (`differential.corpus`). The base revision's
copy is what judges; an edited one is refused, because after the merge it would judge every later change.

A reference that the change itself brings is allowed and shown to the reviewer as such: it proves that candidate and
reference agree, not that either is right.

To mend it, take the edit out and send it as an ordinary change.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from validator.change.model import FileChange
from validator.checks import finding
from validator.gate.files import deed, existed, means
from validator.manifest.contract import KernelContract
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check", "touched_references"]

RULE = Rule("gate/reference-edited", "reference edited by the change it judges", Severity.ERROR, waivable=False)


def touched_references(context: StageContext) -> Iterator[FileChange]:
    """Changed files that are references, by policy or by the manifest."""
    named = _named(context)
    corpus = context.policy.differential.corpus
    globs = (*context.policy.trusted.references, *((f"{corpus.rstrip('/')}/**",) if corpus else ()))
    for file in context.change.files:
        if any(path in named or means(file, path, globs) for path in file.paths):
            yield file


def check(context: StageContext) -> Iterator[Finding]:
    for file in touched_references(context):
        if existed(context, file):
            yield finding(
                RULE,
                file.path,
                f"{deed(file)}, a reference",
                line=file.first_line,
                why="the base's copy judges this change; after the merge the edited one would judge every later change",
                fix="take the edit out and send it as an ordinary change",
            )
        else:
            yield finding(
                RULE,
                file.path,
                f"the change brings a reference of its own, {file.path}",
                line=file.first_line,
                why="agreement with it shows that two new files agree, not that either is right",
                severity=Severity.NOTE,
            )


def _named(context: StageContext) -> frozenset[str]:
    """Files that the manifest names as references, as paths in the tree."""
    manifest = context.manifest
    if manifest is None:
        return frozenset()
    modules = (path for kernel in manifest.kernels for path in _modules(kernel))
    return frozenset((*(reference.path for reference in manifest.references), *modules))


def _modules(kernel: KernelContract) -> Iterator[str]:
    for name in (kernel.reference, kernel.baseline, kernel.generator, kernel.tolerance.checker):
        if name:
            module = name.partition(":")[0].replace(".", "/")
            stem = posixpath.normpath(posixpath.join(kernel.import_root, module))
            yield f"{stem}.py"
            yield f"{stem}/__init__.py"
