"""How far a run is, on stderr: a live table on a terminal, a plain line at times elsewhere, nothing with --quiet."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Self, TextIO

from validator.cli.output import Progress
from validator.text import visible

if TYPE_CHECKING:
    from rich.table import Table

    from validator.scale.board import Board

__all__ = ["Display", "table_of"]

_EVERY = 0.2
"""Seconds between two pictures."""


class Display:
    """Takes lines of progress, as a stage says them, and the board, as the engine fills it."""

    def __init__(self, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._progress = Progress(quiet=quiet, stream=self._stream)
        self._live: Any = None
        self._table = not quiet and self._stream.isatty()
        self._shown = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(self, line: str) -> None:
        if self._live is None:
            self._progress(line)

    def show(self, board: Board) -> None:
        """The board has changed."""
        if not self._table:
            self._progress("; ".join(f"{stage}: {words}" for stage, words in board.lines()))
        elif time.monotonic() - self._shown >= _EVERY:
            self._shown = time.monotonic()
            self._draw(board)

    def close(self) -> None:
        """Make way for the report."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._progress.close()

    def _draw(self, board: Board) -> None:
        from rich.console import Console
        from rich.live import Live

        if self._live is None:
            self._progress.close()
            console = Console(file=self._stream)
            self._live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)
            self._live.start()
        self._live.update(table_of(board), refresh=True)


def table_of(board: Board) -> Table:
    """One row a stage."""
    from rich.table import Table

    table = Table("stage", box=None, pad_edge=False, header_style="bold")
    for name in ("done", "of", "known", "failed", "left out", "rate", "time"):
        table.add_column(name, justify="right")
    for name, stage in board.stages.items():
        counts = (stage.done, stage.total, stage.known, stage.failed, stage.left_out)
        rate = f"{stage.rate:.1f}/s" if stage.rate else ""
        table.add_row(visible(name), *(f"{count:,}" for count in counts), rate, stage.left)
    return table
