"""Shared memory of another CTA of the cluster is used where the two need not have met.

CTAs of a cluster start and end each for itself. Before one touches another's shared memory it has to know that the
other one runs, behind a cluster barrier; what the other one wrote there is visible behind a cluster barrier or an
mbarrier that it arrived at; and nobody may end while others still read its memory.

Bad:  `s[t] = v; __syncthreads(); y = peer(s)[t];` (a block barrier does not wait for the other CTA)
Bad:  `peer(s)[t] = v; cluster_sync(); y = s[t];` with no `cluster_sync()` before: the other CTA may not run yet
Bad:  `cluster_sync(); y = peer(s)[t]; return;` (the other CTA may have ended)
Good: `s[t] = v; cluster_sync(); y = peer(s)[t]; cluster_sync();`

Mend it with `barrier.cluster.arrive.release` and `.wait.acquire` (`cluster.sync()`) at the start, between write and
read, and behind the last read; or with mbarriers that the other CTA arrives at.

Not seen: a cluster barrier that only some launches pass; memory that is written again while others still read it, and
what a loop writes and reads in turns; arrivals at mbarriers of a CTA that need not run; at which rank an access goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from validator.ordering.findings import finding
from validator.ordering.peers import Peers, Unmet
from validator.rule import Rule
from validator.verdict.model import Finding, Severity

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["RULE", "check"]

RULE = Rule(
    "order/peer-memory-unmet", "shared memory of another CTA is used where the two need not have met", Severity.ERROR
)


def check(facts: Facts) -> Iterable[Finding]:
    """One finding each for CTAs that may not run yet, data that may not be there, and CTAs that may have ended."""
    peers = Peers(facts)
    if not peers.touching and not peers.copies:
        return
    early = peers.unstarted()
    if early:
        first = early[0]
        yield finding(
            RULE,
            facts,
            [e.index for e in early],
            f"{first.opcode} at {facts.at(first.index)} goes to shared memory of another CTA, which need not run yet",
            identity=("start",),
            why="no cluster barrier can have been passed before it",
            fix="pass a cluster barrier (barrier.cluster.arrive and .wait) at the start, behind the mbarriers' "
            "initialisation",
            steps=(f"{facts.at(first.index)}: {facts.program.text(first.index)}",),
        )
    yield from _between(
        facts,
        list(peers.handed()),
        "handed",
        "shared memory written at {first} is read at {second} across CTAs that need not have met in between",
        "a block barrier and a grid wait say nothing about the other CTA's threads",
        "pass a cluster barrier between the write and the read",
    )
    yield from _between(
        facts,
        list(peers.exits()),
        "exit",
        "shared memory of another CTA is read at {first}, and nothing keeps that CTA from having ended",
        "its memory is another's once it has ended; the reader tells it nothing before it ends itself",
        "pass a cluster barrier behind the last such read",
    )


def _between(facts: Facts, found: list[Unmet], kind: str, text: str, why: str, fix: str) -> Iterable[Finding]:
    if found:
        first, second = found[0]
        yield finding(
            RULE,
            facts,
            [item.first if kind == "exit" else item.second for item in found],
            text.format(first=facts.at(first), second=facts.at(second)),
            identity=(kind,),
            why=why,
            fix=fix,
            steps=tuple(f"{facts.at(i)}: {facts.program.text(i)}" for i in (first, second)),
        )
