"""Whether a block can end with no thread of it having waited, and whether it can trigger before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from validator.ordering.program import EventKind
from validator.ordering.scalars import happens

if TYPE_CHECKING:
    from validator.ordering.facts import Facts
    from validator.ordering.scalars import Place
    from validator.ordering.waits import Order

__all__ = ["leaves_by_known_branches", "leaves_unwaited", "triggers_early"]


def leaves_unwaited(facts: Facts, after_trigger: bool = False) -> list[tuple[int, int]]:
    """(exit, threads that may end there without having waited); empty when one thread of every block surely waits.

    A grid is complete only when all its threads are, so one waiting thread per block passes the order on.
    `after_trigger`: only in launches that trigger their dependants.
    """
    exits = _leaves(facts, facts.order)
    if not exits or not facts.cases:
        return exits
    cases = [case for case in facts.cases if not after_trigger or _triggers(facts, *case)]
    return next(filter(None, (_leaves(facts, order, closed) for closed, order in cases)), [])


def _triggers(facts: Facts, closed: frozenset[Place], order: Order) -> bool:
    """Whether a case has launches that trigger."""
    events = (e for e in facts.triggers if happens(facts.flow, closed, e.index))
    return any(order.masks.executing(event) for event in events)


def _leaves(facts: Facts, order: Order, closed: frozenset[Place] = frozenset()) -> list[tuple[int, int]]:
    exits: list[tuple[int, int]] = []
    may_leave = 0
    for number in facts.flow.order:
        block = facts.flow.blocks[number]
        ends = [e for e in facts.flow.events_in[number] if e.kind is EventKind.EXIT]
        ends = [e for e in ends if happens(facts.flow, closed, e.index)]
        for event in ends:
            missing = order.missing(event)
            if missing:
                may_leave |= missing
                exits.append((event.index, missing))
        if not block.successors and any(e.kind is EventKind.UNKNOWN for e in facts.flow.events_in[number]):
            # Where it goes on is not known. Other blocks that end here are traps: the grid dies, nothing depends on it.
            last = max(block.start, block.stop - 1)
            missing = order.before(last) & ~order.at_events.get(last, 0)
            if missing:
                may_leave |= missing
                exits.append((last, missing))
    return exits if may_leave == facts.masks.everyone else []


def leaves_by_known_branches(facts: Facts) -> bool:
    """Whether every thread has such a way out past every call that is not looked into and every indirect branch.

    Nothing says whether the one waits, nor which threads the other sends where.
    """
    order, masks = facts.certain_order, facts.masks
    closed = {
        (number, k): masks.everyone
        for number, block in enumerate(facts.flow.blocks)
        for k, edge in enumerate(block.successors)
        if len(block.successors) > 1 and edge.condition is None
    }
    if not closed and order is facts.order:
        return _waiters_leave(facts)
    state = masks.solve(order.at_events, {**order.edges, **closed})
    left = 0
    for event in facts.events(EventKind.EXIT):
        left |= masks.at(event.index, state, order.at_events) & masks.executing(event)
    return left == masks.everyone and _waiters_leave(facts)


def _waiters_leave(facts: Facts) -> bool:
    """Whether of the threads that execute each wait one really can end, or may, without having come to it.

    Threads that never wait themselves say nothing: they leave in order where those have waited.
    """
    exits = leaves_unwaited(facts, after_trigger=True)
    waiters = [facts.masks.executing(wait) for wait in facts.waits]
    places = ({index: threads & own for index, threads in exits if threads & own} for own in waiters if own)
    return all(facts.taken_unwaited(ways) for ways in places)


def triggers_early(facts: Facts) -> bool:
    """Whether a trigger can be reached before the wait."""
    return any(facts.order.missing(event) for event in facts.triggers)
