"""The smallest plan that still shows a failure, and which late buffer alone is enough for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from validator.emulate.adversary import Plan, smaller
from validator.emulate.hazard import HazardKind
from validator.emulate.run import Outcome, compare

__all__ = ["Attempt", "alone", "minimise", "settled_kinds"]

Attempt = Callable[[Plan], Outcome]
"""One run under a plan."""
MOST_TRIED = 24
MOST_ALONE = 16


def settled_kinds(outcome: Outcome) -> frozenset[str]:
    """Kinds of hazard that there is something to tell of."""
    return frozenset(h.kind for h in outcome.hazards if not h.unsettled or h.assumed)


def minimise(attempt: Attempt, friendly: Outcome, outcome: Outcome, late: Sequence[str]) -> Outcome:
    """The simplest plan found that shows one of the same kinds of hazard, and a wrong result where there was one."""
    kinds = settled_kinds(outcome)
    wrong = bool(compare(friendly, outcome))
    best, tried = outcome, 0
    while tried < MOST_TRIED:
        for plan in smaller(best.plan, _suspects(best, late)):
            tried += 1
            again = attempt(plan)
            if kinds & settled_kinds(again) and not (wrong and not compare(friendly, again)):
                best = again
                break
        else:
            return best
    return best


def _suspects(outcome: Outcome, late: Sequence[str]) -> list[str]:
    """Late buffers that a hazard names, first the one that is named first; not those in which it only shows."""
    hazards = (h for h in outcome.hazards if h.kind is not HazardKind.UNSTEADY)
    named = [h.memory for h in sorted(hazards, key=lambda h: h.place.index)]
    return [name for name in dict.fromkeys(named) if name in late]


def alone(attempt: Attempt, friendly: Outcome, outcome: Outcome, late: Sequence[str]) -> dict[str, int]:
    """Late buffer → bytes of results that come out wrong when it alone is late; buffers that a hazard names."""
    suspects = _suspects(outcome, late)[:MOST_ALONE]
    if len(suspects) == 1:
        # Late buffers that no hazard names were read by nobody while they were late.
        return {suspects[0]: sum(d.count for d in compare(friendly, outcome))}
    found = {}
    for name in suspects:
        again = attempt(outcome.plan.alone(name))
        if any(h.memory == name for h in again.hazards):
            found[name] = sum(d.count for d in compare(friendly, again))
    return found
