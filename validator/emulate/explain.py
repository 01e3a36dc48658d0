"""A failure as a story: what happened, thread by thread and line by line, in a dozen steps at most."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from validator.emulate.adversary import Plan
from validator.emulate.hazard import Hazard, HazardKind, Place
from validator.emulate.play import Report
from validator.emulate.program import Decoded
from validator.emulate.run import Difference, Outcome
from validator.emulate.shadow import PLACE_MASK, THREAD_SHIFT
from validator.emulate.story import StaleRead, dtype_named

__all__ = ["Step", "causes", "effects", "explain", "headline", "read_headline"]

MOST_STEPS = 12

_WORDS = {
    HazardKind.EARLY_READ: "reads {what} before the wait that orders it behind the launches that write it",
    HazardKind.EARLY_WRITE: "writes {what} before the wait: the launches before may still use it and write it later",
    HazardKind.EARLY_ATOMIC: "updates {what} before the wait: the launches before may still write it",
    HazardKind.EARLY_COPY: "starts an asynchronous copy of {what} before the wait",
    HazardKind.MOVABLE_READ: "reads {what}, which changes while the kernel lives, with a non-coherent load",
    HazardKind.UNDECLARED: "touches {what} before the wait; the contract gives it no role",
    HazardKind.LEAVES_WITHOUT_WAIT: "triggers dependants in a grid of which no thread waits",
    HazardKind.NOT_ACQUIRED: "reads {what} without having acquired the flag that publishes it",
    HazardKind.NOT_RELEASED: "sets {what} although nothing makes what it publishes visible first",
    HazardKind.NONCOHERENT: "reads {what} with a non-coherent load although this kernel writes it",
    HazardKind.COPY_NOT_WAITED: "touches {what} while an asynchronous copy to it is under way",
    HazardKind.COPY_SOURCE_CHANGED: "writes {what} while an asynchronous copy may still read it",
    HazardKind.PROXY: "copies {what} through the async proxy, which does not see the write",
    HazardKind.RACE: "touches {what} in a race",
    HazardKind.OUT_OF_BOUNDS: "leaves the bounds of {what}",
    HazardKind.MISALIGNED: "accesses {what} misaligned",
    HazardKind.UNINITIALISED: "reads {what}, which nobody wrote",
    HazardKind.OVERFLOW: "computes an address that overflows",
    HazardKind.BARRIER_DIVERGENCE: "comes to a barrier without the rest of its warp",
    HazardKind.DEADLOCK: "waits for ever",
    HazardKind.LIVELOCK: "polls for ever",
    HazardKind.ENDLESS: "does not come to an end",
    HazardKind.TRAP: "traps",
    HazardKind.UNSTEADY: "writes something else to {what} than in the friendly run",
}


StepKind = Literal["launch", "wait", "access", "other", "value", "result"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the story, for text and for a picture."""

    text: str
    kind: StepKind
    cta: int | None = None
    thread: int | None = None
    where: str = ""
    """Source line or PTX line."""
    instruction: str = ""


def headline(hazard: Hazard, decoded: Decoded) -> str:
    """One sentence."""
    place = hazard.place
    where = decoded.line(place.index)
    what = _WORDS[hazard.kind].format(what=_memory(hazard.memory, hazard.offset))
    text = f"{hazard.kind.value}: thread {place.thread} of CTA {place.cta} {what} ({where})"
    if hazard.other is not None:
        line, thread, cta = decoded.line(hazard.other.index), hazard.other.thread, hazard.other.cta
        text += f"; the other place is {line}, thread {thread} of CTA {cta}"
    return f"{text}: {hazard.detail}" if hazard.detail else text


_HEADLINE = re.compile(r"(?:^|Fault: )([a-z-]+): thread (\d+) of CTA (\d+) [^'(]*(?:'([^']*)')?")


def read_headline(text: str) -> Hazard | None:
    """The hazard that a headline tells of (kind, thread, memory), whatever stands around it; None for other text."""
    match = _HEADLINE.search(text)
    if match is None or match[1] not in {kind.value for kind in HazardKind}:
        return None
    return Hazard(HazardKind(match[1]), Place(0, int(match[3]), int(match[2])), match[4] or "")


def _memory(name: str, offset: int | None) -> str:
    if not name:
        return "memory"
    return f"{name!r}" if offset is None else f"{name!r} at byte {offset}"


def explain(report: Report, decoded: Decoded, kinds: Mapping[str, str] | None = None) -> list[Step]:
    """The first failure of a report; empty where there is none. `kinds`: element type by buffer, where known."""
    outcome = report.failing
    if outcome is None:
        return []
    return [*causes(outcome, decoded), *effects(report.differences, report.alone, outcome, decoded, kinds or {})][
        :MOST_STEPS
    ]


def causes(outcome: Outcome, decoded: Decoded) -> Iterator[Step]:
    """What the machine was free to do and what the threads did then."""
    machine = outcome.machine
    yield from _liberties(outcome.plan, machine is None or any(r.late for r in machine.memory.buffers))
    hazards = sorted((h for h in outcome.hazards if not h.unsettled or h.assumed), key=lambda h: h.place.index)
    for hazard in hazards[:3]:
        yield _at("access", hazard.place, headline(hazard, decoded), decoded)
        if hazard.other is not None:
            yield _at("other", hazard.other, "the access it conflicts with", decoded)
        stale = outcome.stale.get(hazard.place.index)
        if stale is not None:
            yield _value(stale, outcome, decoded)
        elif hazard.kind is HazardKind.UNSTEADY:
            yield from (_value(one, outcome, decoded, alone=True) for one in list(outcome.stale.values())[:2])
    if len(hazards) > 3:
        yield Step(f"{len(hazards) - 3} more hazards follow", "access")


def effects(
    differences: Sequence[Difference],
    alone: Mapping[str, int],
    outcome: Outcome,
    decoded: Decoded,
    kinds: Mapping[str, str],
) -> Iterator[Step]:
    """Which results came out wrong, and which late buffer alone is enough for it; `kinds`: element type by buffer."""
    for difference in differences[:2]:
        yield _result(difference, outcome, decoded, kinds.get(difference.buffer, ""))
    if alone:
        yield Step("; ".join(_alone(name, count) for name, count in alone.items()), "result")
    if not differences:
        yield Step("no result differs in this run: the order that would show it was not drawn", "result")


def _liberties(plan: Plan, late: bool) -> Iterator[Step]:
    """`late`: some buffer's true contents come late in this run."""
    if plan.late and late:
        which = plan.only or "every buffer that earlier launches write"
        yield Step(f"{which} holds the previous step's values until a thread is ordered behind them", "launch")
    if plan.classes > 1:
        what = "CTAs" if plan.by_cta else "warps"
        first = {1: ", the first of each CTA first", -1: ", the last of each CTA first"}.get(plan.direction, "")
        switches = f", changing places after {', '.join(map(str, plan.switches))} steps" if plan.switches else ""
        yield Step(
            f"{what} run in {plan.classes} drawn groups, one after the other{first}{switches} (seed {plan.seed})",
            "launch",
        )


def _alone(name: str, wrong: int) -> str:
    shown = f"{wrong:,} bytes come out wrong" if wrong else "no result changes"
    return f"with {name!r} alone late, {shown}"


def _at(kind: StepKind, place: Place, text: str, decoded: Decoded) -> Step:
    instruction = decoded.program.text(place.index)
    return Step(text, kind, place.cta, place.thread, str(decoded.line(place.index)), instruction)


def _value(stale: StaleRead, outcome: Outcome, decoded: Decoded, alone: bool = False) -> Step:
    """What a read got. `alone`: no step before it says whose it is."""
    machine = outcome.machine
    per_cta = machine.per_cta if machine is not None else 1
    digits = 2 * stale.width
    place = f"{stale.memory!r} at byte {stale.offset}"
    line, cta, thread = str(decoded.line(stale.index)), stale.thread // per_cta, stale.thread % per_cta
    who = f"thread {thread} of CTA {cta} ({line})" if alone else "it"
    text = f"{who} got 0x{stale.got:0{digits}x} from {place}; the true value is 0x{stale.true:0{digits}x}"
    return Step(text, "value", cta, thread, line, decoded.program.text(stale.index) if alone else "")


def _result(difference: Difference, outcome: Outcome, decoded: Decoded, kind: str) -> Step:
    share = f"{difference.count:,} of {difference.size:,} bytes"
    got, expected = (_shown(raw, difference.first, kind) for raw in (difference.got, difference.expected))
    at = f"{got} instead of {expected}{_writer(difference, outcome, decoded)}"
    return Step(f"{difference.buffer!r} comes out wrong in {share}, first at byte {difference.first}: {at}", "result")


def _shown(raw: bytes, first: int, kind: str) -> str:
    """The element that holds byte `first` of a buffer, of which `raw` is 16 aligned bytes; all without a type."""
    dtype = dtype_named(kind)
    if dtype is None:
        return raw.hex(" ", 4)
    at = first % 16 // dtype.itemsize
    return f"{np.frombuffer(raw, dtype)[at]}"


def _writer(difference: Difference, outcome: Outcome, decoded: Decoded) -> str:
    """Who wrote the first wrong byte."""
    machine = outcome.machine
    if machine is None:
        return ""
    region = next((r for r in machine.memory.buffers if r.name == difference.buffer), None)
    if region is None or region.shadow is None:
        return ""
    record = int(region.shadow.writer[difference.first >> region.shadow.shift])
    if not record:
        return ""
    place = machine.place(record & PLACE_MASK, (record >> THREAD_SHIFT) - 1)
    return f", written by thread {place.thread} of CTA {place.cta} ({decoded.line(place.index)})"
