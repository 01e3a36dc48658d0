"""Shared memory is read before the asynchronous copy that fills it is known to be done.

A barrier does not wait for `cp.async`, bulk or tensor copies: the issuing thread needs `cp.async.wait_group` (with the
right count), the readers of a bulk or tensor copy need the mbarrier's phase.

Bad:  `cp.async [sm], [x]; cp.async.commit_group; __syncthreads(); y = sm[t];`
Bad:  two groups committed, `wait_group 1`, and the second one is read.
Good: `cp.async …; commit_group; wait_group 0; __syncthreads(); y = sm[t];`

Mend it by waiting for the group or mbarrier, then the CTA barrier, then the reads.

Not seen: groups of copies that are issued inside a loop (a software pipeline is counted from the stages filled ahead of
it into its first turns, later stages are not told apart); copies into another CTA; reads through descriptors
(wgmma, tcgen05).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from validator.ordering.findings import finding
from validator.ordering.pipeline import Pipeline
from validator.ordering.shared import Shared, SharedAccess
from validator.rule import Rule
from validator.verdict.model import Finding, Severity

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["RULE", "check"]

RULE = Rule("order/async-copy-not-waited", "shared memory is read before its asynchronous copy is done", Severity.ERROR)


def check(facts: Facts) -> Iterable[Finding]:
    """One finding per copied region."""
    shared = Shared(facts)
    if not shared.copies:
        return
    groups: dict[str, list[tuple[SharedAccess, SharedAccess]]] = {}
    for copy, read in Pipeline(facts, shared).late():
        groups.setdefault(repr(copy.region.root) + str(copy.region.offset), []).append((copy, read))
    for key, pairs in groups.items():
        copy, read = pairs[0]
        what = "the mbarrier's phase" if copy.event.group == "mbarrier" else "cp.async.wait_group"
        yield finding(
            RULE,
            facts,
            [r.event.index for _, r in pairs],
            f"shared memory filled by {copy.event.opcode} at {facts.at(copy.event.index)} is read before it is done",
            identity=(key,),
            why="a barrier does not wait for asynchronous copies",
            fix=f"wait for {what} before the barrier that stands before the read",
            steps=tuple(f"{facts.at(i)}: {facts.program.text(i)}" for i in (copy.event.index, read.event.index)),
        )
