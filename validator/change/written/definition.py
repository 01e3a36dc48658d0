"""One kernel as a source defines it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Definition", "Maker"]


class Maker(StrEnum):
    """What compiles it, and so what it is called afterwards."""

    CUDA = "CUDA C++"
    TRITON = "Triton"
    CUTE = "CuTe DSL"
    OTHER = "another compiler of Python"


@dataclass(frozen=True, slots=True)
class Definition:
    """A kernel's head and body."""

    name: str
    line: int
    """1-based."""
    words: str
    """Head and body; comments and white space make no difference."""
    maker: Maker
    certain: bool
    """Compiled whoever uses it."""
