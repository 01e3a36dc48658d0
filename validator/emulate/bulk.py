"""Bulk and tensor copies, and addresses of other CTAs' shared memory, as steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from validator.emulate.copies import BulkCopy
from validator.emulate.hazard import HazardKind
from validator.emulate.lanes import Array, Lanes
from validator.emulate.locate import locate
from validator.emulate.memory import RANK_SHIFT, SHARED_WINDOW, Region, Touch
from validator.emulate.operands import Context, NotTranslated, Step, address_of, flat, put_to, reader
from validator.emulate.program import Address, Immediate, Instruction, Unsupported
from validator.emulate.transfers import combination
from validator.ordering.program import Space
from validator.ordering.ptx.lexical import SPACES, TYPE_BITS

if TYPE_CHECKING:
    from validator.emulate.machine import Machine

__all__ = ["async_store", "bulk_step", "map_address", "rank_of_address"]

_RANK = np.uint64(RANK_SHIFT)
_DTYPES = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
LARGEST_COPY = 1 << 18
"""Bytes of one copy: more than shared memory holds."""


# --- clusters -------------------------------------------------------------------------------------------------------


def map_address(instruction: Instruction, context: Context) -> Step:
    """mapa: the address of a shared variable in another CTA of the cluster."""
    target, source, rank = instruction.operands
    wide = instruction.bits == 64
    read, which = reader(context, source, instruction.bits), reader(context, rank, 32)
    put = put_to(target, instruction.bits)
    generic = "shared::cluster" not in instruction.mods
    window = np.uint64(SHARED_WINDOW if generic else 0)
    dtype = np.uint64 if wide else np.uint32

    def step(m: Machine, lanes: Lanes) -> None:
        inside = (read(m, lanes).astype(np.uint64) - window) & np.uint64((1 << RANK_SHIFT) - 1)
        mapped = window + inside + ((which(m, lanes).astype(np.uint64) + np.uint64(1)) << _RANK)
        if put is not None:
            put(m, lanes, mapped.astype(dtype))

    return step


def rank_of_address(instruction: Instruction, context: Context) -> Step:
    """getctarank"""
    target, source = instruction.operands
    read, put = reader(context, source, instruction.bits), put_to(target, 32)
    generic = "shared::cluster" not in instruction.mods
    window = np.uint64(SHARED_WINDOW if generic else 0)

    def step(m: Machine, lanes: Lanes) -> None:
        rank = (read(m, lanes).astype(np.uint64) - window) >> _RANK
        own = m.special("cluster_ctarank")[lanes.index]
        if put is not None:
            put(m, lanes, np.where(rank > 0, rank - np.uint64(1), own).astype(np.uint32))

    return step


# --- bulk copies ----------------------------------------------------------------------------------------------------


def bulk_step(instruction: Instruction, context: Context) -> Step:
    """cp.async.bulk.*, cp.reduce.async.bulk.*"""
    words = instruction.words
    if "prefetch" in words:
        return lambda m, lanes: None
    if "commit_group" in words:
        return lambda m, lanes: m.copies.bulk_commit(lanes.threads)
    if "wait_group" in words:
        pending = instruction.operands[0]
        if not isinstance(pending, Immediate):
            raise NotTranslated("a wait_group whose number is no constant")
        number, read = pending.value, "read" in words
        return lambda m, lanes: m.copies.bulk_wait(m, lanes.threads, number, read)
    if "tensor" in words:
        return _tensor_copy(instruction, context)
    return _linear_copy(instruction, context)


def _linear_copy(instruction: Instruction, context: Context) -> Step:
    operands = [o for o in instruction.operands if not isinstance(o, Unsupported)]
    to, source = address_of(context, operands[0]), address_of(context, operands[1])
    sizes = reader(context, operands[2], 32)
    spaces = [SPACES[w] for w in instruction.words if w in SPACES]
    if len(spaces) < 2:
        raise NotTranslated("no state spaces")
    counted = any(w.startswith("mbarrier") for w in instruction.words)
    barrier = address_of(context, operands[3]) if counted else None
    multicast = reader(context, operands[4], 16) if "multicast::cluster" in instruction.words else None
    combine = _reduction(instruction)
    index = instruction.index
    write = Touch(index, spaces[0], 16, reads=False, writes=True)
    fetch = Touch(index, spaces[1], 16, copy=True)
    sync = Touch(index, spaces[0], 8, writes=True)

    def step(m: Machine, lanes: Lanes) -> None:
        lengths = np.broadcast_to(sizes(m, lanes), (lanes.count,)).tolist()
        targets, sources = to(m, lanes), source(m, lanes)
        barriers = barrier(m, lanes) if barrier is not None else None
        masks = None if multicast is None else np.broadcast_to(multicast(m, lanes), (lanes.count,)).tolist()
        for at, (thread, size) in enumerate(zip(lanes.threads.tolist(), lengths, strict=True)):
            one = Lanes(np.array([thread]))
            origin = _range(m, one, sources[at : at + 1], fetch, size)
            if origin is None:
                continue
            for rank in _ranks(m, thread, None if masks is None else masks[at]):
                target = _range(m, one, _in_rank(targets[at : at + 1], rank), write, size)
                counter = None
                if barriers is not None:
                    counter = _single(m, one, _in_rank(barriers[at : at + 1], rank), sync)
                if target is None or (barriers is not None and counter is None):
                    continue
                copy = BulkCopy(index, thread, *origin, *target, np.zeros(0, np.uint8), counter, size, reduce=combine)
                m.copies.launch(m, copy, write)

    return step


def _ranks(m: Machine, thread: int, mask: int | None) -> list[int | None]:
    """Ranks of the cluster that a copy goes to; None: as the address says."""
    if mask is None:
        return [None]
    return [rank for rank in range(16) if mask >> rank & 1]


def _in_rank(address: Array, rank: int | None) -> Array:
    if rank is None:
        return address
    return (address & np.uint64((1 << RANK_SHIFT) - 1)) + np.uint64((rank + 1) << RANK_SHIFT)


def _single(m: Machine, one: Lanes, address: Array, touch: Touch) -> int | None:
    for piece in locate(m, one, address, touch):
        return int(piece.offsets[0])
    return None


def _range(m: Machine, one: Lanes, address: Array, touch: Touch, size: int) -> tuple[Region, Array] | None:
    """Region and bytes of a linear range that starts at one address; None out of bounds."""
    if not 0 <= size <= LARGEST_COPY:
        m.report(HazardKind.OUT_OF_BOUNDS, touch.index, one.threads, "", None, f"a copy of {size} bytes")
        return None
    for piece in locate(m, one, address, touch):
        first = int(piece.offsets[0])
        end = (
            (first // piece.region.stride * piece.region.stride + piece.region.limit)
            if piece.region.stride
            else piece.region.size
        )
        if first + size > end:
            what = "writes" if touch.writes else "reads"
            m.report(
                HazardKind.OUT_OF_BOUNDS, touch.index, one.threads, piece.region.name, first,
                f"{what} {size} bytes at byte {first} of {end}",
            )  # fmt: skip
            return None
        return piece.region, first + np.arange(size)
    return None


def _reduction(instruction: Instruction) -> Callable[[Region, Array, Array], None] | None:
    """What cp.reduce makes of bytes that land."""
    if "reduce" not in instruction.words and instruction.base != "red":
        return None
    name = next((w for w in instruction.words if w in ("add", "min", "max", "and", "or", "xor", "inc", "dec")), "")
    combine = combination(name, instruction.type)
    dtype = _DTYPES[TYPE_BITS[instruction.type]]

    def reduce(region: Region, offsets: Array, data: Array) -> None:
        old = region.data[offsets].view(dtype)
        region.data[offsets] = combine(old, [np.ascontiguousarray(data).view(dtype)]).view(np.uint8)

    return reduce


# --- asynchronous stores --------------------------------------------------------------------------------------------


def async_store(instruction: Instruction, context: Context) -> Step:
    """st.async and red.async: a value on its way to shared memory of the cluster, counted on an mbarrier there."""
    words, index = instruction.words, instruction.index
    if "mbarrier::complete_tx::bytes" not in words:
        raise NotTranslated("no mbarrier")
    target, value, counter = instruction.operands
    to, at = address_of(context, target), address_of(context, counter)
    width = instruction.bits // 8
    reads = [reader(context, part, instruction.bits) for part in flat((value,))]
    size = width * len(reads)
    combine = _reduction(instruction) if words[0] == "red" else None
    write = Touch(index, Space.CLUSTER, size, reads=False, writes=True)
    sync = Touch(index, Space.CLUSTER, 8, writes=True)

    def step(m: Machine, lanes: Lanes) -> None:
        values = [np.broadcast_to(read(m, lanes), (lanes.count,)) for read in reads]
        carried = Region("registers", size * lanes.count)
        carried.fill(np.ascontiguousarray(np.stack(values, axis=1)).tobytes())
        barriers = {
            thread: offset
            for piece in locate(m, lanes, at(m, lanes), sync)
            for thread, offset in zip(piece.threads.tolist(), piece.offsets.tolist(), strict=True)
        }
        bytes_ = np.arange(size)
        for piece in locate(m, lanes, to(m, lanes), write):
            numbers = range(lanes.count) if piece.positions is None else piece.positions.tolist()
            for number, thread, first in zip(numbers, piece.threads.tolist(), piece.offsets.tolist(), strict=True):
                if thread in barriers:
                    copy = BulkCopy(
                        index, thread, carried, number * size + bytes_, piece.region, first + bytes_,
                        np.zeros(0, np.uint8), barriers[thread], size, reduce=combine, generic=True,
                    )  # fmt: skip
                    m.copies.launch(m, copy, write)

    return step


# --- tensor copies --------------------------------------------------------------------------------------------------


def _tensor_copy(instruction: Instruction, context: Context) -> Step:
    """cp.async.bulk.tensor: a box of a tensor map to shared memory or back."""
    words, index = instruction.words, instruction.index
    if "im2col" in words or any(w.startswith(("im2col", "tile::")) for w in words):
        raise NotTranslated("a tensor copy that is no tile")
    addresses = [o for o in instruction.operands if isinstance(o, Address)]
    mapped = next((a for a in addresses if a.coordinates), None)
    plain = [a for a in addresses if not a.coordinates]
    if mapped is None or not plain:
        raise NotTranslated("no tensor coordinates")
    loads = instruction.operands[0] is not mapped
    base = address_of(context, Address(mapped.base, mapped.offset))
    coordinates = [reader(context, c, 32) for c in mapped.coordinates]
    memory = address_of(context, plain[0])
    barrier = address_of(context, plain[1]) if loads and len(plain) > 1 else None
    multicast = None
    if "multicast::cluster" in words:
        multicast = reader(context, instruction.operands[-1 if "L2::cache_hint" not in words else -2], 16)
    space = Space.CLUSTER if loads else Space.SHARED
    inside = Touch(index, space, 16, reads=not loads, writes=loads, copy=not loads)
    sync = Touch(index, space, 8, writes=True)
    combine = _reduction(instruction)

    def step(m: Machine, lanes: Lanes) -> None:
        places = [np.broadcast_to(c(m, lanes), (lanes.count,)).view(np.int32) for c in coordinates]
        maps, shared = base(m, lanes), memory(m, lanes)
        barriers = barrier(m, lanes) if barrier is not None else None
        masks = None if multicast is None else np.broadcast_to(multicast(m, lanes), (lanes.count,)).tolist()
        for at, thread in enumerate(lanes.threads.tolist()):
            one = Lanes(np.array([thread]))
            found = m.tensor_map(int(maps[at]))
            if found is None:
                raise m.unexecutable("a tensor copy through a map that the contract does not describe", index)
            tensor = found.bytes_of([int(p[at]) for p in places])
            for rank in _ranks(m, thread, None if masks is None else masks[at]):
                linear = _range(m, one, _in_rank(shared[at : at + 1], rank), inside, found.box_bytes)
                counter = None if barriers is None else _single(m, one, _in_rank(barriers[at : at + 1], rank), sync)
                if linear is None:
                    continue
                region, start = linear
                tile = int(start[0]) + found.swizzled(int(start[0]))
                ends = (found.region, tensor, region, tile) if loads else (region, tile, found.region, tensor)
                m.copies.launch(
                    m,
                    BulkCopy(index, thread, *ends, np.zeros(0, np.uint8), counter, found.box_bytes, reduce=combine),
                    inside,
                )

    return step
