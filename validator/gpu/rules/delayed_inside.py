"""A kernel whose own threads are held up at its synchronisation computes something else.

Some warps of some CTAs are delayed before and after every instruction that orders threads, in the kernel's own PTX;
nothing else changes. A right kernel waits for its slow threads. One that does not (a missing barrier, a copy that is
not waited for, a non-coherent load of what the kernel itself writes) gives another result, though it never does so
undelayed. The sites that matter are found by leaving the others out; the seed replays them. Where the contract leaves
sizes or the launch open, they were guessed, and threads may meet that never do in use: then the obligation is unproven.

How to mend it: look at the named sites: what is read behind them was written by a thread that nothing waits for.
"""

from __future__ import annotations

from collections.abc import Sequence

from validator.rule import Rule
from validator.verdict.model import Finding, Location, Severity

__all__ = ["RULE", "find"]

RULE = Rule(
    id="gpu/delayed-inside",
    title="with some of its own threads held up the kernel computes something else",
    severity=Severity.ERROR,
)


def find(match: str, where: Location, sites: Sequence[str], said: str, guessed: bool) -> Finding:
    """`sites`: where a delay is enough, in words. `guessed`: the contract left sizes open, and some were taken."""
    return Finding(
        RULE.id,
        Severity.UNPROVEN if guessed else RULE.severity,
        f"{match}: {said}",
        where,
        why="the result depends on which of its threads is fast: another GPU, or another load, gives wrong numbers",
        fix="order what is read behind these sites after the threads that write it",
        steps=tuple(sites),
        identity=(match,),
    )
