"""What there is to audit: the compiled files that a manifest names, read from the head tree."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from validator.change.kernels import COMPILED_SUFFIXES
from validator.change.model import Change, ChangeError, ChangeStatus, Entry, FileKind, Tree
from validator.globs import matches
from validator.manifest.model import Artifact
from validator.ordering.result import Skipped

__all__ = ["MAX_ARTIFACT", "Supply", "gather", "unnamed", "with_made"]

MAX_ARTIFACT = 512 * 1024 * 1024
"""Bytes of one compiled file."""


@dataclass(frozen=True, slots=True)
class Supply:
    """Artifacts as they lie in the head tree."""

    blobs: tuple[tuple[str, bytes], ...]
    """(path, content), by path."""
    digests: dict[str, str]
    """Path → `sha256:…`."""
    missing: tuple[Skipped, ...]
    """What the manifest names and nobody could read."""
    declared: tuple[tuple[Artifact, frozenset[str]], ...] = ()
    """Each `[[artifacts]]` table and the paths it means."""

    def source(self, artifact: str) -> str:
        """The file that an audited artifact lies in (`file!member` inside archives)."""
        return next((p for p in self.digests if artifact == p or artifact.startswith(f"{p}!")), artifact)


def gather(tree: Tree, artifacts: Iterable[Artifact]) -> Supply:
    """Read every file that the artifacts' paths or globs mean, once."""
    entries: dict[str, Entry] = {}
    missing: list[Skipped] = []
    declared = []
    for artifact in artifacts:
        found = _meant(tree, artifact.path)
        declared.append((artifact, frozenset(entry.path for entry in found)))
        if not found:
            missing.append(Skipped(artifact.path, "no file of the head has this path", "build it and commit it"))
        entries.update((entry.path, entry) for entry in found)
    blobs = []
    for path, entry in sorted(entries.items()):
        if entry.kind in (FileKind.SYMLINK, FileKind.SUBMODULE):
            missing.append(Skipped(path, f"is a {entry.kind.value}, not a file", "commit the file itself"))
            continue
        try:
            blobs.append((path, tree.read(path, MAX_ARTIFACT)))
        except ChangeError as error:
            missing.append(Skipped.because(path, error))
    digests = {path: f"sha256:{hashlib.sha256(data).hexdigest()}" for path, data in blobs}
    return Supply(tuple(blobs), digests, tuple(missing), tuple(declared))


def with_made(supply: Supply, made: Mapping[str, bytes]) -> Supply:
    """The same and what was built here; what lies in the head under the same name stands for itself."""
    blobs = {**made, **dict(supply.blobs)}
    digests = {path: f"sha256:{hashlib.sha256(data).hexdigest()}" for path, data in made.items()}
    return replace(supply, blobs=tuple(sorted(blobs.items())), digests={**digests, **supply.digests})


def _meant(tree: Tree, pattern: str) -> list[Entry]:
    exact = tree.entry(pattern)
    if exact is not None:
        return [exact]
    folder = re.split(r"[*?]", pattern, maxsplit=1)[0].rpartition("/")[0]
    return [entry for entry in tree.list(folder) if matches(entry.path, (pattern,))]


def unnamed(change: Change, supply: Supply) -> tuple[Skipped, ...]:
    """Compiled files that the change brings and no `[[artifacts]]` table means: nobody would look into them."""
    named = {path for _, paths in supply.declared for path in paths}
    fix = "name it in an [[artifacts]] table, or leave it out"
    return tuple(
        Skipped(file.path, "is a compiled file that the manifest does not name", fix)
        for file in change.files
        if file.status is not ChangeStatus.DELETED
        and file.path.lower().endswith(COMPILED_SUFFIXES)
        and file.path not in named
    )
