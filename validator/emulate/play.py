"""A kernel under a series of plans: once as a friendly machine would run it, then under plans drawn against it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from validator.emulate.adversary import FRIENDLY, Plan, draw_plan
from validator.emulate.hazard import Hazard, HazardKind
from validator.emulate.launch import Prepared
from validator.emulate.machine import Limits
from validator.emulate.minimise import alone, minimise, settled_kinds
from validator.emulate.run import Difference, Outcome, compare, compile_kernel, execute, find_kernel, unsteady
from validator.emulate.translate import Code
from validator.ordering.ptx import read_ptx
from validator.ordering.spread import spread

__all__ = ["Report", "Series", "play"]

_WORTH = 60_000
"""Steps of all runs together from which further processes pay: some seconds, beside one to start each."""
_INSTRUCTIONS_A_STEP = 4_000
"""Thread-instructions that take as long as a step of few threads."""


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
    """Drawn runs that were made."""
    stopped: list[str] = field(default_factory=list)
    """What runs reached that is not executed here."""
    unsupported: Counter[str] = field(default_factory=Counter)
    alone: dict[str, int] = field(default_factory=dict)
    """Buffer → bytes of results that come out wrong when it alone is late, of those a hazard names."""

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
        missing = [f"{what} ({count})" for what, count in sorted(self.unsupported.items())]
        reached = [f"{what} is reached" for what in self.stopped]
        return [*reasons, *reached, *([f"not executed here: {', '.join(missing)}"] if missing else [])]


class Seen(NamedTuple):
    """What is kept of a run when another one follows."""

    hazards: list[Hazard]
    unexecutable: str


@dataclass(frozen=True, slots=True)
class Series:
    """What decides on every run of a series."""

    prepared: Prepared
    seed: int = 0
    limits: Limits | None = None
    moves_noncoherent: bool = True

    def plan(self, number: int) -> Plan:
        return draw_plan(self.seed, number, self.moves_noncoherent, self.prepared.late)

    def seen(self, code: Code, friendly: Outcome, number: int) -> Seen:
        outcome = self.attempt(code, friendly, self.plan(number))
        return Seen(outcome.hazards, outcome.unexecutable)

    def attempt(self, code: Code, friendly: Outcome, plan: Plan) -> Outcome:
        outcome = execute(code, self.prepared, plan, self.limits)
        found = unsteady(code, friendly, outcome)
        if found and not unsteady(code, friendly, execute(code, self.prepared, plan, self.limits, unset_differ=False)):
            found = [_unset(hazard, code.decoded.unwritten) for hazard in found]
        outcome.hazards += found
        return outcome


def play(
    code: Code,
    prepared: Prepared,
    seed: int = 0,
    schedules: int = 8,
    limits: Limits | None = None,
    moves_noncoherent: bool = True,
    others: Sequence[Prepared] = (),
    jobs: int = 1,
) -> Report:
    """The friendly run, then `schedules` drawn ones; the first failure is minimised.

    `others`: the same launch with other numbers where the contract leaves them open, to reach other branches.
    `jobs`: processes for a series that is long enough; what comes back does not depend on it.
    """
    series = Series(prepared, seed, limits, moves_noncoherent)
    friendly = execute(code, prepared, FRIENDLY, limits)
    found: dict[tuple[str, int, str], Hazard] = {}
    _merge(found, friendly.hazards)
    failing: Outcome | None = None
    stopped = {friendly.unexecutable}
    first: int | None = None
    made = 0
    if not friendly.unexecutable and not _endless(friendly.hazards):
        for number, (hazards, unexecutable) in enumerate(_runs(series, code, friendly, schedules, jobs)):
            made = number + 1
            stopped.add(unexecutable)
            _merge(found, hazards)
            if first is None and _tellable(hazards):
                first = number
            if _endless(hazards):
                break
    differences: list[Difference] = []
    singly: dict[str, int] = {}
    if first is not None:

        def attempt(plan: Plan) -> Outcome:
            return series.attempt(code, friendly, plan)

        failing = minimise(attempt, friendly, attempt(series.plan(first)), prepared.late)
        differences = compare(friendly, failing)
        singly = alone(attempt, friendly, failing, prepared.late)
    if made:
        for other in others:
            outcome = execute(code, other, draw_plan(seed, 0, moves_noncoherent), limits)
            # Numbers that nobody may ever pass: what hangs on them says nothing.
            outcome.hazards = [h for h in outcome.hazards if not h.unsettled]
            _merge(found, outcome.hazards)
            if failing is None and settled_kinds(outcome):
                failing = outcome
                differences = compare(execute(code, other, FRIENDLY, limits), failing)
    failing = failing or (friendly if settled_kinds(friendly) else None)
    hazards, told = list(found.values()), sorted(stopped - {""})
    return Report(code.name, friendly, failing, differences, hazards, made, told, code.unsupported, singly)


def _unset(hazard: Hazard, never: Sequence[str]) -> Hazard:
    """Another result that what unwritten registers hold explains. `never`: registers that no instruction writes."""
    detail = f"its value reaches {hazard.memory!r} at byte {hazard.offset}"
    if never:
        detail += f"; no instruction writes {', '.join(never)}"
    return replace(hazard, kind=HazardKind.UNINITIALISED, memory="a register", offset=None, assumed="", detail=detail)


def _tellable(hazards: Sequence[Hazard]) -> bool:
    """Whether there is something to tell: a fault, or what would be one if the numbers assumed are right."""
    return any(not h.unsettled or h.assumed for h in hazards)


def _endless(hazards: Sequence[Hazard]) -> bool:
    return any(h.kind is HazardKind.ENDLESS for h in hazards)


def _merge(found: dict[tuple[str, int, str], Hazard], hazards: Sequence[Hazard]) -> None:
    for hazard in hazards:
        found.setdefault((hazard.kind, hazard.place.index, hazard.memory), hazard)


# --- the runs of a series, here or in further processes ---------------------------------------------------------------


def _runs(series: Series, code: Code, friendly: Outcome, schedules: int, jobs: int) -> Iterator[Seen]:
    """Every drawn run, in order."""
    work = (friendly.steps + friendly.instructions // _INSTRUCTIONS_A_STEP) * schedules
    if jobs <= 1 or schedules < 2 or work < _WORTH:
        for number in range(schedules):
            yield series.seen(code, friendly, number)
        return
    pieces = [_Piece(series, code.file, code.name, code.hoisted, range(k, schedules, jobs)) for k in range(jobs)]
    parts = list(spread(_run_piece, pieces, jobs, lambda piece: len(piece.file)))
    for number in range(schedules):
        yield parts[number % jobs][number // jobs]


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some runs of a series, for another process."""

    series: Series
    file: bytes
    kernel: str
    hoisted: frozenset[int]
    numbers: range


def _run_piece(piece: _Piece) -> list[Seen]:
    program = find_kernel(read_ptx(piece.file, "kernel.ptx"), piece.kernel)
    code = compile_kernel(program, piece.file, piece.hoisted)
    series = piece.series
    friendly = execute(code, series.prepared, FRIENDLY, series.limits)
    return [series.seen(code, friendly, number) for number in piece.numbers]
