"""What a load or a store meets: old and true values, records of who was there.

Every check works on all threads of an instruction at once and has a way around it for the common case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from validator.emulate.hazard import Hazard, HazardKind
from validator.emulate.lanes import Array, Lanes
from validator.emulate.lateness import COMPLETION, NEVER
from validator.emulate.locate import Piece, locate
from validator.emulate.memory import Region, Touch, gather, scatter, views_of
from validator.emulate.shadow import clocks_of, places_of, record, strong_of, threads_of
from validator.manifest.contract import Role
from validator.ordering.program import Space

if TYPE_CHECKING:
    from validator.emulate.machine import Machine

__all__ = [
    "DTYPES",
    "early_kind",
    "early_touch",
    "initialised",
    "load",
    "racing",
    "report_early",
    "report_pair",
    "report_piece",
    "store",
]

Ordered = Callable[[Array, Array, Array], Array]
"""(writer, its clock, reader), one element a pair → whether the first happens before the second."""
DTYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.uint64}
"""Raw elements by their bytes; 16 is two words."""


# --- load -----------------------------------------------------------------------------------------------------------


def load(m: Machine, lanes: Lanes, addresses: Array, touch: Touch) -> list[Array]:
    """`touch.count` arrays of raw elements, one element a thread."""
    pieces = list(locate(m, lanes, addresses, touch))
    if len(pieces) == 1 and pieces[0].positions is None:
        return _read(m, pieces[0], touch)
    shape = (lanes.count, 2) if touch.width == 16 else (lanes.count,)
    found = [np.full(shape, np.uint64(0xFFFFFFFFFFFFFFFF)).astype(DTYPES[touch.width]) for _ in range(touch.count)]
    for piece in pieces:
        positions = slice(None) if piece.positions is None else piece.positions
        for whole, part in zip(found, _read(m, piece, touch), strict=True):
            whole[positions] = part
    return found


def _read(m: Machine, piece: Piece, touch: Touch) -> list[Array]:
    region = piece.region
    values = gather(region.views, piece.offsets, touch.width, touch.count)
    if region.tracked:
        values = _coherent(m, piece, touch, values)
    if region.late:
        values = _late(m, piece, touch, values)
    if touch.strong and region.space is not Space.LOCAL:
        old = _not_yet(m, piece, touch)
        if old is None:
            m.published.observe(m, piece, touch, values)
        else:
            assert region.before is not None
            true = values
            values = _mixed(views_of(region.before), piece, touch, true, old)
            m.story.stale_read(piece, touch, values, true, old)
            m.published.observe_before(m, piece.keep(old), touch)
            if not old.all():
                m.published.observe(m, piece.keep(~old), touch, [v[~old] for v in values])
    return values


def _not_yet(m: Machine, piece: Piece, touch: Touch) -> Array | None:
    """Strong reads that nothing orders behind another thread's strong write: the first one may still get what was there
    before. From then on everybody sees the write: what one thread has seen, others may know of in ways not followed
    here. None when all see what is there."""
    region = piece.region
    if region.before is None or region.shadow is None or not region.stores or m.plan.friendly:
        return None
    shadow = region.shadow
    granules = shadow.granules(piece.offsets, touch.size)
    writers = shadow.writer[granules]
    fresh = writers != shadow.shown[granules]
    if not fresh.any():
        return None
    old = racing(m, np.where(fresh & strong_of(writers), writers, 0), piece.threads, False, _seen_by_order(m))
    shadow.shown[granules] = writers
    if old is not None:
        m.version += 1
    return old


def _seen_by_order(m: Machine) -> Ordered:
    order = m.order
    return lambda *pairs: order.ordered(*pairs) | order.fenced_in_turn(*pairs)


def _mixed(views: dict[int, Array], piece: Piece, touch: Touch, values: list[Array], old: Array) -> list[Array]:
    """`values` with the elements of `views` where `old` holds."""
    others = gather(views, piece.offsets, touch.width, touch.count)
    pick = old[:, None] if touch.width == 16 else old
    return [np.where(pick, other, value) for other, value in zip(others, values, strict=True)]


def _late(m: Machine, piece: Piece, touch: Touch, values: list[Array]) -> list[Array]:
    """Old values for threads that nothing orders behind the producer."""
    region = piece.region
    if region.role is Role.FLAG:
        return values
    unseen = (m.seen[piece.threads] & region.late) == 0
    moved = touch.hoisted or (touch.noncoherent and m.adversary.moves_noncoherent)
    if moved:
        kind = HazardKind.EARLY_READ if touch.hoisted else HazardKind.MOVABLE_READ
        rest = ~unseen
        if rest.any():
            why = (
                "the machine code loads it before the wait"
                if touch.hoisted
                else "the compiler may load it before the wait"
            )
            report_early(m, piece, rest, touch, kind, f"{why}: it then holds the previous step's value")
        if unseen.any():
            report_early(m, piece, unseen, touch, early_touch(region, touch), "")
        old = np.ones(len(unseen), bool)
    elif unseen.any():
        report_early(m, piece, unseen, touch, early_touch(region, touch), "")
        old = unseen
    else:
        return values
    assert region.stale is not None
    found = _mixed(views_of(region.stale), piece, touch, values, old)
    m.story.stale_read(piece, touch, found, values, old)
    return found


def early_kind(region: Region, usual: HazardKind) -> HazardKind:
    """What an early access is called: `usual`, unless only a flag shows the contents or nobody said who writes them."""
    if not region.late & (COMPLETION | NEVER):
        return HazardKind.NOT_ACQUIRED
    return usual if region.declared else HazardKind.UNDECLARED


def early_touch(region: Region, touch: Touch) -> HazardKind:
    if touch.atomic:
        return early_kind(region, HazardKind.EARLY_ATOMIC)
    if touch.copy:
        return early_kind(region, HazardKind.EARLY_COPY)
    return early_kind(region, HazardKind.EARLY_WRITE if touch.writes else HazardKind.EARLY_READ)


def report_early(m: Machine, piece: Piece, mask: Array, touch: Touch, kind: HazardKind, detail: str) -> None:
    at = np.flatnonzero(mask)
    m.report(kind, touch.index, piece.threads[at], piece.region.name, int(piece.offsets[at[0]]), detail)


def _coherent(m: Machine, piece: Piece, touch: Touch, values: list[Array]) -> list[Array]:
    """Checks a read against who wrote; unordered readers see what was there before."""
    region = piece.region
    m.copies.check_pending(m, piece, touch)
    if not region.initialised or region.stores:
        shadow = region.records()
        granules = shadow.granules(piece.offsets, touch.size)
        writers = shadow.writer[granules]
        if not region.initialised:
            initialised(m, piece, touch, writers)
        if region.stores:
            values = _unordered(m, piece, touch, values, writers)
    _note_reader(m, piece, touch)
    return values


def initialised(m: Machine, piece: Piece, touch: Touch, writers: Array) -> None:
    empty = writers == 0
    if empty.ndim == 2:
        empty = empty.any(axis=1)
    if not empty.any():
        return
    pending = m.copies.pending(piece, touch)
    if pending is not None:
        empty &= ~pending
    if empty.any():
        at = np.flatnonzero(empty)
        name, offset = piece.region.name_at(int(piece.offsets[at[0]]))
        m.report(HazardKind.UNINITIALISED, touch.index, piece.threads[at], name, offset, "nobody wrote these bytes")


def _unordered(m: Machine, piece: Piece, touch: Touch, values: list[Array], writers: Array) -> list[Array]:
    region, threads = piece.region, piece.threads
    if touch.noncoherent and region.space is Space.GLOBAL and writers.any():
        written = writers != 0
        written = written.any(axis=1) if written.ndim == 2 else written
        report_piece(
            m,
            HazardKind.NONCOHERENT,
            piece,
            written,
            writers,
            touch,
            "a non-coherent load may see what was there before",
        )
        if m.plan.friendly:
            return values
        return _mixed(views_of(region.earlier()), piece, touch, values, written)
    wrong, why = racing(m, writers, threads, touch.strong), "nothing orders this read behind the write"
    if wrong is None and m.order.vouched is not None and region.space is Space.SHARED:
        wrong, why = _too_narrow(m, piece, touch, writers), _NARROW
    if wrong is None:
        return values
    if region.before is not None:
        # Where the bytes are the same before and after, the order makes no difference.
        others = gather(views_of(region.before), piece.offsets, touch.width, touch.count)
        same = np.ones(len(threads), bool)
        for other, value in zip(others, values, strict=True):
            equal = other == value
            same &= equal.all(axis=1) if equal.ndim == 2 else equal
        wrong &= ~same
        if not wrong.any():
            return values
    report_piece(m, HazardKind.RACE, piece, wrong, writers, touch, why)
    if region.before is None or touch.strong or m.plan.friendly:
        return values
    found = _mixed(views_of(region.before), piece, touch, values, wrong)
    m.story.stale_read(piece, touch, found, values, wrong)
    return found


_NARROW = (
    "the mbarrier between them is arrived at or waited for at the scope of the CTA, and the writer is in another one: "
    ".release.cluster and .acquire.cluster order them"
)


def _too_narrow(m: Machine, piece: Piece, touch: Touch, writers: Array) -> Array | None:
    """Reads of what threads of other CTAs stored, ordered by no signal of a scope that holds both."""
    wrong = racing(m, writers, piece.threads, touch.strong, m.order.wide_enough)
    if wrong is None:
        return None
    # Bytes that a copy brought are complete for whoever waits, at any scope.
    wrong &= ~piece.region.records().async_wrote(piece.offsets)
    return wrong if wrong.any() else None


def racing(m: Machine, records: Array, threads: Array, strong: bool, ordered: Ordered | None = None) -> Array | None:
    """Which accesses conflict with a record that nothing orders before them; None when none does."""
    if records.ndim == 2:
        threads = np.repeat(threads[:, None], records.shape[1], 1)
    owners = threads_of(records)
    foreign = (records != 0) & (owners != threads)
    if strong and foreign.any():
        foreign &= ~strong_of(records)
    if not foreign.any():
        return None
    picked = records[foreign]
    wrong = ~(ordered or m.order.ordered)(owners[foreign], clocks_of(picked), threads[foreign])
    if not wrong.any():
        return None
    found: Array = np.zeros(records.shape, bool)
    found[foreign] = wrong
    return np.asarray(found.any(axis=1)) if found.ndim == 2 else found


def report_piece(
    m: Machine, kind: HazardKind, piece: Piece, mask: Array, records: Array, touch: Touch, detail: str
) -> None:
    """A hazard of two accesses: this one and the recorded one, for the first thread of `mask`."""
    at = int(np.flatnonzero(mask)[0])
    row = records[at] if records.ndim == 2 else records[at : at + 1]
    count = int(np.count_nonzero(mask))
    report_pair(m, kind, piece.region, int(piece.threads[at]), int(piece.offsets[at]), row, touch.index, detail, count)


def report_pair(
    m: Machine, kind: HazardKind, region: Region, thread: int, offset: int, records: Array, index: int,
    detail: str, count: int,
) -> None:  # fmt: skip
    """A hazard of `thread` with the first foreign one of `records`."""
    owners = threads_of(records)
    foreign = records[(records != 0) & (owners != thread)]
    other = foreign if len(foreign) else records[records != 0]
    place = m.place(int(places_of(other)[0]), int(threads_of(other)[0])) if len(other) else None
    name, inside = region.name_at(offset)
    m.hazards.add(Hazard(kind, m.place(index, thread), name, inside, place, detail, count))


def _note_reader(m: Machine, piece: Piece, touch: Touch) -> None:
    shadow = piece.region.records()
    granules = shadow.granules(piece.offsets, touch.size)
    records = record(piece.threads, m.order.clock[piece.threads], touch.index, touch.strong)
    if granules.ndim == 2:
        records = np.broadcast_to(records[:, None], granules.shape)
    earlier = shadow.reader[granules]
    shadow.reader[granules] = records
    first = shadow.first_reader[granules]
    shadow.first_reader[granules] = np.where(first == 0, np.where(earlier == 0, records, earlier), first)


# --- store ----------------------------------------------------------------------------------------------------------


def store(m: Machine, lanes: Lanes, addresses: Array, touch: Touch, values: list[Array]) -> None:
    """Writes one element of each array of `values` a thread."""
    m.version += 1
    for piece in locate(m, lanes, addresses, touch):
        positions = piece.positions
        part = values if positions is None else [v[positions] if len(v) > 1 else v for v in values]
        _write(m, piece, touch, part)


def _write(m: Machine, piece: Piece, touch: Touch, values: list[Array]) -> None:
    region = piece.region
    if region.space in (Space.CONST, Space.PARAM):
        m.report(HazardKind.OUT_OF_BOUNDS, touch.index, piece.threads, region.name, None, "a store to read-only memory")
        return
    if region.late and region.role is not Role.FLAG:
        early = (m.seen[piece.threads] & region.late) == 0
        if early.any():
            piece, values = _early_write(m, piece, touch, values, early)
            if not len(piece.threads):
                return
    if region.tracked:
        _check_write(m, piece, touch, values)
    region.stores += 1
    if region.before is not None:
        before = views_of(region.before)
        scatter(before, piece.offsets, touch.width, gather(region.views, piece.offsets, touch.width, touch.count))
    scatter(region.views, piece.offsets, touch.width, values)
    if region.tracked:
        _check_collision(m, piece, touch, values)
    if region.role is Role.FLAG:
        m.published.check_release(m, piece, touch)
    if touch.strong:
        m.published.publish(m, piece, touch, None)


def _early_write(
    m: Machine, piece: Piece, touch: Touch, values: list[Array], early: Array
) -> tuple[Piece, list[Array]]:
    """A write that the producer's own overwrites: the thread sees it until the wait, nobody after it."""
    region = piece.region
    report_early(m, piece, early, touch, early_touch(region, touch), "")
    at = np.flatnonzero(early)
    assert region.stale is not None
    part = [v[at] if len(v) > 1 else v for v in values]
    scatter(views_of(region.stale), piece.offsets[at], touch.width, part)
    rest = np.flatnonzero(~early)
    return piece.keep(~early), [v[rest] if len(v) > 1 else v for v in values]


def _check_write(m: Machine, piece: Piece, touch: Touch, values: list[Array]) -> None:
    """Races with earlier writers and readers; then this thread is the last writer."""
    region = piece.region
    shadow = region.records()
    granules = shadow.granules(piece.offsets, touch.size)
    m.copies.check_source(m, piece, touch)
    if region.stores:
        writers = shadow.writer[granules]
        wrong = racing(m, writers, piece.threads, touch.strong)
        if wrong is not None:
            present = gather(region.views, piece.offsets, touch.width, touch.count)
            changes = np.zeros(len(piece.threads), bool)
            for old, new in zip(present, values, strict=True):
                differs = old != new
                changes |= differs.any(axis=-1) if differs.ndim == 2 else differs
            wrong &= changes
            if wrong.any():
                report_piece(m, HazardKind.RACE, piece, wrong, writers, touch, "nothing orders the two writes")
    for readers in (shadow.reader[granules], shadow.first_reader[granules]):
        wrong = racing(m, readers, piece.threads, touch.strong)
        if wrong is not None:
            report_piece(m, HazardKind.RACE, piece, wrong, readers, touch, "nothing orders this write behind the read")
            break
    clocks = m.order.clocks_for(piece.threads, touch.strong and not touch.releases)
    records = record(piece.threads, clocks, touch.index, touch.strong)
    shadow.writer[granules] = records if granules.ndim == 1 else records[:, None]
    shadow.reader[granules] = 0
    shadow.first_reader[granules] = 0


def _check_collision(m: Machine, piece: Piece, touch: Touch, values: list[Array]) -> None:
    """Threads of this very instruction that wrote different values to one place."""
    if touch.strong or len(piece.threads) < 2:
        return
    present = gather(piece.region.views, piece.offsets, touch.width, touch.count)
    lost = np.zeros(len(piece.threads), bool)
    for old, new in zip(present, values, strict=True):
        differs = old != new
        lost |= differs.any(axis=-1) if differs.ndim == 2 else differs
    if lost.any():
        shadow = piece.region.records()
        granules = shadow.granules(piece.offsets, touch.size)
        report_piece(
            m,
            HazardKind.RACE,
            piece,
            lost,
            shadow.writer[granules],
            touch,
            "threads write different values to one place",
        )
