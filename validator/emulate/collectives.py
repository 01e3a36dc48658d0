"""Instructions of whole warps: who has to be there, and how lanes become rows of 32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from validator.emulate.hazard import HazardKind
from validator.emulate.isa import RegType, lookup_warp, shuffle_lanes
from validator.emulate.lanes import Array, Lanes
from validator.emulate.operands import Context, NotTranslated, Read, Step, flat, put_to, reader
from validator.emulate.program import Immediate, Instruction, Register, Source, Unsupported
from validator.emulate.synchronising import Gate

if TYPE_CHECKING:
    from validator.emulate.machine import Machine

__all__ = ["collective", "members_gate", "whole_warp_gate"]

_MASKED = ("shfl", "vote", "match", "redux", "elect", "bar")
_SHUFFLES = ("up", "down", "bfly", "idx")
_ALL = 0xFFFFFFFF
_UNDEFINED = 0xFFFFFFFF
_BITS = np.uint64(1) << np.arange(32, dtype=np.uint64)


def members_gate(instruction: Instruction, context: Context) -> Gate:
    """Holds lanes back until all lanes that the member mask (the last operand) names are there."""
    mask = instruction.operands[-1]
    full = isinstance(mask, Immediate) and mask.value & _ALL == _ALL
    meets = instruction.base == "bar"
    return _gate(reader(context, mask, 32), None if full else instruction.index, meets)


def whole_warp_gate(instruction: Instruction, context: Context) -> Gate:
    """The same for instructions that every lane of the warp executes together."""
    return _gate(None, None, False)


def _gate(mask: Read | None, partial: int | None, meets: bool) -> Gate:
    """`partial`: the instruction, where its mask may leave lanes out. `meets`: lanes at other warp barriers count."""

    def gate(m: Machine, lanes: Lanes, key: int) -> Lanes | None:
        parked = m.parked.pop(key, None)
        if parked:
            lanes = Lanes(np.sort(np.concatenate([lanes.threads, *parked])))
        if partial is not None and mask is not None:
            _check_own(m, lanes, np.broadcast_to(mask(m, lanes), (lanes.count,)), partial)
        if lanes.count == m.living or len(lanes.warps):
            return lanes
        warps = lanes.threads >> 5
        present = np.zeros(m.total >> 5, np.uint64)
        np.bitwise_or.at(present, warps, _BITS[lanes.threads & 31])
        elsewhere = [t for k in m.warp_barriers if k != key for t in m.parked.get(k, ())] if meets else []
        for threads in elsewhere:
            np.bitwise_or.at(present, threads >> 5, _BITS[threads & 31])
        alive = (m.alive.reshape(-1, 32) * _BITS).sum(axis=1, dtype=np.uint64)
        needed = alive[warps]
        if mask is not None:
            needed = needed & mask(m, lanes).astype(np.uint64)
        missing = (needed & ~present[warps]) != 0
        if not missing.any():
            if elsewhere:
                _release(m, key, lanes.threads)
            return lanes
        short = np.isin(warps, warps[missing])
        if meets:
            m.warp_barriers.add(key)
        m.parked.setdefault(key, []).append(lanes.threads[short])
        passed = lanes.where(~short)
        if passed is not None and elsewhere:
            _release(m, key, passed.threads)
        return passed

    return gate


def _check_own(m: Machine, lanes: Lanes, masks: Array, index: int) -> None:
    outside = (masks >> (lanes.threads & 31).astype(np.uint32)) & np.uint32(1) == 0
    if outside.any():
        m.report(
            HazardKind.BARRIER_DIVERGENCE, index, lanes.threads[outside], "", None,
            "executes a collective whose member mask does not name it",
        )  # fmt: skip


def _release(m: Machine, key: int, threads: Array) -> None:
    """Lanes of these threads' warps that wait at other instructions of the same barrier go on, and all have met."""
    warps = np.unique(threads >> 5)
    for other in [k for k in m.warp_barriers if k != key and k in m.parked]:
        held = np.sort(np.concatenate(m.parked.pop(other)))
        mine = np.isin(held >> 5, warps)
        if (~mine).any():
            m.parked[other] = [held[~mine]]
        if mine.any():
            met = np.isin(threads >> 5, np.unique(held[mine] >> 5))
            m.barriers.warp(m, np.sort(np.concatenate([threads[met], held[mine]])))
            m.push(other | 1, held[mine])


def collective(instruction: Instruction, context: Context) -> Step:
    """Any collective that `isa` knows."""
    op = lookup_warp(instruction.base, instruction.mods)
    if op is None:
        raise NotTranslated("no semantics for this form")
    writes = 1 if instruction.writes == 0 else instruction.writes
    targets = tuple(flat(instruction.operands[:writes]))
    sources = [s for s in flat(instruction.operands[writes:]) if not (isinstance(s, Unsupported) and not s.text)]
    if len(sources) != len(op.inputs):
        raise NotTranslated(f"{len(sources)} source operands, {len(op.inputs)} are known")
    reads = [_warp_reader(context, s, reg) for s, reg in zip(sources, op.inputs, strict=True)]
    puts = [put_to(t, reg.bits) for t, reg in zip(targets, op.outputs, strict=False)]
    run = op.run
    mode = next((w for w in instruction.mods if w in _SHUFFLES), "") if instruction.base == "shfl" else ""

    def step(m: Machine, lanes: Lanes) -> None:
        warps, active = _warps(lanes)
        values = [read(m, warps) for read in reads]
        results = run(active, *values)
        if mode and not m.plan.friendly:
            results = _without_absent(mode, active, values, results)
        whole = active.size == lanes.count
        for put, value in zip(puts, results, strict=False):
            if put is not None:
                put(m, lanes, np.ascontiguousarray(value).reshape(-1) if whole else value[active])

    return step


def _without_absent(mode: str, active: Array, values: list[Array], results: tuple[Array, ...]) -> tuple[Array, ...]:
    """What a lane reads of one that takes no part is undefined (PTX ISA, shfl.sync): another value than the friendly
    run's, which shows in the results where it matters. Many right reductions read such values and drop them."""
    _, b, c, mask = values
    if active.all() and bool((mask == _ALL).all()):
        return results
    lane = np.broadcast_to(shuffle_lanes(mode, b, c)[0], active.shape)
    named = np.broadcast_to(mask, active.shape) >> lane.astype(np.uint32) & np.uint32(1)
    there = np.take_along_axis(active, lane, axis=1) & (named != 0)
    return np.where(there, results[0], np.uint32(_UNDEFINED)), *results[1:]


def _warps(lanes: Lanes) -> tuple[slice | Array, Array]:
    """Which rows of 32 the lanes lie in, and which lanes of those they are."""
    first, count = int(lanes.threads[0]), lanes.count
    if isinstance(lanes.index, slice) and first % 32 == 0 and count % 32 == 0:
        return slice(first >> 5, (first + count) >> 5), np.ones((count >> 5, 32), bool)
    if len(lanes.warps):
        return lanes.warps, np.ones((len(lanes.warps), 32), bool)
    warps, at = np.unique(lanes.threads >> 5, return_inverse=True)
    active = np.zeros((len(warps), 32), bool)
    active[at, lanes.threads & 31] = True
    return warps, active


def _warp_reader(context: Context, source: Source | None, reg: RegType):  # type: ignore[no-untyped-def]
    if isinstance(source, Immediate):
        fixed = reader(context, source, reg.bits)(None, None).reshape(1, 1)  # type: ignore[arg-type]
        return lambda m, warps: fixed
    if isinstance(source, Register):
        row, dtype, negated = source.row, reg.dtype, source.negated

        def read(m: Machine, warps: slice | Array) -> Array:
            value = m.rows[row].reshape(-1, 32)[warps].astype(dtype, copy=False)
            return ~value if negated else value

        return read
    if source is None:
        raise NotTranslated("a sink as a source")
    plain = reader(context, source, reg.bits)

    def other(m: Machine, warps: slice | Array) -> Array:
        value = plain(m, Lanes(np.arange(m.total)))
        return value.reshape(1, 1) if len(value) == 1 else value.reshape(-1, 32)[warps]

    return other
