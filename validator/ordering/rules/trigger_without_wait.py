"""A kernel that triggers its dependants and can end without having waited.

`griddepcontrol.launch_dependents` lets the next kernel start. Its wait then covers this kernel, but not this kernel's
own predecessor: only a wait in here passes that order on. A path that triggers and leaves without waiting breaks the
chain. An early trigger alone is harmless.

Bad:  `trigger(); if (blockIdx.x >= n) return; wait(); …`
Good: `trigger(); wait(); if (blockIdx.x >= n) return; …`

Mend it by waiting before the early return. A wait in one thread of each block is enough.

What an indirect branch or an unknown function decides is left open (`unproven`), and so is a kernel that never waits
and of which no contract says that it is launched with PDL: the first of a chain is launched plainly, and may trigger.
So are blocks that leave early where every trigger stands behind the wait: a launch that triggers has waited then, and
only one of which every block leaves early passes no order on.

Not seen: that a launch always has a block that takes the path with the wait (block 0, when there is any work at all);
a step in which nothing further back can still be running; give `[[steps]]` then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from validator.ordering.findings import finding
from validator.ordering.leaving import leaves_by_known_branches, leaves_unwaited, triggers_early
from validator.ordering.rules.no_wait import DECLARE_LAUNCH
from validator.rule import Rule
from validator.verdict.model import Finding, Severity

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["RULE", "check"]

_MOST = 24
"""Steps told; roles beyond leave in the same manner."""

_CHAIN = (
    "a dependant's wait covers this kernel only; what ran before it may still be running, unless another block of the "
    "launch waits, and nothing here shows that one always does"
)
_PLAIN = (
    "nothing says how it is launched: without PDL it starts when all before it is done, and a trigger alone is harmless"
)

_EVERY_BLOCK = (
    "every trigger stands behind the wait, so a launch has waited as soon as one block comes to it; nothing here shows "
    "that a launch always has such a block, and of one that has none a dependant may start beside what ran before"
)

RULE = Rule("order/trigger-without-wait", "a path triggers the dependants and never waits", Severity.ERROR)


def check(facts: Facts) -> Iterable[Finding]:
    """At most one finding a kernel."""
    if facts.pdl is not True or not facts.triggers:
        return
    exits = leaves_unwaited(facts, after_trigger=True)
    if not exits:
        return
    known = leaves_by_known_branches(facts)
    plain = facts.declared_pdl is None and not facts.waits
    behind = not triggers_early(facts)
    yield finding(
        RULE,
        facts,
        [t.index for t in facts.triggers],
        "the kernel triggers its dependants and "
        + ("can end" if known else "may end, by the way an indirect branch or a call goes,")
        + " without waiting for its own predecessor"
        + (f" (exit at {facts.at(exits[0][0])})" if facts.waits else ""),
        identity=("trigger",),
        why=_PLAIN if plain else _EVERY_BLOCK if behind else _CHAIN,
        fix=DECLARE_LAUNCH if plain else "execute griddepcontrol.wait on every path before the kernel ends",
        steps=_steps(facts, exits),
        severity=Severity.ERROR if known and not plain and not behind else Severity.UNPROVEN,
    )


def _steps(facts: Facts, exits: list[tuple[int, int]]) -> tuple[str, ...]:
    """The way out of each role: one for every set of threads that no earlier one speaks for."""
    steps: list[str] = []
    told = 0
    for index, threads in exits:
        new = threads & ~told
        if new and len(steps) < _MOST:
            steps += facts.path_to(index, new, limit=6)
            told |= threads
    return tuple(steps)
