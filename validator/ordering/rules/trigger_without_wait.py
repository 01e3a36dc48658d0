"""A kernel that triggers its dependants and can end without having waited.

`griddepcontrol.launch_dependents` lets the next kernel start. Its wait then covers this kernel, but not this kernel's
own predecessor: only a wait in here passes that order on. A path that triggers and leaves without waiting breaks the
chain. An early trigger alone is harmless.

Bad:  `trigger(); if (blockIdx.x >= n) return; wait(); …`
Good: `trigger(); wait(); if (blockIdx.x >= n) return; …`

Mend it by waiting before the early return. A wait in one thread of each block is enough.

Not seen: a step in which nothing further back can still be running; give `[[steps]]` then.
"""

from __future__ import annotations

from collections.abc import Iterable

from validator.ordering.facts import Facts
from validator.ordering.findings import finding
from validator.ordering.leaving import leaves_unwaited
from validator.rule import Rule
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("order/trigger-without-wait", "a path triggers the dependants and never waits", Severity.ERROR)


def check(facts: Facts) -> Iterable[Finding]:
    """At most one finding a kernel."""
    if facts.pdl is not True or not facts.triggers:
        return
    exits = leaves_unwaited(facts)
    if not exits:
        return
    yield finding(
        RULE,
        facts,
        [t.index for t in facts.triggers],
        "the kernel triggers its dependants and can end without waiting for its own predecessor"
        + (f" (exit at {facts.at(exits[0])})" if facts.waits else ""),
        identity=("trigger",),
        why="a dependant's wait covers this kernel only; what ran before it may still be running",
        fix="execute griddepcontrol.wait on every path before the kernel ends",
    )
