"""A plan: the cells that a check would run, in order, what each is thought to take, and what is left out and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from validator.scale.budget import in_words
from validator.scale.cell import Cell, Outcome, State, digest_of
from validator.scale.shard import Shard
from validator.text import visible

__all__ = ["PLANNED", "Plan", "Planner", "Row"]

PLANNED = "planned, not run"
"""Why a cell of a plan has no outcome."""


@dataclass(frozen=True, slots=True)
class Row:
    """One cell of a plan."""

    id: str
    what: str
    seconds: float
    """Estimated."""
    known: bool
    """An earlier run's result will be taken."""
    gpu: str
    group: str
    """What decides its shard."""


@dataclass
class Planner:
    """A `Work` that runs nothing and takes note of everything."""

    seconds: Callable[[Cell], float] = lambda cell: cell.seconds
    known: Callable[[Cell], bool] = lambda cell: False
    rows: list[Row] = field(default_factory=list)
    _names: dict[Path, str] = field(default_factory=dict)

    def keep(self, path: Path) -> str:
        if path not in self._names:
            self._names[path] = digest_of(path)
        return self._names[path]

    def run(self, cells: Iterable[Cell], total: int) -> Iterator[Outcome]:
        for cell in cells:
            group = cell.group or cell.id
            self.rows.append(Row(cell.id, cell.what, self.seconds(cell), self.known(cell), cell.needs.gpu, group))
            yield Outcome(cell, State.UNREACHED, why=PLANNED)


@dataclass(frozen=True, slots=True)
class Plan:
    """What `validator plan` prints."""

    rows: Sequence[Row]
    left_out: Sequence[tuple[str, str]]
    """(obligation, why no cell settles it)."""
    notes: Sequence[str] = ()
    """What was chosen out of how much, each a sentence."""

    def part(self, shard: Shard) -> Plan:
        """The cells of one shard."""
        rows = [row for row in self.rows if Shard.of_id(row.group, shard.count) == shard]
        return Plan(rows, self.left_out, self.notes)

    @property
    def seconds(self) -> float:
        """Estimated, of one worker."""
        return sum(row.seconds for row in self.rows if not row.known)

    def document(self) -> dict[str, Any]:
        return {
            "schema": "validator/plan/1",
            "seconds": round(self.seconds, 3),
            "cells": [
                {
                    "id": row.id,
                    "what": row.what,
                    "seconds": round(row.seconds, 3),
                    "known": row.known,
                    "gpu": row.gpu or None,
                }
                for row in self.rows
            ],
            "left_out": [{"obligation": name, "why": why} for name, why in self.left_out],
            "notes": list(self.notes),
        }

    def text(self) -> str:
        lines = [f"{len(self.rows):,} cells, about {in_words(self.seconds)} of one worker's time, in this order:", ""]
        for number, row in enumerate(self.rows, 1):
            cost = "known" if row.known else f"{row.seconds:.1f} s"
            gpu = " on a GPU" if row.gpu else ""
            lines.append(f"{number:>5}  {cost:>8}  {visible(row.id)}: {visible(row.what)}{gpu}")
        if self.notes:
            lines += ["", *(visible(note) for note in self.notes)]
        if self.left_out:
            lines += ["", "left out:", *(f"  {visible(name)}: {visible(why)}" for name, why in self.left_out)]
        return "\n".join(lines) + "\n"
