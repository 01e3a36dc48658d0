"""The instructions around what a finding points at, for whoever wants to see the code itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from validator.ordering.program import Line, Program
from validator.ordering.result import Excerpt
from validator.verdict.model import Finding, Severity

__all__ = ["excerpts"]

_AROUND = 4
"""Instructions before and behind."""
_MOST = 8
"""Excerpts of one kernel."""
_WIDTH = 160


def excerpts(program: Program, findings: Iterable[Finding]) -> tuple[Excerpt, ...]:
    """One for each finding that decides something and has a place, the first ones alone where there are many."""
    wanted = [f for f in findings if f.severity in (Severity.ERROR, Severity.UNPROVEN)]
    wanted = [f for f in wanted if (f.where.line, f.where.pc) != (None, None)][:_MOST]
    if not wanted:
        return ()
    places = {(f.where.line, f.where.pc) for f in wanted}
    found: dict[tuple[int | None, int | None], int] = {}
    for index in _indices(program):
        line = program.line(index)
        if (line.text, line.pc) in places:
            found.setdefault((line.text, line.pc), index)
    return tuple(
        _around(program, f.id, found[f.where.line, f.where.pc]) for f in wanted if (f.where.line, f.where.pc) in found
    )


def _indices(program: Program) -> Iterator[int]:
    for block in program.blocks:
        yield from range(block.start, block.stop)


def _around(program: Program, finding: str, index: int) -> Excerpt:
    last = max((b.stop for b in program.blocks), default=0)
    first = max(index - _AROUND, 0)
    shown = range(first, min(index + _AROUND + 1, last))
    lines = (f"{_place(program.line(i)):>8}  {program.text(i)[:_WIDTH]}" for i in shown)
    return Excerpt(finding, str(program.line(index)), "\n".join(lines), index - first)


def _place(line: Line) -> str:
    """Column in front of an instruction: its offset in machine code, its line in PTX."""
    return f"0x{line.pc:04x}" if line.pc is not None else str(line.text or "")
