"""A non-coherent load (`ld.global.nc`, `__ldg`, `const __restrict__`) of memory that is written while this kernel runs.

By the kernel itself, or by whoever sets the flag that publishes it (`guarded_by`).

Non-coherent loads are outside the memory model: their data must not change for the life of the kernel. The load may
return old data, and the compiler may move it above the store and the barrier.

Bad:  `buf[i] = f(i); __syncthreads(); out[i] = __ldg(buf + (i ^ 1));`
Good: `buf[i] = f(i); __syncthreads(); out[i] = buf[i ^ 1];`

Mend it with a plain load. Arguments that share memory must say so (`alias_of`).

Not seen: whether the addresses really meet; argument by argument, not byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from validator.ordering.findings import finding
from validator.ordering.memory import Touch
from validator.rule import Rule
from validator.verdict.model import Finding, Severity

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["RULE", "check"]

RULE = Rule(
    "order/noncoherent-load-of-written-memory",
    "a non-coherent load reads memory that is written while the kernel runs",
    Severity.ERROR,
)
_FIX = "load it with plain ld.global: drop `const __restrict__` or `__ldg` on it"


def check(facts: Facts) -> Iterable[Finding]:
    """One finding per argument, and one per argument and flag."""
    groups: dict[str, list[Touch]] = {}
    for touch in facts.touches:
        if touch.event.noncoherent and touch.word == "read":
            for target in touch.targets:
                if target.memory in facts.written and not target.ambiguous:
                    groups.setdefault(target.memory, []).append(touch)
    published: dict[tuple[str, str], list[Touch]] = {}
    for touch in facts.touches:
        flag = facts.guard_of(touch)
        if flag and touch.event.noncoherent:
            published.setdefault((touch.label, flag), []).append(touch)
    for (label, flag), items in published.items():
        yield finding(
            RULE,
            facts,
            [t.index for t in items],
            f"{label} is read by {items[0].event.opcode} and published by '{flag}' while this kernel runs",
            identity=(label, flag),
            why="a non-coherent load may return what the memory held before, whatever was polled",
            fix=_FIX,
        )
    for name, items in groups.items():
        stores = facts.written[name]
        certain = any(not t.ambiguous for s in stores for t in s.targets if t.memory == name)
        yield finding(
            RULE,
            facts,
            [t.index for t in items],
            f"{items[0].label} is read by {items[0].event.opcode} and written by this kernel "
            f"at {facts.at(stores[0].index)}",
            identity=(name,),
            why="a non-coherent load may return old data and may be moved above the store and any barrier",
            fix=_FIX,
            severity=Severity.ERROR if certain else Severity.UNPROVEN,
        )
