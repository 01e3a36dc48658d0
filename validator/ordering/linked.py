"""Which mbarriers may hand on what another one's phase has shown: their arrivals stand behind a wait for it.

Whoever waits for such an mbarrier may know as much as one who has waited for the first. What threads go on to after a
wait is followed through the code, through CTA and cluster barriers of the same name, and through further mbarriers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from validator.ordering.barriers import Barriers
from validator.ordering.dataflow import Flow
from validator.ordering.mbarriers import Mbarrier
from validator.ordering.program import Event, EventKind

__all__ = ["waits_behind"]

_BARRIERS = (EventKind.BARRIER, EventKind.CLUSTER_BARRIER)
_ARRIVALS = (EventKind.MBARRIER_ARRIVE, EventKind.ASYNC_COPY)


def waits_behind(barriers: Barriers, name: Mbarrier) -> list[Event]:
    """The waits for an mbarrier, for those that may hand on its order, and for any that may be one of them."""
    flow, identities = barriers.flow, barriers.mbarriers.identities
    waits = [e for e in flow.program.events if e.kind is EventKind.MBARRIER_WAIT]
    first = [e for e in waits if identities.get(e.index, name) == name]
    found = {e.index: e for e in first}
    fresh = list(first)
    while fresh:
        behind = [e for e in _after(flow, fresh) if e.kind in _BARRIERS or e.kind in _ARRIVALS]
        met = {n for e in behind if e.kind in _BARRIERS and e.arrives for n in barriers.names_of.get(e.index, ())}
        named = {identities.get(e.index) for e in behind if e.kind in _ARRIVALS}
        fresh = [e for e in waits if e.index not in found and identities.get(e.index) in named]
        fresh += [e for e in _others(barriers, met, first) if e.index not in found]
        found |= {e.index: e for e in fresh}
    return [e for e in found.values() if e.kind is EventKind.MBARRIER_WAIT]


def _others(barriers: Barriers, names: Iterable[str], first: list[Event]) -> Iterator[Event]:
    """Where other threads meet those that have waited: barriers of these names that do not stand before the wait."""
    flow = barriers.flow
    for name in names:
        for event, _ in barriers.named[name]:
            if event.waits and not any(e in first for e in _after(flow, [event])):
                yield event


def _after(flow: Flow, places: list[Event]) -> list[Event]:
    """Events that a thread may come to from some places."""
    found: dict[int, list[Event]] = {}
    stack = [(flow.block_of(e.index), e.index + 1) for e in places]
    whole: set[int] = set()
    while stack:
        number, first = stack.pop()
        for event in flow.events_in[number]:
            if event.index >= first:
                found.setdefault(event.index, []).append(event)
        for edge in flow.blocks[number].successors:
            if edge.target not in whole:
                whole.add(edge.target)
                stack.append((edge.target, 0))
    return [event for events in found.values() for event in {id(e): e for e in events}.values()]
