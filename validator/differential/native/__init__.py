"""What is compiled: sources in C, and a build hook that leaves them out where there is no compiler."""

from __future__ import annotations

import ctypes
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["Pointer", "function", "library_in", "sources_in"]

Pointer = ctypes.c_void_p


@cache
def function(name: str, *arguments: type[Any]) -> Any:
    """A compiled function that returns nothing; None where nothing was compiled. It lets go of the interpreter."""
    library = _library()
    if library is None:
        return None
    found = getattr(library, name)
    found.argtypes, found.restype = arguments, None
    return found


def sources_in(folder: Path) -> list[Path]:
    """What is handed to a compiler."""
    return sorted(folder.glob("*.c"))


def library_in(folder: Path) -> Path:
    """Where the library of these very sources lies, if it was compiled: one of older sources is never loaded."""
    read = sorted(folder.glob("*.[ch]"))
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in read))
    return folder / f"native-{digest.hexdigest()[:16]}.so"


@cache
def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(library_in(Path(__file__).parent)))
    except OSError:
        return None
