"""Barriers, mbarriers, fences, grid dependencies and groups of asynchronous copies as steps and gates.

A gate stands before a segment: it keeps the threads that have to wait and lets the others through.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from validator.emulate.access import load
from validator.emulate.barriers import Arrival
from validator.emulate.lanes import Array, Lanes
from validator.emulate.locate import locate
from validator.emulate.mbarrier import Arriving, Testing
from validator.emulate.memory import Touch
from validator.emulate.operands import (
    Context,
    NotTranslated,
    Read,
    Step,
    address_of,
    position_of_address,
    put_to,
    reader,
)
from validator.emulate.program import Immediate, Instruction, Register, Source, Unsupported
from validator.ordering.program import Space
from validator.ordering.ptx.lexical import SPACES

if TYPE_CHECKING:
    from validator.emulate.machine import Machine

__all__ = ["Gate", "barrier_gate", "cluster_step", "copy_async", "fence_step", "grid_step", "mbarrier_step"]

Gate = Callable[["Machine", Lanes, int], "Lanes | None"]
"""(machine, threads, segment's key) → threads that go on now."""

_WIDE = ("gpu", "sys", "cluster", "gl")
BARRIERS = 16
"""Of one CTA (PTX ISA, bar)."""


def _operands(instruction: Instruction) -> list[object]:
    return [o for o in instruction.operands if not (isinstance(o, Unsupported) and not o.text)]


# --- CTA and cluster barriers ---------------------------------------------------------------------------------------


def barrier_gate(instruction: Instruction, context: Context) -> Gate:
    """bar.{sync,arrive,red}, barrier.*, barrier.cluster.wait."""
    words = instruction.words
    index = instruction.index
    if "cluster" in words:
        return lambda m, lanes, key: m.barriers.cluster_wait(m, lanes, key | 1, index)
    operands = list(_operands(instruction))
    reduces = "red" in words
    target = operands.pop(0) if reduces else None
    predicate = operands.pop() if reduces else None
    numbers = reader(context, operands[0], 32)  # type: ignore[arg-type]
    counts = reader(context, operands[1], 32) if len(operands) > 1 else None  # type: ignore[arg-type]
    waits, aligned = "arrive" not in words, words[0] == "bar" or "aligned" in words
    reduce = _reduction(instruction, target) if reduces else None
    values = reader(context, predicate, 1) if reduces else None  # type: ignore[arg-type]

    def gate(m: Machine, lanes: Lanes, key: int) -> Lanes | None:
        number, count = numbers(m, lanes), None if counts is None else counts(m, lanes)
        wrong = _not_possible(number, count)
        if wrong:
            raise m.unexecutable(f"{'.'.join(words)}: {wrong}", index)
        arrival = Arrival(
            index, key | 1, lanes.threads, waits, aligned, reduce, None if values is None else values(m, lanes)
        )
        return m.barriers.meet(m, lanes, number, count, arrival)

    return gate


def _not_possible(number: Array, count: Array | None) -> str:
    """Why no barrier has this number, or waits for this many threads; empty where one may."""
    if int(number.max()) >= BARRIERS:
        return f"barrier {int(number.max())} of 0 to {BARRIERS - 1}"
    if count is not None and (count % 32).any():
        return f"{int(count[count % 32 != 0][0])} threads are no whole warps"
    return ""


def _reduction(instruction: Instruction, target: object) -> Callable[[Machine, Array, Array], None]:
    """bar.red: writes what all participants' predicates come to."""
    words = instruction.words
    put = put_to(target, 32 if "popc" in words else 1)  # type: ignore[arg-type]

    def reduce(m: Machine, threads: Array, values: Array) -> None:
        if "popc" in words:
            result = np.array([np.count_nonzero(values)], np.uint32)
        else:
            result = np.array([values.all() if "and" in words else values.any()])
        if put is not None:
            put(m, Lanes(np.sort(threads)), result)

    return reduce


def cluster_step(instruction: Instruction, context: Context) -> Step:
    """barrier.cluster.arrive"""
    relaxed = "relaxed" in instruction.words
    return lambda m, lanes: m.barriers.cluster_arrive(m, lanes, relaxed)


# --- fences and grids -----------------------------------------------------------------------------------------------


def fence_step(instruction: Instruction, context: Context) -> Step:
    """fence.*, membar.*"""
    words = instruction.mods
    if "alias" in words:
        return lambda m, lanes: None
    if "proxy" in words and not any(w.startswith("tensormap") for w in words):
        named = {SPACES[w] for w in words if w in SPACES}
        shared, elsewhere = named != {Space.GLOBAL}, not named or Space.GLOBAL in named
        return lambda m, lanes: m.order.proxy_fence(lanes.threads, shared, elsewhere)
    if "mbarrier_init" in words:
        return lambda m, lanes: m.mbarriers.announce(lanes.threads)
    wide = any(w in _WIDE for w in words) or (instruction.base == "fence" and "cta" not in words)
    in_turn = instruction.base == "membar" or "sc" in words
    return lambda m, lanes: m.published.fence(m, lanes.threads, wide, in_turn)


def grid_step(instruction: Instruction, context: Context) -> Step:
    """griddepcontrol.wait and .launch_dependents"""
    if "wait" in instruction.mods:

        def wait(m: Machine, lanes: Lanes) -> None:
            m.waited = True
            m.seen[lanes.index] |= np.uint64(1)

        return wait

    def trigger(m: Machine, lanes: Lanes) -> None:
        m.triggered[lanes.index] = True

    return trigger


# --- mbarrier -------------------------------------------------------------------------------------------------------


def mbarrier_step(instruction: Instruction, context: Context) -> Step:
    """mbarrier.*"""
    what = instruction.words[1]
    at = position_of_address(instruction)
    address = address_of(context, instruction.operands[at])
    space = next((SPACES[w] for w in instruction.mods if w in SPACES), Space.GENERIC)
    touch = Touch(instruction.index, space, 8, reads=what.startswith("t"), writes=True)
    rest = list(instruction.operands[at + 1 :])
    first = instruction.operands[0] if at else None
    if what in ("test_wait", "try_wait"):
        parity = "parity" in instruction.mods
        wanted = reader(context, rest[0], 32 if parity else 64)
        put = put_to(first, 1)
        how = Testing("relaxed" not in instruction.mods, "cluster" in instruction.mods)

        def test(m: Machine, lanes: Lanes) -> None:
            done = np.zeros(lanes.count, bool)
            want = wanted(m, lanes)
            for piece in locate(m, lanes, address(m, lanes), touch):
                positions = slice(None) if piece.positions is None else piece.positions
                done[positions] = m.mbarriers.test(
                    m, piece, want if len(want) == 1 else want[positions], parity, how, touch.index
                )
            if put is not None:
                put(m, lanes, done)

        return test
    count = reader(context, rest[0], 32) if rest else None
    one = np.ones(1, np.int64)

    def amount(m: Machine, lanes: Lanes, positions: Array | None) -> Array:
        if count is None:
            return one
        values = count(m, lanes).astype(np.int64)
        return values if positions is None or len(values) == 1 else values[positions]

    def init(m: Machine, lanes: Lanes) -> None:
        for piece in locate(m, lanes, address(m, lanes), touch):
            m.mbarriers.init(m, piece, amount(m, lanes, piece.positions), touch.index)

    def invalidate(m: Machine, lanes: Lanes) -> None:
        for piece in locate(m, lanes, address(m, lanes), touch):
            m.mbarriers.invalidate(piece)

    def expect(m: Machine, lanes: Lanes) -> None:
        for piece in locate(m, lanes, address(m, lanes), touch):
            m.mbarriers.expect(m, piece, amount(m, lanes, piece.positions))

    def complete(m: Machine, lanes: Lanes) -> None:
        for piece in locate(m, lanes, address(m, lanes), touch):
            sizes = np.broadcast_to(amount(m, lanes, piece.positions), piece.offsets.shape)
            for offset, size in zip(piece.offsets.tolist(), sizes.tolist(), strict=True):
                m.mbarriers.complete(m, offset, size)

    simple = {"init": init, "inval": invalidate, "expect_tx": expect, "complete_tx": complete}
    if what in simple:
        return simple[what]
    if what not in ("arrive", "arrive_drop"):
        raise NotTranslated(f"mbarrier.{what}")
    expects = "expect_tx" in instruction.mods
    how_it_arrives = Arriving("relaxed" not in instruction.mods, "cluster" in instruction.mods, what == "arrive_drop")
    put = put_to(first, 64)

    def arrive(m: Machine, lanes: Lanes) -> None:
        state = np.zeros(lanes.count, np.uint64)
        for piece in locate(m, lanes, address(m, lanes), touch):
            value = amount(m, lanes, piece.positions)
            positions = slice(None) if piece.positions is None else piece.positions
            state[positions] = m.mbarriers.arrive(
                m, piece, one if expects else value, value if expects else None, how_it_arrives, touch.index
            )
        if put is not None:
            put(m, lanes, state)

    return arrive


# --- cp.async -------------------------------------------------------------------------------------------------------


def copy_async(instruction: Instruction, context: Context) -> Step:
    """cp.async and its groups; bulk copies are `bulk`'s."""
    words = instruction.words
    if "commit_group" in words:
        return lambda m, lanes: m.copies.commit(m, lanes.threads)
    if "wait_all" in words:
        return lambda m, lanes: m.copies.wait(m, lanes.threads, None)
    if "wait_group" in words:
        pending = instruction.operands[0]
        if not isinstance(pending, Immediate):
            raise NotTranslated("a wait_group whose number is no constant")
        number = pending.value
        return lambda m, lanes: m.copies.wait(m, lanes.threads, number)
    if "mbarrier" in words:
        return _arrive_step(instruction, context)
    return _copy_step(instruction, context)


def _arrive_step(instruction: Instruction, context: Context) -> Step:
    address = address_of(context, instruction.operands[position_of_address(instruction)])
    space = next((SPACES[w] for w in instruction.mods if w in SPACES), Space.GENERIC)
    touch = Touch(instruction.index, space, 8, writes=True)
    noinc = "noinc" in instruction.words

    def arrive(m: Machine, lanes: Lanes) -> None:
        for piece in locate(m, lanes, address(m, lanes), touch):
            m.copies.arrive_later(m, piece, noinc)

    return arrive


def _sizes(instruction: Instruction, limit: Source | None, size: int, context: Context) -> Read:
    """How many bytes each thread's copy reads: fewer than `size`, or none, where a fourth operand says so."""
    if isinstance(limit, Register) and limit.bits == 1:
        ignore = reader(context, limit, 1)
        return lambda m, lanes: np.where(ignore(m, lanes), 0, size)
    if limit is not None and not any("cache_hint" in w for w in instruction.words):
        read = reader(context, limit, 32)
        return lambda m, lanes: read(m, lanes).astype(np.int64)
    whole = np.array([size])
    return lambda m, lanes: whole


def _copy_step(instruction: Instruction, context: Context) -> Step:
    """cp.async.{ca,cg}.shared.global [to], [from], size {, bytes read | ignore}"""
    operands = instruction.operands
    to, source = address_of(context, operands[0]), address_of(context, operands[1])
    size_operand = operands[2]
    if not isinstance(size_operand, Immediate):
        raise NotTranslated("a size that is no constant")
    size = size_operand.value
    if size not in (4, 8, 16):
        raise NotTranslated(f"a copy of {size} bytes")
    limit = operands[3] if len(operands) > 3 else None
    sizes = _sizes(instruction, limit, size, context)
    width = min(size, 4)
    write = Touch(instruction.index, Space.SHARED, size, reads=False, writes=True)
    hoisted = instruction.index in context.hoisted
    fetch = Touch(instruction.index, Space.GLOBAL, width, size // width, copy=True, hoisted=hoisted)

    def step(m: Machine, lanes: Lanes) -> None:
        wanted = np.broadcast_to(sizes(m, lanes), (lanes.count,))
        addresses = source(m, lanes)
        data = np.zeros((lanes.count, size), np.uint8)
        reading = np.flatnonzero(wanted > 0)
        if len(reading):
            part = Lanes(lanes.threads[reading])
            values = load(m, part, addresses[reading], fetch)
            data[reading] = np.stack(values, axis=1).view(np.uint8).reshape(len(reading), size)
            data[np.arange(size) >= wanted[:, None]] = 0
        for piece in locate(m, lanes, to(m, lanes), write):
            positions = slice(None) if piece.positions is None else piece.positions
            m.copies.issue(m, instruction.index, piece, data[positions])

    return step
