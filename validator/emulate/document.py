"""`validator/run/1`: a run as plain data, sorted, free of paths and times."""

from __future__ import annotations

from typing import Final, Literal

from typing_extensions import TypedDict

from validator.emulate.adversary import Plan
from validator.emulate.agreement import Agreement
from validator.emulate.explain import Step, explain
from validator.emulate.hazard import Hazard
from validator.emulate.launch import Prepared
from validator.emulate.play import Report
from validator.emulate.program import Decoded
from validator.emulate.run import Difference
from validator.emulate.text import status_of
from validator.emulate.translate import Code

__all__ = ["SCHEMA", "RunDocument", "run_document"]

SCHEMA: Final = "validator/run/1"


class PlanDocument(TypedDict):
    """The liberties of the failing run, reduced to what matters."""

    seed: int
    late: bool
    only: str | None
    """The one buffer that was late; null: all."""
    flags_at_once: bool
    last_word: int
    by_cta: bool
    classes: int
    direction: int
    impatient: int
    eager: bool
    switches: list[int]
    shuffled: bool


class AloneDocument(TypedDict):
    """What one late buffer does by itself."""

    buffer: str
    wrong_bytes: int


class HazardDocument(TypedDict):
    kind: str
    memory: str
    offset: int | None
    count: int
    cta: int
    thread: int
    line: str
    """Source line, or PTX line without one."""
    ptx_line: int | None
    instruction: str
    other: str | None
    """Line of the other access of a race."""
    detail: str
    unsettled: bool
    """Seen, but no proof of a fault."""
    assumed: str


class DifferenceDocument(TypedDict):
    """A result of the failing run that is not the friendly run's."""

    buffer: str
    first: int
    """Byte."""
    bytes: int
    size: int
    got: str
    """16 bytes around the first one, hexadecimal."""
    expected: str


class StepDocument(TypedDict):
    """One step of the story."""

    kind: Literal["launch", "wait", "access", "other", "value", "result"]
    text: str
    cta: int | None
    thread: int | None
    where: str
    instruction: str


class RunDocument(TypedDict):
    """The whole of `validator run --format json`."""

    schema: Literal["validator/run/1"]
    verdict: Literal["pass", "fail", "unproven"]
    kernel: str
    seed: int
    schedules: int
    grid: list[int]
    block: list[int]
    instructions: int
    late: list[str]
    plan: PlanDocument | None
    alone: list[AloneDocument]
    unproven: list[str]
    missed_by_audit: list[str]
    """Faults that runs showed and the ordering audit does not have."""
    not_shown: list[str]
    """Faults that the ordering audit has and no run showed."""
    unsupported: dict[str, int]
    hazards: list[HazardDocument]
    differences: list[DifferenceDocument]
    story: list[StepDocument]


def run_document(report: Report, agreement: Agreement, code: Code, prepared: Prepared, seed: int) -> RunDocument:
    """Everything one run found."""
    decoded = code.decoded
    hazards = sorted(report.hazards, key=lambda h: (h.place.index, h.kind.value, h.memory))
    return {
        "schema": SCHEMA,
        "verdict": status_of(report, agreement),
        "kernel": report.kernel,
        "seed": seed,
        "schedules": report.schedules,
        "grid": list(prepared.shape.grid),
        "block": list(prepared.shape.block),
        "instructions": report.friendly.instructions,
        "late": list(prepared.late),
        "plan": None if report.failing is None else _plan(report.failing.plan),
        "alone": [{"buffer": name, "wrong_bytes": count} for name, count in report.alone.items()],
        "unproven": report.unsettled,
        "missed_by_audit": list(agreement.missed),
        "not_shown": list(agreement.unshown),
        "unsupported": dict(sorted(report.unsupported.items())),
        "hazards": [_hazard(h, decoded) for h in hazards],
        "differences": [_difference(d) for d in report.differences],
        "story": [_step(s) for s in explain(report, decoded, prepared.kinds)],
    }


def _plan(plan: Plan) -> PlanDocument:
    return {
        "seed": plan.seed,
        "late": plan.late,
        "only": plan.only,
        "flags_at_once": plan.flags_at_once,
        "last_word": plan.last_word,
        "by_cta": plan.by_cta,
        "classes": plan.classes,
        "direction": plan.direction,
        "impatient": plan.impatient,
        "eager": plan.eager,
        "switches": list(plan.switches),
        "shuffled": plan.shuffled,
    }


def _hazard(hazard: Hazard, decoded: Decoded) -> HazardDocument:
    line = decoded.line(hazard.place.index)
    return {
        "kind": hazard.kind.value,
        "memory": hazard.memory,
        "offset": hazard.offset,
        "count": hazard.count,
        "cta": hazard.place.cta,
        "thread": hazard.place.thread,
        "line": str(line),
        "ptx_line": line.text,
        "instruction": decoded.program.text(hazard.place.index),
        "other": None if hazard.other is None else str(decoded.line(hazard.other.index)),
        "detail": hazard.detail,
        "unsettled": hazard.unsettled,
        "assumed": hazard.assumed,
    }


def _difference(difference: Difference) -> DifferenceDocument:
    return {
        "buffer": difference.buffer,
        "first": difference.first,
        "bytes": difference.count,
        "size": difference.size,
        "got": difference.got.hex(),
        "expected": difference.expected.hex(),
    }


def _step(step: Step) -> StepDocument:
    return {
        "kind": step.kind,
        "text": step.text,
        "cta": step.cta,
        "thread": step.thread,
        "where": step.where,
        "instruction": step.instruction,
    }
