"""What a kernel is called with."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Parameter"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel, as far as the file that holds it says."""

    index: int
    """Counts kernel parameters from 0."""
    offset: int
    """Byte offset in the parameter block."""
    size: int
    """Bytes."""
    name: str | None = None
    type: str | None = None
    """From the PTX declaration or the mangled signature; None when unknown."""
    pointer: bool | None = None
    """True / False when the type says so, None when it may be either."""
