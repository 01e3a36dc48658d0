"""What is compiled: two sources in C, and a build hook that leaves them out where there is no compiler."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["Pointer", "function"]

Pointer = ctypes.c_void_p
_LIBRARY = Path(__file__).with_name("native.so")


@cache
def function(name: str, *arguments: type[Any]) -> Any:
    """A compiled function that returns nothing; None where nothing was compiled. It lets go of the interpreter."""
    library = _library()
    if library is None:
        return None
    found = getattr(library, name)
    found.argtypes, found.restype = arguments, None
    return found


@cache
def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(_LIBRARY))
    except OSError:
        return None
