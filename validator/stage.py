"""What a stage is: a function from a context to a `StageResult`.

A stage does not print, exit, read a clock or call git; whatever it needs of those is handed in here, so that tests hand
in fakes and every run over the same context gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from validator.verdict.model import StageResult

if TYPE_CHECKING:
    from validator.change.model import Change
    from validator.manifest.model import Manifest
    from validator.policy.model import Policy

__all__ = ["Stage", "StageContext"]


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
    journal: Path | None = None
    """Folder that keeps every finished case of every kernel, for a later run to take up; None: nothing is kept."""


class Stage(Protocol):
    def __call__(self, context: StageContext) -> StageResult: ...
