"""Run a kernel: once as a friendly machine would, then under plans drawn against it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from validator.emulate.adversary import FRIENDLY, Plan, draw_plan, smaller
from validator.emulate.errors import EmulateError
from validator.emulate.hazard import Hazard, HazardKind
from validator.emulate.lanes import Array
from validator.emulate.launch import Prepared
from validator.emulate.layout import lay_out
from validator.emulate.machine import Limits, Machine, Unexecutable
from validator.emulate.program import decode
from validator.emulate.shadow import PLACE_MASK, THREAD_SHIFT
from validator.emulate.story import StaleRead
from validator.emulate.translate import Code, translate
from validator.errors import Problem
from validator.ordering.ptx import PtxModule, PtxProgram

__all__ = ["Difference", "Outcome", "Report", "compile_kernel", "execute", "play"]


@dataclass(frozen=True, slots=True)
class Difference:
    """A result that differs from the friendly run's."""

    buffer: str
    first: int
    """Byte."""
    count: int
    """Bytes that differ."""
    size: int
    got: bytes
    """16 bytes from the aligned place of the first one."""
    expected: bytes


@dataclass(slots=True)
class Outcome:
    """One run."""

    plan: Plan
    hazards: list[Hazard]
    results: dict[str, Array]
    """Bytes of every buffer that holds results."""
    stale: dict[int, StaleRead]
    instructions: int
    """Thread-instructions."""
    steps: int
    unexecutable: str = ""
    machine: Machine | None = None


@dataclass(slots=True)
class Report:
    """A kernel under a series of plans."""

    kernel: str
    friendly: Outcome
    failing: Outcome | None
    """The first run with a hazard or another result, minimised."""
    differences: list[Difference]
    """Of `failing`, against the friendly run."""
    hazards: list[Hazard]
    """Distinct ones of all runs."""
    schedules: int
    unsupported: Counter[str] = field(default_factory=Counter)

    @property
    def refuted(self) -> bool:
        return any(not h.unsettled for h in self.hazards)

    @property
    def unsettled(self) -> list[str]:
        """Why nothing is proven even though no fault was seen."""
        reasons = [
            f"{h.kind.value}{f' of {h.memory}' if h.memory else ''}{f': {h.assumed}' if h.assumed else ''}"
            for h in self.hazards
            if h.unsettled
        ]
        if self.friendly.unexecutable:
            reasons.append(self.friendly.unexecutable)
        return reasons


def compile_kernel(program: PtxProgram, data: bytes, hoisted: frozenset[int] = frozenset()) -> Code:
    """Decode, lay out and translate one kernel of the file `data`."""
    decoded = decode(program)
    return translate(decoded, lay_out(decoded, data), hoisted)


def execute(code: Code, prepared: Prepared, plan: Plan, limits: Limits | None = None) -> Outcome:
    """One run under one plan."""
    memory = prepared.memory(plan)
    machine = Machine(code, prepared.shape, memory, plan, limits)
    stopped = ""
    try:
        machine.run()
    except Unexecutable as reason:
        stopped = str(reason.args[0])
    hazards = list(machine.hazards)
    for hazard in hazards:
        hazard.assumed = prepared.assumed(hazard)
    results = {r.name: r.data[: r.size] for r in memory.buffers if r.name in prepared.written}
    return Outcome(
        plan,
        hazards,
        results,
        machine.story.stale,
        machine.executed,
        machine.segments_run,
        stopped,
        machine,
    )


def play(
    code: Code,
    prepared: Prepared,
    seed: int = 0,
    schedules: int = 8,
    limits: Limits | None = None,
    moves_noncoherent: bool = True,
    others: Sequence[Prepared] = (),
) -> Report:
    """The friendly run, then `schedules` drawn ones; the first failure is minimised.

    `others`: the same launch with other numbers where the contract leaves them open, to reach other branches.
    """
    friendly = execute(code, prepared, FRIENDLY, limits)
    found: dict[tuple[str, int, str], Hazard] = {}
    _merge(found, friendly)
    failing: Outcome | None = None
    differences: list[Difference] = []
    if not friendly.unexecutable and not _endless(friendly):
        for number in range(schedules):
            outcome = execute(code, prepared, draw_plan(seed, number, moves_noncoherent), limits)
            outcome.hazards += unsteady(code, friendly, outcome)
            _merge(found, outcome)
            if failing is None and _fails(outcome):
                failing = minimise(code, prepared, friendly, outcome, limits)
                differences = compare(friendly, failing)
            if _endless(outcome):
                break
        for other in others:
            outcome = execute(code, other, draw_plan(seed, 0, moves_noncoherent), limits)
            # Numbers that nobody may ever pass: what hangs on them says nothing.
            outcome.hazards = [h for h in outcome.hazards if not h.unsettled]
            _merge(found, outcome)
            if failing is None and _fails(outcome):
                failing = outcome
                differences = compare(execute(code, other, FRIENDLY, limits), failing)
    failing = failing or (friendly if _fails(friendly) else None)
    return Report(code.name, friendly, failing, differences, list(found.values()), schedules, code.unsupported)


def _merge(found: dict[tuple[str, int, str], Hazard], outcome: Outcome) -> None:
    for hazard in outcome.hazards:
        found.setdefault((hazard.kind, hazard.place.index, hazard.memory), hazard)


def _endless(outcome: Outcome) -> bool:
    return any(h.kind is HazardKind.ENDLESS for h in outcome.hazards)


def _fails(outcome: Outcome) -> bool:
    """Whether there is something to tell: a fault, or what would be one if the numbers assumed are right."""
    return any(not h.unsettled or h.assumed for h in outcome.hazards)


def unsteady(code: Code, friendly: Outcome, outcome: Outcome) -> list[Hazard]:
    """A result that no other hazard explains. With atomics the order may be meant to matter: that alone is no fault."""
    explained = friendly.hazards or outcome.hazards or outcome.unexecutable
    differences = [] if explained else compare(friendly, outcome)
    machine = outcome.machine
    if not differences or machine is None:
        return []
    first = differences[0]
    region = next(r for r in machine.memory.buffers if r.name == first.buffer)
    record = 0 if region.shadow is None else int(region.shadow.writer[first.first >> region.shadow.shift])
    place = machine.place(record & PLACE_MASK, max((record >> THREAD_SHIFT) - 1, 0))
    assumed = "atomics may come in any order" if code.atomics else ""
    return [Hazard(HazardKind.UNSTEADY, place, first.buffer, first.first, count=first.count, assumed=assumed)]


def minimise(code: Code, prepared: Prepared, friendly: Outcome, outcome: Outcome, limits: Limits | None) -> Outcome:
    """The simplest plan found that still shows one of the same kinds of hazard."""
    kinds = {h.kind for h in outcome.hazards if not h.unsettled or h.assumed}
    best, tried = outcome, 0
    while tried < 16:
        for plan in smaller(best.plan):
            tried += 1
            again = execute(code, prepared, plan, limits)
            again.hazards += unsteady(code, friendly, again)
            if kinds & {h.kind for h in again.hazards}:
                best = again
                break
        else:
            return best
    return best


def compare(friendly: Outcome, other: Outcome) -> list[Difference]:
    """Results that differ, byte by byte."""
    found = []
    for name, expected in friendly.results.items():
        got = other.results[name]
        wrong = np.flatnonzero(got != expected)
        if len(wrong):
            first = int(wrong[0])
            start = first - first % 16
            found.append(
                Difference(
                    name, first, len(wrong), len(expected), got[start : start + 16].tobytes(),
                    expected[start : start + 16].tobytes(),
                )
            )  # fmt: skip
    return found


def find_kernel(module: PtxModule, name: str | None = None) -> PtxProgram:
    """The kernel called `name`, or the only one. Raises `EmulateError`."""
    names = [p.name for p in module.programs]
    chosen = [p for p in module.programs if name in (None, p.name)]
    if len(chosen) != 1:
        fix = f"name one of {', '.join(names[:8])}" if names else "it holds no kernel"
        raise EmulateError(Problem(f"{len(chosen)} kernels fit", module.name, fix))
    return chosen[0]
