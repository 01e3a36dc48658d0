"""How far a change reaches: existing files that it edits, who imports it, through what, and what is its own."""

from __future__ import annotations

from collections.abc import Sequence

from validator.report.pictures.canvas import Canvas, Picture
from validator.report.story import Importer, importers
from validator.report.words import plural
from validator.verdict.result import CheckResult

__all__ = ["blast_radius"]

_WIDTH, _MOST, _ROW = 760, 10, 24
_WHEN = {"import": "when it is loaded", "call": "when it is called", "types": "for type checking only"}


def blast_radius(result: CheckResult) -> Picture | None:
    """None when nothing changed."""
    change, manifest = result.change, result.manifest
    if not change.files:
        return None
    existing = [f for f in change.files if f.status.name != "ADDED"]
    added = [f for f in change.files if f.status.name == "ADDED"]
    known = [i for e in result.evidence if e.kind == "change" for i in importers(e)]
    examined = any(e.id == "isolation/blast-radius" for e in result.evidence)
    reach = [f"switch {manifest.switch.name}"] if manifest and manifest.switch else ["no switch declared"]
    reach += [f"entry {e}" for e in manifest.isolation.entry_points] if manifest else []
    columns = (
        ("edits", [f"{_end(f.path)} +{f.added} −{f.deleted}" for f in existing], "edited"),
        ("who imports it", [f"{_end(i.path)}:{i.line}" for i in known], "importers" if examined else "unknown"),
        ("reached through", reach, "reach"),
        ("new files", [f"{_end(f.path)} +{f.added}" for f in added], "own"),
    )
    canvas = _draw(columns, "nobody was found" if examined else "not examined")
    return canvas.picture(
        "Blast radius: what it edits, who imports it, through what, what is its own",
        " ".join((_edits(result), _imports(known, examined))),
    )


def _draw(columns: Sequence[tuple[str, Sequence[str], str]], nobody: str) -> Canvas:
    rows = min(max(len(items) for _, items, _ in columns), _MOST)
    canvas = Canvas(_WIDTH, 54 + _ROW * (rows + 1))
    width = _WIDTH / len(columns)
    for index, (title, items, kind) in enumerate(columns):
        x = index * width
        canvas.box(x + 2, 6, width - 20, 40 + _ROW * (rows + 1) - 4, f"group {kind}")
        count = len(items) if not (items and items[0].startswith("no ")) else 0
        canvas.text(f"{title} ({count})", x + 10, 26, "name", width - 32)
        for row, item in enumerate(items[:_MOST] or [nobody if kind in ("importers", "unknown") else "none"]):
            canvas.text(item, x + 10, 50 + _ROW * row, None, width - 34)
        if len(items) > _MOST:
            canvas.text(f"and {len(items) - _MOST} more", x + 10, 50 + _ROW * _MOST, "q")
        if index < len(columns) - 1:
            canvas.text("→", x + width - 15, 40 + 12 * rows, "name")
    return canvas


def _edits(result: CheckResult) -> str:
    existing = [f for f in result.change.files if f.status.name != "ADDED"]
    lines = sum(f.lines for f in existing)
    new = plural(len(result.change.files) - len(existing), "new file")
    return f"Edits {plural(len(existing), 'existing file')} ({plural(lines, 'line')}) and brings {new}."


def _imports(known: Sequence[Importer], examined: bool) -> str:
    if not examined:
        return "Who imports it was not examined."
    if not known:
        return "No import of it from outside was found in the source; imports by a computed name are not seen."
    told = [
        f"{i.path}:{i.line} imports {i.target} {_WHEN[i.when]}" + (f", behind {i.behind}" if i.behind else "")
        for i in known[:4]
    ]
    more = f"; and {len(known) - 4} more" if len(known) > 4 else ""
    return f"Read from source: {'; '.join(told)}{more}. Imports by a computed name are not seen."


def _end(path: str, most: int = 15) -> str:
    """The end of a path, which tells files of one folder apart."""
    return path if len(path) <= most else f"…{path[1 - most :]}"
