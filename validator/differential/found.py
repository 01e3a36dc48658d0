"""Failures, written down as soon as there is one: who is interrupted in the middle of a cell still knows of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter, ValidationError

from validator.differential.results import WHERE, CaseResult, replay_command
from validator.text import shorten, visible

__all__ = ["Found", "Noted"]


@dataclass(frozen=True, slots=True)
class Noted:
    """A failed case, and the smallest one that fails in the same way once that is known."""

    __pydantic_config__ = ConfigDict(extra="forbid", ser_json_inf_nan="constants")

    failed: CaseResult
    simpler: CaseResult | None = None

    def words(self, where: str = WHERE) -> str:
        """For whoever interrupted the run: what failed, and how to run it again. `where`: see `replay_command`."""
        shown = self.simpler or self.failed
        fault = f"{shown.faults[0].kind.value}: {shorten(shown.faults[0].message, 400)}" if shown.faults else ""
        told = f"{shown.case.kernel} fails with {shown.words()}; {fault}"
        return visible(f"{told}; {replay_command(shown.case, where)}")


@cache
def _noted() -> TypeAdapter[Noted]:
    return TypeAdapter(Noted)


@dataclass
class Found:
    """A folder of failures. Writers and the reader may be different processes; a folder that is gone takes nothing."""

    folder: Path
    _told: set[str] = field(default_factory=set)

    def note(self, failed: CaseResult, simpler: CaseResult | None) -> None:
        """Write down a failure; once more when a simpler case is known."""
        name = f"{failed.case.id}.{'2' if simpler else '1'}"
        with suppress(OSError):
            partial = self.folder / f".{name}"
            partial.write_bytes(_noted().dump_json(Noted(failed, simpler)))
            os.replace(partial, self.folder / name)

    def news(self) -> Iterator[Noted]:
        """What was written down since the last time, the simpler of two for a case."""
        entries = sorted((p for p in self.folder.glob("[!.]*")), key=lambda p: (p.stat().st_mtime_ns, p.name))
        last = {p.stem: p for p in entries}
        for stem, path in last.items():
            if path.name not in self._told:
                self._told |= {f"{stem}.1", path.name}
                with suppress(OSError, ValidationError):
                    yield _noted().validate_json(path.read_bytes())
