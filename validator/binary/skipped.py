"""What could not be read. Apart from what opens containers: results that say so need no more than the word."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Skipped"]


@dataclass(frozen=True, slots=True)
class Skipped:
    """An input that could not be read, and why. It makes what rests on it unproven."""

    artifact: str
    reason: str
    fix: str = ""
