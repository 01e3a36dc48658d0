"""How each obligation stands, in words: what holds, what does not, and what a green one must not hide."""

from __future__ import annotations

from collections.abc import Iterable

from validator.verdict.model import Obligation, Status
from validator.verdict.result import CheckResult

__all__ = ["RANKS", "by_subject", "remark", "said", "stands"]

_SUBJECTS = ("ordering", "differential", "emulated", "neighbour", "build", "isolation", "gate", "scope")
"""Families in the order in which a reviewer asks: the kernels, who is reached by them, who judged."""
_LEFT_TO_GATES = "isolation/paths"
RANKS = (
    Status.REFUTED,
    Status.UNPROVEN,
    Status.WAIVED,
    Status.PROVEN,
    Status.NOT_ASKED,
    Status.NOT_APPLICABLE,
)
"""In the order in which a reader wants them."""
_DECIDED = (Status.REFUTED, Status.UNPROVEN, Status.WAIVED)


def stands(obligation: Obligation) -> str:
    """What is the case, without a full stop: the statement, or what denies it where it is refuted."""
    text = obligation.statement
    if obligation.status is Status.REFUTED:
        text = obligation.denial or f"it does not hold that {text[:1].lower()}{text[1:]}"
    return text.rstrip(".")


def said(obligation: Obligation) -> str:
    """The same with its reason."""
    return f"{stands(obligation)}: {obligation.reason}" if obligation.reason else stands(obligation)


def remark(result: CheckResult, obligation: Obligation) -> str:
    """What a reader of a proven obligation has to know beside it; empty for most.

    Files that judge a change are no subject of `isolation/paths`: the gate refuses every edit of them.
    """
    if obligation.status is not Status.PROVEN or obligation.id != _LEFT_TO_GATES:
        return ""
    decided = {o.id: o for o in result.obligations if o.id.startswith("gate/") and o.status in _DECIDED}
    found = result.finding_ids()
    paths = sorted({found[f].where.path for o in decided.values() for f in o.findings if f in found})
    if not paths:
        return ""
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    gates = ", ".join(f"{name} is {o.status.value}" for name, o in sorted(decided.items()))
    return f"not counting {', '.join(paths[:3])}{more}: what judges a change is left to the gate, and {gates}"


def by_subject(obligations: Iterable[Obligation]) -> list[Obligation]:
    """Refuted, then open, then settled, then the rest; kernels before sources in each."""
    return sorted(obligations, key=lambda o: (_weight(o.status), _subject(o.id), o.id))


def _weight(status: Status) -> int:
    return RANKS.index(status)


def _subject(name: str) -> int:
    family = name.partition("/")[0]
    return _SUBJECTS.index(family) if family in _SUBJECTS else len(_SUBJECTS)
