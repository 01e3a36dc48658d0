"""Which paths are the change's own, and which belong to everybody."""

from __future__ import annotations

from collections.abc import Iterator

from validator.change.model import FileChange
from validator.globs import matches
from validator.stage import StageContext

__all__ = ["is_own", "shared_files"]


def is_own(context: StageContext, path: str) -> bool:
    """Declared by the manifest *and* where policy lets a change have files of its own; a manifest always is.

    Without a manifest nothing is declared: then policy's roots alone decide.
    """
    policy, manifest = context.policy, context.manifest
    if matches(path, policy.manifest.files):
        return True
    return matches(path, policy.isolation.roots) and (manifest is None or matches(path, manifest.isolation.paths))


def shared_files(context: StageContext) -> Iterator[FileChange]:
    """Changed files that belong to everybody; a file moved in or out of the isolation counts.

    Files that judge a change are left to the `gate/` rules, which refuse every edit of them: one fault, one finding.
    """
    trusted = context.policy.trusted
    judges = (*trusted.policies, *trusted.waivers, *trusted.ci, *trusted.validator)
    for file in context.change.files:
        if not all(is_own(context, path) or matches(path, judges) for path in file.paths):
            yield file
