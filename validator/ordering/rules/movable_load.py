"""A non-coherent load of memory that is not static, behind the wait: the compiler may move it above.

ptxas treats `.nc` loads as loads of constant data and moves them across `griddepcontrol.wait`, barriers and volatile
assembly. PTX with such a load can never be called proven: the machine code decides. In machine code the order is what
it is, and the finding is a warning: a small edit, another architecture or another ptxas flips it.

Bad:  `const float* __restrict__ act … wait(); a = act[i];` (becomes ld.global.nc)
Good: `const float* act … wait(); a = act[i];`

Mend it by loading with `ld.global` (or relaxed, acquire, volatile), and keep `.nc` for weights.

Not seen: what a later ptxas does; audit every binary that ships.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from validator.ordering.findings import finding
from validator.ordering.memory import Touch
from validator.ordering.moving import movable
from validator.ordering.program import Isa
from validator.rule import Rule
from validator.verdict.model import Finding, Severity

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["RULE", "check"]

RULE = Rule("order/movable-load", "a load that the compiler may move above the wait", Severity.ERROR)


def check(facts: Facts) -> Iterable[Finding]:
    """One finding per argument; undeclared arguments are left to `order/undeclared-argument`.

    On PTX a load that may go to memory of several roles, or to memory that cannot be told, is left open.
    """
    ordered = bool(facts.pdl) or bool(facts.polls)
    if not ordered:
        return
    groups: dict[str, list[Touch]] = {}
    for touch in movable(facts):
        if touch.role is not None and touch.role.memory:
            groups.setdefault(touch.label, []).append(touch)
    on_ptx = facts.program.isa is Isa.PTX
    yield from _open(facts) if on_ptx else ()
    for label, items in groups.items():
        role = items[0].role
        rest = (
            "ptxas may move it above the wait"
            if on_ptx
            else "in this binary the order holds, but a small edit, another architecture or another ptxas may move it"
        )
        yield finding(
            RULE,
            facts,
            [t.index for t in items],
            f"{label} ({role.value if role else ''}) is read behind the wait by {items[0].event.opcode}: {rest}",
            identity=(label,),
            why="non-coherent loads are for data that does not change for the life of the kernel",
            fix="load it with plain ld.global: drop `const __restrict__`, `__ldg` or the invariant copy atom for it",
            severity=Severity.ERROR if on_ptx else Severity.WARNING,
        )


def _open(facts: Facts) -> Iterable[Finding]:
    groups: dict[str, list[Touch]] = {}
    for touch in movable(facts):
        declared = all(t.role is not None and t.role.memory for t in touch.targets)
        if touch.role is None and declared:
            groups.setdefault(touch.label, []).append(touch)
    for label, items in groups.items():
        yield finding(
            RULE,
            facts,
            [t.index for t in items],
            f"{label} is read behind the wait by {items[0].event.opcode}, which ptxas may move above it",
            identity=(label,),
            why=items[0].unresolved or "some of this memory is not static",
            fix="load it with plain ld.global, or audit the machine code",
            severity=Severity.UNPROVEN,
        )
