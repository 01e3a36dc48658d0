"""A loop polls a flag without acquiring, and memory is touched after it.

The flag says that data is ready; only an acquire (or a fence after a relaxed poll) makes the data visible too. A
`volatile` or relaxed poll alone orders nothing: the reads after it may return old data, and may be made before it.

Bad:  `while (*(volatile int*)flag == 0) {} x = act[i];`
Good: `do { asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" …) } while (v == 0); x = act[i];`
Good: relaxed poll, then `__threadfence()`, then the reads.

Mend it with ld.acquire at the scope of the writer, or fence after the loop.

Not seen: polls that are not loops in this kernel, and flags without the role `flag`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from validator.manifest.roles import Role
from validator.ordering.findings import finding
from validator.ordering.polls import ACQUIRES, Poll, fences
from validator.ordering.program import Scope
from validator.rule import Rule
from validator.verdict.model import Finding, Severity

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["RULE", "check"]

RULE = Rule("order/flag-without-acquire", "a flag is polled without acquire", Severity.ERROR)


def check(facts: Facts) -> Iterable[Finding]:
    """One finding per polling load."""
    for poll in facts.polls:
        scope = facts.declarations.scope(poll.name)
        event = poll.touch.event
        publishes = any(
            t.guarded_by in (poll.name, poll.name.rpartition(".")[2]) for x in facts.touches for t in x.targets
        )
        if poll.touch.role is Role.MAILBOX and not publishes:
            continue
        if event.order in ACQUIRES or (event.scope is not None and event.scope < scope):
            continue
        touched = _touched_unfenced(facts, poll, scope)
        if touched:
            names = ", ".join(sorted({facts_label for _, facts_label in touched})[:6])
            yield finding(
                RULE,
                facts,
                [poll.touch.index],
                f"'{poll.name}' is polled by {event.opcode}, which acquires nothing, before {names}",
                identity=(poll.name,),
                why=f"what the flag publishes need not be visible yet at {facts.at(touched[0][0])}",
                fix=f"poll with ld.acquire.{scope.name.lower()}, or fence.acq_rel.{scope.name.lower()} after the loop",
                steps=(
                    f"{facts.at(poll.touch.index)}: {facts.program.text(poll.touch.index)} says ready",
                    *(f"{facts.at(i)}: {facts.program.text(i)}" for i, _ in touched[:3]),
                ),
            )


def _touched_unfenced(facts: Facts, poll: Poll, scope: Scope) -> list[tuple[int, str]]:
    """Accesses to other memory that are reached from the loop's exits without a fence, in text order."""
    fenced = set(fences(facts.flow, scope))
    others = {
        t.index: t.label
        for t in facts.touches
        if t.word != "prefetch" and all(x.role not in (Role.FLAG, Role.WEIGHT, Role.STABLE) for x in t.targets)
    }
    found: set[int] = set()
    stack = [facts.flow.blocks[number].successors[k].target for number, k in poll.exits]
    seen: set[int] = set()
    while stack:
        number = stack.pop()
        if number in seen:
            continue
        seen.add(number)
        for event in facts.flow.events_in[number]:
            if event.index in fenced:
                break
            if event.index in others and event.index != poll.touch.index:
                found.add(event.index)
        else:
            stack.extend(edge.target for edge in facts.flow.blocks[number].successors)
    return [(index, others[index]) for index in sorted(found)]
