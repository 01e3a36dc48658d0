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

__all__ = ["Combine", "atomic", "compare_and_swap"]

Combine = Callable[[Array, list[Array]], Array]
"""(present values, operands) → new values, element by element."""
_FEW = 8
"""Threads that are not worth sorting."""
_PATIENCE = 2
"""Attempts in which few could go together: behind one that changes memory all others may leave it as it then is."""


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
    """Threads whose addresses meet execute one after the other, in an order drawn by the adversary."""
    view = views[touch.width]
    where = piece.offsets >> (touch.width.bit_length() - 1)
    found = np.empty((len(where), *view.shape[1:]), view.dtype)
    turn = _turns(where, m.adversary.order_of(len(where)))
    region = piece.region
    before = None if region.before is None or views is not region.views else views_of(region.before)[touch.width]

    def execute(at: Array) -> None:
        place = where[at]
        m.published.observe_atomic(m, piece, touch, at)
        found[at] = view[place]
        if before is not None:
            before[place] = found[at]
        view[place] = new = combine(view[place], [o[at] for o in operands])
        changed = _changes(new, found[at])
        if changed.any():
            m.version += 1
        at = at[changed] if combine is compare_and_swap else at  # one that fails is a read
        if len(at):
            m.published.publish(m, piece, touch, at)

    waiting = _without_change(execute, view, where, turn, operands, combine)
    for round_ in range(int(turn[waiting].max()) + 1 if len(waiting) else 0):
        at = waiting[turn[waiting] == round_]
        if len(at):
            execute(at)
    return found


def _changes(new: Array, old: Array) -> Array:
    """Which elements differ; of rows, which rows."""
    differs: Array = new != old
    return np.asarray(differs.any(axis=1)) if differs.ndim == 2 else differs


def _without_change(
    execute: Callable[[Array], None], view: Array, where: Array, turn: Array, operands: list[Array], combine: Combine
) -> Array:
    """Executes together what leaves memory as it is, up to and with the next that changes it, as long as most do: no
    value tells in which order they came. What is left for one after the other, in the order of their turns."""
    waiting, patience = np.lexsort((turn, where)), _PATIENCE
    while len(waiting) > _FEW and patience:
        place = where[waiting]
        changes = _changes(combine(view[place], [o[waiting] for o in operands]), view[place])
        before = np.cumsum(changes) - changes
        starts = np.flatnonzero(np.r_[True, place[1:] != place[:-1]])
        before -= np.repeat(before[starts], np.diff(np.r_[starts, len(place)]))
        now = before == 0
        patience = _PATIENCE if np.count_nonzero(now) * 2 > len(waiting) else patience - 1
        for at in (waiting[now & ~changes], waiting[now & changes]):
            if len(at):
                execute(at)
        waiting = waiting[~now]
    return waiting


def compare_and_swap(old: Array, operands: list[Array]) -> Array:
    """atom.cas: `operands` are what is expected and what takes its place."""
    same = old == operands[0]
    if same.ndim == 2:
        same = same.all(axis=1)[:, None]
    return np.where(same, operands[1], old)


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
