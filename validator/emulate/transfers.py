"""Loads, stores, atomics, prefetches and matrix loads as steps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from validator.emulate.access import load, store
from validator.emulate.atomics import Combine, atomic, compare_and_swap
from validator.emulate.isa import lookup, matrix_copy
from validator.emulate.lanes import Array, Lanes
from validator.emulate.locate import locate
from validator.emulate.memory import Touch
from validator.emulate.operands import (
    Context,
    NotTranslated,
    Read,
    Step,
    address_of,
    flat,
    position_of_address,
    put_to,
    reader,
)
from validator.emulate.program import Instruction, Source
from validator.ordering.program import Space
from validator.ordering.ptx.lexical import SPACES

if TYPE_CHECKING:
    from validator.emulate.machine import Machine

__all__ = ["atomic_step", "load_step", "matrix_load", "matrix_store", "nothing", "store_step", "touch_of"]

_ORDERS = ("relaxed", "acquire", "release", "acq_rel", "sc", "volatile")
_SCOPES = ("cta", "cluster", "gpu", "sys")


def touch_of(instruction: Instruction, context: Context, **changes: object) -> Touch:
    """The access that a ld, st, atom or red is."""
    words = instruction.mods
    order = next((w for w in words if w in _ORDERS), "volatile" if "cv" in words or "wt" in words else "weak")
    count = next((int(w[1:]) for w in words if w in ("v2", "v4", "v8")), 1)
    found: dict[str, object] = {
        "index": instruction.index,
        "space": next((SPACES[w] for w in words if w in SPACES), Space.GENERIC),
        "width": max(instruction.bits // 8, 1),
        "count": count,
        "order": order,
        "scope": next((w for w in words if w in _SCOPES), "sys"),
        "noncoherent": "nc" in words,
        "hoisted": instruction.index in context.hoisted,
    }
    return Touch(**(found | changes))  # type: ignore[arg-type]


def load_step(instruction: Instruction, context: Context) -> Step:
    touch = touch_of(instruction, context)
    bits, signed = touch.width * 8, instruction.type.startswith("s")
    at = position_of_address(instruction)
    address = address_of(context, instruction.operands[at])
    targets = tuple(flat(instruction.operands[:at]))
    if len(targets) != touch.count:
        raise NotTranslated(f"{len(targets)} destinations for {touch.count} elements")
    puts = [put_to(t, bits, signed) for t in targets]

    def step(m: Machine, lanes: Lanes) -> None:
        for put, value in zip(puts, load(m, lanes, address(m, lanes), touch), strict=True):
            if put is not None:
                put(m, lanes, value)

    return step


def store_step(instruction: Instruction, context: Context) -> Step:
    touch = touch_of(instruction, context, reads=False, writes=True)
    if touch.space is Space.PARAM:
        raise NotTranslated("a store to parameter space by address")
    at = position_of_address(instruction)
    address = address_of(context, instruction.operands[at])
    sources = tuple(flat(instruction.operands[at + 1 : at + 2]))
    if len(sources) != touch.count:
        raise NotTranslated(f"{len(sources)} values for {touch.count} elements")
    reads = [reader(context, s, touch.width * 8, instruction.type) for s in sources]

    def step(m: Machine, lanes: Lanes) -> None:
        store(m, lanes, address(m, lanes), touch, [read(m, lanes) for read in reads])

    return step


# --- atomics --------------------------------------------------------------------------------------------------------


def combination(name: str, kind: str) -> Combine:
    """What `atom.NAME.KIND` makes of the value that is there. Raises `NotTranslated`."""
    if name in ("and", "or", "xor"):
        plain = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[name]
        return lambda old, operands: plain(old, operands[0])
    if name == "exch":
        return lambda old, operands: operands[0]
    if name == "cas":
        return compare_and_swap
    if name == "inc":
        return lambda old, operands: np.where(old >= operands[0], old * 0, old + old.dtype.type(1))
    if name == "dec":
        return lambda old, operands: np.where((old == 0) | (old > operands[0]), operands[0], old - old.dtype.type(1))
    if name in ("add", "min", "max"):
        forms = ((kind,), ("rn", kind), ("rn", "noftz", kind)) if name == "add" else ((kind,),)
        for form in forms:
            op = lookup(name, form)
            if op is not None:
                run = op.run
                return lambda old, operands: run(old, operands[0])[0]
    raise NotTranslated(f"atomic {name} of {kind}")


def atomic_step(instruction: Instruction, context: Context) -> Step:
    """atom and red."""
    words = instruction.mods
    whole = touch_of(instruction, context, writes=True)
    if whole.order == "weak":
        whole = replace(whole, order="relaxed", scope=whole.scope if any(w in _SCOPES for w in words) else "gpu")
    touch = replace(whole, count=1)
    name = next((w for w in words if w in ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")), "")
    combine = combination(name, instruction.type)
    at = position_of_address(instruction)
    address = address_of(context, instruction.operands[at])
    count = 2 if name == "cas" else 1
    reads = [reader(context, s, touch.width * 8) for s in flat(instruction.operands[at + 1 : at + 1 + count])]
    if whole.count > 1:
        return _vector_atomic(whole, address, reads, tuple(flat(instruction.operands[:at])), combine)
    if len(reads) != count:
        raise NotTranslated(f"{len(reads)} values, {count} are needed")
    put = put_to(instruction.operands[0], touch.width * 8) if at else None

    def step(m: Machine, lanes: Lanes) -> None:
        found = atomic(m, lanes, address(m, lanes), touch, [read(m, lanes) for read in reads], combine)
        if put is not None:
            put(m, lanes, found)

    return step


def _vector_atomic(
    whole: Touch, address: Read, reads: list[Read], targets: tuple[Source | None, ...], combine: Combine
) -> Step:
    """Each element is an atomic of its own; the address is aligned to all of them."""
    if len(reads) != whole.count or len(targets) not in (0, whole.count):
        raise NotTranslated(f"{len(reads)} values for {whole.count} elements")
    touch = replace(whole, count=1)
    puts = [put_to(t, touch.width * 8) for t in targets] or [None] * whole.count

    def step(m: Machine, lanes: Lanes) -> None:
        addresses, values = address(m, lanes), [read(m, lanes) for read in reads]
        there = [piece.threads for piece in locate(m, lanes, addresses, whole)]
        inside = lanes.where(np.isin(lanes.threads, np.concatenate(there))) if there else None
        if inside is None:
            return
        at = np.isin(lanes.threads, inside.threads)
        for number, (value, put) in enumerate(zip(values, puts, strict=True)):
            mine = np.broadcast_to(value, (lanes.count,))[at]
            found = atomic(m, inside, addresses[at] + np.uint64(number * touch.width), touch, [mine], combine)
            if put is not None:
                put(m, inside, found)

    return step


# --- matrices -------------------------------------------------------------------------------------------------------


def _warps_of(m: Machine, lanes: Lanes) -> Array:
    """Warps of the set, all of whose lanes are taken to be there."""
    return np.unique(lanes.threads >> 5)


def matrix_load(instruction: Instruction, context: Context) -> Step:
    """ldmatrix: each register is gathered from the rows that other lanes point to."""
    copy = matrix_copy(instruction.base, instruction.mods)
    if copy is None:
        raise NotTranslated("no semantics for this form")
    at = position_of_address(instruction)
    address = address_of(context, instruction.operands[at])
    puts = [put_to(t, 32) for t in flat(instruction.operands[:at])]
    touch = Touch(instruction.index, Space.SHARED, copy.piece_bytes)

    def step(m: Machine, lanes: Lanes) -> None:
        warps = _warps_of(m, lanes)
        whole = Lanes((warps[:, None] * 32 + np.arange(32)).ravel())
        pieces = copy.pieces(address(m, whole).reshape(-1, 32))
        for number, put in enumerate(puts):
            value = np.zeros(whole.count, np.uint32)
            for part in range(pieces.shape[1]):
                (found,) = load(m, whole, pieces[number, part].ravel(), touch)
                value |= found.astype(np.uint32) << np.uint32(part * copy.piece_bytes * 8)
            if put is not None:
                put(m, whole, value)

    return step


def matrix_store(instruction: Instruction, context: Context) -> Step:
    """stmatrix"""
    copy = matrix_copy(instruction.base, instruction.mods)
    if copy is None:
        raise NotTranslated("no semantics for this form")
    at = position_of_address(instruction)
    address = address_of(context, instruction.operands[at])
    reads = [reader(context, s, 32) for s in flat(instruction.operands[at + 1 :])]
    touch = Touch(instruction.index, Space.SHARED, copy.piece_bytes, reads=False, writes=True)
    dtype = np.uint16 if copy.piece_bytes == 2 else np.uint32

    def step(m: Machine, lanes: Lanes) -> None:
        warps = _warps_of(m, lanes)
        whole = Lanes((warps[:, None] * 32 + np.arange(32)).ravel())
        pieces = copy.pieces(address(m, whole).reshape(-1, 32))
        for number, read in enumerate(reads):
            value = read(m, whole)
            for part in range(pieces.shape[1]):
                piece = (value >> np.uint32(part * copy.piece_bytes * 8)).astype(dtype)
                store(m, whole, pieces[number, part].ravel(), touch, [piece])

    return step


def nothing(instruction: Instruction, context: Context) -> Step:
    """A hint: it changes no value."""
    return lambda m, lanes: None
