"""Which region, and which of its bytes, each address of an access means; what lies nowhere is a hazard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from validator.emulate.hazard import HazardKind
from validator.emulate.lanes import Array, Lanes
from validator.emulate.memory import (
    CONST_WINDOW,
    LOCAL_WINDOW,
    PARAM_WINDOW,
    RANK_SHIFT,
    SHARED_WINDOW,
    WINDOW_BITS,
    Region,
    Touch,
)
from validator.ordering.program import Space

if TYPE_CHECKING:
    from validator.emulate.machine import Machine

__all__ = ["Piece", "locate"]

_GENERIC = {
    LOCAL_WINDOW: Space.LOCAL,
    SHARED_WINDOW: Space.CLUSTER,
    PARAM_WINDOW: Space.PARAM,
    CONST_WINDOW: Space.CONST,
}
_OFFSET_MASK = np.uint64((1 << WINDOW_BITS) - 1)


class Piece:
    """Threads of one access that meet one region."""

    __slots__ = ("offsets", "positions", "region", "threads")

    def __init__(self, region: Region, threads: Array, offsets: Array, positions: Array | None) -> None:
        self.region = region
        self.threads = threads
        self.offsets = offsets
        """Byte in the region, int64, aligned."""
        self.positions = positions
        """Which threads of the instruction these are; None: all."""

    def keep(self, chosen: Array) -> Piece:
        """The threads that a mask or an index array chooses."""
        at = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        positions = at if self.positions is None else self.positions[at]
        return Piece(self.region, self.threads[at], self.offsets[at], positions)


def locate(m: Machine, lanes: Lanes, addresses: Array, touch: Touch) -> Iterator[Piece]:
    """The regions that the addresses lie in; what lies nowhere, out of bounds or askew is a hazard and left out."""
    for piece in _regions(m, lanes, addresses, touch):
        checked = _inside(m, piece, touch)
        if checked is not None:
            yield checked


def _regions(m: Machine, lanes: Lanes, addresses: Array, touch: Touch) -> Iterator[Piece]:
    space, threads = touch.space, lanes.threads
    if space in (Space.GLOBAL, Space.GENERIC):
        windows = addresses >> np.uint64(WINDOW_BITS)
        first = int(windows[0])
        if (windows == windows[0]).all():
            yield from _window(m, first, threads, addresses, None, touch)
            return
        for window in np.unique(windows).tolist():
            at = np.flatnonzero(windows == window)
            yield from _window(m, window, threads[at], addresses[at], at, touch)
        return
    yield _in_space(m, space, threads, addresses.astype(np.int64), None, touch)


def _window(
    m: Machine, window: int, threads: Array, addresses: Array, positions: Array | None, touch: Touch
) -> Iterator[Piece]:
    inside = (addresses & _OFFSET_MASK).astype(np.int64)
    region = m.globals.get(window)
    if region is not None:
        offsets = inside - (region.base & int(_OFFSET_MASK))
        if region.step:
            _report_overflow(m, region, threads, offsets, touch)
        yield Piece(region, threads, region.gathered(offsets), positions)
        return
    space = _GENERIC.get(window << WINDOW_BITS)
    if space is not None and touch.space is Space.GENERIC:
        yield _in_space(m, space, threads, inside, positions, touch)
        return
    m.report(
        HazardKind.OUT_OF_BOUNDS, touch.index, threads, "", None,
        f"address {int(addresses[0]):#x} belongs to no argument, variable or window",
    )  # fmt: skip


def _report_overflow(m: Machine, region: Region, threads: Array, offsets: Array, touch: Touch) -> None:
    """Addresses between rows that a few more bits would have put into one: 32-bit arithmetic wrapped around."""
    lost = region.gathered(offsets) < 0
    if not lost.any():
        return
    wrapped = np.zeros(len(offsets), bool)
    for size in (1, 2, 4, 8):
        for turns in (-2, -1, 1, 2):
            wrapped |= region.gathered(offsets + turns * size * (1 << 32)) >= 0
    at = np.flatnonzero(lost & wrapped)
    if len(at):
        m.report(
            HazardKind.OVERFLOW, touch.index, threads[at], region.name, int(offsets[at[0]]),
            f"rows lie {region.step:,} bytes apart, and the offset lost its upper bits",
        )  # fmt: skip


def _in_space(m: Machine, space: Space, threads: Array, inside: Array, positions: Array | None, touch: Touch) -> Piece:
    """Threads that access shared, local, constant or parameter space by an address inside it."""
    if space in (Space.SHARED, Space.CLUSTER):
        region = m.shared
        cta = threads // m.per_cta
        rank = inside >> RANK_SHIFT
        if rank.any():
            inside = np.where(rank > m.cluster_size, -1, inside)
            cta = np.where(rank > 0, m.rank_to_cta(cta, rank - 1), cta)
            m.lent.use(m, threads, cta, touch.index)
        inside = np.where(inside < 0, -1, inside & ((1 << RANK_SHIFT) - 1))
        return Piece(region, threads, _part(inside, cta, region), positions)
    if space is Space.LOCAL:
        return Piece(m.local, threads, _part(inside, threads, m.local), positions)
    return Piece(m.param if space is Space.PARAM else m.const, threads, inside, positions)


def _part(inside: Array, owner: Array, region: Region) -> Array:
    """Offsets of addresses in each owner's part; an address outside the part stays outside the region."""
    wrong = (inside < 0) | (inside >= region.stride)
    return np.where(wrong, -1, owner * region.stride + inside)


def _inside(m: Machine, piece: Piece, touch: Touch) -> Piece | None:
    """The piece without accesses out of bounds or askew, each reported."""
    region, offsets, size = piece.region, piece.offsets, touch.size
    low, high = int(offsets.min()), int(offsets.max())
    wrong = None
    if region.stride:
        if low < 0 or region.begin or region.variables:
            inside = offsets % region.stride
            wrong = (offsets < 0) | (inside < region.begin) | (inside + size > region.limit)
    elif low < region.begin or high + size > region.size:
        wrong = (offsets < region.begin) | (offsets + size > region.size)
    if wrong is not None and wrong.any():
        _report_bounds(m, piece, wrong, touch)
        piece = piece.keep(~wrong)
        offsets = piece.offsets
        if not len(offsets):
            return None
    if size > 1:
        askew = (offsets & (size - 1)) != 0
        if askew.any():
            bad = np.flatnonzero(askew)
            m.report(
                HazardKind.MISALIGNED, touch.index, piece.threads[bad], region.name, int(offsets[bad[0]]),
                f"{size} bytes at byte {int(offsets[bad[0]])}, which is no multiple of {size}",
            )  # fmt: skip
            piece = piece.keep(~askew)
            if not len(piece.offsets):
                return None
    return piece


def _report_bounds(m: Machine, piece: Piece, wrong: Array, touch: Touch) -> None:
    bad = np.flatnonzero(wrong)
    region, offset = piece.region, int(piece.offsets[bad[0]])
    size = region.stride or region.size
    where = f"byte {offset} of {size}" if offset >= 0 or not region.stride else f"an address outside its {size} bytes"
    what = "writes" if touch.writes else "reads"
    told = offset if offset >= 0 or not region.stride else None  # which one is lost: the parts begin anew in each CTA
    m.report(
        HazardKind.OUT_OF_BOUNDS, touch.index, piece.threads[bad], region.name, told,
        f"{what} {touch.size} bytes at {where}",
    )  # fmt: skip
