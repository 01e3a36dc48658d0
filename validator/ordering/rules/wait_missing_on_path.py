"""The kernel waits, but not on every path or not in every thread.

`griddepcontrol.wait` orders the executing thread. A branch around it, a warp role without it, or a single waiting
thread with no barrier after it leaves the others unordered.

Bad:  `if (threadIdx.x < 32) { wait(); tile[t] = act[t]; } else { r = res[i]; }`
Bad:  `if (threadIdx.x == 0) wait(); out[i] = act[i];`
Good: `if (threadIdx.x == 0) wait(); __syncthreads(); out[i] = act[i];`

Mend it by waiting on every path before the access, or by a CTA barrier or mbarrier that a waiting thread takes part in.

Not seen: order carried by shuffles and votes, which order no memory; `__syncwarp()` orders the lanes of its warp.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from validator.ordering.findings import finding
from validator.ordering.threadset import describe
from validator.rule import Rule
from validator.verdict.model import Finding, Severity

if TYPE_CHECKING:
    from validator.ordering.facts import Early, Facts

__all__ = ["RULE", "check"]

RULE = Rule("order/wait-missing-on-path", "some threads or paths miss the wait", Severity.ERROR)


def check(facts: Facts) -> Iterable[Finding]:
    """At most one finding a kernel and cause."""
    if not facts.waits:
        return
    groups: dict[str, list[Early]] = {}
    for early in facts.early:
        if early.judgement.severity is Severity.ERROR and not early.flag:
            cause = _cause(facts, early)
            if cause:
                groups.setdefault(cause, []).append(early)
    for cause, items in groups.items():
        names = ", ".join(sorted({e.touch.label for e in items}))
        yield finding(
            RULE,
            facts,
            [e.touch.index for e in items],
            f"{cause}: {names}",
            identity=(cause.partition(",")[0],),
            why="the wait orders only the threads that execute it, and those behind a barrier with one of them",
            fix="wait on every path before the access, or put a CTA barrier behind the waiting thread",
            steps=facts.path(items[0]),
        )


def _cause(facts: Facts, early: Early) -> str:
    """How the wait is missed, in words; empty when the access simply comes first."""
    everyone = facts.masks.everyone
    waiting = 0
    for event in facts.waits:
        waiting |= facts.masks.executing(event)
    if waiting and not waiting & early.threads:
        only = describe(waiting, everyone)
        verb = "waits" if waiting.bit_count() == 1 else "wait"
        return f"only {only} {verb}, {describe(early.threads, everyone)} have no wait before they touch memory"
    block = facts.flow.block_of(early.touch.index)
    after = facts.flow.reachable(facts.flow.block_of(e.index) for e in facts.waits)
    later = facts.flow.reachable((block,))
    comes = [facts.flow.block_of(w.index) for w in facts.waits]
    behind = block in after and any(
        b != block or w.index < early.touch.index for b, w in zip(comes, facts.waits, strict=True)
    )
    ahead = any(
        b in later and (b != block or w.index > early.touch.index) for b, w in zip(comes, facts.waits, strict=True)
    )
    if behind:
        return "a path around the wait reaches memory"
    return "" if ahead else "a path that never waits touches memory"
