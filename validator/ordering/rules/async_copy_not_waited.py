"""Shared memory is read before the asynchronous copy that fills it is done, or overwritten before a bulk store read it.

A barrier does not wait for `cp.async`, bulk or tensor copies: the issuing thread needs `cp.async.wait_group` (with the
right count), the readers of a bulk or tensor copy need the mbarrier's phase.

Bad:  `cp.async [sm], [x]; cp.async.commit_group; __syncthreads(); y = sm[t];`
Bad:  two groups committed, `wait_group 1`, and the second one is read.
Bad:  a warp issues cp.async and arrives at an mbarrier with a plain `mbarrier.arrive`; the others wait for its phase.
Bad:  two bulk copies onto an mbarrier that expects the bytes of one, or onto two mbarriers of which one is waited for.
Bad:  a bulk store from `sm`, and `sm[t] = v` in the next turn with no `cp.async.bulk.wait_group.read` between.
Good: `cp.async …; commit_group; wait_group 0; __syncthreads(); y = sm[t];`

Mend it by waiting for the group or mbarrier, then the CTA barrier, then the reads.

Not seen: groups of copies that are issued inside a loop (a software pipeline is counted from the stages filled ahead of
it into its first turns, later stages are not told apart); copies into another CTA; reads through descriptors
(wgmma, tcgen05); a bulk store's source that only other threads than the issuing one overwrite, or that is reached in no
sample of the kernel's inputs, and how many bulk groups a wait leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from validator.ordering.doubts import NO_WAY
from validator.ordering.findings import finding
from validator.ordering.pipeline import Late, Pipeline
from validator.ordering.shared import Shared
from validator.ordering.sources import overwritten
from validator.rule import Rule
from validator.verdict.model import Finding, Severity

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["RULE", "check"]

RULE = Rule("order/async-copy-not-waited", "shared memory is used before its asynchronous copy is done", Severity.ERROR)


def check(facts: Facts) -> Iterable[Finding]:
    """One finding per copied region."""
    shared = Shared(facts)
    yield from _overwritten(facts, shared)
    if not shared.copies:
        return
    groups: dict[str, list[Late]] = {}
    for late in Pipeline(facts, shared).late():
        groups.setdefault(repr(late.copy.region.root) + str(late.copy.region.offset), []).append(late)
    for key, members in groups.items():
        shown = [late for late in members if late.shown]
        yield _finding(facts, key, shown or members, bool(shown))


def _overwritten(facts: Facts, shared: Shared) -> Iterator[Finding]:
    """One finding per store whose source is written too early."""
    found: dict[int, list[Late]] = {}
    for late in overwritten(facts, shared):
        found.setdefault(late.copy.event.index, []).append(late)
    for index, members in found.items():
        store, write = members[0].copy.event, members[0].read.event
        yield finding(
            RULE,
            facts,
            [late.read.event.index for late in members],
            f"shared memory is overwritten while {store.opcode} at {facts.at(index)} may still read it",
            identity=("source", repr(members[0].copy.region)),
            why="a bulk store reads its source when it comes to it",
            fix="execute cp.async.bulk.wait_group.read in the thread that issued the store, then a barrier",
            steps=tuple(f"{facts.at(i)}: {facts.program.text(i)}" for i in (index, write.index)),
        )


def _finding(facts: Facts, key: str, members: list[Late], shown: bool) -> Finding:
    copy, read = members[0].copy.event, members[0].read.event
    what = "the mbarrier's phase" if copy.group == "mbarrier" else "cp.async.wait_group"
    return finding(
        RULE,
        facts,
        [late.read.event.index for late in members],
        f"shared memory filled by {copy.opcode} at {facts.at(copy.index)} is read before it is done",
        identity=(key,),
        why="a barrier does not wait for asynchronous copies" if shown else NO_WAY,
        fix=f"wait for {what} before the barrier that stands before the read",
        steps=tuple(f"{facts.at(i)}: {facts.program.text(i)}" for i in (copy.index, read.index)),
        severity=Severity.ERROR if shown else Severity.UNPROVEN,
    )
