"""Which paths are the change's own, and which belong to everybody."""

from __future__ import annotations

from collections.abc import Iterator

from validator.change.model import FileChange, FileKind, MissingFile
from validator.errors import ValidatorError
from validator.globs import matches
from validator.manifest.load import load_manifest
from validator.stage import StageContext

__all__ = ["is_own", "is_taken", "manifest_path", "shared_files"]


def is_own(context: StageContext, path: str) -> bool:
    """Declared by the manifest *and* where policy lets a change have files of its own; a manifest always is.

    Without a manifest nothing is declared: then policy's roots alone decide. Where policy names no roots, a declaration
    takes nothing that is everybody's already: a file that the base holds is the change's own only if the same manifest
    declared it there.
    """
    policy, manifest = context.policy, context.manifest
    if matches(path, policy.manifest.files):
        return True
    if not matches(path, policy.isolation.roots):
        return False
    if manifest is None:
        return True
    return matches(path, manifest.isolation.paths) and (
        "**" not in policy.isolation.roots or not is_taken(context, path)
    )


def is_taken(context: StageContext, path: str) -> bool:
    """Whether the base holds the file, and not as the own file of this manifest."""
    base = context.change.base_tree
    if base.entry(path) is None:
        return False
    before = base.entry(manifest_path(context))
    if before is None or before.kind is FileKind.SYMLINK:
        return True
    try:
        manifest = load_manifest(base.read(before.path), before.path)
    except (MissingFile, ValidatorError):
        return True
    return not matches(path, manifest.isolation.paths)


def manifest_path(context: StageContext) -> str:
    """Where the manifest is; empty: the change brings none."""
    return context.manifest_file


def shared_files(context: StageContext) -> Iterator[FileChange]:
    """Changed files that belong to everybody; a file moved in or out of the isolation counts.

    Files that judge a change are left to the `gate/` rules, which refuse every edit of them: one fault, one finding.
    """
    trusted = context.policy.trusted
    judges = (*trusted.policies, *trusted.waivers, *trusted.ci, *trusted.validator)
    for file in context.change.files:
        if not all(is_own(context, path) or matches(path, judges) for path in file.paths):
            yield file
