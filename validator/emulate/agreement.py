"""What runs show, held against what the ordering audit says of the same kernel.

A fault that runs show and the audit does not have is a defect of the audit. A fault that the audit finds and no run
shows is either on a path that these launches do not take, or a defect too: nothing is settled then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from validator.emulate.hazard import Hazard, HazardKind
from validator.verdict.model import Severity, Status

if TYPE_CHECKING:
    from validator.ordering.result import AccessRow, KernelAudit
    from validator.verdict.model import Finding

__all__ = ["Agreement", "Static", "agree"]

_EARLY = (
    HazardKind.EARLY_READ, HazardKind.EARLY_WRITE, HazardKind.EARLY_ATOMIC, HazardKind.EARLY_COPY,
    HazardKind.MOVABLE_READ,
)  # fmt: skip
_COPIES = (HazardKind.COPY_NOT_WAITED, HazardKind.COPY_SOURCE_CHANGED, HazardKind.RACE)
_FLAGS = (HazardKind.NOT_ACQUIRED, HazardKind.NOT_RELEASED, HazardKind.RACE, *_EARLY)
_SHOWN_BY: dict[str, tuple[HazardKind, ...]] = {
    **dict.fromkeys(
        (
            "early-read", "early-write", "early-atomic", "early-async-copy", "no-wait", "wait-missing-on-path",
            "hoisted-load", "movable-load", "role-too-generous",
        ),
        (*_EARLY, HazardKind.NOT_ACQUIRED),
    ),
    **dict.fromkeys(("flag-without-acquire", "flag-scope-too-narrow", "publish-without-release"), _FLAGS),
    "mailbox-used-before-check": (*_FLAGS, HazardKind.UNSTEADY),
    "async-copy-not-waited": _COPIES,
    "missing-proxy-fence": (HazardKind.PROXY, HazardKind.RACE),
    "noncoherent-load-of-written-memory": (
        HazardKind.NONCOHERENT, HazardKind.RACE, HazardKind.MOVABLE_READ, HazardKind.NOT_ACQUIRED,
    ),
    "trigger-without-wait": (HazardKind.LEAVES_WITHOUT_WAIT, *_EARLY),
    "barrier-in-divergent-code": (HazardKind.BARRIER_DIVERGENCE, HazardKind.DEADLOCK),
    "undeclared-argument": (HazardKind.UNDECLARED,),
}  # fmt: skip
"""Rule of the audit (`order/…`) → hazards any of which shows its fault."""
_BY_MEMORY = frozenset((*_EARLY, HazardKind.UNDECLARED))
"""Hazards that a finding must name the memory of."""
_SUBJECT = frozenset(kind for kinds in _SHOWN_BY.values() for kind in kinds) - {
    HazardKind.RACE, HazardKind.DEADLOCK, HazardKind.UNSTEADY,
}  # fmt: skip
"""Hazards that the audit looks for. Races as such are no subject of it."""


@dataclass(frozen=True, slots=True)
class Agreement:
    missed: tuple[str, ...] = ()
    """Faults that runs showed and the audit, which claims to be complete, does not have: defects of the audit."""
    open: tuple[str, ...] = ()
    """The same where the audit says itself that it is not complete."""
    unshown: tuple[str, ...] = ()
    """Faults that the audit has and no run showed."""


@dataclass(frozen=True, slots=True)
class Static:
    """What the audit says of a kernel, in all its builds."""

    findings: tuple[Finding, ...]
    named: frozenset[str]
    """Arguments that it found to be touched early without leave, or that a compiler may read early."""
    complete: bool
    """It claims to have seen everything: none of its builds is left unproven."""

    @classmethod
    def of(cls, audits: Sequence[KernelAudit]) -> Static:
        findings = tuple(f for a in audits for f in a.findings)
        complete = bool(audits) and all(a.status is not Status.UNPROVEN for a in audits)
        return cls(findings, frozenset(_rows(audits)), complete)


def agree(static: Static, hazards: Iterable[Hazard]) -> Agreement:
    """`hazards`: what runs of the PTX showed, loads moved as in the machine code if that is among the builds."""
    seen = list(hazards)
    kinds = {h.kind for h in seen}
    findings = [f for f in static.findings if f.severity is Severity.ERROR and f.status is not Status.PROVEN]
    shows = {f.id: _SHOWN_BY.get(f.rule.removeprefix("order/"), ()) for f in findings}
    unshown = [f"{f.rule}: {f.message}" for f in findings if shows[f.id] and kinds.isdisjoint(shows[f.id])]
    anywhere = {kind for found in shows.values() for kind in found}
    # A flag that synchronises nothing shows as an early access to what it guards.
    through_flags = {kind for found in shows.values() if HazardKind.NOT_RELEASED in found for kind in found}
    named = static.named | frozenset(_quoted(findings))
    alone = []
    for hazard in seen:
        by_memory = hazard.kind in _BY_MEMORY
        known = hazard.kind in (through_flags if by_memory else anywhere) or (
            by_memory and _plain(hazard.memory) in named
        )
        if hazard.kind in _SUBJECT and not hazard.unsettled and not known:
            alone.append(f"{hazard.kind.value}{f' of {hazard.memory!r}' if hazard.memory else ''}")
    told = tuple(dict.fromkeys(alone))
    missed, left_open = (told, ()) if static.complete else ((), told)
    return Agreement(missed, left_open, tuple(dict.fromkeys(unshown)))


def _plain(name: str) -> str:
    """The argument of a name: fields by their own, what a table points to by the table's."""
    return re.split(r"[\[:]", name)[0].strip().rpartition(".")[2]


def _quoted(findings: Iterable[Finding]) -> Iterator[str]:
    for finding in findings:
        yield from map(_plain, re.findall(r"'([^']+)'", finding.message))


def _rows(audits: Iterable[KernelAudit]) -> Iterator[str]:
    for audit in audits:
        rows: tuple[AccessRow, ...] = (*(r for r in audit.early if not r.allowed), *audit.movable)
        yield from (_plain(ref.name) for row in rows for ref in row.params)
