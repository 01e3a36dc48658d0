"""A flag is polled at a scope that does not reach its writer.

`ld.acquire.cta` orders threads of one block. A flag that another block, kernel or GPU writes needs `.gpu` or `.sys`;
the contract's `scope` says which (gpu unless it says sys).

Bad:  `ld.acquire.cta.global.u32 v, [flag + blockIdx.x]` on a flag that another block writes.
Good: `ld.acquire.gpu.global.u32 v, [flag + blockIdx.x]`

Mend it by widening the scope of the poll and of the publish.

Not seen: who really writes the flag; that is the contract's word.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from validator.ordering.findings import finding
from validator.rule import Rule
from validator.verdict.model import Finding, Severity

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["RULE", "check"]

RULE = Rule("order/flag-scope-too-narrow", "a flag is polled or published at too narrow a scope", Severity.ERROR)


def check(facts: Facts) -> Iterable[Finding]:
    """One finding per polling load."""
    for poll in facts.polls:
        event = poll.touch.event
        wanted = facts.declarations.scope(poll.name)
        if event.scope is not None and event.scope < wanted:
            yield finding(
                RULE,
                facts,
                [poll.touch.index],
                f"'{poll.name}' is polled by {event.opcode} at {event.scope.name.lower()} scope; its writer may be "
                f"anywhere in the {'system' if wanted.name == 'SYS' else 'GPU'}",
                identity=(poll.name,),
                why="an acquire orders only against writers inside its scope",
                fix=f"poll and publish at {wanted.name.lower()} scope",
            )
