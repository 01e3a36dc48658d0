"""What the machine may do at its worst, drawn from a seed and replayable.

A `Plan` says which liberties are taken in one run: which buffers are late, when flags are published, in which order
warps and CTAs run and where the order changes. Everything in it is allowed
by the PTX memory model and by programmatic dependent launch; the friendly plan takes no liberty at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from validator.emulate.lanes import Array

__all__ = ["FRIENDLY", "Adversary", "Plan", "draw_plan", "smaller"]

CLASSES = 4
"""Groups that warps or CTAs are drawn into; within one, all run together."""
IMPATIENT = 512
_SWITCHES = 3
_HORIZON = 4000
"""Segments within which the order changes."""


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int = 0
    late: bool = True
    """Buffers that earlier launches write hold the previous step's values until a thread is ordered behind them."""
    only: str | None = None
    """The one buffer that is late; None: all."""
    flags_at_once: bool = False
    """Flags are set from the start; else only when nothing else can run."""
    last_word: int = 3
    """Which of every four words of a mailbox arrives last."""
    by_cta: bool = False
    """The order is drawn over CTAs, not over warps."""
    classes: int = 1
    direction: int = 0
    """1: the first warps of each CTA run first, -1: the last ones, 0: which run first is drawn."""
    impatient: int = 0
    """How often polling threads try again, all in all, before the others get their turn."""
    eager: bool = False
    """Polling threads try again soon after anything changed; else only when nothing else can run."""
    switches: tuple[int, ...] = ()
    """Executed segments after which the running class goes to the back."""
    shuffled: bool = False
    """Atomics of one instruction on one address execute in a drawn order."""
    moves_noncoherent: bool = True
    """Non-coherent loads of memory that changes are executed before the wait."""

    @property
    def friendly(self) -> bool:
        return not self.late

    def alone(self, name: str) -> Plan:
        """The same with one buffer late."""
        return replace(self, only=name)


FRIENDLY = Plan(late=False, flags_at_once=True, moves_noncoherent=False)
"""True values everywhere, everything in order."""


def draw_plan(seed: int, number: int, moves_noncoherent: bool, late: Sequence[str] = ()) -> Plan:
    """Plan `number` of a series: the first is in order, the next two let the first and the last warps run ahead, later
    ones are biased to few and rare switches. Every second of those delays one buffer of `late` alone, in turn."""
    if number == 0:
        return Plan(seed=seed, moves_noncoherent=moves_noncoherent)
    if number <= 2:
        return Plan(
            seed=seed,
            last_word=3 - number,
            classes=CLASSES,
            direction=3 - 2 * number,
            impatient=IMPATIENT,
            eager=number == 2,
            moves_noncoherent=moves_noncoherent,
        )
    rng = np.random.default_rng([seed, number])
    only = late[(number // 2 - 1) % len(late)] if late and number % 2 else None
    switches = sorted(int(2.0 ** rng.uniform(0, np.log2(_HORIZON))) for _ in range(rng.integers(0, _SWITCHES + 1)))
    return Plan(
        seed=int(rng.integers(1 << 31)),
        only=only,
        flags_at_once=bool(rng.random() < 0.25),
        last_word=int(rng.integers(4)),
        by_cta=bool(rng.random() < 0.5),
        classes=int(rng.integers(1, CLASSES + 1)),
        impatient=int(rng.choice((0, 0, IMPATIENT))),
        eager=bool(rng.random() < 0.25),
        switches=tuple(dict.fromkeys(switches)),
        shuffled=bool(rng.random() < 0.5),
        moves_noncoherent=moves_noncoherent,
    )


class Adversary:
    """One run's draws."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._rng = np.random.default_rng([plan.seed, 1])
        self.moves_noncoherent = plan.moves_noncoherent

    def classes(self, ctas: int, per_cta: int) -> Array:
        """Class of each thread; lower runs first."""
        count = self.plan.classes
        if count <= 1:
            return np.zeros(ctas * per_cta, np.int64)
        if self.plan.direction:
            warps = per_cta // 32
            rank = np.arange(warps) * count // warps
            order = rank if self.plan.direction > 0 else rank[::-1]
            return np.tile(np.repeat(order, 32), ctas)
        if self.plan.by_cta:
            return np.repeat(self._rng.integers(0, count, ctas), per_cta)
        return np.repeat(self._rng.integers(0, count, ctas * (per_cta // 32)), 32)

    def order_of(self, count: int) -> Array:
        """In which order threads of one atomic instruction are served."""
        return self._rng.permutation(count) if self.plan.shuffled else np.arange(count)


def smaller(plan: Plan, late: Sequence[str] = ()) -> list[Plan]:
    """Plans with one liberty less, for minimising a failure: fewer late buffers first, then fewer switches.

    `late`: buffers any of which may alone be what matters.
    """
    simpler = [replace(plan, only=name) for name in late if plan.only is None and len(late) > 1]
    if plan.classes > 1:
        simpler.append(replace(plan, classes=1, direction=0, switches=()))
    simpler += [replace(plan, switches=plan.switches[:i] + plan.switches[i + 1 :]) for i in range(len(plan.switches))]
    if plan.impatient:
        simpler.append(replace(plan, impatient=0))
    if plan.eager:
        simpler.append(replace(plan, eager=False))
    if plan.shuffled:
        simpler.append(replace(plan, shuffled=False))
    return simpler
