"""Whole-block barriers that some threads come to with more barriers behind them than others.

Barriers pair up by how many a thread has passed. Where a thread's coordinates alone decide that it passes one more on
the way to a barrier that all threads come to, it is a barrier behind from there on, and meets nobody at its last one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from validator.ordering.program import Event, EventKind

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["uneven"]

_WARP = (1 << 32) - 1
_COUNTED = 32
"""Barriers counted; a kernel with more of them in a row is let go."""

_Counts = dict[int, int]
"""Barriers passed → threads that may have passed so many."""


def uneven(facts: Facts, whole: Sequence[Event]) -> Iterator[tuple[Event, int, int]]:
    """(barrier, threads that come to it, those that come to it later in their count) where all have to come.

    Told of barriers under one number that stand in no loop, in blocks whose size is known or within the first warp.
    """
    names: dict[frozenset[str], list[Event]] = {}
    for event in whole:
        names.setdefault(frozenset(facts.barriers.names_of.get(event.index, [])), []).append(event)
    looped = frozenset[int]().union(*facts.flow.loops)
    for name, events in names.items():
        if len(name) == 1 and 1 < len(events) <= _COUNTED and not any(_block(facts, e) in looped for e in events):
            for event, counts in _passed(facts, {e.index for e in events}):
                found = _parted(facts, event, counts)
                if found is not None:
                    yield event, *found


def _block(facts: Facts, event: Event) -> int:
    return facts.flow.block_of(event.index)


def _passed(facts: Facts, barriers: set[int]) -> Iterator[tuple[Event, _Counts]]:
    """Each barrier with what the threads that come to it have passed before, along paths that go forward."""
    flow, masks = facts.flow, facts.masks
    at: dict[int, _Counts] = {0: {0: masks.everyone}}
    for number in flow.order:
        here = at.get(number, {})
        for event in flow.events_in[number]:
            may, may_not = facts.threads.holds(event.guard, event.index)
            if event.kind is EventKind.EXIT:
                here = {count: mask & may_not for count, mask in here.items()}
            elif event.index in barriers:
                yield event, {count: mask & may for count, mask in here.items() if mask & may}
                after: _Counts = {}
                for count, mask in here.items():
                    after[count + 1] = after.get(count + 1, 0) | mask & may
                    after[count] = after.get(count, 0) | mask & may_not
                here = after
        for k, edge in enumerate(flow.blocks[number].successors):
            if flow.rank[edge.target] <= flow.rank[number]:
                continue
            target = at.setdefault(edge.target, {})
            for count, mask in here.items():
                if mask & masks.edges[number][k]:
                    target[count] = target.get(count, 0) | mask & masks.edges[number][k]


def _parted(facts: Facts, event: Event, counts: _Counts) -> tuple[int, int] | None:
    """(threads that surely come to a barrier by a lower count, those by a higher one)."""
    once, twice = 0, 0
    for mask in counts.values():
        once, twice = once | mask, twice | once & mask
    sure = once & ~twice & ~_around(facts, event)
    if facts.threads.block is None:
        sure &= _WARP
    low = min((count for count, mask in counts.items() if mask & sure), default=0)
    fewer, more = counts.get(low, 0) & sure, sure & ~counts.get(low, 0)
    return (fewer, more) if fewer and more else None


def _around(facts: Facts, event: Event) -> int:
    """Threads that may end without having come to a barrier."""
    clears = {event.index: facts.masks.everyone}
    state = facts.masks.solve(clears, {})
    ends = (e for e in facts.program.events if e.kind is EventKind.EXIT)
    missed = 0
    for end in ends:
        missed |= facts.masks.at(end.index, state, clears) & facts.threads.holds(end.guard, end.index)[0]
    return missed
