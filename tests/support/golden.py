"""Comparison with a stored text; the update command is printed on a mismatch."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["compare"]

UPDATE = "VALIDATOR_UPDATE_GOLDEN"


def compare(path: Path, text: str) -> None:
    """Fail unless `text` is what the file holds; write it instead when the variable `UPDATE` is set."""
    if os.environ.get(UPDATE):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    stored = path.read_text("utf-8") if path.exists() else ""
    where = f"tests/{path.parents[1].name}"
    assert text == stored, f"{path.name} differs; when the new text is right: {UPDATE}=1 pytest {where}"
