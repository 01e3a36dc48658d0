"""Shared memory written with plain stores is read through the async proxy without a proxy fence.

TMA and bulk stores, wgmma and tcgen05 read shared memory through the async proxy. Plain stores become visible to it
only after `fence.proxy.async` by the threads that wrote, before the barrier that hands over.

Bad:  `sm[t] = v; __syncthreads(); if (t == 0) bulk_store(out, sm);`
Good: `sm[t] = v; fence.proxy.async.shared::cta; __syncthreads(); if (t == 0) bulk_store(out, sm);`

A bulk or tensor copy into memory that plain stores filled before needs the same fence, or the stores may land on top
of it. That is a warning where a run decides how many bytes are copied: the stores may clear what lies behind them.

Bad:  `sm[t] = 0; __syncthreads(); if (t == 0) bulk_load(sm, in);`
Good: `sm[t] = 0; fence.proxy.async.shared::cta; __syncthreads(); if (t == 0) bulk_load(sm, in);`

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
    """One finding per asynchronous read, and per copy onto what was stored."""
    shared = Shared(facts)
    # The tensor core writes the address that it allots itself: no plain store.
    written = [w for w in shared.writes if w.event.group != "tcgen05"]
    for event, region in (*((r.event, r.region) for r in shared.async_reads), *shared.by_descriptor):
        if region is not None:
            writers = [w for w in written if shared.meet(w.region, region)]
        else:
            # Which operands a descriptor names is not in the instruction: only where nothing but plain stores fills
            # shared memory it can be no other.
            writers = [] if shared.copies else written
        bad, late = _unfenced(facts, writers, event) if writers else ([], [])
        if bad or late:
            what = "with no fence.proxy.async between" if bad else "and fenced only after the barrier, by other threads"
            severity = Severity.ERROR if bad else Severity.WARNING
            key = repr(region), "bad" if bad else "late"
            yield _finding(facts, event, (bad or late)[0].event, "reads", what, key, severity)
    for copy in shared.copies:
        if copy.event.group == "mbarrier" and not copy.remote:
            writers = [w for w in written if shared.meet(w.region, copy.region)]
            bad, _ = _unfenced(facts, writers, copy.event)
            if bad:
                key = repr(copy.region), "overwritten"
                text = "with no fence.proxy.async between: the stores may land on top of it"
                at_run_time = copy.event.amount is not None and facts.barriers.mbarriers.bytes_of(copy.event) is None
                severity = Severity.WARNING if at_run_time else Severity.ERROR
                yield _finding(facts, copy.event, bad[0].event, "fills", text, key, severity)


def _finding(
    facts: Facts, event: Event, write: Event, verb: str, text: str, identity: tuple[str, str], severity: Severity
) -> Finding:
    return finding(
        RULE,
        facts,
        [event.index],
        f"{event.opcode} {verb} shared memory that {write.opcode} wrote at {facts.at(write.index)}, {text}",
        identity=identity,
        why="the async proxy need not see plain stores that no proxy fence follows",
        fix="execute fence.proxy.async (shared::cta) in the writing threads before the barrier",
        steps=tuple(f"{facts.at(i)}: {facts.program.text(i)}" for i in (write.index, event.index)),
        severity=severity,
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
