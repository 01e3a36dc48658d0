"""Which mbarriers may hand on what another one's phase has shown: their arrivals stand behind a wait for it.

Whoever waits for such an mbarrier may know as much as one who has waited for the first. What threads go on to after a
wait is followed through the code, through CTA and cluster barriers of the same name, and through further mbarriers.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from validator.ordering.barriers import Barriers
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
    before = frozenset[int]().union(*(flow.leading_to(flow.block_of(e.index)) for e in first))
    found = {e.index: e for e in first}
    fresh = list(first)
    while fresh and len(found) < len(waits):
        behind = [e for e in flow.events_after(e.index for e in fresh) if e.kind in _BARRIERS or e.kind in _ARRIVALS]
        met = {n for e in behind if e.kind in _BARRIERS and e.arrives for n in barriers.names_of.get(e.index, ())}
        named = {identities.get(e.index) for e in behind if e.kind in _ARRIVALS} - barriers.mbarriers.passing_at_first
        # Where other threads meet those that have waited: not at a barrier that stands before the wait.
        others = (e for n in met for e, _ in barriers.named[n] if e.waits and flow.block_of(e.index) not in before)
        fresh = [e for e in (*waits, *others) if e.index not in found and _hands_on(e, identities, named)]
        found |= {e.index: e for e in fresh}
    return [e for e in found.values() if e.kind is EventKind.MBARRIER_WAIT]


def _hands_on(event: Event, identities: Mapping[int, Mbarrier], named: Set[Mbarrier | None]) -> bool:
    return event.kind is not EventKind.MBARRIER_WAIT or identities.get(event.index) in named
