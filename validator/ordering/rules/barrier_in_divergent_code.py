"""A barrier for the whole block stands where only some of its threads come, and the others go to another barrier.

`__syncthreads()` under a condition that depends on the thread lets threads pair up at different barriers: some are a
barrier behind for good, or the warp executes one barrier in two halves. What the barrier was to order is not ordered.

Bad:  `if (t < n) { s[t] = x[t]; __syncthreads(); … } __syncthreads();`
Bad:  `if (t < 48) { s[t] = x[t]; __syncthreads(); } __syncthreads();`
Good: `if (t < n) s[t] = x[t]; __syncthreads(); if (t < n) …; __syncthreads();`

Mend it by moving the barrier out of the condition, or by a named barrier with the count of those that come.

Not seen: conditions that depend on data; barriers in loops, and blocks of a size that neither the kernel nor the
contract's `launch` fixes, where a comparison with a number parts whole warps. Threads that leave the kernel before the
barrier are fine.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from validator.ordering.findings import finding
from validator.ordering.program import EventKind
from validator.ordering.threadset import describe
from validator.ordering.uneven import uneven
from validator.rule import Rule
from validator.verdict.model import Finding, Severity

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["RULE", "check"]

RULE = Rule("order/barrier-in-divergent-code", "a block barrier stands in divergent code", Severity.ERROR)


def check(facts: Facts) -> Iterable[Finding]:
    """One finding per barrier."""
    whole = [e for e in facts.events(EventKind.BARRIER) if e.thread_count is None and e.arrives and e.waits]
    if not whole:
        return
    blocks = sorted({facts.flow.block_of(e.index) for e in whole})
    first = _first_barriers(facts, blocks) if len(blocks) > 1 else {}
    parting = [number for number in sorted(first) if _parts(facts, number)] if first else []
    told: set[int] = set()
    for event in whole:
        branch = _dividing(facts, 1 << blocks.index(facts.flow.block_of(event.index)), first, parting)
        if branch is not None:
            told.add(event.index)
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
    for event, fewer, more in uneven(facts, whole) if not told else ():
        everyone = facts.masks.everyone
        yield finding(
            RULE,
            facts,
            [event.index],
            f"{event.opcode} waits for the whole block, but {describe(more, everyone)} come to it with more barriers "
            f"passed than {describe(fewer, everyone)}",
            identity=("uneven", str(len([e for e in whole if e.index < event.index]))),
            why="threads of one block meet at different barriers: nothing orders what stands between",
            fix="move the barrier that only some threads pass out of the condition, or give it their number",
        )


def _parts(facts: Facts, number: int) -> bool:
    """Whether a block ends in a branch by thread coordinates."""
    block = facts.flow.blocks[number]
    last = max(block.start, block.stop - 1)
    conditions = [guard for edge in block.successors for guard in edge.guards]
    return len(block.successors) > 1 and any(facts.threads.parts(c, last) for c in conditions)


def _dividing(facts: Facts, home: int, first: dict[int, int], parting: list[int]) -> int | None:
    """A branch by thread coordinates one side of which comes to this barrier first, the other to another one."""
    for number in parting:
        block = facts.flow.blocks[number]
        met = [first.get(e.target, 0) for e in block.successors]
        if any(m == home for m in met) and any(m and not m & home for m in met):
            return max(block.start, block.stop - 1)
    return None


def _first_barriers(facts: Facts, barriers: list[int]) -> dict[int, int]:
    """Block → barriers that may be met first from its start, as a bit mask over `barriers`."""
    own = {number: 1 << position for position, number in enumerate(barriers)}
    first = dict.fromkeys(facts.flow.order, 0)
    pending = list(reversed(barriers))
    first.update({number: bit for number, bit in own.items() if number in first})
    while pending:
        number = pending.pop()
        for before, _ in facts.flow.predecessors[number]:
            if before in first and before not in own and first[number] & ~first[before]:
                first[before] |= first[number]
                pending.append(before)
    return first
