"""A launch from a contract alone: which buffers, which values, and the parameter block.

What the contract leaves open (sizes, grid, values of scalars) comes from a `Recipe`, so a kernel of which only roles
are declared can run. Where the parameters lie comes from the compiled kernel itself, never from the contract.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from validator.gpu.driver import Launch, Parameters
from validator.gpu.frame import POINTER, Missing, Part, Slot, frame, launch_of, number
from validator.gpu.tensormap import BYTES as MAP_BYTES
from validator.gpu.tensormap import Geometry
from validator.gpu.values import SMALL, Pair, draw_pair, element_size
from validator.manifest.contract import KernelContract, Role, Values
from validator.manifest.dims import Membership

__all__ = ["Buffer", "Launchable", "NotLaunchable", "Recipe", "pack", "plan_launch"]

_TABLE = 64
"""Entries of a pointer table."""
_LARGEST = 1 << 28
"""Bytes; a shape that asks for more is not tried."""

Encode = Callable[[int, Geometry], bytes]


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is taken where the contract says nothing."""

    grid: tuple[int, int, int] = (4, 1, 1)
    """Few CTAs: a dependant that fills the card finds no room to start early, and the fault hides."""
    block: tuple[int, int, int] = (128, 1, 1)
    shared: int = 4096
    """Bytes of dynamic shared memory: too little is a fault of the harness, too much costs nothing."""
    size: int = 1 << 20
    """Bytes of a buffer without a shape."""
    window: int = 1 << 16
    """Bytes at the start of a buffer that its producer writes; the rest does not change."""
    integer: int = SMALL
    number: float = 1.5
    seed: int = 20261129


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of one argument."""

    name: str
    role: Role | None
    values: Pair
    guarded_by: str | None = None
    """The flag that says when it may be read."""
    table: str | None = None
    """For a pointer table: the buffer that its entries point into; its own values are then offsets."""
    extent: int = 0
    """Bytes that the contract's shape takes, before rounding; 0 without a shape."""

    @property
    def produced(self) -> bool:
        """Another launch may still be writing it when the candidate starts; an undeclared argument may be such."""
        return self.role is None or (self.role.memory and not self.role.static)

    @property
    def written(self) -> bool:
        """The candidate writes it."""
        return self.role in (Role.OUTPUT, Role.STATE, Role.WORKSPACE)

    @property
    def published(self) -> bool:
        """Its words say themselves, or of other buffers, when they are valid: the candidate polls them."""
        return self.role in (Role.FLAG, Role.MAILBOX)

    @property
    def size(self) -> int:
        """Bytes, a multiple of 16."""
        return len(self.values[0])

    def contents(self, which: int, addresses: Mapping[str, int]) -> bytes:
        """The true (0) or previous (1) values; a pointer table's offsets as addresses of what it points into."""
        raw = self.values[which]
        if self.table is None:
            return raw
        return (np.frombuffer(raw, "<u8") + np.uint64(addresses[self.table])).tobytes()

    @property
    def window(self) -> int:
        """Bytes at the start that hold every difference between the true and the previous values, a multiple of 16."""
        true, previous = (np.frombuffer(v, np.uint8) for v in self.values)
        differing = np.flatnonzero(true != previous)
        return int(differing[-1] // 16 + 1) * 16 if len(differing) else 0


@dataclass(frozen=True, slots=True)
class Launchable:
    """All that a launch needs but addresses."""

    launch: Launch
    buffers: tuple[Buffer, ...]
    block: bytes
    """The parameter block with every pointer still zero."""
    offsets: tuple[int, ...]
    pointers: tuple[tuple[int, str], ...]
    """Byte offset in the block → buffer."""
    maps: tuple[tuple[int, str, Geometry], ...] = ()
    """Byte offset in the block → buffer that a tensor map there describes, and how."""


@dataclass(frozen=True, slots=True)
class NotLaunchable:
    reason: str

    def __str__(self) -> str:
        return f"not launchable: {self.reason}"


def plan_launch(
    contract: KernelContract,
    slots: Sequence[Slot],
    recipe: Recipe = Recipe(),
    block_size: tuple[int, int, int] | None = None,
) -> Launchable | NotLaunchable:
    """Buffers, values and parameter block for one launch.

    `slots` are the kernel's own parameter records in order, `block_size` is what it was compiled to require.
    """
    try:
        return _plan(contract, slots, recipe, block_size)
    except Missing as missing:
        return NotLaunchable(str(missing))


def _plan(
    contract: KernelContract, slots: Sequence[Slot], recipe: Recipe, block_size: tuple[int, int, int] | None
) -> Launchable:
    dims = _dims(contract)
    laid = frame(contract, slots, recipe, dims)
    said = [part for _, part in laid.pointers] + [mapped.part for mapped in laid.maps]
    parts = {part.name: _bounded(part, contract, dims) for part in said}
    shared = {name: part.alias_of for name, part in parts.items() if part.alias_of in parts}
    buffers = [b for part in parts.values() if part.name not in shared for b in _buffers(part, recipe, dims)]
    if not any(b.written or b.role is None for b in buffers):
        raise Missing("no argument is declared as written, so there is no result to compare")
    return Launchable(
        launch=launch_of(contract, dims, recipe.grid, block_size or recipe.block, recipe.shared),
        buffers=tuple(buffers),
        block=laid.block,
        offsets=laid.offsets,
        pointers=tuple((offset, shared.get(part.name) or part.name) for offset, part in laid.pointers),
        maps=tuple((m.offset, shared.get(m.part.name) or m.part.name, m.geometry) for m in laid.maps),
    )


def _dims(contract: KernelContract) -> dict[str, int]:
    """A shape in use if the contract gives one, else small sizes inside the ranges."""
    if contract.production:
        return dict(contract.production[0])
    dims = {}
    for constraint in contract.constraints:
        if isinstance(constraint, Membership) and len(constraint.values):
            dims[constraint.name] = max(
                (v for v in constraint.values[: 1 << 16] if v <= SMALL), default=constraint.values[0]
            )
    broken = [c.text for c in contract.constraints if not (c.names <= dims.keys() and c.holds(dims))]
    if broken:
        raise Missing(f"no `production` shape is given and the sizes tried break {', '.join(f'`{b}`' for b in broken)}")
    return dims


def _buffers(part: Part, recipe: Recipe, dims: Mapping[str, int]) -> Iterator[Buffer]:
    """The argument's own memory and, behind a pointer table, what its entries point to."""
    # A name has the same values whatever the order of arguments.
    rng = np.random.default_rng([recipe.seed, zlib.crc32(part.name.encode())])
    extent = 0 if part.shape is None else _bytes(part, dims)
    size = extent or recipe.size
    size += -size % 16
    if part.role is Role.MAILBOX and part.empty is None:
        raise Missing(f"argument {part.name!r} is a mailbox and does not say which word means that it is `empty`")
    if part.points_to is not None:
        step = recipe.size // _TABLE
        entries = np.arange(_TABLE, dtype="<u8") * np.uint64(step)
        offsets = (entries.tobytes(), np.roll(entries, 1).tobytes())
        yield Buffer(part.name, part.role, offsets, part.guarded_by, f"{part.name}[]")
        pointed = draw_pair(part.points_to, Values(), recipe.size, recipe.window, rng)
        yield Buffer(f"{part.name}[]", part.points_to, pointed, part.guarded_by)
        return
    values = draw_pair(part.role, part, size, recipe.window, rng)
    yield Buffer(part.name, part.role, values, part.guarded_by, extent=extent)


def _bounded(part: Part, contract: KernelContract, dims: Mapping[str, int]) -> Part:
    """Positions and lengths kept inside the axis they speak of."""
    target, axis = part.domain.speaks_of or ("", 0)
    shape = contract.values[target][1].shape if target in contract.values else None
    if not shape:
        return part
    high = max(number(shape[axis], dims) - (1 if part.domain.index else 0), 0)
    bounds = {"low": 0, "high": high, "sorted": part.domain.sorted or part.domain.cuts}
    return part.model_copy(update={"domain": part.domain.model_copy(update=bounds)})


def _bytes(part: Part, dims: Mapping[str, int]) -> int:
    size = math.prod(number(n, dims) for n in part.shape or ()) * element_size(part)
    if not 0 <= size <= _LARGEST:
        raise Missing(f"argument {part.name!r} would take {size} bytes")
    return max(size, 1)


def pack(launchable: Launchable, addresses: Mapping[str, int], encode: Encode | None = None) -> Parameters:
    """The parameter block with every pointer and every tensor map in its place; `encode` makes the latter."""
    block = bytearray(launchable.block)
    for offset, name in launchable.pointers:
        block[offset : offset + POINTER] = addresses[name].to_bytes(POINTER, "little")
    for offset, name, geometry in launchable.maps:
        assert encode is not None
        block[offset : offset + MAP_BYTES] = encode(addresses[name], geometry)
    return Parameters(bytes(block), launchable.offsets)
