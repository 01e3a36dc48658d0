"""An instruction that the front end does not know, or a call that is not looked into, before the wait.

What is not understood may touch memory. Before the wait it leaves the kernel unproven; behind the wait it is a
warning, because whatever it touches is ordered. A function behind the wait may still publish or poll: where the
contract declares flags or mailboxes, it leaves the kernel unproven too.

Bad:  a call to a device function that is linked later, before the wait.
Good: the function inlined, or called below the wait.

Mend it by inlining the function; report an opcode that is missing here so that it can be added.

Not seen: what the instruction does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from validator.manifest.roles import Role
from validator.ordering.findings import finding
from validator.ordering.program import HARMLESS_CALLS, EventKind
from validator.rule import Rule
from validator.verdict.model import Finding, Severity

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["RULE", "check"]

RULE = Rule("order/unknown-instruction", "an instruction is not understood", Severity.UNPROVEN)


def check(facts: Facts) -> Iterable[Finding]:
    """One finding per opcode or callee."""
    groups: dict[tuple[str, bool], list[int]] = {}
    names: dict[tuple[str, bool], str] = {}
    for event in facts.events(EventKind.UNKNOWN, EventKind.CALL):
        if event.kind is EventKind.CALL and event.name in HARMLESS_CALLS:
            continue
        early = facts.pdl is True and bool(facts.order.missing(event))
        is_call = event.kind is EventKind.CALL
        key = (f"a call to {event.name or 'an unknown function'}" if is_call else event.opcode, early)
        groups.setdefault(key, []).append(event.index)
        names[key] = "what it calls is not looked into" if is_call else event.name or "the opcode is not known"
    for (what, early), indices in groups.items():
        where = "before the wait" if early else "behind the wait" if facts.pdl else "in this kernel"
        signals = "call" in what and not early and _signals(facts)
        yield finding(
            RULE,
            facts,
            indices,
            f"{what} {where}: {names[(what, early)]}",
            identity=(what,),
            why="it may touch memory that nothing orders"
            if early
            else "it may publish or poll a flag, and that was not checked"
            if signals
            else "whatever it does is ordered, and not checked",
            fix="inline the function or move it below the wait" if "call" in what else "report the opcode",
            severity=Severity.UNPROVEN if early or signals else Severity.WARNING,
        )


def _signals(facts: Facts) -> bool:
    """Whether the contract says that the kernel talks to others that run beside it."""
    args = facts.contract.args if facts.contract is not None else ()
    roles = {role for arg in args for role in (arg.role, *(field.role for field in arg.fields))}
    return not roles.isdisjoint((Role.FLAG, Role.MAILBOX))
