"""A launch from a contract alone: which buffers, which values, and the parameter block.

What the contract leaves open (sizes, grid, values of scalars) comes from a `Recipe`, so a kernel of which only roles
are declared can run. Where the parameters lie comes from the compiled kernel itself, never from the contract.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from validator.gpu.driver import Launch, Parameters
from validator.gpu.values import SMALL, Pair, draw_pair, element_size
from validator.manifest.contract import Argument, ContractField, KernelContract, Role, Values
from validator.manifest.dims import Membership, parse_expression

__all__ = ["Buffer", "Launchable", "NotLaunchable", "Recipe", "Slot", "pack", "plan_launch"]

_POINTER = 8
_TABLE = 64
"""Entries of a pointer table."""
_LARGEST = 1 << 28
"""Bytes; a shape that asks for more is not tried."""

Part = Argument | ContractField


class Slot(Protocol):
    """Where one parameter lies in the parameter block, as the ELF says it."""

    @property
    def offset(self) -> int: ...
    @property
    def size(self) -> int: ...


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

    @property
    def produced(self) -> bool:
        """Another launch may still be writing it when the candidate starts; an undeclared argument may be such."""
        return self.role is None or (self.role.memory and not self.role.static)

    @property
    def written(self) -> bool:
        """The candidate writes it."""
        return self.role in (Role.OUTPUT, Role.STATE, Role.WORKSPACE)

    @property
    def size(self) -> int:
        """Bytes, a multiple of 16."""
        return len(self.values[0])

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


@dataclass(frozen=True, slots=True)
class NotLaunchable:
    reason: str

    def __str__(self) -> str:
        return f"not launchable: {self.reason}"


class _Missing(Exception):
    """The contract asks for something that cannot be made here."""


def plan_launch(
    contract: KernelContract,
    slots: Sequence[Slot],
    recipe: Recipe = Recipe(),
    block_size: tuple[int, int, int] | None = None,
) -> Launchable | NotLaunchable:
    """Buffers, values and parameter block for one launch.

    `slots` are the kernel's own parameter records in order, `block_size` is what it was compiled to require.
    """
    if len(slots) != len(contract.args):
        return NotLaunchable(f"the contract lists {len(contract.args)} arguments, the kernel has {len(slots)}")
    try:
        return _plan(contract, slots, recipe, block_size)
    except _Missing as missing:
        return NotLaunchable(str(missing))


def _plan(
    contract: KernelContract, slots: Sequence[Slot], recipe: Recipe, block_size: tuple[int, int, int] | None
) -> Launchable:
    dims = _dims(contract)
    block = bytearray(max((slot.offset + slot.size for slot in slots), default=0))
    pointers: list[tuple[int, str]] = []
    parts: dict[str, Part] = {}
    for arg, slot in zip(contract.args, slots, strict=True):
        end = slot.offset + slot.size
        block[slot.offset : end] = _by_value(arg, slot, recipe, dims)
        for offset, part in _memory(arg, slot):
            parts[part.name] = _bounded(part, contract, dims)
            pointers.append((slot.offset + offset, part.name))
    shared = {name: part.alias_of for name, part in parts.items() if part.alias_of in parts}
    buffers = [b for part in parts.values() if part.name not in shared for b in _buffers(part, recipe, dims)]
    if not any(b.written or b.role is None for b in buffers):
        raise _Missing("no argument is declared as written, so there is no result to compare")
    return Launchable(
        launch=_launch(contract, recipe, block_size, dims),
        buffers=tuple(buffers),
        block=bytes(block),
        offsets=tuple(slot.offset for slot in slots),
        pointers=tuple((offset, shared.get(name) or name) for offset, name in pointers),
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
        raise _Missing(
            f"no `production` shape is given and the sizes tried break {', '.join(f'`{b}`' for b in broken)}"
        )
    return dims


def _number(value: int | str, dims: Mapping[str, int]) -> int:
    try:
        return parse_expression(value).value(dims)
    except (ArithmeticError, KeyError, ValueError) as error:
        raise _Missing(f"`{value}` has no value: {error}") from error


def _memory(arg: Argument, slot: Slot) -> Iterator[tuple[int, Part]]:
    """Pointers inside one parameter: byte offset in the parameter and what it points to."""
    if arg.via == "tensormap":
        raise _Missing(f"argument {arg.name!r} is a tensor map, its geometry is not in the contract")
    if arg.role is Role.MAILBOX or any(field.role is Role.MAILBOX for field in arg.fields):
        raise _Missing(f"argument {arg.name!r} is a mailbox, how it is published is not in the contract")
    for field in arg.fields:
        if field.role.memory:
            if field.offset + _POINTER > slot.size:
                raise _Missing(f"field {field.name!r} at {field.offset} lies outside a parameter of {slot.size} bytes")
            yield field.offset, field
    if not arg.fields and not _is_number(arg, slot):
        if slot.size != _POINTER:
            raise _Missing(f"argument {arg.name!r} takes {slot.size} bytes and declares no `fields`")
        yield 0, arg


def _by_value(arg: Argument, slot: Slot, recipe: Recipe, dims: Mapping[str, int]) -> bytes:
    """Bytes of a parameter before its pointers are put in: a scalar, or a struct's small integers between pointers."""
    if arg.fields:
        raw = bytearray(struct.pack("<i", recipe.integer) * -(-slot.size // 4))[: slot.size]
        for field in arg.fields:
            if not field.role.memory:
                size = min(element_size(field), slot.size - field.offset)
                raw[field.offset : field.offset + size] = _scalar(field, size, recipe, dims)
        return bytes(raw)
    return _scalar(arg, slot.size, recipe, dims) if _is_number(arg, slot) else bytes(slot.size)


def _is_number(arg: Argument, slot: Slot) -> bool:
    """Undeclared arguments that are too small for an address are numbers."""
    return arg.role is Role.SCALAR or (arg.role is None and slot.size < _POINTER)


def _scalar(values: Part, size: int, recipe: Recipe, dims: Mapping[str, int]) -> bytes:
    kind = {2: "e", 4: "f", 8: "d"}.get(size)
    value: float | None = _number(values.value, dims) if isinstance(values.value, str) else values.value
    floating = values.dtype[0].startswith(("float", "bfloat")) if values.dtype else isinstance(value, float)
    if floating and kind:
        number = float(recipe.number if value is None else value)
        if values.dtype[:1] == ("bfloat16",):
            return struct.pack("<f", number)[2:]
        return struct.pack(f"<{kind}", number)
    if size not in (1, 2, 4, 8):
        raise _Missing(f"argument {values.name!r} takes {size} bytes and is no plain number")
    try:
        return int(recipe.integer if value is None else value).to_bytes(size, "little", signed=True)
    except OverflowError:
        raise _Missing(f"argument {values.name!r} is {value}, too large for {size} bytes") from None


def _buffers(part: Part, recipe: Recipe, dims: Mapping[str, int]) -> Iterator[Buffer]:
    """The argument's own memory and, behind a pointer table, what its entries point to."""
    # A name has the same values whatever the order of arguments.
    rng = np.random.default_rng([recipe.seed, zlib.crc32(part.name.encode())])
    size = recipe.size if part.shape is None else _bytes(part, dims)
    size += -size % 16
    if part.points_to is not None:
        step = recipe.size // _TABLE
        entries = np.arange(_TABLE, dtype="<u8") * np.uint64(step)
        offsets = (entries.tobytes(), np.roll(entries, 1).tobytes())
        yield Buffer(part.name, part.role, offsets, part.guarded_by, f"{part.name}[]")
        pointed = draw_pair(part.points_to, Values(), recipe.size, recipe.window, rng)
        yield Buffer(f"{part.name}[]", part.points_to, pointed, part.guarded_by)
        return
    values = draw_pair(part.role, part, size, recipe.window, rng)
    yield Buffer(part.name, part.role, values, part.guarded_by)


def _bounded(part: Part, contract: KernelContract, dims: Mapping[str, int]) -> Part:
    """Positions and lengths kept inside the axis they speak of."""
    text = part.domain.index or part.domain.lengths
    target, _, axis = (text or "").rpartition(".")
    shape = contract.values[target][1].shape if target in contract.values else None
    if not shape:
        return part
    high = _number(shape[int(axis)], dims) - (1 if part.domain.index else 0)
    return part.model_copy(update={"domain": part.domain.model_copy(update={"low": 0, "high": max(high, 0)})})


def _bytes(part: Part, dims: Mapping[str, int]) -> int:
    size = math.prod(_number(n, dims) for n in part.shape or ()) * element_size(part)
    if not 0 <= size <= _LARGEST:
        raise _Missing(f"argument {part.name!r} would take {size} bytes")
    return max(size, 1)


def _launch(
    contract: KernelContract, recipe: Recipe, block_size: tuple[int, int, int] | None, dims: Mapping[str, int]
) -> Launch:
    declared = contract.launch
    return Launch(
        grid=_three(declared.grid, dims) or recipe.grid,
        block=_three(declared.block, dims) or block_size or recipe.block,
        shared=recipe.shared if declared.shared is None else declared.shared,
        cluster=_three(declared.cluster, dims),
        pdl=bool(declared.pdl),
    )


def _three(sizes: Sequence[int | str] | None, dims: Mapping[str, int]) -> tuple[int, int, int] | None:
    if not sizes:
        return None
    if len(sizes) > 3:
        raise _Missing(f"a launch has three sizes, not {len(sizes)}")
    x, y, z = (*(_number(s, dims) for s in sizes), 1, 1)[:3]
    return x, y, z


def pack(launchable: Launchable, addresses: Mapping[str, int]) -> Parameters:
    """The parameter block with every pointer in its place."""
    block = bytearray(launchable.block)
    for offset, name in launchable.pointers:
        block[offset : offset + _POINTER] = addresses[name].to_bytes(_POINTER, "little")
    return Parameters(bytes(block), launchable.offsets)
