"""A run for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from validator.emulate.agreement import Agreement
from validator.emulate.explain import explain, headline
from validator.emulate.launch import Prepared
from validator.emulate.play import Report
from validator.emulate.translate import Code
from validator.text import visible

__all__ = ["run_document", "run_text", "status_of"]

_SHOWN = 12


def status_of(report: Report, agreement: Agreement) -> str:
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
    for what, count in sorted(report.unsupported.items()):
        yield f"not executed here: {what} ({count} instruction{'s' if count > 1 else ''})"
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


def run_document(report: Report, agreement: Agreement, code: Code, prepared: Prepared, seed: int) -> dict[str, Any]:
    """The same for machines."""
    decoded = code.decoded
    return {
        "schema": "validator/run/1",
        "verdict": status_of(report, agreement),
        "kernel": report.kernel,
        "seed": seed,
        "schedules": report.schedules,
        "grid": list(prepared.shape.grid),
        "block": list(prepared.shape.block),
        "instructions": report.friendly.instructions,
        "late": list(prepared.late),
        "plan": None if report.failing is None else asdict(report.failing.plan),
        "alone": [{"buffer": name, "wrong_bytes": count} for name, count in report.alone.items()],
        "unproven": report.unsettled,
        "missed_by_audit": list(agreement.missed),
        "not_shown": list(agreement.unshown),
        "unsupported": dict(sorted(report.unsupported.items())),
        "hazards": [
            {
                "kind": h.kind.value,
                "memory": h.memory,
                "offset": h.offset,
                "count": h.count,
                "cta": h.place.cta,
                "thread": h.place.thread,
                "line": str(decoded.line(h.place.index)),
                "ptx_line": decoded.line(h.place.index).text,
                "instruction": decoded.program.text(h.place.index),
                "other": None if h.other is None else str(decoded.line(h.other.index)),
                "detail": h.detail,
            }
            for h in sorted(report.hazards, key=lambda h: (h.place.index, h.kind.value, h.memory))
        ],
        "differences": [
            {
                "buffer": d.buffer,
                "first": d.first,
                "bytes": d.count,
                "size": d.size,
                "got": d.got.hex(),
                "expected": d.expected.hex(),
            }
            for d in report.differences
        ],
        "story": [
            {
                "kind": s.kind,
                "text": s.text,
                "cta": s.cta,
                "thread": s.thread,
                "where": s.where,
                "instruction": s.instruction,
            }
            for s in explain(report, decoded, prepared.kinds)
        ],
    }
