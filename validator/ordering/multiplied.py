"""Whether a stage of shared memory is handed back while an asynchronous `wgmma` may still read it.

Which memory a descriptor names is not looked up. A stage is known by the two mbarriers of a ring instead: the filler
waits for one ("empty") before it copies onto the other ("full"). What a thread multiplies behind its wait for a full
mbarrier reads that stage, and the stage's own empty mbarrier may be arrived at only when the product's group is done.
Threads are walked with numbers (`ordering.traces`), so that stages are told apart and groups counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from validator.ordering.program import Event, EventKind
from validator.ordering.stages import Fault, Kind, known_done
from validator.ordering.traces import Thread, traces

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["handed_back"]

_WALKED = 8
"""Threads walked."""
_STEPS = (
    EventKind.MBARRIER_ARRIVE,
    EventKind.MBARRIER_WAIT,
    EventKind.ASYNC_READ,
    EventKind.ASYNC_COMMIT,
    EventKind.ASYNC_WAIT,
)


def handed_back(facts: Facts) -> list[Fault]:
    """(product, arrival) where most launches that come there show it."""
    products = [e for e in facts.events(EventKind.ASYNC_READ) if e.group == "wgmma" and e.accesses]
    copies = [e for e in facts.events(EventKind.ASYNC_COPY) if e.group == "mbarrier" and e.barrier]
    if not products or not copies:
        return []
    filling, multiplying = _leaders(facts, copies), _leaders(facts, products)
    walked = list(dict.fromkeys((*filling, *multiplying)))[:_WALKED]
    wanted = [e for e in facts.program.events if e.kind in _STEPS or e in copies]
    counts: dict[Fault, list[int]] = {}
    for threads in traces(facts.masks, walked, wanted):
        pairs = {full: empty for t in threads if t.number in filling for full, empty in _stages(t)}
        seen: dict[Fault, bool] = {}
        for thread in threads:
            if thread.number in multiplying and not thread.blind:
                for fault, wrong in _held(thread, pairs):
                    seen[fault] = seen.get(fault, False) or wrong
        for fault, wrong in seen.items():
            counts.setdefault(fault, [0, 0])[wrong] += 1
    return [fault for fault, (fine, wrong) in counts.items() if wrong > fine]


def _leaders(facts: Facts, events: list[Event]) -> list[int]:
    """The first thread that executes each of some events."""
    masks = (facts.masks.executing(e) for e in events)
    return list(dict.fromkeys((mask & -mask).bit_length() - 1 for mask in masks if mask))


def _stages(filler: Thread) -> Iterator[tuple[int, int]]:
    """(full, empty) mbarrier of every stage: the last one waited for before a copy onto the other."""
    empty: int | None = None
    for step in filler.steps:
        if step.event.kind is EventKind.MBARRIER_WAIT:
            empty = step.place
        elif step.event.kind is EventKind.ASYNC_COPY and step.barrier is not None and empty is not None:
            yield step.barrier, empty


def _held(thread: Thread, pairs: dict[int, int]) -> Iterator[tuple[Fault, bool]]:
    """Arrivals that hand a stage back, each with the last product of it and whether that may be under way."""
    stage: int | None = None
    last: dict[int, int] = {}
    for k, step in enumerate(thread.steps):
        kind = step.event.kind
        if kind is EventKind.MBARRIER_WAIT:
            stage = pairs.get(step.place) if step.place is not None else None
        elif kind is EventKind.ASYNC_READ and step.event.group == "wgmma" and stage is not None:
            last[stage] = k
        elif kind is EventKind.MBARRIER_ARRIVE and step.place in last:
            product = last.pop(step.place)
            done = known_done(thread, product)
            yield Fault(Kind.MULTIPLIED, thread.steps[product].event.index, step.event.index), done is None or done > k
