"""A barrier for the whole block stands where only some of its threads come, and the others go to another barrier.

`__syncthreads()` under a condition that depends on the thread lets threads pair up at different barriers: some are a
barrier behind for good, or the warp executes one barrier in two halves. What the barrier was to order is not ordered.

Bad:  `if (t < n) { s[t] = x[t]; __syncthreads(); … } __syncthreads();`
Good: `if (t < n) s[t] = x[t]; __syncthreads(); if (t < n) …; __syncthreads();`

Mend it by moving the barrier out of the condition, or by a named barrier with the count of those that come.

Not seen: conditions that depend on data; threads that leave the kernel before the barrier are fine.
"""

from __future__ import annotations

from collections.abc import Iterable

from validator.ordering.facts import Facts
from validator.ordering.findings import finding
from validator.ordering.program import Event, EventKind
from validator.rule import Rule
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("order/barrier-in-divergent-code", "a block barrier stands in divergent code", Severity.ERROR)


def check(facts: Facts) -> Iterable[Finding]:
    """One finding per barrier."""
    whole = [e for e in facts.events(EventKind.BARRIER) if e.thread_count is None and e.arrives and e.waits]
    if not whole:
        return
    blocks = {facts.flow.block_of(e.index) for e in whole}
    for event in whole:
        branch = _dividing(facts, event, blocks)
        if branch is not None:
            yield finding(
                RULE,
                facts,
                [event.index],
                f"{event.opcode} waits for the whole block, but threads part at {facts.at(branch)} and the others go "
                "on to another barrier",
                identity=(str(len([e for e in whole if e.index < event.index])),),
                why="threads of one block meet at different barriers: nothing orders what stands between",
                fix="move the barrier out of the condition",
                steps=(
                    f"{facts.at(branch)}: {facts.program.text(branch)}: threads part",
                    f"{facts.at(event.index)}: {facts.program.text(event.index)}: only some come here",
                ),
            )


def _dividing(facts: Facts, event: Event, barriers: set[int]) -> int | None:
    """A branch by thread coordinates one side of which comes to this barrier first, the other to another one."""
    flow = facts.flow
    home = flow.block_of(event.index)
    others = frozenset(barriers)
    for number in sorted(flow.rank):
        block = flow.blocks[number]
        if len(block.successors) < 2 or number == home:
            continue
        last = max(block.start, block.stop - 1)
        conditions = [e.condition for e in block.successors if e.condition is not None]
        if not conditions or not any(facts.threads.parts(c, last) for c in conditions):
            continue
        first = [_first_barriers(facts, e.target, others) for e in block.successors]
        here = [home in met for met in first]
        elsewhere = [bool(met - {home}) and home not in met for met in first]
        if any(here) and any(elsewhere) and all(met == {home} for met, own in zip(first, here, strict=True) if own):
            return last
    return None


def _first_barriers(facts: Facts, start: int, barriers: frozenset[int]) -> set[int]:
    """Blocks of the barriers that are met first from a block."""
    met: set[int] = set()
    seen: set[int] = set()
    stack = [start]
    while stack:
        number = stack.pop()
        if number in seen:
            continue
        seen.add(number)
        if number in barriers:
            met.add(number)
            continue
        stack.extend(e.target for e in facts.flow.blocks[number].successors)
    return met
