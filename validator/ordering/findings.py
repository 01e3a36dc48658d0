"""Building findings: one per thing a person has to mend, with the true number of static instructions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from validator.rule import Rule
from validator.verdict.model import Finding, Severity

if TYPE_CHECKING:
    from validator.ordering.facts import Early, Facts
    from validator.ordering.memory import Touch

__all__ = ["early_findings", "finding", "grouped", "role_line"]

Key = tuple[str, ...]


def finding(
    rule: Rule,
    facts: Facts,
    indices: Sequence[int],
    message: str,
    *,
    identity: Sequence[str],
    why: str = "",
    fix: str = "",
    steps: tuple[str, ...] = (),
    severity: Severity | None = None,
) -> Finding:
    """A finding at the first of `indices`, the others listed. Its identity is rule, kernel and `identity`."""
    places = [facts.where(i) for i in sorted(set(indices))]
    return Finding(
        rule=rule.id,
        severity=severity or rule.severity,
        message=message,
        where=places[0] if places else facts.where(0),
        why=why,
        fix=fix,
        steps=steps,
        identity=(facts.program.name, facts.program.arch, str(facts.program.isa), *identity),
        count=max(len(places), 1),
        others=tuple(places[1:]),
    )


def grouped(early: Iterable[Early]) -> list[list[Early]]:
    """Early accesses to the same memory, in text order of their first member."""
    groups: dict[tuple[str, str, str], list[Early]] = {}
    for item in early:
        groups.setdefault((item.touch.word, item.touch.label, item.flag), []).append(item)
    return list(groups.values())


def role_line(touch: Touch) -> str:
    """The line to add to the contract for an undeclared argument."""
    names = sorted({t.name for t in touch.targets if t.role is None})
    deep = any(t.ref.chain for t in touch.targets)
    key = "points_to" if deep else "role"
    return "; ".join(f'{name}: {key} = "…"' for name in names)


_ORDERED_BY = (
    "move it below griddepcontrol.wait (cudaGridDependencySynchronize), or put a barrier behind a thread that has "
    "waited between; if nothing that may still run writes this memory, declare it `weight` or `stable`"
)


def early_findings(rule: Rule, facts: Facts, word: str, verb: str) -> list[Finding]:
    """Findings of one kind of access that comes before what orders it, for declared roles."""
    result: list[Finding] = []
    for group in grouped(e for e in facts.early if e.touch.word == word and not e.judgement.allowed):
        declared = [e for e in group if e.judgement.severity is Severity.ERROR]
        doubtful = [e for e in group if e.judgement.severity is Severity.UNPROVEN and _is_a_guess(e)]
        result += [_early(rule, facts, items, verb) for items in (declared, doubtful) if items]
    return result


def _is_a_guess(early: Early) -> bool:
    """Every target has a role, and one of several that cannot be told apart may not be touched."""
    touch = early.touch
    return (
        bool(touch.targets)
        and not touch.unresolved
        and all(t.role is not None and t.role.memory for t in touch.targets)
    )


def _early(rule: Rule, facts: Facts, items: list[Early], verb: str) -> Finding:
    first = items[0]
    touch = first.touch
    role = touch.role
    before = f"the poll of '{first.flag}'" if first.flag else "the dependency wait"
    moved = touch.event.noncoherent and len(facts.waits) > 0
    why = first.judgement.reason
    if moved:
        why += "; the load is non-coherent, so the compiler may have moved it here from below the wait"
    fix = f"read it only after the poll of '{first.flag}' has passed" if first.flag else _ORDERED_BY
    if moved:
        fix = "load it with plain ld.global (no `__restrict__` const, `__ldg` or invariant copy atom); or " + fix
    return finding(
        rule,
        facts,
        [e.touch.index for e in items],
        f"{touch.label} ({role.value if role else 'several roles'}) is {verb} before {before} by {touch.event.opcode}",
        identity=(touch.word, touch.label, first.flag),
        why=why,
        fix=fix,
        steps=facts.path(first),
        severity=first.judgement.severity,
    )
