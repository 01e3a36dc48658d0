"""Copies in a loop that a launch may run no turn of: who skips the loop finds nothing copied.

`for (k = 0; k < n; …) { wait; …; copy for the next turn; }` and a read of the same memory behind the loop: the read is
reached with nothing waited for where n is 0, and then nobody has copied either, if all threads of the block decide
alike whether they enter the loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from validator.ordering.program import Event
from validator.ordering.scalars import happens
from validator.ordering.waits import Order

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["by_launch", "passed_with"]


def passed_with(facts: Facts, copy: Event, order: Order) -> Order | None:
    """`order`, where whoever may enter the copy's loop counts as having waited, behind it as well as around it.

    None: the copy is in no loop, some way through it passes no wait, or threads may part before it.
    """
    flow = facts.flow
    home = flow.block_of(copy.index)
    body = next((b for b in reversed(flow.loops) if home in b), None)
    if body is None or not _waits_in_every_turn(facts, body, order):
        return None
    header = flow.header(body)
    leading = flow.leading_to(header)
    edges = dict(order.edges)
    for number in leading - body:
        block = flow.blocks[number]
        for k, edge in enumerate(block.successors):
            if any(facts.threads.varies(guard, max(block.start, block.stop - 1)) for guard in edge.guards):
                return None
            if edge.target == header or edge.target not in leading:
                edges[number, k] = edges.get((number, k), 0) | facts.masks.reach[header]
    return Order(facts.masks, facts.barriers, order.own, edges)


def by_launch(facts: Facts, copy: Event, order: Order) -> list[Order]:
    """`order` in the launches of each kind in which a copy is made: what such a launch never takes leads nobody on."""
    everyone = facts.masks.everyone
    kinds = (kind for kind in facts.launch_kinds if happens(facts.flow, kind, copy.index))
    return [
        Order(facts.masks, facts.barriers, order.own, {**order.edges, **dict.fromkeys(kind, everyone)})
        for kind in kinds
    ]


def _waits_in_every_turn(facts: Facts, body: frozenset[int], order: Order) -> bool:
    """Whether no way from the header of a loop out of it, or around, is free of a wait by all threads that go there."""
    flow, masks, header = facts.flow, facts.masks, facts.flow.header(body)
    stack, seen = [header], set[int]()
    while stack:
        number = stack.pop()
        if any(masks.reach[number] & ~order.at_events.get(e.index, 0) == 0 for e in flow.events_in[number]):
            continue
        for k, edge in enumerate(flow.blocks[number].successors):
            if not masks.reach[number] & masks.edges[number][k] & ~order.edges.get((number, k), 0):
                continue
            if edge.target not in body or edge.target == header:
                return False
            if edge.target not in seen:
                seen.add(edge.target)
                stack.append(edge.target)
    return True
