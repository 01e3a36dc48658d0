"""The change's own source as it stands at the head: what nobody ran before, and what a reviewer judges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from validator.change.model import FileChange, FileKind, MissingFile
from validator.globs import matches
from validator.isolation.paths import is_own, manifest_path
from validator.stage import StageContext

__all__ = ["own_code"]

_LINES_OF_A_FILE = 1000
_LINES = 4000
"""Of all files together: a page that holds more is not read."""
_LARGEST = 1 << 20
"""Bytes of a file that is shown."""
_WIDEST = 400
"""Characters of a line."""
_COMPILED = (".ptx", ".cubin", ".fatbin", ".so", ".whl")
"""Read by the ordering audit, not by people."""


def own_code(context: StageContext) -> list[dict[str, Any]]:
    """`[{path, text, more}]` for the summary (`validator.report.story`): all own files, `text` while there is room."""
    rows = []
    room = _LINES
    for file in _own(context):
        lines = _read(context, file) if room else []
        shown = lines[: min(_LINES_OF_A_FILE, room)]
        room -= len(shown)
        text = "\n".join(line[:_WIDEST] for line in shown)
        rows.append({"path": file.path, "text": text, "more": len(lines) - len(shown)})
    return rows


def _own(context: StageContext) -> Iterator[FileChange]:
    """Text that the change brings and that is neither the manifest nor compiled."""
    artifacts = [a.path for a in context.manifest.artifacts] if context.manifest else []
    manifest = manifest_path(context)
    for file in sorted(context.change.files, key=lambda f: f.path):
        plain = file.kind in (FileKind.REGULAR, FileKind.EXECUTABLE) and not file.binary
        compiled = file.path.endswith(_COMPILED) or matches(file.path, artifacts)
        if plain and not compiled and file.path != manifest and is_own(context, file.path):
            yield file


def _read(context: StageContext, file: FileChange) -> list[str]:
    """Lines at the head; none of a file that is gone or larger than what is shown."""
    try:
        data = context.change.head_tree.read(file.path, _LARGEST)
    except MissingFile:
        return []
    return [line.rstrip("\r") for line in data.decode("utf-8", "replace").removesuffix("\n").split("\n")]
