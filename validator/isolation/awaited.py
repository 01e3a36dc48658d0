"""Modules that the base asks for and only the head has.

`try: from engine.fast import run` / `except ImportError: run = None` takes its other branch as soon as a change brings
`engine/fast.py`; so do `find_spec("engine.fast")` and `import_module("engine.fast")`. Nothing calls the new file then,
and yet shared code does something else with the switch off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from validator.isolation.blast.imports import Import, ScannedImport, When, imports_of, scan
from validator.isolation.put_together import put_together
from validator.isolation.source import Sources

__all__ = ["Awaited", "awaited"]


@dataclass(frozen=True, slots=True)
class Awaited:
    """One place of the base that asks for a module of the head."""

    path: str
    """The file that answers now."""
    name: str
    """Dotted name of the module or package that the base has not."""
    asked_by: str
    line: int
    in_parts: bool = False
    """The name is put together there, and can be this one."""


def awaited(base: Sources, head: Sources, paths: Iterable[str], is_test: Callable[[str], bool]) -> Iterator[Awaited]:
    """Ask for each of the files that only the head has; packages once, not for every module in them."""
    paths = tuple(paths)
    known = {prefix for name in base.names() for prefix in _prefixes(name)}
    tops: dict[str, str] = {}
    for path in sorted(paths):
        top = next((p for p in _prefixes(head.module_name(path)) if p not in known), None)
        if top is not None:
            tops.setdefault(top, path)
    for top, path in tops.items():
        for by in base.mentions(top.rpartition(".")[2]):
            line = None if is_test(by) else _asks(base, by, top)
            if line is not None:
                yield Awaited(path, top, by, line)
    if tops:
        yield from _put_together(base, {head.module_name(p): p for p in paths}, is_test)


def _put_together(base: Sources, new: Mapping[str, str], is_test: Callable[[str], bool]) -> Iterator[Awaited]:
    """By names that are put together; once a place, with the first module that it can mean."""
    for asked in put_together(base):
        name = next((n for n in sorted(new) if asked.pattern.fullmatch(n)), None)
        if name is not None and not is_test(asked.path):
            yield Awaited(new[name], name, asked.path, asked.line, in_parts=True)


def _prefixes(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


def _asks(base: Sources, by: str, top: str) -> int | None:
    """Line on which a file imports the module, or names it in a string of its own."""
    data = base.data(by)
    last = top.rpartition(".")[2]
    if any(_may_name(found, last) for found in scan(data)):
        line = next((i.line for i in imports_of(base, by) if i.when is not When.TYPE_CHECKING and _names(i, top)), None)
        if line is not None:
            return line
    # A name without a dot, in quotes, is any word.
    quoted = re.compile(rb"[\"']" + re.escape(top.encode("utf-8", "surrogateescape")) + rb"(?:[.:][\w.:]*)?[\"']")
    match = quoted.search(data) if "." in top else None
    return data.count(b"\n", 0, match.start()) + 1 if match else None


def _may_name(found: ScannedImport, last: str) -> bool:
    return last in found.module.split(".") or last in found.names


def _names(found: Import, top: str) -> bool:
    whole = f"{found.module}.{found.name}" if found.name else found.module
    return f"{whole}.".startswith(f"{top}.")
