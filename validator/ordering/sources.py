"""Whether shared memory that a bulk or tensor store reads still holds what it is to store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from validator.ordering.pipeline import Late
from validator.ordering.program import EventKind
from validator.ordering.shared import Shared, SharedAccess
from validator.ordering.waits import Order
from validator.ordering.witness import reached_unwaited

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["overwritten"]

_WALKED = 1000
"""Blocks walked for one store."""


def overwritten(facts: Facts, shared: Shared) -> Iterator[Late]:
    """(store, write) where the thread that issued the store can come to the write with no wait for the store between.

    Any `cp.async.bulk.wait_group` counts, `.read` or not, whatever number of groups it leaves; and the write has to be
    reached in a walk with samples of the kernel's inputs.
    """
    if not shared.stores:
        return
    waits = [e for e in facts.events(EventKind.ASYNC_WAIT) if e.group in ("bulk", None)]
    done = {e.index: facts.masks.everyone for e in waits}
    fills = [c for c in shared.copies if c.event.group == "mbarrier" and not c.remote]
    for store in shared.stores:
        writes = {w.event.index: w for w in (*shared.writes, *fills) if shared.meet(w.region, store.region)}
        near = _reached(facts, store, set(writes), set(done))
        if near:
            issuing = facts.masks.executing(store.event)
            goals = {index: issuing & facts.masks.executing(writes[index].event) for index in near}
            order = Order(facts.masks, facts.barriers, done)
            shown = reached_unwaited(facts.masks, order, goals, frozenset((store.event.index,)), _WALKED).found
            yield from (Late(store, writes[index]) for index in sorted(shown))


def _reached(facts: Facts, store: SharedAccess, goals: set[int], stops: set[int]) -> set[int]:
    """Writes that the issuing thread may come to, going by the branches whose conditions are known."""
    masks, issuing = facts.masks, facts.masks.executing(store.event)
    after = facts.flow.events_after((store.event.index,), stops, masks.open_to(issuing))
    return {e.index for e in after if e.index in goals - stops and masks.executing(e) & issuing}
