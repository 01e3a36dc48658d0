"""A flag is raised before the data it publishes is released.

Whoever acquires the flag sees the data only if the writer released it: a release store, or a fence before a relaxed
one, with a barrier in between when other threads wrote. `volatile` releases nothing.

Bad:  `out[i] = v; __syncthreads(); if (t == 0) *(volatile int*)flag = 1;`
Bad:  `out[i] = v; if (t == 0) st.release.gpu [flag], 1;` (the other threads' stores are not behind a barrier)
Bad:  `__syncthreads(); if (t == 0) st.release.gpu [flag], 1; out[i] = v;` (`out` is `guarded_by` the flag)
Good: `out[i] = v; __syncthreads(); if (t == 0) st.release.gpu [flag], 1;`
Good: `out[i] = v; __syncthreads(); if (t == 0) { __threadfence(); atomicAdd(flag, 1); }`

Mend it with st.release / red.release at the scope of the reader, or a fence after the barrier.

A bulk store is done only behind `cp.async.bulk.wait_group`; with `.read` the source may be reused, no more.

Bad:  `cp.async.bulk.global.shared::cta …; commit_group; cp.async.bulk.wait_group.read 0; st.release.gpu [flag], 1;`

Not seen: stores to a flag whose argument has no role `flag`; how many bulk groups a wait leaves behind.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from validator.manifest.roles import Role
from validator.ordering.findings import finding
from validator.ordering.memory import Touch
from validator.ordering.polls import RELEASES, fences
from validator.ordering.program import Const, EventKind, Scope
from validator.rule import Rule
from validator.verdict.model import Finding, Severity

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["RULE", "check"]

RULE = Rule("order/publish-without-release", "a flag is raised before its data is released", Severity.ERROR)


def check(facts: Facts) -> Iterable[Finding]:
    """One finding per flag and cause."""
    raised = [t for t in facts.touches if t.writes and _is_flag(t) and not _is_reset(t)]
    polled = {p.touch.index for p in facts.polls}
    for touch in raised:
        if touch.index in polled:
            continue
        scope = facts.declarations.scope(touch.targets[0].name)
        event = touch.event
        releases = event.order in RELEASES and (event.scope is None or event.scope >= scope)
        cleared: set[int] = set() if releases else set(fences(facts.flow, scope))
        cause = ""
        if not releases:
            writes = _reaching(facts, touch, cleared)
            cause = "not released" if writes else ""
        else:
            writes = []
        if not cause:
            writes = _other_threads(facts, touch)
            cause = "not behind a barrier" if writes else ""
        if not cause:
            writes = _behind(facts, touch, raised)
            cause = "made behind it" if writes else ""
        if cause:
            yield _finding(facts, touch, cause, writes, scope)
        unfinished = _bulk_stores(facts, touch)
        if unfinished:
            yield _finding(facts, touch, "not complete", unfinished, scope)


def _finding(facts: Facts, touch: Touch, cause: str, writes: list[Touch], scope: Scope) -> Finding:
    name = touch.targets[0].name
    stores = ", ".join(sorted({w.label for w in writes})[:6])
    width = scope.name.lower()
    mend = {
        "not released": f"raise the flag with st.release.{width} or red.release.{width}, or fence before it",
        "not complete": "wait with cp.async.bulk.wait_group 0 (not .read) before the flag is raised",
        "not behind a barrier": "put a CTA barrier between the stores of the other threads and the flag",
        "made behind it": "raise the flag behind the last store of what it publishes",
    }
    places = (writes[0].index, touch.index)
    return finding(
        RULE,
        facts,
        [touch.index],
        f"'{name}' is raised by {touch.event.opcode} while stores to {stores} are {cause}",
        identity=(name, cause),
        why="whoever sees the flag need not see the data",
        fix=mend[cause],
        steps=tuple(
            f"{facts.at(i)}: {facts.program.text(i)}" for i in (places[::-1] if cause == "made behind it" else places)
        ),
    )


def _is_flag(touch: Touch) -> bool:
    return bool(touch.targets) and all(t.role is Role.FLAG for t in touch.targets)


def _is_reset(touch: Touch) -> bool:
    """Storing a constant zero takes a flag down."""
    values = touch.event.value
    return touch.word == "write" and bool(values) and all(isinstance(v, Const) and v.value == 0 for v in values)


def _behind(facts: Facts, touch: Touch, raised: list[Touch]) -> list[Touch]:
    """Stores to what a flag guards that come behind its being raised, with no way to its being raised again.

    Constants that are stored there clear the memory for the next launch.
    """
    name = touch.targets[0].name
    guarded = [w for w in _data(facts) if any(t.guarded_by in (name, name.rpartition(".")[2]) for t in w.targets)]
    if not guarded:
        return []
    raising = {t.index for t in raised if t.targets[0].name == name}
    behind = {e.index for e in facts.flow.events_after((touch.index,), raising)} - raising
    fresh = [
        w for w in guarded if w.index in behind and not all(isinstance(v, Const) for v in w.event.value or (None,))
    ]
    return [w for w in fresh if not raising & {e.index for e in facts.flow.events_after((w.index,))}]


def _data(facts: Facts) -> list[Touch]:
    return [
        t
        for t in facts.touches
        if t.writes and t.event.kind is EventKind.ACCESS and not all(x.role is Role.FLAG for x in t.targets)
    ]


def _bulk_stores(facts: Facts, touch: Touch) -> list[Touch]:
    """Bulk and tensor stores to global memory that may be incomplete where the flag is raised.

    Who stored knows of it behind its wait; others when they have met that thread at a barrier since.
    """
    stores = [t for t in facts.touches if t.writes and t.event.group == "bulk"]
    waits = {e.index for e in facts.events(EventKind.ASYNC_WAIT) if e.group in ("bulk", None) and not e.read_only}
    meetings = {e.index for e in facts.events(EventKind.BARRIER, EventKind.CLUSTER_BARRIER) if e.waits}
    raising = facts.masks.executing(touch.event)
    found: list[Touch] = []
    for store in stores:
        storing = facts.masks.executing(store.event)
        incomplete = _forward(facts, store.index, storing, waits)
        itself = raising & storing and touch.index in incomplete
        met = (_forward(facts, index, raising, meetings) for index in sorted(meetings & incomplete))
        if itself or (raising & ~storing and any(touch.index in passed for passed in met)):
            found.append(store)
    return found


def _forward(facts: Facts, index: int, threads: int, stops: set[int]) -> set[int]:
    """Events that some of `threads` can come to behind an event without passing one of `stops`; those are the last."""
    return {e.index for e in facts.flow.events_after((index,), stops, facts.masks.open_to(threads))}


def _reaching(facts: Facts, touch: Touch, cleared: set[int], barriers: bool = False) -> list[Touch]:
    """Data stores from which the flag is reached without passing `cleared` (or a barrier)."""
    stops = set(cleared)
    if barriers:
        stops |= {e.index for e in facts.events(EventKind.BARRIER, EventKind.CLUSTER_BARRIER) if e.waits}
    before = _backward(facts, touch.index, stops)
    return [w for w in _data(facts) if w.index in before]


def _backward(facts: Facts, index: int, stops: set[int]) -> set[int]:
    """Events from which `index` can be reached without passing one of `stops`."""
    flow = facts.flow
    found: set[int] = set()
    first = flow.block_of(index)
    stack: list[tuple[int, int]] = [(first, index)]
    seen: set[int] = set()
    while stack:
        number, limit = stack.pop()
        blocked = False
        for event in reversed(flow.events_in[number]):
            if event.index >= limit:
                continue
            if event.index in stops:
                blocked = True
                break
            found.add(event.index)
        if not blocked:
            for before, _ in flow.predecessors[number]:
                if before not in seen:
                    seen.add(before)
                    stack.append((before, flow.blocks[before].stop))
    return found


def _other_threads(facts: Facts, touch: Touch) -> list[Touch]:
    """Stores by threads that do not raise the flag themselves, with no barrier before it."""
    raising = facts.masks.executing(touch.event)
    if raising == facts.masks.everyone:
        return []
    return [w for w in _reaching(facts, touch, set(), barriers=True) if facts.masks.executing(w.event) & ~raising]
