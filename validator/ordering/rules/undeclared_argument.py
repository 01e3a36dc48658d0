"""An access that needs a role and has none.

Whether an early access is allowed depends on what the argument is: weights may be read before the wait, activations
may not. An argument without a declared role leaves the kernel unproven. The finding prints the line to add.

Bad:  contract without the argument `tab`, which is read before the wait.
Good: `[[kernels.args]] name = "tab" role = "stable" justification = "host table, written at start-up"`

Mend it by declaring the role of the argument, as the finding prints it.

Not seen: nothing is guessed from names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from validator.manifest.roles import Role
from validator.ordering.findings import finding, role_line
from validator.ordering.memory import Touch
from validator.ordering.moving import movable
from validator.ordering.program import Isa
from validator.rule import Rule
from validator.verdict.model import Finding, Severity

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["RULE", "check"]

RULE = Rule("order/undeclared-argument", "no role is declared for memory that is touched early", Severity.UNPROVEN)


def check(facts: Facts) -> Iterable[Finding]:
    """One finding per argument and reason."""
    early: dict[str, list[Touch]] = {}
    for item in facts.early:
        if item.judgement.severity is Severity.UNPROVEN and _undeclared(item.touch):
            early.setdefault(item.touch.label, []).append(item.touch)
    for label, items in early.items():
        words = sorted({t.word for t in items})
        yield _finding(facts, label, items, f"{label} is touched before the wait ({', '.join(words)}) and has no role")
    if facts.pdl and facts.program.isa is Isa.PTX:
        moved: dict[str, list[Touch]] = {}
        for touch in movable(facts):
            if _undeclared(touch) and touch.label not in early:
                moved.setdefault(touch.label, []).append(touch)
        for label, items in moved.items():
            text = f"{label} is read by {items[0].event.opcode}, which ptxas may move above the wait, and has no role"
            yield _finding(facts, label, items, text)


def _undeclared(touch: Touch) -> bool:
    if touch.unresolved and not touch.targets:
        return False
    return any(t.role is None or t.role is Role.SCALAR for t in touch.targets)


def _finding(facts: Facts, label: str, items: list[Touch], message: str) -> Finding:
    line = role_line(items[0])
    return finding(
        RULE,
        facts,
        [t.index for t in items],
        message,
        identity=(label,),
        why="whether this is allowed depends on who writes the memory",
        fix=f"declare it in the contract: {line}" if line else "pass the memory as an argument and declare its role",
    )
