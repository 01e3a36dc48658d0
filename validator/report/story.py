"""What evidence of any kind may bring for the page, in `Evidence.details`: no kind needs a template of its own.

steps     [{text, at, kind}]              a story in order; `kind`: "bad" where it goes wrong, "good" where it is saved
lanes     {title, says, unit, lanes: [{name, spans: [{start, end, label, kind}]}]}
                                          what happened when: one lane a kernel, stream or thread; `kind` of a span:
                                          "run", "wait", "read", "write", "delay" or "bad"
series    [{title, says, x, y, lines: [{name, points: [[x, y], …]}]}]
                                          measured figures, such as speed-up over batch size; never declared ones
tables    [{title, columns: [...], rows: [[...], …]}]
excerpts  [{finding, title, at, text, mark}]
                                          lines of code around a place; `finding`: the id of what they show; `mark`:
                                          which of the lines it is, from 0
logs      [{name, text}]                  what a tool printed; stored in the bundle as files
importers [{path, line, when, target, behind}]
                                          who reaches the change from outside; `when`: "import", "call" or "types"
                                          (for type checking only); `behind`: the condition that it stands under
code      [{path, text, more}]            the change's own files as they stand at the head, from the first line
                                          on; `more`: lines that are left out behind `text`
outputs   {path: sha256:…}                what a build made: what is examined and not among them was not built here

Everything is untrusted and optional; what has another shape is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from validator.report.rows import count, drawable, mapping, number, rows, text, texts
from validator.verdict.model import Evidence

__all__ = [
    "SHARED",
    "Excerpt",
    "Importer",
    "Lane",
    "Lanes",
    "Line",
    "Log",
    "OwnFile",
    "Series",
    "Span",
    "Step",
    "Table",
    "excerpts",
    "importers",
    "lanes",
    "logs",
    "marked",
    "of_findings",
    "outputs",
    "own_files",
    "series",
    "shared_lines",
    "steps",
    "tables",
]

SHARED: Final = "isolation/paths"
"""The evidence that brings what changes in files that belong to everybody."""

_MOST = 200
"""Rows of any kind that one piece of evidence shows; the JSON document holds all."""


@dataclass(frozen=True, slots=True)
class Step:
    text: str
    at: str
    kind: str
    """`bad`, `good` or empty."""


@dataclass(frozen=True, slots=True)
class Span:
    start: float
    end: float
    label: str
    kind: str


@dataclass(frozen=True, slots=True)
class Lane:
    name: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Lanes:
    title: str
    says: str
    unit: str
    """Of `Span.start` and `Span.end`, such as µs or steps."""
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Series:
    title: str
    says: str
    x: str
    y: str
    """What the axes are, with units."""
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Excerpt:
    finding: str
    title: str
    at: str
    text: str
    mark: int
    """Which line is meant, from 0."""


@dataclass(frozen=True, slots=True)
class Log:
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class OwnFile:
    path: str
    lines: tuple[str, ...]
    """From the first on; empty where there was no room."""
    more: int
    """Lines behind them."""


@dataclass(frozen=True, slots=True)
class Importer:
    path: str
    line: int
    when: str
    """`import`, `call` or `types`: for type checking only."""
    target: str
    behind: str
    """The condition that it stands under; empty: none."""


def steps(evidence: Evidence) -> tuple[Step, ...]:
    """What happened, in order."""
    kinds = ("bad", "good")
    return tuple(
        Step(text(r, "text"), text(r, "at"), kind if (kind := text(r, "kind")) in kinds else "")
        for r in rows(evidence, "steps")[:_MOST]
    )


_WHEN = ("import", "call", "types")
_SPANS = ("run", "wait", "read", "write", "delay", "bad")


def lanes(evidence: Evidence) -> Lanes | None:
    """What happened when; None where nobody said."""
    told = mapping(evidence.details, "lanes")
    found = tuple(
        Lane(text(r, "name"), tuple(filter(None, map(_span, rows(r, "spans")[:_MOST])))) for r in rows(told, "lanes")
    )
    return Lanes(text(told, "title"), text(told, "says"), text(told, "unit"), found) if found else None


def _span(row: dict[str, Any]) -> Span | None:
    start, end, kind = number(row, "start"), number(row, "end"), text(row, "kind")
    if start is None or end is None or end < start:
        return None
    return Span(start, end, text(row, "label"), kind if kind in _SPANS else "run")


def series(evidence: Evidence) -> tuple[Series, ...]:
    """Measured figures, for a picture each."""
    found = (
        Series(
            text(r, "title"),
            text(r, "says"),
            text(r, "x"),
            text(r, "y"),
            tuple(Line(text(line, "name"), _points(line.get("points"))) for line in rows(r, "lines")),
        )
        for r in rows(evidence, "series")[:_MOST]
    )
    return tuple(s for s in found if any(line.points for line in s.lines))


def _points(value: object) -> tuple[tuple[float, float], ...]:
    pairs = value if isinstance(value, list) else []
    found = ((drawable(p[0]), drawable(p[1])) for p in pairs[:_MOST] if isinstance(p, list) and len(p) == 2)
    return tuple((x, y) for x, y in found if x is not None and y is not None)


def tables(evidence: Evidence) -> tuple[Table, ...]:
    """Anything that is best read as a table."""
    found = (
        Table(text(r, "title"), texts(r, "columns"), tuple(map(_cells, _lists(r.get("rows")))))
        for r in rows(evidence, "tables")[:_MOST]
    )
    return tuple(t for t in found if t.columns)


def _lists(value: object) -> Iterable[list[Any]]:
    return [r for r in value[:_MOST] if isinstance(r, list)] if isinstance(value, list) else []


def _cells(row: list[Any]) -> tuple[str, ...]:
    return tuple(v if isinstance(v, str) else f"{v:g}" if drawable(v) is not None else "" for v in row)


def excerpts(evidence: Evidence) -> tuple[Excerpt, ...]:
    """Lines of code around the places of findings."""
    found = (
        Excerpt(text(r, "finding"), text(r, "title"), text(r, "at"), text(r, "text"), count(r, "mark"))
        for r in rows(evidence, "excerpts")
    )
    return tuple(e for e in found if e.text)


def of_findings(evidence: Iterable[Evidence]) -> dict[str, Excerpt]:
    """Finding → the code around it."""
    return {x.finding: x for e in evidence for x in excerpts(e) if x.finding}


def marked(excerpt: Excerpt) -> str:
    """The code with `>` in front of the line that is meant; as it is where no finding means one."""
    if not excerpt.finding:
        return excerpt.text
    return "\n".join(f"{'>' if n == excerpt.mark else ' '} {x}" for n, x in enumerate(excerpt.text.split("\n")))


def shared_lines(evidence: Iterable[Evidence]) -> tuple[Excerpt, ...]:
    """What changes in files that belong to everybody."""
    return tuple(x for e in evidence if e.id == SHARED for x in excerpts(e) if not x.finding)


def own_files(evidence: Iterable[Evidence]) -> tuple[OwnFile, ...]:
    """The change's own source, by path."""
    found = (r for e in evidence if e.id == SHARED for r in rows(e, "code"))
    return tuple(
        OwnFile(text(r, "path"), tuple(said.split("\n")) if (said := text(r, "text")) else (), count(r, "more"))
        for r in found
    )


def logs(evidence: Evidence) -> tuple[Log, ...]:
    """What tools printed."""
    return tuple(Log(text(r, "name"), text(r, "text")) for r in rows(evidence, "logs")[:_MOST])


def importers(evidence: Evidence) -> tuple[Importer, ...]:
    """Who reaches the change from outside its own paths."""
    return tuple(
        Importer(
            text(r, "path"),
            count(r, "line"),
            when if (when := text(r, "when")) in _WHEN else "import",
            text(r, "target"),
            text(r, "behind"),
        )
        for r in rows(evidence, "importers")
    )


def outputs(evidence: Evidence) -> dict[str, str]:
    """Path → digest of what a build made."""
    return {str(k): v for k, v in mapping(evidence.details, "outputs").items() if isinstance(v, str)}
