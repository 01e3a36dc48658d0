"""Shared memory written with plain stores is read through the async proxy without a proxy fence.

TMA and bulk stores, wgmma and tcgen05 read shared memory through the async proxy. Plain stores become visible to it
only after `fence.proxy.async` by the threads that wrote, before the barrier that hands over.

Bad:  `sm[t] = v; __syncthreads(); if (t == 0) bulk_store(out, sm);`
Good: `sm[t] = v; fence.proxy.async.shared::cta; __syncthreads(); if (t == 0) bulk_store(out, sm);`

Mend it by fencing in every writing thread, before the barrier.

Not seen: which memory a descriptor names, where copies fill shared memory as well; regions are told apart by base and
constant offset only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from validator.ordering.findings import finding
from validator.ordering.program import Event, EventKind
from validator.ordering.shared import Shared, SharedAccess
from validator.rule import Rule
from validator.verdict.model import Finding, Severity

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["RULE", "check"]

RULE = Rule(
    "order/missing-proxy-fence", "plain shared writes are read by the async proxy without a fence", Severity.ERROR
)


def check(facts: Facts) -> Iterable[Finding]:
    """One finding per asynchronous read."""
    shared = Shared(facts)
    for event, region in (*((r.event, r.region) for r in shared.async_reads), *shared.by_descriptor):
        if region is not None:
            writers = [w for w in shared.writes if shared.meet(w.region, region)]
        else:
            # Which operands a descriptor names is not in the instruction: only where nothing but plain stores fills
            # shared memory it can be no other.
            writers = [] if shared.copies else shared.writes
        bad, late = _unfenced(facts, writers, event) if writers else ([], [])
        if bad or late:
            write = (bad or late)[0]
            text = "with no fence.proxy.async between" if bad else "and fenced only after the barrier, by other threads"
            yield finding(
                RULE,
                facts,
                [event.index],
                f"{event.opcode} reads shared memory that {write.event.opcode} wrote at "
                f"{facts.at(write.event.index)}, {text}",
                identity=(repr(region), "bad" if bad else "late"),
                why="the async proxy need not see plain stores that no proxy fence follows",
                fix="execute fence.proxy.async (shared::cta) in the writing threads before the barrier",
                steps=tuple(f"{facts.at(i)}: {facts.program.text(i)}" for i in (write.event.index, event.index)),
                severity=Severity.ERROR if bad else Severity.WARNING,
            )


def _covers(event: Event) -> bool:
    proxy = event.proxy or ""
    return event.kind is EventKind.PROXY_FENCE and proxy.startswith("async") and not proxy.endswith("global")


def _unfenced(facts: Facts, writers: list[SharedAccess], read: Event) -> tuple[list[SharedAccess], list[SharedAccess]]:
    """Writes from which the read is reached with no fence at all, and with a fence only behind a barrier."""
    bad: list[SharedAccess] = []
    late: list[SharedAccess] = []
    for write in writers:
        goal = facts.flow.block_of(read.index)
        # State 0: nothing passed; 1: a barrier passed, fences since then are other threads' or too late.
        seen: set[tuple[int, int]] = set()
        stack = [(facts.flow.block_of(write.event.index), write.event.index + 1, 0)]
        alone = facts.masks.executing(write.event) & ~facts.masks.executing(read) == 0
        hit: set[int] = set()
        while stack:
            number, first, state = stack.pop()
            for event in facts.flow.events_in[number]:
                if event.index < first:
                    continue
                if event.index == read.index and number == goal:
                    hit.add(state)
                    break
                if _covers(event):
                    if state == 0 or alone:
                        break
                    state = 2
                elif event.kind is EventKind.BARRIER and event.waits and state == 0:
                    state = 1
            else:
                for edge in facts.flow.blocks[number].successors:
                    if (edge.target, state) not in seen:
                        seen.add((edge.target, state))
                        stack.append((edge.target, 0, state))
        if hit & {0, 1}:
            bad.append(write)
        elif 2 in hit:
            late.append(write)
    return bad, late
