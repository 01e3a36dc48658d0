"""What this program itself is: a judge that changed makes every result that was kept stale."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

__all__ = ["own_source"]


@cache
def own_source(*packages: str) -> str:
    """sha256 over this program's own source, or over some of its packages: those that a kept result rests on."""
    root = Path(__file__).resolve().parent
    total = hashlib.sha256()
    for top in [root / package for package in packages] or [root]:
        for path in sorted(top.rglob("*.py")):
            total.update(path.relative_to(root).as_posix().encode() + b"\0")
            total.update(path.read_bytes())
    return total.hexdigest()
