"""A kernel's cases as cells: some of them each, with everything that their results rest on, and put together again.

What the cases of a cell build on one another (outputs of another case as a control, mutants that were seen, calls in
one process) stays inside the cell, so a cell's result is the same whoever runs it, and when.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter, ValidationError

from validator.differential.cases import Case, size_of
from validator.differential.device import Device
from validator.differential.engine import is_news, planned_cases, run_cases, unkept
from validator.differential.errors import DifferentialError
from validator.differential.found import Found
from validator.differential.numbers import derived
from validator.differential.processes import Trees, runner_for
from validator.differential.results import KernelResult
from validator.manifest.contract import KernelContract
from validator.own_source import own_source
from validator.scale.cell import UNREADABLE, Cell, Content, Needs, Outcome, State, Work
from validator.stage import Store

__all__ = ["cells_of", "merged", "parts_of", "planned", "put_together", "run_part", "seeded"]

_CASES = {Device.CPU: 64, Device.CUDA: 64, Device.PTX: 16}
"""In one cell: processes are started for it, which costs as much as a dozen cases on numpy."""
_BYTES = 1 << 20
"""Of arguments: a case with so many counts as two."""
_SECONDS = {Device.CPU: 0.05, Device.CUDA: 0.1, Device.PTX: 1.0}
"""One case takes about so long."""
SEED = "; seed "
"""What the origin of a case of a further root seed goes on with."""
_COPIES = 8
"""Of a case's arguments: float64 and other copies, in the gate and in the candidate's process."""
_LARGE = 64 << 20
"""Bytes of arguments from which a cell says how much memory it takes."""
_START = 1.0
"""Seconds to start a cell's processes."""


@dataclass(frozen=True, slots=True)
class _Ran:
    """A result as it travels: JSON that may hold infinities and NaN."""

    __pydantic_config__ = ConfigDict(extra="forbid", ser_json_inf_nan="constants")

    result: KernelResult


@cache
def _ran() -> TypeAdapter[_Ran]:
    return TypeAdapter(_Ran)


@cache
def _cases() -> TypeAdapter[tuple[Case, ...]]:
    return TypeAdapter(tuple[Case, ...])


def cells_of(
    contract: KernelContract,
    device: Device,
    wanted: Sequence[Case],
    trees: Trees,
    work: Work,
    found: Path | None = None,
) -> Iterator[Cell]:
    """The cells of a kernel on a device, in the order of its cases: those that tell most come first.

    `found`: an empty folder (`Found`) that takes what fails as soon as it does, on this machine.
    """
    places = {"head": trees.head, "base": trees.base}
    if found is not None:
        places["found"] = found
    if trees.artifacts is not None:
        places["artifacts"] = trees.artifacts
    names = {name: work.keep(path) for name, path in places.items()}
    for number, cases in enumerate(parts_of(contract, device, wanted)):
        payload = {
            "contract": contract.model_dump_json(),
            "device": device.value,
            "cases": _cases().dump_json(cases).decode(),
            "trees": names,
        }
        yield Cell(
            id=f"differential/{device.value}/{contract.match}/{number:04}",
            task=f"{__name__}:run_part",
            payload=json.dumps(payload, sort_keys=True).encode(),
            content=tuple(names.values()),
            rests_on=_rests_on(),
            seconds=_START + _SECONDS[device] * len(cases),
            needs=Needs("any" if device is Device.CUDA else "", _memory(contract, cases)),
            what=f"{contract.match} on {device.value}: {len(cases)} cases, from {cases[0].origin}",
        )


def parts_of(contract: KernelContract, device: Device, wanted: Sequence[Case]) -> Iterator[tuple[Case, ...]]:
    """So many cases as make a cell, fewer where they are large. Who runs them, and how many, changes nothing here."""
    return (part for mine in _by_seed(wanted) for part in _parts(contract, device, mine))


def _parts(contract: KernelContract, device: Device, wanted: Sequence[Case]) -> Iterator[tuple[Case, ...]]:
    part: list[Case] = []
    weight = 0.0
    for case in wanted:
        weight += 1 + size_of(contract, case) / _BYTES
        part.append(case)
        if weight >= _CASES[device]:
            yield tuple(part)
            part, weight = [], 0.0
    if part:
        yield tuple(part)


def _memory(contract: KernelContract, cases: Sequence[Case]) -> int:
    """Bytes that the largest case takes, in whole gibibytes; 0: an ordinary amount."""
    largest = max(size_of(contract, case) for case in cases)
    return -(-_COPIES * largest >> 30) << 30 if largest > _LARGE else 0


def _by_seed(wanted: Sequence[Case]) -> Iterator[Sequence[Case]]:
    """Cases of one root seed after another: none of them shares a cell with another's."""
    for _, mine in groupby(wanted, key=lambda case: case.origin.partition(SEED)[2]):
        yield list(mine)


def seeded(
    contract: KernelContract,
    seed: int,
    seeds: int,
    count: int,
    first: tuple[Case, ...],
    store: Store | None,
    strength: int | None = None,
) -> tuple[Case, ...]:
    """The cases of so many root seeds, those of the first before those of the next; `first` comes once, and so does
    every plan of a production shape."""
    found: dict[str, Case] = {}
    for number in range(seeds):
        root = derived(seed, "root", number) if number else seed
        cases = planned(contract, root, count, () if number else first, store, strength)
        for case in _production_once(cases, number) if number else cases:
            mine = replace(case, origin=f"{case.origin}{SEED}{number + 1} of {seeds}") if number else case
            found.setdefault(case.id, mine)
    return tuple(found.values())


def _production_once(cases: Iterable[Case], number: int) -> Iterator[Case]:
    """The cases of a further seed, with one plan for each production shape: the first seed's have all of them."""
    cases = list(cases)
    shapes: dict[tuple[tuple[str, int], ...], list[Case]] = {}
    for case in cases:
        if case.input_class == "production":
            shapes.setdefault(case.dims, []).append(case)
    chosen = {some[number % len(some)].id for some in shapes.values()}
    return (case for case in cases if case.input_class != "production" or case.id in chosen)


def planned(
    contract: KernelContract,
    seed: int,
    count: int,
    first: tuple[Case, ...],
    store: Store | None,
    strength: int | None = None,
) -> tuple[Case, ...]:
    """`planned_cases`, drawn once for the same contract and seed where there is a store: drawing takes its time."""
    if store is None:
        return planned_cases(contract, seed, count, first, strength)
    total = hashlib.sha256()
    asked = f"{seed} {count} {strength}"
    rests = (own_source(), version("hypothesis"), version("numpy"), contract.model_dump_json(), asked)
    for part in (*rests, _cases().dump_json(first).decode()):
        total.update(hashlib.sha256(part.encode("utf-8", "surrogateescape")).digest())
    key = f"differential/plan/{total.hexdigest()}"
    known = store.get(key)
    if known is not None:
        with suppress(ValidationError):
            return _cases().validate_json(known)
    drawn = planned_cases(contract, seed, count, first, strength)
    store.put(key, _cases().dump_json(drawn))
    return drawn


def run_part(payload: bytes, content: Content) -> bytes:
    """The task: these cases, in fresh processes."""
    asked = json.loads(payload)
    contract = KernelContract.model_validate_json(asked["contract"])
    places = {name: content(kept) for name, kept in asked["trees"].items()}
    trees = Trees(places["head"], places["base"], places.get("artifacts"))
    with runner_for(contract, trees, device=Device(asked["device"])) as runner:
        keep = Found(places["found"]).note if "found" in places else unkept
        result = run_cases(runner, _cases().validate_json(asked["cases"]), keep=keep)
    return _ran().dump_json(_Ran(result))


def put_together(wanted: tuple[Case, ...], outcomes: Sequence[Outcome]) -> KernelResult:
    """One result out of its cells', in their order. What has no outcome is missing, and why is said.

    Raises:
        DifferentialError: a cell said itself that it cannot be run.
    """
    parts, why = [], ""
    for outcome in sorted(outcomes, key=lambda o: o.cell.id):
        if outcome.state is State.RAISED:
            raise DifferentialError(outcome.why)
        if outcome.state is not State.DONE:
            why = why or outcome.why
            continue
        try:
            parts.append(_ran().validate_json(outcome.data).result)
        except ValidationError:
            why = why or UNREADABLE
    return merged(wanted, parts, why)


def merged(wanted: tuple[Case, ...], parts: Iterable[KernelResult], why_missing: str = "") -> KernelResult:
    """One result out of those of a kernel's parts, in their order."""
    whole = KernelResult(wanted, why_missing=why_missing)
    blind: set[str] = set()
    seen: set[str] = set()
    for part in parts:
        for result in part.results:
            whole.results.append(result)
            if is_news(result, whole) and result.case.id in part.shrunk:
                whole.shrunk[result.case.id] = part.shrunk[result.case.id]
        blind |= set(part.blind)
        seen |= set(part.tried) - set(part.blind)
        whole.calls += part.calls
        whole.enforced = whole.enforced or part.enforced
        whole.bound = whole.bound or part.bound
        whole.wide = whole.wide and part.wide
        whole.sound = whole.sound and part.sound
    whole.blind, whole.tried = tuple(sorted(blind - seen)), tuple(sorted(blind | seen))
    return whole


def _rests_on() -> Mapping[str, str]:
    """What can change a result besides the cell itself; the engine knows the devices."""
    libraries = {name: version(name) for name in ("numpy", "ml_dtypes")}
    return {**libraries, "python": platform.python_version(), "machine": platform.machine()}
