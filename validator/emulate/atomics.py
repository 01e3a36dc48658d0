"""Atomics: read-modify-writes of many threads, one after the other where their addresses meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from validator.emulate.access import DTYPES, early_touch, initialised, racing, report_early, report_piece
from validator.emulate.hazard import HazardKind
from validator.emulate.lanes import Array, Lanes
from validator.emulate.locate import Piece, locate
from validator.emulate.memory import POISON, Touch, views_of
from validator.emulate.shadow import record
from validator.manifest.contract import Role

if TYPE_CHECKING:
    from validator.emulate.machine import Machine

__all__ = ["Combine", "atomic"]

Combine = Callable[[Array, list[Array]], Array]
"""(present values, operands) → new values, element by element."""


def atomic(m: Machine, lanes: Lanes, addresses: Array, touch: Touch, operands: list[Array], combine: Combine) -> Array:
    """Read-modify-write, one thread after the other where addresses meet; the values found, one a thread."""
    operands = [np.broadcast_to(o, (lanes.count, *o.shape[1:])) for o in operands]
    shape = (lanes.count, 2) if touch.width == 16 else (lanes.count,)
    found = np.full(shape, POISON, DTYPES[touch.width])
    for piece in locate(m, lanes, addresses, touch):
        positions = np.arange(lanes.count) if piece.positions is None else piece.positions
        found[positions] = _modify(m, piece, touch, [o[positions] for o in operands], combine)
    return found


def _modify(m: Machine, piece: Piece, touch: Touch, operands: list[Array], combine: Combine) -> Array:
    region = piece.region
    views, late = region.views, None
    if region.late and region.role is not Role.FLAG:
        late = (m.seen[piece.threads] & region.late) == 0
        if late.any():
            report_early(m, piece, late, touch, early_touch(region, touch), "")
            assert region.stale is not None
            if late.all():
                return _rounds(views_of(region.stale), piece, touch, operands, combine, m)
            found = np.empty((len(late), *views[touch.width].shape[1:]), views[touch.width].dtype)
            for mask, which in ((late, views_of(region.stale)), (~late, views)):
                at = np.flatnonzero(mask)
                found[at] = _rounds(which, piece.keep(mask), touch, [o[at] for o in operands], combine, m)
            return found
    if region.tracked:
        _check_atomic(m, piece, touch)
    region.stores += 1
    return _rounds(views, piece, touch, operands, combine, m)


def _rounds(
    views: dict[int, Array], piece: Piece, touch: Touch, operands: list[Array], combine: Combine, m: Machine
) -> Array:
    """Round k executes the k-th thread of each address, in an order drawn by the adversary."""
    view = views[touch.width]
    where = piece.offsets >> (touch.width.bit_length() - 1)
    found = np.empty((len(where), *view.shape[1:]), view.dtype)
    turn = _turns(where, m.adversary.order_of(len(where)))
    for round_ in range(int(turn.max()) + 1):
        at = np.flatnonzero(turn == round_)
        place = where[at]
        m.published.observe_atomic(m, piece, touch, at)
        found[at] = view[place]
        view[place] = new = combine(view[place], [o[at] for o in operands])
        if (new != found[at]).any():
            m.version += 1
        m.published.publish(m, piece, touch, at)
    return found


def _turns(where: Array, order: Array) -> Array:
    """How many threads of the same address come before each, in the given order."""
    key = np.lexsort((order, where))
    ranked = where[key]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
    turns = np.empty(len(where), np.int64)
    turns[key] = np.arange(len(where)) - np.repeat(starts, np.diff(np.r_[starts, len(where)]))
    return turns


def _check_atomic(m: Machine, piece: Piece, touch: Touch) -> None:
    """Atomics race with weak accesses only."""
    shadow = piece.region.records()
    granules = shadow.granules(piece.offsets, touch.size)
    for records in (shadow.writer[granules], shadow.reader[granules]):
        wrong = racing(m, records, piece.threads, True)
        if wrong is not None:
            report_piece(
                m, HazardKind.RACE, piece, wrong, records, touch, "nothing orders this atomic and the plain access"
            )
            break
    if not piece.region.initialised:
        initialised(m, piece, touch, shadow.writer[granules])
    clocks = m.order.clocks_for(piece.threads, not touch.releases)
    records = record(piece.threads, clocks, touch.index, True)
    shadow.writer[granules] = records if granules.ndim == 1 else records[:, None]
