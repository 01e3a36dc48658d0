"""The parameter block of a launch: values in their places, and where pointers and tensor maps go.

Where a parameter lies comes from the compiled kernel, what it is from the contract. What the contract leaves open comes
from the caller: a recipe where only roles are declared, the call's own arguments where there is a call.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from validator.gpu.driver import Launch
from validator.gpu.tensormap import BYTES as MAP_BYTES
from validator.gpu.tensormap import Geometry, geometry
from validator.gpu.values import element_size, is_floating, scalar_bytes
from validator.manifest.contract import Argument, ContractField, KernelContract, Role
from validator.manifest.dims import parse_expression

__all__ = ["Frame", "Mapped", "Missing", "Part", "Slot", "Unsaid", "frame", "launch_of", "number", "three"]

POINTER = 8

Part = Argument | ContractField


class Missing(Exception):
    """The contract asks for something that cannot be made here."""


class Slot(Protocol):
    """Where one parameter lies in the parameter block, as the compiled kernel says it."""

    @property
    def offset(self) -> int: ...
    @property
    def size(self) -> int: ...


class Unsaid(Protocol):
    """What by-value parameters hold where the contract says nothing."""

    @property
    def integer(self) -> int: ...
    @property
    def number(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Mapped:
    """A tensor map in the block."""

    offset: int
    part: Argument
    geometry: Geometry


@dataclass(frozen=True, slots=True)
class Frame:
    """A parameter block with every pointer still zero."""

    block: bytes
    offsets: tuple[int, ...]
    """Of the parameters."""
    pointers: tuple[tuple[int, Part], ...]
    """Byte offset in the block → what is pointed to."""
    maps: tuple[Mapped, ...]


def frame(contract: KernelContract, slots: Sequence[Slot], unsaid: Unsaid, dims: Mapping[str, int]) -> Frame:
    """Raises `Missing` for what the contract does not say and nobody can guess."""
    if len(slots) != len(contract.args):
        raise Missing(f"the contract lists {len(contract.args)} arguments, the kernel has {len(slots)}")
    block = bytearray(max((slot.offset + slot.size for slot in slots), default=0))
    pointers: list[tuple[int, Part]] = []
    maps = []
    for arg, slot in zip(contract.args, slots, strict=True):
        if arg.via == "tensormap":
            maps.append(Mapped(slot.offset, arg, _geometry(arg, slot, dims)))
            continue
        block[slot.offset : slot.offset + slot.size] = _by_value(arg, slot, unsaid, dims)
        pointers += [(slot.offset + offset, part) for offset, part in _memory(arg, slot)]
    return Frame(bytes(block), tuple(slot.offset for slot in slots), tuple(pointers), tuple(maps))


def number(value: int | str, dims: Mapping[str, int]) -> int:
    """An expression's value. Raises `Missing`."""
    try:
        return parse_expression(value).value(dims)
    except (ArithmeticError, KeyError, ValueError) as error:
        raise Missing(f"`{value}` has no value: {error}") from error


def _geometry(arg: Argument, slot: Slot, dims: Mapping[str, int]) -> Geometry:
    if slot.size != MAP_BYTES:
        raise Missing(f"argument {arg.name!r} takes {slot.size} bytes, a tensor map has {MAP_BYTES}")
    if arg.shape is None or not arg.dtype or arg.box is None:
        raise Missing(f"argument {arg.name!r} is a tensor map and declares no `shape`, `dtype` and `box`")
    try:
        return geometry(arg.dtype[0], [number(n, dims) for n in arg.shape], arg.box, arg.swizzle)
    except ValueError as error:
        raise Missing(f"argument {arg.name!r}: {error}") from None


def _memory(arg: Argument, slot: Slot) -> Iterator[tuple[int, Part]]:
    """Pointers inside one parameter: byte offset in the parameter and what it points to."""
    for field in arg.fields:
        if field.role.memory:
            if field.offset + POINTER > slot.size:
                raise Missing(f"field {field.name!r} at {field.offset} lies outside a parameter of {slot.size} bytes")
            yield field.offset, field
    if not arg.fields and not _is_number(arg, slot):
        if slot.size != POINTER:
            raise Missing(f"argument {arg.name!r} takes {slot.size} bytes and declares no `fields`")
        yield 0, arg


def _by_value(arg: Argument, slot: Slot, unsaid: Unsaid, dims: Mapping[str, int]) -> bytes:
    """Bytes of a parameter before its pointers are put in: a scalar, or a struct's small integers between pointers."""
    if arg.fields:
        raw = bytearray(struct.pack("<i", unsaid.integer) * -(-slot.size // 4))[: slot.size]
        for field in arg.fields:
            if not field.role.memory:
                size = min(element_size(field), slot.size - field.offset)
                raw[field.offset : field.offset + size] = _scalar(field, size, unsaid, dims)
        return bytes(raw)
    return _scalar(arg, slot.size, unsaid, dims) if _is_number(arg, slot) else bytes(slot.size)


def _is_number(arg: Argument, slot: Slot) -> bool:
    """Undeclared arguments that are too small for an address are numbers."""
    return arg.role is Role.SCALAR or (arg.role is None and slot.size < POINTER)


def _scalar(values: Part, size: int, unsaid: Unsaid, dims: Mapping[str, int]) -> bytes:
    value: float | None = number(values.value, dims) if isinstance(values.value, str) else values.value
    dtype = values.dtype[0] if values.dtype else None
    if value is None:
        value = unsaid.number if is_floating(dtype) else unsaid.integer
    try:
        return scalar_bytes(value, dtype, size)
    except ValueError as error:
        raise Missing(f"argument {values.name!r} {error}") from None


def launch_of(
    contract: KernelContract,
    dims: Mapping[str, int],
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared: int,
) -> Launch:
    """As the contract says; the given sizes where it says nothing."""
    declared = contract.launch
    return Launch(
        grid=three(declared.grid, dims) or grid,
        block=three(declared.block, dims) or block,
        shared=shared if declared.shared is None else declared.shared,
        cluster=three(declared.cluster, dims),
        pdl=bool(declared.pdl),
    )


def three(sizes: Sequence[int | str] | None, dims: Mapping[str, int]) -> tuple[int, int, int] | None:
    """Up to three sizes; None where nothing is declared."""
    if not sizes:
        return None
    if len(sizes) > 3:
        raise Missing(f"a launch has three sizes, not {len(sizes)}")
    x, y, z = (*(number(s, dims) for s in sizes), 1, 1)[:3]
    return x, y, z
