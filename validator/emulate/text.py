"""A run for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from validator.emulate.agreement import Agreement
from validator.emulate.explain import explain, headline
from validator.emulate.launch import Prepared
from validator.emulate.play import Report
from validator.emulate.translate import Code
from validator.text import visible

__all__ = ["run_text", "status_of"]

_SHOWN = 12


def status_of(report: Report, agreement: Agreement) -> Literal["fail", "unproven", "pass"]:
    """fail, unproven or pass."""
    if report.refuted:
        return "fail"
    return "unproven" if report.unsettled or agreement.unshown else "pass"


def run_text(report: Report, agreement: Agreement, code: Code, prepared: Prepared, seed: int) -> str:
    """Verdict, what ran, the hazards, the story of the first failure."""
    return "\n".join(visible(line) for line in _lines(report, agreement, code, prepared, seed)) + "\n"


def _lines(report: Report, agreement: Agreement, code: Code, prepared: Prepared, seed: int) -> Iterator[str]:
    shape, friendly = prepared.shape, report.friendly
    yield status_of(report, agreement).upper()
    yield ""
    yield (
        f"{report.kernel}: {shape.ctas} CTAs of {shape.threads} threads, {friendly.instructions:,} thread-instructions "
        f"a run; one friendly run and {report.schedules} drawn against it (seed {seed})"
    )
    yield f"late buffers: {', '.join(prepared.late) or 'none'}; results: {', '.join(prepared.written) or 'none'}"
    for reason in report.unsettled:
        yield f"unproven: {reason}"
    yield from (f"refuted statically, and no run shows it: {fault}" for fault in agreement.unshown)
    yield from (f"that the audit misses {fault} is a defect of the audit, report it" for fault in agreement.missed)
    hazards = sorted(report.hazards, key=lambda h: (h.unsettled, h.place.index))
    for hazard in hazards[:_SHOWN]:
        yield f"  {headline(hazard, code.decoded)} [{hazard.count:,}x]"
    if len(hazards) > _SHOWN:
        yield f"  and {len(hazards) - _SHOWN} more"
    story = explain(report, code.decoded, prepared.kinds)
    if story:
        yield ""
        yield "how it went wrong:"
    for number, step in enumerate(story, 1):
        yield f"{number:3}. {step.text}"
        if step.instruction:
            yield f"       {step.instruction}"
