"""What one thread executed, instruction by instruction: the failing run made again with every step watched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from validator.emulate.adversary import FRIENDLY
from validator.emulate.lanes import Lanes
from validator.emulate.layout import lay_out
from validator.emulate.operands import Step, flat
from validator.emulate.program import Instruction, Register, decode
from validator.emulate.translate import translate
from validator.text import visible

if TYPE_CHECKING:
    from validator.emulate.launch import Prepared
    from validator.emulate.machine import Machine
    from validator.emulate.play import Report
    from validator.ordering.ptx import PtxProgram

__all__ = ["trace_text", "watch"]

MOST_LINES = 2000


class Watch:
    """Lines about one thread."""

    def __init__(self, thread: int) -> None:
        self.thread = thread
        self.lines: list[str] = []
        self.left_out = 0

    def wrap(self, instruction: Instruction, step: Step) -> Step:
        """`step`, and a line for the watched thread with what it wrote."""
        written = [s for s in flat(instruction.operands[: instruction.writes]) if isinstance(s, Register)]

        def watched(m: Machine, lanes: Lanes) -> None:
            step(m, lanes)
            at = int(np.searchsorted(lanes.threads, self.thread))
            if at < lanes.count and int(lanes.threads[at]) == self.thread:
                self.note(instruction, " ".join(_shown(m, r, self.thread) for r in written))

        return watched

    def note(self, instruction: Instruction, values: str) -> None:
        if len(self.lines) >= MOST_LINES:
            self.left_out += 1
            return
        self.lines.append(f"{instruction.index:6}  {instruction.text}{f'  -> {values}' if values else ''}")


def _shown(m: Machine, register: Register, thread: int) -> str:
    value = m.rows[register.row][thread]
    return " ".join(f"0x{int(v):x}" for v in np.atleast_1d(value))


def watch(program: PtxProgram, data: bytes, prepared: Prepared, report: Report, hoisted: frozenset[int]) -> Watch:
    """The failing run, or the friendly one, again with one thread watched: the first of the first hazard."""
    from validator.emulate.run import execute

    outcome = report.failing or report.friendly
    hazards = sorted((h for h in outcome.hazards if not h.unsettled or h.assumed), key=lambda h: h.place.index)
    place = hazards[0].place if hazards else None
    watched = Watch(0 if place is None else place.cta * prepared.shape.per_cta + place.thread)
    decoded = decode(program)
    code = translate(decoded, lay_out(decoded, data), hoisted, watched.wrap)
    execute(code, prepared, outcome.plan if report.failing else FRIENDLY)
    return watched


def trace_text(program: PtxProgram, data: bytes, prepared: Prepared, report: Report, hoisted: frozenset[int]) -> str:
    return "\n".join(_lines(watch(program, data, prepared, report, hoisted), prepared)) + "\n"


def _lines(watched: Watch, prepared: Prepared) -> Iterator[str]:
    cta, thread = divmod(watched.thread, prepared.shape.per_cta)
    yield f"trace of thread {thread} of CTA {cta}: instruction, what it wrote"
    yield from (visible(line) for line in watched.lines)
    if watched.left_out:
        yield f"and {watched.left_out:,} more"
