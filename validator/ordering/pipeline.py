"""Whether an asynchronous copy into shared memory is done where the memory is read."""

from __future__ import annotations

from collections.abc import Sequence

from validator.ordering.facts import Facts
from validator.ordering.program import Event, EventKind
from validator.ordering.shared import Shared, SharedAccess
from validator.ordering.waits import Order

__all__ = ["unfinished", "unwaited_mbarrier"]

_CAP = 32
"""Groups counted; more than anybody keeps in flight."""


def unfinished(facts: Facts, copy: SharedAccess, reads: Sequence[SharedAccess]) -> list[SharedAccess]:
    """Reads that the issuing thread reaches while its copy may be in flight.

    In straight-line code groups are counted: after `wait_group n` a copy is done when n groups were committed after
    its own. Where a loop is involved any wait counts, before or after the copy: stages are not told apart.
    """
    looped = {number for body in facts.flow.loops for number in body}
    wanted = {r.event.index: r for r in reads}
    start = facts.flow.block_of(copy.event.index)
    counted = start not in looped and not any(facts.flow.block_of(i) in looped for i in wanted)
    if not counted and _waited_before(facts, copy.event):
        return []
    issuing = facts.masks.executing(copy.event)
    found: set[int] = set()
    best: dict[int, int] = {}
    stack = [(start, copy.event.index + 1, 0)]
    while stack:
        number, first, commits = stack.pop()
        done = False
        for event in facts.flow.events_in[number]:
            if event.index < first:
                continue
            if event.index in wanted:
                found.add(event.index)
            commits = min(commits + _commits(event, copy.event), _CAP)
            if _finishes(event, copy.event, commits, counted):
                done = True
                break
        if done:
            continue
        for k, edge in enumerate(facts.flow.blocks[number].successors):
            if facts.masks.edges[number][k] & issuing and commits < best.get(edge.target, _CAP + 1):
                best[edge.target] = commits
                stack.append((edge.target, 0, commits))
    return [wanted[index] for index in sorted(found)]


def _commits(event: Event, copy: Event) -> int:
    return int(event.kind is EventKind.ASYNC_COMMIT and event.group in (copy.group, None))


def _finishes(event: Event, copy: Event, commits: int, counted: bool) -> bool:
    if event.kind is EventKind.MBARRIER_WAIT:
        return True
    if event.kind is not EventKind.ASYNC_WAIT or event.group not in (copy.group, None):
        return False
    if event.pending is None or not counted:
        return True
    return event.pending == 0 or commits - 1 >= event.pending


def _waited_before(facts: Facts, copy: Event) -> bool:
    """Whether every path to the copy has passed some wait for copies of its kind."""
    waits = {e.index: facts.masks.everyone for e in _waits(facts, copy)}
    state = facts.masks.solve(waits, {})
    return not facts.masks.at(copy.index, state, waits)


def _waits(facts: Facts, copy: Event) -> list[Event]:
    groups = (copy.group, None)
    return [
        e
        for e in facts.events(EventKind.ASYNC_WAIT, EventKind.MBARRIER_WAIT)
        if e.kind is EventKind.MBARRIER_WAIT or e.group in groups
    ]


def unwaited_mbarrier(
    facts: Facts, shared: Shared, copy: SharedAccess, reads: Sequence[SharedAccess]
) -> list[SharedAccess]:
    """Reads of an mbarrier-completed copy by threads that never waited for any mbarrier nor met one that did."""
    if copy.event.group != "mbarrier" or any(shared.meet(w.region, copy.region) for w in shared.writes):
        return []
    clears = {e.index: facts.masks.everyone for e in facts.events(EventKind.MBARRIER_WAIT)}
    order = Order(facts.masks, facts.barriers, clears)
    return [r for r in reads if order.missing(r.event)]
