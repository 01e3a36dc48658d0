"""One kernel's memory on a line of time: what can be touched before the wait, what comes after, what may move."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from validator.report.details import Access, accesses, waits
from validator.report.pictures.canvas import Canvas, Picture
from validator.report.words import plural
from validator.verdict.model import Evidence

__all__ = ["timeline"]

_MOST = 24
_LABEL, _BEFORE, _AFTER = 236, 180, 220
_ROW = 22


@dataclass(slots=True)
class _Row:
    role: str
    memory: str
    early: list[Access] = field(default_factory=list)
    later: int = 0
    movable: int = 0


def timeline(evidence: Evidence) -> Picture | None:
    """Of an ordering audit; None when it touched no memory."""
    rows = _rows(evidence)
    if not rows:
        return None
    shown = rows[:_MOST]
    top, height = 34, 34 + _ROW * len(shown) + (24 if len(rows) > len(shown) else 6)
    wait = _LABEL + _BEFORE
    canvas = Canvas(wait + _AFTER, height)
    has_wait = bool(waits(evidence))
    canvas.box(_LABEL, top - 6, _BEFORE, _ROW * len(shown) + 8, "early-zone")
    canvas.text("before the wait", _LABEL + 8, 18)
    canvas.text("behind it" if has_wait else "no wait was found", wait + 12, 18, None if has_wait else "q")
    canvas.line(wait, 4, wait, top + _ROW * len(shown) + 4, "wait")
    canvas.lines(((_LABEL, y, wait + _AFTER, y) for y in (top + 12 + _ROW * n for n in range(len(shown)))), "lane")
    for number, row in enumerate(shown):
        _draw(canvas, row, top + 12 + _ROW * number, wait)
    if len(rows) > len(shown):
        canvas.text(f"and {len(rows) - len(shown)} more", 8, height - 8, "q")
    return canvas.picture("Before and behind the wait", _sentence(rows, evidence))


def _draw(canvas: Canvas, row: _Row, y: float, wait: float) -> None:
    canvas.text(f"{row.memory or 'unknown source'} ({row.role})", 8, y + 4, None, _LABEL - 12)
    if row.early:
        refused = [a for a in row.early if not a.allowed]
        x = _LABEL + _BEFORE / 2
        if refused:
            canvas.cross(x, y, 6, "refused")
        else:
            canvas.dot(x, y, 6, "allowed")
        canvas.text(f"×{sum(a.count for a in row.early)}", x + 12, y + 4)
    if row.later:
        canvas.dot(wait + 40, y, 5, "later")
        canvas.text(f"×{row.later}", wait + 50, y + 4)
    if row.movable:
        canvas.text(f"▲ ×{row.movable}", wait + 110, y + 4, "q")


def _rows(evidence: Evidence) -> list[_Row]:
    """By argument; what was touched early comes first, refused before allowed."""
    found: dict[tuple[str, str], _Row] = {}

    def row(access: Access) -> _Row:
        return found.setdefault((access.role, access.memory), _Row(access.role, access.memory))

    early, movable = accesses(evidence, "early"), accesses(evidence, "movable")
    for access in early:
        row(access).early.append(access)
    for access in movable:
        row(access).movable += access.count
    for access in accesses(evidence, "accesses"):
        row(access).later += access.count
    for one in found.values():
        one.later = max(one.later - sum(a.count for a in one.early), 0)
    return sorted(found.values(), key=lambda r: (all(a.allowed for a in r.early), not r.early, r.role, r.memory))


def _sentence(rows: Iterable[_Row], evidence: Evidence) -> str:
    rows = list(rows)
    refused = [f"{r.memory} ({r.role})" for r in rows if any(not a.allowed for a in r.early)]
    allowed = [f"{r.memory} ({r.role})" for r in rows if r.early and all(a.allowed for a in r.early)]
    movable = [r.memory for r in rows if r.movable]
    parts = [f"{plural(len(waits(evidence)), 'wait')}"]
    parts += [f"refused before it: {_few(refused)}"] if refused else []
    parts += [f"allowed before it: {_few(allowed)}"] if allowed else []
    parts += ["nothing is touched before it"] if not refused and not allowed else []
    parts += [f"behind it, and a compiler may move it: {_few(movable)}"] if movable else []
    return "; ".join(parts) + "."


def _few(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
