"""The worker's adapter for compiled PTX on a CPU: every call is one launch under a plan drawn against the kernel.

Which plan follows from the call's inputs: cases meet many, and a case that failed fails again. A hazard makes the call
raise: the candidate failed, whatever it computed.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from validator.emulate.adversary import FRIENDLY, Plan, draw_plan
from validator.emulate.audited import audited
from validator.emulate.errors import EmulateError
from validator.emulate.explain import MOST_STEPS, Step, causes, effects, headline
from validator.emulate.hoisted import beside, hoisted_loads
from validator.emulate.lateness import lateness_of
from validator.emulate.launch import check_shape, tensor_map
from validator.emulate.layout import FIRST_BUFFER, WINDOW_MIDDLE
from validator.emulate.machine import Machine, Memory, Shape, Unexecutable
from validator.emulate.memory import POISON, WINDOW_BITS, Region
from validator.emulate.minimise import alone
from validator.emulate.run import Outcome, compare, compile_kernel, outcome_of
from validator.errors import Problem, ValidatorError
from validator.gpu.adapter import NotRunHere, Said, parameter_block
from validator.gpu.placement import Arena, arena_of, distance
from validator.gpu.tensormap import BYTES as MAP_BYTES
from validator.gpu.tensormap import geometry
from validator.manifest.contract import Role
from validator.ordering.ptx import PtxProgram, read_ptx

__all__ = ["Fault", "Kernel", "load", "prepare"]

LARGEST_FILE = 1 << 27
HASHED = 1 << 20
"""Bytes of an input that decide on the plan."""
LARGEST_STORY = 20_000_000
"""Thread-instructions of a run that is made again to tell its story."""
_RESULTS = (Role.OUTPUT, Role.STATE, Role.WORKSPACE)
PLANS = 64
"""Different plans over the calls of a run."""


class Fault(EmulateError):
    """The kernel met a hazard: what and where, then how it came about, one step a problem."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """An array as a region, and where it came from."""

    region: Region
    address: int
    """Of the array's first element."""
    steps: tuple[int, ...]
    """Elements between two positions along each axis."""
    arena: Arena
    start: int
    """Byte of the arena that is byte 0 of the region."""


@dataclass(frozen=True, slots=True)
class _Argument:
    """What the contract says of an argument, beyond what `Said` keeps."""

    role: Role | None
    guarded_by: str | None
    inplace: bool

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> _Argument:
        role = row.get("role")
        return cls(None if role is None else Role(role), row.get("guarded_by"), bool(row.get("inplace")))


def prepare(target: str, tree: Path, options: Mapping[str, str]) -> Mapping[str, str]:
    """`hoisted`: JSON, program indices of the loads that the machine code beside the PTX executes before the wait.

    Absent where there is none, or none that can be read. What is wrong with the target is left to `load` to say.
    """
    try:
        path, program, data = _opened(target, tree)
    except (ValidatorError, NotRunHere, OSError):
        return {}
    cubin = beside(tree / path)
    if cubin is None:
        return {}
    found = hoisted_loads(audited(data, path, program.name, cubin=cubin), program)
    return {} if found is None else {"hoisted": json.dumps(sorted(found))}


def load(target: str, tree: str, options: Mapping[str, str]) -> Callable[..., None]:
    """The kernel of `path:name` below `tree`; `name` may be a glob over mangled names.

    Options as `validator.gpu.adapter` takes them, `seed`, and `hoisted` as `prepare` gives it. Raises `EmulateError` or
    `PtxError` for a file that holds no such kernel.
    """
    _, program, data = _opened(target, Path(tree))
    rows = json.loads(options["parameters"])
    hoisted = frozenset(json.loads(options["hoisted"])) if "hoisted" in options else None
    return Kernel(program, data, rows, hoisted, pdl=options.get("pdl") == "yes", seed=int(options.get("seed", "0")))


def _opened(target: str, tree: Path) -> tuple[str, PtxProgram, bytes]:
    """Path below the tree, the kernel, and the file it stands in."""
    path, _, name = target.rpartition(":")
    root = tree.resolve()
    file = (root / path).resolve()
    if not file.is_relative_to(root):
        raise EmulateError(Problem(f"{path} is outside of the tree"))
    if file.suffix != ".ptx":
        raise NotRunHere(f"{path} is no PTX")
    if not file.is_file():
        raise EmulateError(Problem("there is no such file", path, "name the artifact as the head tree has it"))
    if file.stat().st_size > LARGEST_FILE:
        raise EmulateError(Problem(f"{path} has more than {LARGEST_FILE:,} bytes"))
    data = file.read_bytes()
    return path, _named(read_ptx(data, path).programs, name, path), data


def _named(programs: Sequence[PtxProgram], name: str, path: str) -> PtxProgram:
    """The kernel of this name, or the only one that the name means."""
    inside = f"{len(name)}{name}"
    exact = [p for p in programs if p.name == name]
    found = exact or [p for p in programs if fnmatch.fnmatchcase(p.name, name) or inside in p.name]
    if len(found) != 1:
        listed = ", ".join(p.name for p in programs[:8])
        raise EmulateError(Problem(f"{len(found)} kernels are meant by {name!r}; there are {listed}", path))
    return found[0]


@dataclass
class Kernel:
    """A kernel as a callable on arrays and numbers; outputs are filled in place."""

    program: PtxProgram
    data: bytes
    """The file."""
    rows: Sequence[Mapping[str, Any]]
    """What is said of each argument of a call."""
    hoisted: frozenset[int] | None = None
    """Loads that the machine code beside it executes before the wait; None: no machine code is known."""
    pdl: bool = False
    seed: int = 0
    plan: Plan | None = None
    """Used for every call; None: drawn."""
    number: int | None = None
    """Which plan is drawn; None: it follows from the call's inputs, so that a case that failed fails again."""
    last: Machine | None = field(default=None, repr=False)
    """The machine of the last call, for whoever wants to look."""

    def __post_init__(self) -> None:
        self.code = compile_kernel(self.program, self.data, self.hoisted or frozenset())
        self._said = [Said.of(row) for row in self.rows]
        self._about = [_Argument.of(row) for row in self.rows]
        said = ((s.name, a.role, a.guarded_by) for s, a in zip(self._said, self._about, strict=True))
        self._late = lateness_of(said, self.pdl)
        self._delayed = self._late.late
        named, slots = {s.parameter for s in self._said}, len(self.program.parameters)
        if named != set(range(slots)):
            raise EmulateError(Problem(f"the contract lists {len(named)} parameters, {self.program.name} has {slots}"))

    def __call__(self, *args: Any, launch: Mapping[str, Any]) -> None:
        """`launch`: `grid`, `block`, `shared`, `cluster`. Raises `Fault` for a hazard, `NotRunHere` for what cannot be
        executed."""
        shape = Shape(launch["grid"], launch["block"], launch["cluster"] or (1, 1, 1), launch["shared"], self.pdl)
        if 0 in (*shape.grid, *shape.block):
            return
        wrong = check_shape(shape, self.program)
        if wrong:
            raise NotRunHere(wrong)
        given = {s.name: value for s, value in zip(self._said, args, strict=True)}
        plan = self.plan or draw_plan(self.seed, self._number(given), self.hoisted is None, self._delayed)
        try:
            machine, placed = self._run(given, shape, plan)
            self.last = machine
            faults = [h for h in machine.hazards if not h.unsettled]
            story = self._story(given, shape, machine) if faults else []
        except (ValidatorError, NotRunHere, MemoryError):
            raise
        except Exception as error:
            # A fault of this program must not be held against the kernel.
            told = f"internal error of the emulator: {type(error).__name__}: {error}"
            raise NotRunHere(f"{self.program.name}: {told}; please report it") from error
        for one in placed.values():
            _write_back(one)
        if faults:
            raise Fault(headline(faults[0], self.code.decoded), *(step.text for step in story))

    def _run(self, given: Mapping[str, Any], shape: Shape, plan: Plan) -> tuple[Machine, dict[str, _Placed]]:
        """One launch; the caller's arrays stay as they are."""
        placed = self._place(given, plan)
        machine = Machine(self.code, shape, self._memory(given, placed, plan), plan)
        try:
            machine.run()
        except Unexecutable as reason:
            counts = ", ".join(f"{what} ({count})" for what, count in sorted(self.code.unsupported.items()))
            raise NotRunHere(f"{self.program.name}: {reason.args[0]} is reached; not executed here: {counts}") from None
        return machine, placed

    def _story(self, given: Mapping[str, Any], shape: Shape, machine: Machine) -> list[Step]:
        """How a fault came about, and what it did to the results: the same launch is made again, friendly."""
        written = [s.name for s, a in zip(self._said, self._about, strict=True) if a.role in _RESULTS]

        def attempt(plan: Plan) -> Outcome:
            return outcome_of(self._run(given, shape, plan)[0], written)

        outcome, decoded = outcome_of(machine, written), self.code.decoded
        steps = list(causes(outcome, decoded))
        if machine.executed <= LARGEST_STORY:
            friendly = attempt(FRIENDLY)
            singly = alone(attempt, friendly, outcome, self._delayed)
            kinds = {name: str(given[name].dtype) for name in written}
            steps += effects(compare(friendly, outcome), singly, outcome, decoded, kinds)
        return steps[:MOST_STEPS]

    def _number(self, given: Mapping[str, Any]) -> int:
        if self.number is not None:
            return self.number
        check = 0
        for said, about in zip(self._said, self._about, strict=True):
            if said.memory and about.role is not Role.OUTPUT:
                check = crc32(
                    np.ascontiguousarray(given[said.name]).view(np.uint8).reshape(-1)[:HASHED].tobytes(), check
                )
        return check % PLANS

    # --- memory -----------------------------------------------------------------------------------------------------

    def _place(self, given: Mapping[str, Any], plan: Plan) -> dict[str, _Placed]:
        """A region for every array; arrays that are one memory share theirs."""
        placed: dict[str, _Placed] = {}
        known: dict[tuple[int, int, int], Region] = {}
        rng = np.random.default_rng([plan.seed, 2])
        for number, (said, about) in enumerate(zip(self._said, self._about, strict=True)):
            if not said.memory:
                continue
            array = given[said.name]
            arena = arena_of(array)
            start = arena.offset - arena.offset % 16
            key = arena.key, arena.offset, arena.end
            region = known.get(key)
            if region is None:
                region = known[key] = self._region(said.name, about, arena, number, plan, rng, array.itemsize)
            address = region.base + arena.offset - start
            steps = tuple(s // array.itemsize for s in array.strides)
            if said.distant and array.ndim > 1 and array.shape[0] > 1:
                region.row = array.strides[0]
                region.step = distance(array.shape[0], steps[0]) * array.itemsize
                steps = (region.step // array.itemsize, *steps[1:])
            placed[said.name] = _Placed(region, address, steps, arena, start)
        return placed

    def _region(
        self, name: str, about: _Argument, arena: Arena, number: int, plan: Plan, rng: np.random.Generator, item: int
    ) -> Region:
        start = arena.offset - arena.offset % 16
        raw = arena.memory[start : arena.end]
        base = (FIRST_BUFFER + number << WINDOW_BITS) + WINDOW_MIDDLE
        tracked = about.role not in (Role.WEIGHT, Role.STABLE)
        region = Region(name, len(raw), base=base, role=about.role, declared=about.role is not None, tracked=tracked)
        region.begin, region.guards = arena.offset - start, about.guarded_by
        region.data[: len(raw)] = raw
        if about.role is Role.OUTPUT and not about.inplace:
            region.initialised = False
            region.data[:] = POISON
        events = self._late.events[name]
        if events and not plan.friendly and plan.only in (None, name):
            region.late = events
            region.stale = _previous(region.data, item, rng)
        return region

    def _memory(self, given: Mapping[str, Any], placed: Mapping[str, _Placed], plan: Plan) -> Memory:
        maps = {}

        def encode(said: Said, array: Any, address: int) -> bytes:
            try:
                found = geometry(array.dtype.name, array.shape, said.box or (), said.swizzle)
            except ValueError as error:
                raise NotRunHere(f"{said.name} is no tensor map for this call: {error}") from None
            slot = self.program.parameters[said.parameter]
            maps[slot.offset + (said.offset or 0)] = tensor_map(placed[said.name].region, found)
            return bytes(MAP_BYTES)

        block = parameter_block(self._said, self.program.parameters, given, placed, encode)
        regions = list({id(p.region): p.region for p in placed.values()}.values())
        flags, late, published = self._late.flags, [], {}
        for region in regions:
            if region.name in flags and not plan.friendly:
                published[region.name] = region.data.tobytes()
                region.data[:] = 0
                late.append(region)
            region.stale = np.zeros_like(region.data) if region.name in flags else region.stale
        return Memory(regions, block.block, late, published, flags, maps)


def _previous(data: np.ndarray, item: int, rng: np.random.Generator) -> np.ndarray:
    """The previous step's contents: the same values in other places, so that they keep to the argument's domain."""
    elements = data[: len(data) - len(data) % item].reshape(-1, item)
    found = data.copy()
    if len(elements) > 1:
        shift = int(rng.integers(1, len(elements)))
        found[: elements.size] = np.roll(elements, shift, axis=0).ravel()
    return found


def _write_back(placed: _Placed) -> None:
    if placed.region.stores:
        size = placed.region.size
        untouched = placed.region.shadow is not None and not placed.region.initialised
        target = placed.arena.memory[placed.start : placed.start + size]
        if not untouched:
            target[placed.region.begin :] = placed.region.data[placed.region.begin : size]
            return
        shadow = placed.region.records()
        written = np.repeat(shadow.writer != 0, 1 << shadow.shift)[:size]
        np.copyto(target, placed.region.data[:size], where=written)
