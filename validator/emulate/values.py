"""Instructions that compute values: their semantics are `isa`'s, here they meet the register file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from validator.emulate.isa import Op, RegType, lookup
from validator.emulate.lanes import Array, Lanes
from validator.emulate.layout import WINDOWS
from validator.emulate.operands import DTYPES, Context, NotTranslated, Put, Read, Step, flat, put_to, reader
from validator.emulate.program import Instruction, Register, Source, Vector
from validator.ordering.ptx.lexical import SPACES, TYPE_BITS

if TYPE_CHECKING:
    from validator.emulate.machine import Machine

_ANY_SIZE = ("cvt",)
"""Bases whose registers may be wider than the type."""

__all__ = ["compute", "convert_address", "load_parameter", "move", "space_test"]


def compute(instruction: Instruction, context: Context) -> Step:
    """Any instruction that `isa` knows."""
    op = lookup(instruction.base, instruction.mods)
    if op is None:
        raise NotTranslated("no semantics for this form")
    sources = tuple(flat(instruction.operands[instruction.writes :]))
    if len(sources) == 3 and instruction.base in ("min", "max") and instruction.type == "f32":
        op = _of_three(op)
    wanted = op.inputs[:-1] if op.carry_in else op.inputs
    if len(sources) != len(wanted):
        raise NotTranslated(f"{len(sources)} source operands, {len(wanted)} are known")
    if instruction.base not in _ANY_SIZE:
        _check_sizes(sources, wanted)
        _check_sizes(tuple(flat(instruction.operands[: instruction.writes])), op.outputs)
    reads = [reader(context, source, reg.bits, instruction.type) for source, reg in zip(sources, wanted, strict=True)]
    if op.carry_in:
        reads.append(lambda m, lanes: m.carry[lanes.index])
    targets = tuple(flat(instruction.operands[: instruction.writes]))
    return _step(op, reads, _puts(op, targets))


def _check_sizes(operands: Sequence[Source | None], wanted: Sequence[RegType]) -> None:
    """Registers are as wide as the instruction's type (PTX ISA, "Operand Size Exceeding Instruction-Type Size")."""
    for operand, reg in zip(operands, wanted, strict=False):
        if isinstance(operand, Register) and operand.bits != reg.bits:
            raise NotTranslated(f"a register of {operand.bits} bits where the type has {reg.bits}")


def _of_three(op: Op) -> Op:
    """min and max of three numbers (sm_100): of the first two, and of that and the third."""
    run = op.run
    return replace(op, inputs=(*op.inputs, op.inputs[0]), run=lambda a, b, c: run(run(a, b)[0], c))


def _puts(op: Op, targets: tuple[Source | None, ...]) -> list[Put | None]:
    outputs = op.outputs[:-1] if op.carry_out else op.outputs
    puts = [put_to(target, reg.bits, op.signed) for target, reg in zip(targets, outputs, strict=False)]
    if op.carry_out:
        puts += [None] * (len(outputs) - len(puts))
        puts.append(_put_carry)
    return puts


def _put_carry(m: Machine, lanes: Lanes, value: Array) -> None:
    m.carry[lanes.index] = value


def _step(op: Op, reads: list[Read], puts: list[Put | None]) -> Step:
    """One closure for each common shape: this is where most of the time goes."""
    run = op.run
    if len(puts) == 1 and puts[0] is not None:
        put = puts[0]
        if len(reads) == 1:
            (a,) = reads
            return lambda m, lanes: put(m, lanes, run(a(m, lanes))[0])
        if len(reads) == 2:
            a, b = reads
            return lambda m, lanes: put(m, lanes, run(a(m, lanes), b(m, lanes))[0])
        if len(reads) == 3:
            a, b, c = reads
            return lambda m, lanes: put(m, lanes, run(a(m, lanes), b(m, lanes), c(m, lanes))[0])

    def step(m: Machine, lanes: Lanes) -> None:
        results = run(*(read(m, lanes) for read in reads))
        for put, value in zip(puts, results, strict=False):
            if put is not None:
                put(m, lanes, value)

    return step


def move(instruction: Instruction, context: Context) -> Step:
    """mov, with packing and unpacking of vectors."""
    target, source = instruction.operands
    bits = instruction.bits
    if isinstance(source, Vector):
        return _pack(target, source, bits, context)
    if isinstance(target, Vector):
        return _unpack(target, source, bits, context)
    read, put = reader(context, source, bits, instruction.type), put_to(target, bits)
    if put is None:
        return lambda m, lanes: None
    return lambda m, lanes: put(m, lanes, read(m, lanes))


def _pack(target: Source, source: Vector, bits: int, context: Context) -> Step:
    part = bits // len(source.parts)
    reads = [reader(context, p, part) for p in source.parts]
    put = put_to(target, bits)
    if put is None:
        return lambda m, lanes: None
    dtype = DTYPES[bits]

    def step(m: Machine, lanes: Lanes) -> None:
        if bits == 128:
            halves = [np.broadcast_to(r(m, lanes), (lanes.count,)) for r in reads]
            put(m, lanes, np.stack([halves[0], halves[-1]], axis=1))
            return
        value: Array = reads[0](m, lanes).astype(dtype)
        for number, read in enumerate(reads[1:], 1):
            value = value | (read(m, lanes).astype(dtype) << dtype(number * part))
        put(m, lanes, value)

    return step


def _unpack(target: Vector, source: Source, bits: int, context: Context) -> Step:
    part = bits // len(target.parts)
    read = reader(context, source, bits)
    puts = [None if p is None else put_to(p, part) for p in target.parts]
    dtype = DTYPES[min(bits, 64)]
    narrow = DTYPES[part]

    def step(m: Machine, lanes: Lanes) -> None:
        value = read(m, lanes)
        for number, put in enumerate(puts):
            if put is None:
                continue
            piece = value[..., number] if bits == 128 else (value >> dtype(number * part)).astype(narrow)
            put(m, lanes, piece)

    return step


def load_parameter(instruction: Instruction, context: Context) -> Step:
    """ld.param by name: from the parameter block, or from where an argument was passed."""
    targets = tuple(flat(instruction.operands[:1]))
    sources = instruction.operands[1:]
    bits = max(instruction.bits, 8)
    signed = instruction.type.startswith("s")
    pairs = [(reader(context, s, bits), put_to(t, bits, signed)) for t, s in zip(targets, sources, strict=True)]

    def step(m: Machine, lanes: Lanes) -> None:
        for read, put in pairs:
            if put is not None:
                put(m, lanes, read(m, lanes))

    return step


def convert_address(instruction: Instruction, context: Context) -> Step:
    """cvta: a state space's window added, or with `.to` taken away."""
    space = next((SPACES[w] for w in instruction.mods if w in SPACES), None)
    if space is None:
        raise NotTranslated("no state space")
    bits = TYPE_BITS[instruction.type]
    window = np.uint64(WINDOWS.get(space, 0))
    read, put = reader(context, instruction.operands[1], 64), put_to(instruction.operands[0], bits)
    back = "to" in instruction.mods
    dtype = DTYPES[bits]

    def step(m: Machine, lanes: Lanes) -> None:
        value = read(m, lanes)
        moved = value - window if back else value + window
        if put is not None:
            put(m, lanes, moved.astype(dtype))

    return step


def space_test(instruction: Instruction, context: Context) -> Step:
    """isspacep"""
    space = next((SPACES[w] for w in instruction.mods if w in SPACES), None)
    read, put = reader(context, instruction.operands[1], 64), put_to(instruction.operands[0], 1)
    windows = {v >> 36 for v in WINDOWS.values()}
    window = None if space is None else WINDOWS.get(space)

    def step(m: Machine, lanes: Lanes) -> None:
        top = read(m, lanes) >> np.uint64(36)
        inside = ~np.isin(top, list(windows)) if window is None else top == np.uint64(window >> 36)
        if put is not None:
            put(m, lanes, inside)

    return step
