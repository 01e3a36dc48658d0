"""Whether a block can end with no thread of it having waited, and whether it can trigger before."""

from __future__ import annotations

from validator.ordering.facts import Facts
from validator.ordering.program import EventKind

__all__ = ["leaves_unwaited", "triggers_early"]


def leaves_unwaited(facts: Facts) -> list[int]:
    """Exits that a whole block may reach with no thread having waited; empty when one thread of every block waits.

    A grid is complete only when all its threads are, so one waiting thread per block passes the order on.
    """
    order = facts.order
    exits: list[int] = []
    may_leave = 0
    for number in facts.flow.order:
        block = facts.flow.blocks[number]
        ends = [e for e in facts.flow.events_in[number] if e.kind is EventKind.EXIT]
        for event in ends:
            missing = order.missing(event)
            if missing:
                may_leave |= missing
                exits.append(event.index)
        if not block.successors and not ends:
            last = max(block.start, block.stop - 1)
            missing = order.before(last) & ~order.at_events.get(last, 0)
            if missing:
                may_leave |= missing
                exits.append(last)
    return exits if may_leave == facts.masks.everyone else []


def triggers_early(facts: Facts) -> bool:
    """Whether a trigger can be reached before the wait."""
    return any(facts.order.missing(event) for event in facts.triggers)
