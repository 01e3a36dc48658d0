"""Which manifest a change is judged by, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from validator.change.model import Change, ChangeStatus, FileKind, MissingFile
from validator.errors import Problem, ValidatorError
from validator.globs import matches
from validator.manifest.load import load_manifest
from validator.manifest.model import Manifest
from validator.policy.model import Policy
from validator.positions import Path, positions
from validator.tables import MAX_BYTES

__all__ = ["Lookup", "look_up"]


@dataclass(frozen=True, slots=True)
class Lookup:
    """What the head says about manifests."""

    brought: tuple[str, ...]
    """Manifests that the change adds or edits."""
    path: str | None
    """The one that counts: as asked for, or the only one brought. None: there is none, or it is ambiguous."""
    data: bytes | None = None
    """Its content as stored; None when it cannot be read."""
    manifest: Manifest | None = None
    problems: tuple[Problem, ...] = ()
    """Why it cannot be read; `where` begins with its path."""

    lines: Mapping[Path, int] = field(default_factory=dict, repr=False)
    """Key path → 1-based line, of a readable manifest."""

    @property
    def others(self) -> tuple[str, ...]:
        """Manifests that the change brings beside the one that counts."""
        return () if self.path is None else tuple(path for path in self.brought if path != self.path)

    def line(self, *key: str) -> int | None:
        """1-based line of a key; None when it is not written there."""
        return self.lines.get(key)


def look_up(change: Change, policy: Policy, asked: str | None = None) -> Lookup:
    """The manifest of a change. `asked`: path in the head tree (`--rfc`), instead of the one that the change brings.

    Nothing is raised: whatever is wrong with what the head brings is a finding, not a reason to stop.
    """
    brought = tuple(
        file.path
        for file in change.files
        if file.status is not ChangeStatus.DELETED and matches(file.path, policy.manifest.files)
    )
    path = asked if asked is not None else brought[0] if len(brought) == 1 else None
    if path is None or change.head_tree.entry(path) is None:
        return Lookup(brought, path)
    entry = change.head_tree.entry(path)
    if entry is not None and entry.kind in (FileKind.SYMLINK, FileKind.SUBMODULE):
        return Lookup(brought, path, problems=(Problem(f"is a {entry.kind}, not a file", path),))
    try:
        data = change.head_tree.read(path, MAX_BYTES)
    except MissingFile as error:
        return Lookup(brought, path, problems=tuple(error.problems))
    manifest, problems, lines = _read(data, path)
    return Lookup(brought, path, data, manifest, problems, lines)


@lru_cache(maxsize=4)
def _read(data: bytes, path: str) -> tuple[Manifest | None, tuple[Problem, ...], Mapping[Path, int]]:
    """Remembered, because every rule on manifests asks for the same one, and a large one takes a second."""
    try:
        return load_manifest(data, path), (), positions(data.decode("utf-8-sig"))
    except ValidatorError as error:
        return None, tuple(error.problems), {}
