"""A kernel that touches its predecessors' memory and never waits.

Launched with programmatic dependent launch, a kernel without `griddepcontrol.wait` has no order at all with what ran
before, whether or not its producer triggers. Common causes: the wait was never written, or a macro or architecture
gate compiled it out (the source looks right, the binary has none).

Bad:  launched with PDL, `out[i] = act[i] * 2;` and no wait.
Good: `cudaGridDependencySynchronize(); out[i] = act[i] * 2;`
Good: an ordinary launch, declared as `launch = { pdl = false }`.

Mend it with a wait before the first access, or declare the ordinary launch.

Without a contract that says how the kernel is launched, a kernel with neither wait nor trigger is `unproven`: it is
right only when it is launched without PDL.

Not seen: how the host really launches it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from validator.ordering.findings import finding
from validator.rule import Rule
from validator.verdict.model import Finding, Severity

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["DECLARE_LAUNCH", "LAUNCH_UNKNOWN", "RULE", "check"]

RULE = Rule("order/no-wait", "the kernel never waits for its predecessor", Severity.ERROR)

LAUNCH_UNKNOWN = "the kernel neither waits nor triggers: it is right only when launched without PDL"
DECLARE_LAUNCH = "declare `launch = { pdl = false }` (or true) for this kernel in the contract"


def check(facts: Facts) -> Iterable[Finding]:
    """At most one finding a kernel."""
    if facts.waits or not facts.touches:
        return
    if facts.pdl is None:
        yield finding(
            RULE,
            facts,
            [],
            LAUNCH_UNKNOWN,
            identity=("launch",),
            why="nothing says how it is launched",
            fix=DECLARE_LAUNCH,
            severity=Severity.UNPROVEN,
        )
        return
    wrong = [e for e in facts.early if e.judgement.severity is Severity.ERROR and not e.flag]
    if not facts.pdl or not wrong:
        return
    names = sorted({e.touch.label for e in wrong})
    shown = ", ".join(names[:6]) + (" and others" if len(names) > 6 else "")
    yield finding(
        RULE,
        facts,
        [e.touch.index for e in wrong],
        f"launched with PDL and has no griddepcontrol.wait, yet touches {shown}",
        identity=("no-wait",),
        why="nothing orders these accesses behind the kernels before it",
        fix="wait before the first such access; check that no macro or architecture gate removed the wait",
    )
