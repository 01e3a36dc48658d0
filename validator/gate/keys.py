"""What an edit of a TOML file changes: key by key, with its old and new value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from validator.positions import Path
from validator.tables import Document, TableError, dotted, parse_document
from validator.text import shorten

__all__ = ["KeyChange", "changed_keys", "try_document"]

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class KeyChange:
    """One key that differs."""

    path: Path
    text: str
    """`differential.min_cases: 50 → 5`."""
    line: int | None
    """1-based, in the new text; None when the key is gone."""


def changed_keys(old: Document, new: Document) -> tuple[KeyChange, ...]:
    """Keys whose values differ, in the order of their names. Arrays are compared as a whole."""
    return tuple(_changed(old.values, new.values, (), new))


def _changed(old: Mapping[str, object], new: Mapping[str, object], path: Path, where: Document) -> Iterator[KeyChange]:
    for key in sorted({*old, *new}):
        before, after, here = old.get(key, _ABSENT), new.get(key, _ABSENT), (*path, key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _changed(before, after, here, where)
        elif isinstance(before, Mapping) and after is _ABSENT and before:
            yield from _changed(before, {}, here, where)
        elif isinstance(after, Mapping) and before is _ABSENT and after:
            yield from _changed({}, after, here, where)
        elif before != after:
            line = where.lines.get(here) if after is not _ABSENT else None
            yield KeyChange(here, f"{dotted(here)}: {_shown(before)} → {_shown(after)}", line)


def _shown(value: object) -> str:
    return "(not set)" if value is _ABSENT else shorten(repr(value), 120)


def try_document(data: bytes | None, name: str) -> tuple[Document | None, str]:
    """A file that may be absent, as a document; or None and what is wrong with it."""
    try:
        return Document(name, {}, {}) if data is None else parse_document(data, name), ""
    except TableError as error:
        return None, "; ".join(map(str, error.problems))
