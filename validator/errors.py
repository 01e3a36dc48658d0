"""The one error base: bad input says what, where and how to mend it.

Every subsystem derives from `ValidatorError`; the command line maps it to exit code 2 ("could not run").
A broken rule is never an error: it is a `validator.verdict.model.Finding`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Problem", "ValidatorError"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with the input."""

    what: str
    """Lower-case sentence without a full stop."""
    where: str = ""
    """File, line, key or object, as a person would point at it; empty when there is only one place it could be."""
    fix: str = ""
    """What to do about it; empty when `what` says it already."""

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        return f"{head}; {self.fix}" if self.fix else head


class ValidatorError(Exception):
    """Something could not run. Carries every problem found, not just the first."""

    def __init__(self, *problems: Problem | str) -> None:
        self.problems: Sequence[Problem] = tuple(p if isinstance(p, Problem) else Problem(p) for p in problems)
        super().__init__("\n".join(map(str, self.problems)))
