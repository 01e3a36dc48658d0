"""How long a check may take, and how much of a GPU's time it may use."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from validator.errors import Problem, ValidatorError
from validator.scale.cell import Needs, Outcome

__all__ = ["Budget", "BudgetError", "in_words", "parse_duration"]

_UNITS = {"h": 3600, "m": 60, "s": 1}


class BudgetError(ValidatorError):
    """A duration that cannot be read."""


_START = 2.0
"""Seconds a worker may take to begin, during which nothing runs on its GPU."""


@dataclass
class Budget:
    """Checked before work is handed out and while it runs: what is over the budget is ended, not let finish."""

    seconds: float | None = None
    """Wall clock, from the start of the check; None: no bound."""
    gpu_seconds: float | None = None
    """Over all GPUs."""
    clock: Callable[[], float] = time.monotonic
    started: float = field(init=False)
    gpu_used: float = 0.0

    def __post_init__(self) -> None:
        self.started = self.clock()

    @property
    def bounded(self) -> bool:
        return self.seconds is not None or self.gpu_seconds is not None

    def spent(self, needs: Needs) -> str:
        """Which bound forbids to start such work now, in words; empty: none."""
        if self.seconds is not None and self.clock() - self.started >= self.seconds:
            return f"the budget of {in_words(self.seconds)} was spent before its turn"
        if needs.gpu and self.gpu_seconds is not None and self.gpu_used >= self.gpu_seconds:
            return f"the GPU budget of {in_words(self.gpu_seconds)} was spent before its turn"
        return ""

    def left(self, running: Iterable[tuple[Needs, float]]) -> float | None:
        """Seconds until something of what runs (and for how long) would be over the budget; None: never."""
        held = [_held(seconds) for needs, seconds in running if needs.gpu and seconds]
        bounds = []
        if self.seconds is not None:
            bounds.append(self.started + self.seconds - self.clock())
        if self.gpu_seconds is not None and held:
            bounds.append((self.gpu_seconds - self.gpu_used - sum(held)) / len(held))
        return max(0.0, min(bounds)) if bounds else None

    def overrun(self, running: Iterable[tuple[Needs, float]]) -> tuple[str, str]:
        """Why what runs has to be ended now: (all of it, what uses a GPU), in words; empty: it need not."""
        held = sum(_held(seconds) for needs, seconds in running if needs.gpu)
        if self.seconds is not None and self.clock() - self.started >= self.seconds:
            return (f"the budget of {in_words(self.seconds)} was spent while it ran",) * 2
        over = held and self.gpu_seconds is not None and self.gpu_used + held >= self.gpu_seconds
        return "", f"the GPU budget of {in_words(self.gpu_seconds or 0)} was spent while it ran" if over else ""

    def used(self, outcome: Outcome) -> None:
        if outcome.cell.needs.gpu and not outcome.known:
            self.gpu_used += outcome.seconds


def _held(seconds: float) -> float:
    """GPU time of what has been with a worker for so long."""
    return max(0.0, seconds - _START)


def parse_duration(text: str, where: str) -> float:
    """Seconds of `20m`, `90s`, `1h30m`. Raises `BudgetError`."""
    if not re.fullmatch(r"(?=.)(\d+h)?(\d+m)?(\d+s)?", text):
        raise BudgetError(Problem(f"{text!r} is no duration", where, "write for example 90s, 20m or 1h30m"))
    return float(sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([hms])", text)))


def in_words(seconds: float) -> str:
    """As a person says it: `1 h 30 min`, `20 min`, `3.2 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds % 1 else f"{seconds:.0f} s"
    hours, rest = divmod(round(seconds), 3600)
    minutes, left = divmod(rest, 60)
    parts = [f"{hours} h"] * bool(hours) + [f"{minutes} min"] * bool(minutes) + [f"{left} s"] * bool(left and not hours)
    return " ".join(parts)
