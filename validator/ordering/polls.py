"""Polling loops: a loop that is left once a word of global memory says so.

A load of a `flag` or `mailbox` argument is a poll when the innermost loop that has an exit decided by the loaded value
contains it. Leaving that loop is passing the poll.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from validator.ordering.dataflow import Flow
from validator.ordering.masks import Masks
from validator.ordering.memory import Touch
from validator.ordering.program import EventKind, Order, Scope
from validator.ordering.slices import LoadSlices

__all__ = ["ACQUIRES", "RELEASES", "Poll", "fences", "find_polls", "passing_edges"]

ACQUIRES = (Order.ACQUIRE, Order.ACQ_REL, Order.SC)
RELEASES = (Order.RELEASE, Order.ACQ_REL, Order.SC)


@dataclass(frozen=True, slots=True)
class Poll:
    """One load that a loop waits on."""

    touch: Touch
    name: str
    """The polled argument."""
    exits: tuple[tuple[int, int], ...]
    """(block, number of the edge) that leave the loop because of the loaded value."""

    def acquires(self, scope: Scope) -> bool:
        event = self.touch.event
        return event.order in ACQUIRES and event.scope is not None and event.scope >= scope


def find_polls(flow: Flow, masks: Masks, slices: LoadSlices, candidates: Iterable[Touch]) -> list[Poll]:
    """Polls among loads of words that synchronise."""
    result: list[Poll] = []
    for touch in candidates:
        if touch.word not in ("read", "atomic") or not masks.executing(touch.event):
            continue
        block = flow.block_of(touch.index)
        for body in flow.loops:
            if block not in body:
                continue
            exits = passing_edges(flow, slices, body, touch.index)
            if exits:
                result.append(Poll(touch, touch.targets[0].name if touch.targets else "", exits))
                break
    return result


def passing_edges(flow: Flow, slices: LoadSlices, body: frozenset[int], load: int) -> tuple[tuple[int, int], ...]:
    """Edges taken when a loaded word says so, under a condition that derives from a load inside the loop.

    Of a branch that goes straight back to the loop's start on one side the other side passes (it may check a second
    word next); of other branches the sides that leave the loop pass.
    """
    found: list[tuple[int, int]] = []
    for number in sorted(body):
        block = flow.blocks[number]
        conditions = [edge.condition for edge in block.successors if edge.condition is not None]
        if not conditions or len(block.successors) < 2:
            continue
        if not any(load in slices.of(c.register, max(block.start, block.stop - 1)) for c in conditions):
            continue
        back = [flow.goes_back(edge.target, body) for edge in block.successors]
        for k, edge in enumerate(block.successors):
            if edge.target not in body or (any(back) and not back[k]):
                found.append((number, k))
    return tuple(found)


def fences(flow: Flow, scope: Scope) -> list[int]:
    """Instructions that fence at least as wide as `scope`, in both directions."""
    return [
        e.index
        for e in flow.program.events
        if e.kind is EventKind.FENCE
        and e.order in (Order.ACQ_REL, Order.SC)
        and e.scope is not None
        and e.scope >= scope
    ]
