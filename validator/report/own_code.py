"""The change's own files on the page: how much each brings, its code, and where a `path:line` of the page leads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from validator.report.story import OwnFile, own_files
from validator.report.words import plural
from validator.text import html, shorten
from validator.verdict.model import Location
from validator.verdict.result import CheckResult, site, where_to_look

__all__ = ["OwnCode", "View", "own_code", "spot"]

_MOST_LINES = 4000
"""Of all files together, whatever a bundle holds."""
_WIDEST = 400
"""Characters of a line."""


@dataclass(frozen=True, slots=True)
class View:
    """One file."""

    number: int
    path: str
    added: int
    deleted: int
    code: Markup
    """Numbered lines; empty where none is shown."""
    left: str
    """What is not shown of it, in words; empty: nothing."""


@dataclass(frozen=True, slots=True)
class OwnCode:
    """All of them, largest first."""

    views: tuple[View, ...]
    total: str
    _numbers: Mapping[str, int]
    _lines: Mapping[str, int]
    """Lines shown of a path."""

    def link(self, path: str, line: int | None) -> str:
        """The fragment of the page at which it stands; empty where it is not on the page."""
        number = self._numbers.get(path)
        if number is None:
            return ""
        return f"#code-{number}-{line}" if line and line <= self._lines[path] else f"#code-{number}"


def own_code(result: CheckResult) -> OwnCode:
    """What evidence brings of the change's own source, joined with the sizes that the change has."""
    sizes = {f.path: (f.added, f.deleted) for f in result.change.files}
    found = sorted(
        (f for f in own_files(result.evidence) if f.path in sizes), key=lambda f: (-sizes[f.path][0], f.path)
    )
    numbers = {f.path: n for n, f in enumerate(found, 1)}
    shown = dict(_within(found))
    meant = _meant(result)
    views = tuple(
        View(
            numbers[f.path],
            f.path,
            *sizes[f.path],
            _numbered(f.lines[: shown[f.path]], f"code-{numbers[f.path]}", meant.get(f.path, frozenset())),
            _left(len(f.lines) - shown[f.path] + f.more, not f.lines),
        )
        for f in found
    )
    total = f"{plural(len(found), 'file')}, +{sum(sizes[f.path][0] for f in found):,} lines"
    return OwnCode(views, total, numbers, shown)


def _within(files: list[OwnFile]) -> Iterator[tuple[str, int]]:
    """Path → lines that the page has room for."""
    room = _MOST_LINES
    for file in files:
        taken = min(len(file.lines), room)
        room -= taken
        yield file.path, taken


def _left(lines: int, unread: bool) -> str:
    if unread:
        return "not shown here"
    return f"{plural(lines, 'more line')}, not shown here" if lines else ""


def _meant(result: CheckResult) -> dict[str, frozenset[int]]:
    """Path → lines that something on the page names: they alone need an anchor."""
    named: dict[str, set[int]] = {}
    for path, line in (*_of_findings(result), *((p.path, p.line) for p in where_to_look(result))):
        if line:
            named.setdefault(path, set()).add(line)
    return {path: frozenset(lines) for path, lines in named.items()}


def _of_findings(result: CheckResult) -> Iterator[tuple[str, int | None]]:
    for finding in result.findings:
        yield spot(result, finding.where)


def spot(result: CheckResult, where: Location) -> tuple[str, int | None]:
    """(path, line) that a reviewer opens for it."""
    path, line, _ = site(result.change, where)
    return path, line


def _numbered(lines: tuple[str, ...], name: str, meant: frozenset[int]) -> Markup:
    """Every line with its number; written here, because a template takes several times as long for thousands."""
    return Markup("\n".join(_line(n, line, name, n in meant) for n, line in enumerate(lines, 1)))  # escaped below


def _line(number: int, text: str, name: str, meant: bool) -> str:
    code = html(shorten(text.expandtabs(4), _WIDEST))
    return f'<span id="{name}-{number}" class="meant">{number:>4}  {code}</span>' if meant else f"{number:>4}  {code}"
