"""A launch from a contract: buffers with true and previous values, flags, parameters, tensor maps.

Sizes, values and the parameter block are planned by `validator.gpu.launch`, the same as on a device; here the buffers
become regions whose true contents may be late.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from validator.emulate.adversary import Plan
from validator.emulate.hazard import Hazard, HazardKind
from validator.emulate.lateness import Lateness, StepSays, lateness_of
from validator.emulate.layout import FIRST_BUFFER, WINDOW_MIDDLE
from validator.emulate.machine import Memory, Shape
from validator.emulate.memory import POISON, SHARED_NAME, WINDOW_BITS, Region
from validator.emulate.tensor_map import TensorMap
from validator.gpu.launch import Buffer, Launchable, NotLaunchable, Recipe, pack, plan_launch
from validator.gpu.tensormap import BYTES as MAP_BYTES
from validator.gpu.tensormap import Geometry
from validator.manifest.contract import Argument, KernelContract, Role
from validator.ordering.program import Parameter
from validator.ordering.ptx import PtxProgram

__all__ = ["Prepared", "check_shape", "prepare", "tensor_map"]

MOST_THREADS = 1 << 18
"""Threads of a launch that are run at once."""
_FLOATS = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}
_ELEMENTS = {
    "FLOAT64": 8, "FLOAT32": 4, "FLOAT16": 2, "BFLOAT16": 2, "INT64": 8, "INT32": 4, "UINT64": 8, "UINT32": 4,
    "UINT16": 2, "UINT8": 1,
}  # fmt: skip
"""Bytes of an element, by the driver's name of its type."""
_OF_EXTENT = (HazardKind.OUT_OF_BOUNDS,)
_OF_VALUES = (
    HazardKind.OUT_OF_BOUNDS, HazardKind.MISALIGNED, HazardKind.RACE, HazardKind.DEADLOCK, HazardKind.LIVELOCK,
    HazardKind.BARRIER_DIVERGENCE, HazardKind.TRAP,
)  # fmt: skip
"""Hazards that numbers which nobody would pass can make."""
_OF_CONTENTS = (HazardKind.LIVELOCK, HazardKind.DEADLOCK)
"""Hazards that what a workspace holds at first can make: counters that begin at another number."""
_LEAST_SHARED, _AMPLE_SHARED, _ALL_SHARED = 4096, 160 << 10, 16 << 20
_HIDDEN = 2
"""Parameters that Triton appends and a contract does not list."""


@dataclass(frozen=True)
class Prepared:
    """A launch that can be made any number of times."""

    shape: Shape
    launchable: Launchable
    contract: KernelContract
    inplace: frozenset[str] = frozenset()
    """Outputs whose contents matter before the launch."""
    guessed: bool = False
    """Made with numbers that only serve to reach other branches."""
    step: StepSays = field(default_factory=StepSays)
    counters: frozenset[str] = frozenset()
    """Workspaces that are changed by atomics alone: they begin at zero where the contract does not say."""
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    """True contents that the caller brings, as bytes."""

    def addresses(self) -> dict[str, int]:
        return {
            b.name: (FIRST_BUFFER + number << WINDOW_BITS) + WINDOW_MIDDLE
            for number, b in enumerate(self.launchable.buffers)
        }

    @property
    def late(self) -> tuple[str, ...]:
        """Buffers whose true values may come late."""
        return self.lateness.late

    @property
    def written(self) -> tuple[str, ...]:
        """Buffers that hold results."""
        return tuple(b.name for b in self.launchable.buffers if b.written or b.role is None)

    @property
    def kinds(self) -> dict[str, str]:
        """Element types of buffers, as the contract gives them."""
        return {name: values.dtype[0] for name, (_, values) in self.contract.values.items() if values.dtype}

    @property
    def lateness(self) -> Lateness:
        said = ((b.name, b.role, b.guarded_by) for b in self.launchable.buffers)
        return lateness_of(said, self.shape.pdl, self.step)

    def assumed(self, hazard: Hazard, dynamic: bool = False) -> str:
        """What of the launch was made up and bears on a hazard. `dynamic`: the kernel has dynamic shared memory."""
        made_up = dynamic and self.contract.launch.shared is None
        if made_up and hazard.kind in _OF_EXTENT and hazard.memory == SHARED_NAME:
            return "the contract gives no `shared` (bytes of dynamic shared memory) in `launch`"
        buffers = {b.name: b for b in self.launchable.buffers}
        if hazard.kind in _OF_EXTENT and hazard.memory in buffers and not buffers[hazard.memory].extent:
            return f"the contract gives no shape for {hazard.memory!r}"
        if hazard.kind in _OF_VALUES or (self.guessed and hazard.kind is HazardKind.NOT_ACQUIRED):
            open_ = [a.name for a in self.contract.args if a.role is Role.SCALAR and a.value is None]
            open_ += [f.name for a in self.contract.args for f in a.fields if f.role is Role.SCALAR and f.value is None]
            if open_:
                return f"the contract gives no value for {', '.join(open_)}"
        if hazard.kind in _OF_CONTENTS and (open_ := [b.name for b in self.launchable.buffers if self._open(b)]):
            return f"the contract does not say what {', '.join(open_)} holds at first"
        if hazard.kind is HazardKind.LIVELOCK and any(b.published for b in self.launchable.buffers):
            return "the contract does not say what other launches set its flags to"
        return ""

    def _open(self, buffer: Buffer) -> bool:
        """Whether a workspace begins with numbers that nobody said."""
        said = self.contract.values.get(buffer.name)
        known = buffer.name in self.arrays or (said is not None and bool(said[1].domain.values))
        return buffer.role is Role.WORKSPACE and not known

    def memory(self, plan: Plan) -> Memory:
        """Fresh contents for one run."""
        addresses = self.addresses()
        lateness = self.lateness
        flags = lateness.flags
        regions, late_flags, published = [], [], {}
        for buffer in self.launchable.buffers:
            region = self._region(buffer, addresses)
            true, previous = (self._contents(buffer, which, addresses) for which in (0, 1))
            shown = not plan.friendly and plan.only in (None, buffer.name)
            events = lateness.events[buffer.name] if shown else 0
            if buffer.role is Role.MAILBOX and not plan.friendly:
                region.fill(previous)
                late_flags.append(region)
                published[buffer.name] = true
            elif buffer.name in flags:
                region.stale = _bytes(previous)
                region.fill(previous)
                late_flags.append(region)
                published[buffer.name] = true
            elif buffer.role is Role.OUTPUT and buffer.name not in self.inplace:
                region.initialised = buffer.name in self.arrays
                if buffer.name in self.arrays:
                    region.fill(true)
            else:
                region.fill(true)
            if events:
                region.late = events
                region.stale = _bytes(previous)
            regions.append(region)
        block = pack(self.launchable, addresses, lambda address, geometry: bytes(MAP_BYTES)).block
        named = {r.name: r for r in regions}
        maps = {offset: tensor_map(named[name], said) for offset, name, said in self.launchable.maps}
        numbers = sorted({n for n in np.frombuffer(block[: len(block) & ~3], "<u4").tolist() if 0 < n < 1 << 20})
        return Memory(regions, block, late_flags, published, flags, maps, tuple(numbers) if late_flags else ())

    def _region(self, buffer: Buffer, addresses: Mapping[str, int]) -> Region:
        role = buffer.role
        tracked = role not in (Role.WEIGHT, Role.STABLE)
        size = buffer.extent or buffer.size
        region = Region(
            buffer.name, size, base=addresses[buffer.name], role=role, declared=role is not None, tracked=tracked
        )
        region.guards = buffer.guarded_by
        if tracked and role not in (Role.ACTIVATION, Role.INDEX):
            region.allocate(np.full(len(region.data), POISON, np.uint8))
        return region

    def _contents(self, buffer: Buffer, which: int, addresses: Mapping[str, int]) -> bytes:
        raw = buffer.values[which]
        if which == 0 and buffer.name in self.arrays:
            return self.arrays[buffer.name].tobytes()
        if which == 0 and buffer.name in self.counters and self._open(buffer):
            return bytes(len(raw))
        if buffer.table is not None:
            return (np.frombuffer(raw, "<u8") + np.uint64(addresses[buffer.table])).tobytes()
        return raw


def tensor_map(region: Region, said: Geometry) -> TensorMap:
    element = _ELEMENTS[said.kind]
    return TensorMap(
        region,
        element,
        said.sizes,
        (element, *said.strides),
        said.box,
        int(said.swizzle.rstrip("B") if said.swizzle != "NONE" else 0),
    )


def _bytes(raw: bytes) -> np.ndarray:
    return np.frombuffer(raw + b"\0" * (-len(raw) % 16), np.uint8).copy()


def described(contract: KernelContract, parameters: tuple[Parameter, ...]) -> KernelContract:
    """Numbers get the floating types that the PTX declares, and parameters that a compiler appended are workspace."""
    args = list(contract.args)
    for number, (arg, parameter) in enumerate(zip(args, parameters, strict=False)):
        kind = _FLOATS.get(parameter.type or "")
        if arg.role is Role.SCALAR and kind and not arg.dtype:
            args[number] = arg.model_copy(update={"dtype": (kind,)})
    extra = parameters[len(args) :]
    if len(extra) == _HIDDEN and all(p.size == 8 for p in extra):
        args += [Argument(name=f"hidden {p.index}", role=Role.STABLE) for p in extra]
    return contract.model_copy(update={"args": tuple(args)})


def prepare(program: PtxProgram, contract: KernelContract, recipe: Recipe | None = None) -> Prepared | NotLaunchable:
    """Plan a launch as the contract says it."""
    parameters = tuple(program.parameters)
    contract = described(contract, parameters)
    directives = program.header.directives
    fitting = program.block_size or three(directives.get("maxntid"))
    plan = plan_launch(contract, parameters, recipe or Recipe(), fitting)
    if isinstance(plan, NotLaunchable):
        return plan
    how = plan.launch
    cluster = how.cluster or three(directives.get("reqnctapercluster")) or (1, 1, 1)
    shared = how.shared if contract.launch.shared is not None else _made_up_shared(math.prod(how.grid) or 1)
    shape = Shape(how.grid, program.block_size or how.block, cluster, shared, how.pdl)
    wrong = check_shape(shape, program)
    if wrong:
        return NotLaunchable(wrong)
    inplace = frozenset(name for name, (_, values) in contract.values.items() if values.inplace)
    return Prepared(shape, plan, contract, inplace)


def _made_up_shared(ctas: int) -> int:
    """Bytes of dynamic shared memory for each CTA of a launch that nobody gave any: ample, and bounded in all."""
    return max(_LEAST_SHARED, min(_AMPLE_SHARED, _ALL_SHARED // ctas))


def three(sizes: tuple[int, ...] | None) -> tuple[int, int, int] | None:
    """Sizes of a performance directive along x, y and z."""
    if not sizes:
        return None
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def check_shape(shape: Shape, program: PtxProgram) -> str:
    """Why a launch of this shape cannot be made; empty when it can."""
    for what, sizes, most in (
        ("grid", shape.grid, (2**31 - 1, 65535, 65535)),
        ("block", shape.block, (1024, 1024, 64)),
        ("cluster", shape.cluster, (16, 16, 16)),
    ):
        if any(not 1 <= n <= m for n, m in zip(sizes, most, strict=True)):
            return f"a {what} of {sizes} is outside 1..{most}"
    limit = program.max_block_size or 1024
    if shape.threads > limit:
        return f"{shape.threads} threads in a block, the kernel takes at most {limit}"
    if shape.ctas * shape.per_cta > MOST_THREADS:
        return f"{shape.ctas * shape.per_cta:,} threads, at most {MOST_THREADS:,} are run here"
    if any(g % c for g, c in zip(shape.grid, shape.cluster, strict=True)):
        return f"a grid of {shape.grid} is no multiple of the cluster {shape.cluster}"
    if not 0 <= shape.shared <= 232448:
        return f"{shape.shared} bytes of dynamic shared memory"
    return ""


def with_arrays(prepared: Prepared, arrays: Mapping[str, np.ndarray]) -> Prepared:
    return replace(prepared, arrays=dict(arrays))


OTHER_NUMBERS = (1, 0)
"""Tried besides the recipe's own where the contract gives an integer no value."""


def with_other_numbers(
    program: PtxProgram, contract: KernelContract, recipe: Recipe | None = None
) -> tuple[Prepared, ...]:
    """The same launch with other integers where the contract gives none; empty where it gives all."""
    parts = [p for a in contract.args for p in (a.fields or (a,))]
    if not any(p.role is Role.SCALAR and p.value is None for p in parts):
        return ()
    recipe = recipe or Recipe()
    made = (prepare(program, contract, replace(recipe, integer=n)) for n in OTHER_NUMBERS)
    return tuple(replace(p, guessed=True) for p in made if isinstance(p, Prepared))
