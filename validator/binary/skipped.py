"""What could not be read. Apart from what opens containers: results that say so need no more than the word."""

from __future__ import annotations

from dataclasses import dataclass

from validator.errors import ValidatorError

__all__ = ["Skipped"]


@dataclass(frozen=True, slots=True)
class Skipped:
    """An input that could not be read, and why. It makes what rests on it unproven."""

    artifact: str
    reason: str
    fix: str = ""

    @classmethod
    def because(cls, artifact: str, error: ValidatorError) -> Skipped:
        """With what an error says of it, but for its own name."""
        told = (p.what if p.where in ("", artifact) else f"{p.where}: {p.what}" for p in error.problems)
        return cls(artifact, "; ".join(told), "; ".join(dict.fromkeys(p.fix for p in error.problems if p.fix)))
