"""What nothing in a run shows, ranked: what was not run at all, what the runs and proofs leave open, then the rest."""

from __future__ import annotations

from dataclasses import dataclass

from validator.report.standing import by_subject, said
from validator.verdict.model import Evidence, Status, Strength
from validator.verdict.result import CheckResult

__all__ = ["Gaps", "gaps", "largest"]

_RUNS = (Strength.GPU_RUN, Strength.PTX_RUN, Strength.CPU_MODEL)
_PROOFS = (Strength.MACHINE_CODE, Strength.PTX)
_OPEN = ("that ", "what ", "whether ", "which ")
_TITLES = (
    "of the change as a whole",
    "by the runs",
    "by the proofs on compiled code",
    "by reading the source",
)


@dataclass(frozen=True, slots=True)
class Gaps:
    """Gaps of one kind."""

    title: str
    """Ends the sentence “Not shown …”."""
    texts: tuple[str, ...]


def gaps(result: CheckResult) -> tuple[Gaps, ...]:
    """Heaviest kind first; within one, in the result's own order. Together they are `result.not_covered`."""
    kinds: dict[str, int] = {}
    for evidence in result.evidence:
        for text in evidence.not_covered:
            kinds[text] = min(_kind(evidence), kinds.get(text, len(_TITLES)))
    grouped: list[list[str]] = [[] for _ in _TITLES]
    for text in result.not_covered:
        grouped[kinds.get(text, 0)].append(text)
    return tuple(Gaps(title, tuple(texts)) for title, texts in zip(_TITLES, grouped, strict=True) if texts)


def _kind(evidence: Evidence) -> int:
    if evidence.strength in _RUNS:
        return 1
    return 2 if evidence.strength in _PROOFS or evidence.kind.startswith("ordering") else 3


def largest(result: CheckResult) -> str:
    """What was asked for and is open; or else the heaviest gap of the two heaviest kinds. Empty without any."""
    unproven = [o for o in by_subject(result.obligations) if o.status is Status.UNPROVEN]
    if unproven:
        return said(unproven[0])
    heads = [group.texts[0] for group in gaps(result)[:2]]
    return "; ".join(f"not shown: {text}" if text.startswith(_OPEN) else text for text in heads)
