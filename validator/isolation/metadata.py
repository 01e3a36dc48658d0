"""Changes of a project's metadata that nobody who installs or runs the project can notice."""

from __future__ import annotations

from typing import Any, Final

from validator.tables import TableError, parse_document

__all__ = ["is_unnoticed"]

_TOOLS: Final = frozenset(
    {"ruff", "black", "isort", "flake8", "pylint", "mypy", "pyright", "codespell", "typos", "coverage", "yapf",
     "pyrefly", "ty"}
)  # fmt: skip
"""What looks at source and is part of no product."""


def is_unnoticed(old: bytes, new: bytes) -> bool:
    """Whether two texts of a `pyproject.toml` differ only in settings of tools that look at source, in groups of
    optional dependencies that are new (they are listed as additions), and in markers of tests that are new."""
    try:
        before, after = (dict(parse_document(text, "pyproject.toml").values) for text in (old, new))
    except TableError:
        return False
    return _plain(before, before) == _plain(after, before)


def _plain(document: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """Without what does not count; empty tables are none."""
    project = dict(_table(document, "project"))
    for holder, name in ((project, "optional-dependencies"), (document := dict(document), "dependency-groups")):
        known = _table(_table(base, "project") if holder is project else base, name)
        holder[name] = {group: names for group, names in _table(holder, name).items() if group in known}
    tools = {name: settings for name, settings in _table(document, "tool").items() if name not in _TOOLS}
    pytest = dict(_table(tools, "pytest"))
    options = dict(_table(pytest, "ini_options"))
    markers = _table(_table(_table(base, "tool"), "pytest"), "ini_options").get("markers", [])
    if isinstance(options.get("markers"), list) and isinstance(markers, list):
        options["markers"] = [marker for marker in options["markers"] if marker in markers]
    tools["pytest"] = _filled(pytest | {"ini_options": _filled(options)})
    return _filled(document | {"project": _filled(project), "tool": _filled(tools)})


def _table(document: dict[str, Any], name: str) -> dict[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _filled(table: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if value not in ({}, [])}
