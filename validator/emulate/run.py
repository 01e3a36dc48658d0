"""One run of a kernel under one plan, and what differs between two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from validator.emulate.adversary import Plan
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

__all__ = ["Difference", "Outcome", "compare", "compile_kernel", "execute", "find_kernel", "outcome_of", "unsteady"]


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


def compile_kernel(program: PtxProgram, data: bytes, hoisted: frozenset[int] = frozenset()) -> Code:
    """Decode, lay out and translate one kernel of the file `data`."""
    decoded = decode(program)
    code = translate(decoded, lay_out(decoded, data), hoisted)
    code.file = data
    return code


def execute(
    code: Code, prepared: Prepared, plan: Plan, limits: Limits | None = None, unset_differ: bool = True
) -> Outcome:
    """One run under one plan. `unset_differ`: what registers hold that nobody wrote differs from the friendly run's."""
    memory = prepared.memory(plan)
    machine = Machine(code, prepared.shape, memory, plan, limits, unset_differ)
    stopped = ""
    try:
        machine.run()
    except Unexecutable as reason:
        told, where = reason.args[0], f"({code.decoded.line(reason.args[1])})"
        stopped = told if where in told else f"{told} {where}"
    outcome = outcome_of(machine, prepared.written, stopped)
    for hazard in outcome.hazards:
        hazard.assumed = prepared.assumed(hazard, code.layout.has_dynamic)
    return outcome


def outcome_of(machine: Machine, written: Sequence[str], stopped: str = "") -> Outcome:
    """What a finished machine saw and left; `written`: buffers that hold results."""
    results = {r.name: r.data[: r.size] for r in machine.memory.buffers if r.name in written}
    return Outcome(
        machine.plan,
        list(machine.hazards),
        results,
        machine.story.stale,
        machine.executed,
        machine.segments_run,
        stopped,
        machine,
    )


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
