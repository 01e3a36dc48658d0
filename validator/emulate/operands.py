"""Operands as functions: how an instruction gets its inputs and where its results go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from validator.emulate.lanes import Array, Lanes
from validator.emulate.layout import Layout
from validator.emulate.program import (
    Address,
    Immediate,
    Instruction,
    Param,
    ParamAddress,
    Register,
    Source,
    SpecialRegister,
    Symbol,
    Unsupported,
    Vector,
    float_bits,
)

if TYPE_CHECKING:
    from validator.emulate.machine import Machine

__all__ = ["DTYPES", "Context", "NotTranslated", "Put", "Read", "Step", "address_of", "flat", "put_to", "reader"]

Read = Callable[["Machine", Lanes], Array]
"""Raw bits, one element a thread, or one that broadcasts."""
Put = Callable[["Machine", Lanes, Array], None]
Step = Callable[["Machine", Lanes], None]

DTYPES = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64, 128: np.uint64}
_SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


class NotTranslated(Exception):
    """An instruction that cannot be executed here; says what about it."""


@dataclass(frozen=True, slots=True)
class Context:
    """What translation knows besides the instruction."""

    layout: Layout
    hoisted: frozenset[int]
    """Loads that the machine code executes before the wait, as program indices."""


def flat(sources: tuple[Source, ...]) -> Iterator[Source | None]:
    """Operands with vectors spread out; None for a sink."""
    for source in sources:
        if isinstance(source, Vector):
            yield from source.parts
        else:
            yield source


def _constant(value: int, bits: int) -> Array:
    if bits == 128:
        low, high = value & 0xFFFFFFFFFFFFFFFF, value >> 64 & 0xFFFFFFFFFFFFFFFF
        return np.array([[low, high]], np.uint64)
    return np.array([value & ((1 << bits) - 1)], np.uint64).astype(DTYPES[bits])


def reader(context: Context, source: Source | None, bits: int, kind: str = "") -> Read:
    """The operand's low `bits` bits. `kind` is the type that a decimal literal is written in."""
    if isinstance(source, Register):
        return _register(source, bits)
    if isinstance(source, Immediate):
        value = source.value if source.number is None else float_bits(source.number, kind)
        fixed = _constant(value, bits)
        return lambda m, lanes: fixed
    if isinstance(source, SpecialRegister):
        name, dtype = source.name, DTYPES[bits]
        return lambda m, lanes: m.special(name)[lanes.index].astype(dtype)
    if isinstance(source, Symbol):
        found = context.layout.address(source.space, source.name)
        if found is None:
            raise NotTranslated(f"address of {source.name!r}")
        fixed = _constant(found + source.offset, bits)
        return lambda m, lanes: fixed
    if isinstance(source, Param):
        offset, size, dtype = source.offset, source.size, DTYPES[bits]
        if size == 16:
            raise NotTranslated("a 128-bit parameter")
        return lambda m, lanes: m.parameter(offset, size).astype(dtype)
    if isinstance(source, ParamAddress):
        fixed = _constant(source.offset, bits)
        return lambda m, lanes: fixed
    raise NotTranslated(_refusal(source) or f"operand {getattr(source, 'text', source)}")


def _refusal(source: Source | None) -> str:
    """What is wrong with an operand; empty where nothing is known to be."""
    return source.why if isinstance(source, Unsupported) else ""


def _register(source: Register, bits: int) -> Read:
    row = source.row
    if bits == 128 != source.bits or (bits == 1) != (source.bits == 1):
        raise NotTranslated(f"{bits} bits of a register of {source.bits}")
    if source.negated:
        return lambda m, lanes: ~m.rows[row][lanes.index]
    if bits == source.bits:
        return lambda m, lanes: m.rows[row][lanes.index]
    dtype = DTYPES[bits]
    if source.bits == 128:
        return lambda m, lanes: m.rows[row][lanes.index, 0].astype(dtype)
    return lambda m, lanes: m.rows[row][lanes.index].astype(dtype)


def put_to(target: Source | None, bits: int, signed: bool = False) -> Put | None:
    """Writes a result of `bits` bits; None for a sink."""
    if target is None or (isinstance(target, Vector) and target.parts == (None,)):
        return None
    if not isinstance(target, Register):
        raise NotTranslated(_refusal(target) or "a destination that is no register")
    row = target.row
    if target.bits > bits and signed and bits in _SIGNED and target.bits in _SIGNED:
        narrow, wide, raw = _SIGNED[bits], _SIGNED[target.bits], DTYPES[target.bits]

        def extend(m: Machine, lanes: Lanes, value: Array) -> None:
            m.rows[row][lanes.index] = value.view(narrow).astype(wide).view(raw)

        return extend
    if (target.bits == 128) != (bits == 128) or (target.bits == 1) != (bits == 1):
        raise NotTranslated(f"a result of {bits} bits in a register of {target.bits}")

    def put(m: Machine, lanes: Lanes, value: Array) -> None:
        m.rows[row][lanes.index] = value

    return put


def address_of(context: Context, source: Source) -> Read:
    """A bracketed operand as uint64, one element a thread."""
    if not isinstance(source, Address):
        raise NotTranslated("an operand that is no address")
    base = source.base
    wide = isinstance(base, Register) and base.bits == 64
    read = reader(context, base, 64 if wide or not isinstance(base, Register) else 32)
    narrow = isinstance(base, Register) and not wide
    # A 32-bit address wraps around at 32 bits: compilers subtract first and add the offset last.
    offset = np.uint32(source.offset & 0xFFFFFFFF) if narrow else np.uint64(source.offset & 0xFFFFFFFFFFFFFFFF)

    def address(m: Machine, lanes: Lanes) -> Array:
        value = read(m, lanes)
        if offset:
            value = value + offset
        if value.dtype != np.uint64:
            value = value.astype(np.uint64)
        return np.broadcast_to(value, (lanes.count,)) if len(value) != lanes.count else value

    return address


def position_of_address(instruction: Instruction) -> int:
    """Index of the first bracketed operand."""
    for number, operand in enumerate(instruction.operands):
        if isinstance(operand, Address):
            return number
    raise NotTranslated("no address operand")
