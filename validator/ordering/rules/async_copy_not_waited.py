"""Shared memory is read before the asynchronous copy that fills it is done, or overwritten before a bulk store read it.

A barrier does not wait for `cp.async`, bulk or tensor copies: the issuing thread needs `cp.async.wait_group` (with the
right count), the readers of a bulk or tensor copy need the mbarrier's phase.

Bad:  `cp.async [sm], [x]; cp.async.commit_group; __syncthreads(); y = sm[t];`
Bad:  two groups committed, `wait_group 1`, and the second one is read.
Bad:  a warp issues cp.async and arrives at an mbarrier with a plain `mbarrier.arrive`; the others wait for its phase.
Bad:  two bulk copies onto an mbarrier that expects the bytes of one, or onto two mbarriers of which one is waited for.
Bad:  a bulk store from `sm`, and `sm[t] = v` in the next turn with no `cp.async.bulk.wait_group.read` between.
Bad:  a ring whose producer fills a stage again without waiting for its "empty" mbarrier, or whose consumers arrive
      there before they have read, or wait for the same parity in every round.
Bad:  a ring whose consumers multiply a stage with `wgmma` and arrive at its "empty" mbarrier before `wait_group`.
Good: `cp.async …; commit_group; wait_group 0; __syncthreads(); y = sm[t];`

Mend it by waiting for the group or mbarrier, then the CTA barrier, then the reads; in a ring by arriving at the stage's
"empty" mbarrier behind the last read and waiting for it, with a parity that flips every round, before the next copy.

Not seen: a stage of a `cp.async` ring that its own threads fill again while others still read it, where no followed
thread reads just what another one fills; lanes that each announce too few bytes of one phase; state that one side of a
ring resets and the other carries on, and waits left out in later tiles, where the fault comes after the steps that are
followed; copies into another CTA; reads through descriptors (wgmma, tcgen05), but for stages that wgmma reads and an
mbarrier hands back. Rings and stores are followed thread by thread with numbers for the kernel's inputs: not seen is
what hangs on numbers that the kernel works out from shared memory, and a ring that readers and fillers share within a
warp. Machine code for architectures before sm_90 is not followed at all, its PTX is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from validator.ordering.doubts import NO_WAY
from validator.ordering.findings import finding
from validator.ordering.multiplied import handed_back
from validator.ordering.pipeline import Late, Pipeline
from validator.ordering.rounds import Rounds
from validator.ordering.shared import Shared
from validator.ordering.sources import overwritten
from validator.ordering.stages import Fault, Kind
from validator.rule import Rule
from validator.verdict.model import Finding, Severity

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["RULE", "check"]

RULE = Rule("order/async-copy-not-waited", "shared memory is used before its asynchronous copy is done", Severity.ERROR)


def check(facts: Facts) -> Iterable[Finding]:
    """One finding per copied region."""
    shared = Shared(facts)
    late = list(Pipeline(facts, shared).late()) if shared.copies else []
    rounds = Rounds(facts, shared)
    faults = rounds.faults
    early = [late for late in overwritten(facts, shared) if not rounds.waited_for(late.copy.event.index)]
    told = {item.copy.event.index for item in (*late, *early)}
    yield from _overwritten(facts, early)
    yield from _late(facts, late)
    yield from _between_threads(facts, shared, [fault for fault in faults if fault.copy not in told])
    yield from _between_threads(facts, shared, handed_back(facts))


def _late(facts: Facts, found: Iterable[Late]) -> Iterator[Finding]:
    """One finding per copied region."""
    groups: dict[str, list[Late]] = {}
    for late in found:
        groups.setdefault(repr(late.copy.region.root) + str(late.copy.region.offset), []).append(late)
    for key, members in groups.items():
        shown = [late for late in members if late.shown]
        yield _finding(facts, key, shown or members, bool(shown))


_TEXTS = {
    Kind.REFILLED: (
        "shared memory is filled again by {copy} while other threads may still read it ({other})",
        "nothing that the reading threads arrive at is waited for between the two copies",
        "wait for an mbarrier at which the readers arrive, or a barrier, before the stage is filled again",
    ),
    Kind.RELEASED: (
        "shared memory that {copy} fills again is handed back before it is read ({other})",
        "the readers arrive at the mbarrier that the copy waits for, and read afterwards",
        "arrive at the mbarrier behind the last read",
    ),
    Kind.STALE: (
        "shared memory filled by {copy} is read behind a wait for a phase that is over already ({other})",
        "the parity that is waited for is that of the round before",
        "flip the parity whenever the ring comes round",
    ),
    Kind.UNWAITED: (
        "shared memory filled by {copy} is read before the wait for its mbarrier ({other})",
        "a barrier does not wait for asynchronous copies",
        "wait for the mbarrier's phase before the read",
    ),
    Kind.RACED: (
        "shared memory is filled again by {copy} while other threads may still read it ({other})",
        "what the copy waits for does not say that these threads have read: they do not arrive there",
        "let every thread that reads arrive, or meet one that arrives, behind its last read",
    ),
    Kind.CROWDED: (
        "shared memory that {copy} fills again is handed back before all have read it ({other})",
        "more threads arrive at the mbarrier in every round than it was initialised for: the first let the copy start",
        "initialise the mbarrier with the number of threads that arrive in a round",
    ),
    Kind.UNFINISHED: (
        "shared memory filled by {copy} is read before it is done ({other})",
        "the thread that copies arrives, or meets the reader, before it has waited for the copy's own group",
        "execute cp.async.wait_group with the right count in the thread that copies before it arrives",
    ),
    Kind.SHORT: (
        "{copy} brings bytes that the phase of its mbarrier does not count",
        "the copies of a phase bring more bytes than expect_tx announces: it may be over before the last of them is in",
        "announce the bytes of all copies",
    ),
    Kind.SOURCE: (
        "shared memory is overwritten by {other} while {copy} may still read it",
        "a bulk store reads its source when it comes to it; a barrier does not wait for it",
        "execute cp.async.bulk.wait_group.read in the thread that issued the store, then a barrier",
    ),
    Kind.MULTIPLIED: (
        "shared memory is handed back at {other} while {copy} may still read it",
        "wgmma is asynchronous: an arrival does not wait for it, and wait_group n leaves the last n groups under way",
        "execute wgmma.wait_group with the right count before the arrival",
    ),
}
"""Kind → (message, why, how to mend it)."""


def _between_threads(facts: Facts, shared: Shared, found: Iterable[Fault]) -> Iterator[Finding]:
    """One finding per kind and region."""
    parts = {item.event.index: shared.part(item.region) for item in (*shared.copies, *shared.async_reads)}
    groups: dict[tuple[Kind, str], list[Fault]] = {}
    for fault in found:
        groups.setdefault((fault.kind, repr(parts.get(fault.copy))), []).append(fault)
    for (kind, part), members in groups.items():
        text, why, fix = _TEXTS[kind]
        copy, others = members[0].copy, [fault.other for fault in members]
        opcodes = [f"{facts.flow.event_at[i][0].opcode} at {facts.at(i)}" for i in (copy, others[0])]
        yield finding(
            RULE,
            facts,
            others,
            text.format(copy=opcodes[0], other=opcodes[1]),
            identity=(kind.name, part),
            why=why,
            fix=fix,
            steps=tuple(f"{facts.at(i)}: {facts.program.text(i)}" for i in dict.fromkeys((copy, others[0]))),
        )


def _overwritten(facts: Facts, early: Iterable[Late]) -> Iterator[Finding]:
    """One finding per store whose source is written too early."""
    found: dict[int, list[Late]] = {}
    for late in early:
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
