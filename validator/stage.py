"""What a stage is: a function from a context to a `StageResult`.

A stage does not print, exit, read a clock or call git; whatever it needs of those is handed in here, so that tests hand
in fakes and every run over the same context gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from validator.globs import matches
from validator.scale.cell import InPlace, Work
from validator.verdict.model import StageResult

if TYPE_CHECKING:
    from validator.change.model import Change, Tree
    from validator.manifest.model import Manifest
    from validator.policy.model import Policy

__all__ = ["Rebuilt", "Stage", "StageContext", "Store"]


class Store(Protocol):
    """Where results are kept. What comes out was checked to be what went in, and by whom."""

    def get(self, key: str) -> bytes | None:
        """The value; None when there is none that can be believed."""
        ...

    def put(self, key: str, value: bytes) -> bool:
        """Keep a value; whether it is kept now."""
        ...


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A kernel source that is older than the change, built for one architecture at the base and at the head."""

    source: str
    """Path at the base."""
    arch: str
    compiler: str = ""
    """Name and version; empty: it was not built."""
    base: Mapping[str, bytes] = field(default_factory=dict)
    """Name, as `kernel.ptx` → content."""
    head: Mapping[str, bytes] = field(default_factory=dict)
    same_inputs: bool = False
    """Nothing that it reads is touched by the change: it was not built."""
    broken: str = ""
    """Why it no longer builds at the head; empty: it does."""
    why: str = ""
    """Why the two could not be made; empty: they were."""


@dataclass(frozen=True, slots=True)
class StageContext:
    """Everything a stage may know."""

    change: Change
    policy: Policy
    manifest: Manifest | None
    """None when the change brings none or it cannot be read; a finding says so already."""
    today: date
    """The gate's day, UTC."""
    seed: int
    """Root of every random choice; recorded for replay."""
    workdir: Path
    """Private folder of this run, removed afterwards."""
    progress: Callable[[str], None]
    """Takes one plain line of progress."""
    manifest_path: str | None = None
    """Path of the manifest in the head tree, as asked for with `--rfc`; None: whichever the change brings."""
    work: Work = field(default_factory=InPlace)
    """Runs what takes long, cell by cell, here or elsewhere."""
    made: dict[str, bytes] = field(default_factory=dict)
    """Compiled files that the build stage makes of the head's sources, by name: it fills this, the audits read it."""
    made_in: dict[str, str] = field(default_factory=dict)
    """Name of such a file → id of the cell that made it."""
    journal: Path | None = None
    """Folder that keeps every finished case of every kernel, for a later run to take up; None: nothing is kept."""
    kernels: tuple[Tree, Tree] | None = None
    """Folders of kernels as built at the base and at the head by the same toolchain; None: none were given."""
    rebuilt: list[Rebuilt] = field(default_factory=list)
    """Kernels that already shipped, as made at both sides: `validator.build.shipped` fills this, the proof reads it."""
    store: Store | None = None
    """Results of earlier runs, kept by what they were made from; None: nothing is kept."""

    @property
    def manifest_file(self) -> str:
        """Path of the manifest in the head tree: its file is named after its id. Empty: the change brings none."""
        if self.manifest_path is not None or self.manifest is None:
            return self.manifest_path or ""
        name = f"{self.manifest.id}.toml"
        brought = (file.path for file in self.change.files if matches(file.path, self.policy.manifest.files))
        return next((path for path in brought if path.rpartition("/")[2] == name), "")


class Stage(Protocol):
    def __call__(self, context: StageContext) -> StageResult: ...
