"""Words that threads synchronise through: what a release put there and who acquires it (PTX ISA, "Memory consistency").

A word keeps what its last releases published, joined: read-modify-writes carry a release sequence on. Flags that other
launches write are here too: seeing one set by an acquire makes the buffers that it guards visible to the thread.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from validator.emulate.hazard import HazardKind
from validator.emulate.lanes import Array
from validator.emulate.memory import gather, views_of
from validator.emulate.shadow import clocks_of, threads_of
from validator.manifest.contract import Role

if TYPE_CHECKING:
    from validator.emulate.locate import Piece
    from validator.emulate.machine import Machine
    from validator.emulate.memory import Touch

__all__ = ["Published"]

MOST_CHECKED = 64
"""Threads of one instruction whose publishing is checked."""
PAIR_SHIFT = 19
"""Bits of a record below thread and clock."""
_WIDE = ("gpu", "sys", "cluster")
"""Scopes that reach other CTAs; a cluster's is taken for the whole GPU's: coarser, it invents no race."""


@dataclass(slots=True)
class _Word:
    known: Array
    fenced: Array
    seen: int
    wide: bool
    """Released at a scope beyond the CTA."""
    cta: int
    before: _Word | None = None
    """What the value before this one published, for who still reads that."""
    merged: bool = False
    """Read-modify-writes have been joined in: what stood before each of them is not told apart."""


class Published:
    def __init__(self) -> None:
        self._words: dict[tuple[int, int], _Word] = {}

    # --- publishing -------------------------------------------------------------------------------------------------

    def publish(self, m: Machine, piece: Piece, touch: Touch, at: Array | None) -> None:
        """A strong store or atomic: with release what the thread knows, else what its last fence covered.

        `at`: which threads of the piece; None: all.
        """
        if not m.order.fine:
            return
        threads, offsets = (piece.threads, piece.offsets) if at is None else (piece.threads[at], piece.offsets[at])
        if touch.releases:
            known, fenced = m.order.rows(threads)
            seen = m.seen[threads]
        else:
            known, fenced, seen = m.order.released[threads], m.order.fenced[threads], m.seen_released[threads]
        wide = touch.scope in _WIDE
        key = id(piece.region)
        for row, offset in enumerate(offsets.tolist()):
            self._put(key, offset, known[row], fenced[row], int(seen[row]), wide, int(threads[row]) // m.per_cta, touch)
        if touch.releases:
            m.order.tick(threads)

    def _put(
        self, key: int, offset: int, known: Array, fenced: Array, seen: int, wide: bool, cta: int, touch: Touch
    ) -> None:
        word = self._words.get((key, offset))
        if word is None or not touch.reads:
            before = word if word is None or word.merged else replace(word, before=None)
            self._words[key, offset] = _Word(known.copy(), fenced.copy(), seen, wide, cta, before)
            return
        word.merged = True
        np.maximum(word.known, known, out=word.known)
        np.maximum(word.fenced, fenced, out=word.fenced)
        word.seen |= seen
        word.wide, word.cta = word.wide or wide, cta

    def check_release(self, m: Machine, piece: Piece, touch: Touch) -> None:
        """A flag is set: what the thread knows of the buffers it guards must be covered by this release or a fence."""
        if touch.releases:
            return
        for region in m.memory.buffers:
            if region.guards != piece.region.name or region.shadow is None or not region.stores:
                continue
            records = region.shadow.writer
            pairs = np.unique(records[records != 0] >> PAIR_SHIFT << PAIR_SHIFT)
            writers, clocks = threads_of(pairs), clocks_of(pairs)
            for at, thread in enumerate(piece.threads[:MOST_CHECKED].tolist()):
                me = np.full(len(pairs), thread)
                open_ = m.order.ordered(writers, clocks, me)
                if m.order.fine:
                    open_ &= clocks > m.order.released[thread, writers // m.order.group]
                if open_.any():
                    m.report(
                        HazardKind.NOT_RELEASED, touch.index, piece.threads[at : at + 1], piece.region.name,
                        int(piece.offsets[at]), f"no fence follows the writes to {region.name!r}",
                    )  # fmt: skip
                    return

    # --- observing --------------------------------------------------------------------------------------------------

    def observe(self, m: Machine, piece: Piece, touch: Touch, values: list[Array]) -> None:
        """A strong load: an acquire takes what was published, anything weaker notes it for a fence."""
        bit = m.flag_bits.get(piece.region.name)
        if bit is not None:
            self._external(m, piece, touch, values, bit)
        if self._words:
            self._take(m, piece, touch)

    def observe_before(self, m: Machine, piece: Piece, touch: Touch) -> None:
        """A strong load that got what was there before the last store."""
        if self._words:
            self._take(m, piece, touch, before=True)

    def observe_atomic(self, m: Machine, piece: Piece, touch: Touch, at: Array) -> None:
        """The load half of an atomic, before it is executed by the threads `at` of the piece."""
        if not self._words and not m.flag_bits:
            return
        piece = piece.keep(at)
        bit = m.flag_bits.get(piece.region.name)
        if bit is not None:
            self._external(m, piece, touch, gather(piece.region.views, piece.offsets, touch.width, 1), bit)
        if self._words:
            self._take(m, piece, touch)

    def _external(self, m: Machine, piece: Piece, touch: Touch, values: list[Array], bit: int) -> None:
        region = piece.region
        if region.role is not Role.FLAG or region.stale is None:
            return
        unset = gather(views_of(region.stale), piece.offsets, touch.width, touch.count)
        published = np.zeros(len(piece.threads), bool)
        for old, value in zip(unset, values, strict=True):
            published |= old != value if value.ndim == 1 else (old != value).any(axis=1)
        if touch.scope not in ("gpu", "sys"):
            return
        threads = piece.threads[published]
        (m.seen if touch.acquires else m.seen_pending)[threads] |= np.uint64(bit)

    def _take(self, m: Machine, piece: Piece, touch: Touch, before: bool = False) -> None:
        key, wide = id(piece.region), touch.scope in _WIDE
        offsets, threads = piece.offsets, piece.threads
        for offset in np.unique(offsets).tolist():
            word = self._words.get((key, offset))
            if word is not None and before and not word.merged:
                word = word.before
            if word is None:
                continue
            readers = threads[offsets == offset]
            if not (wide and word.wide):
                readers = readers[readers // m.per_cta == word.cta]
            if not len(readers):
                continue
            if touch.acquires:
                m.order.learn(readers, word.known, word.fenced)
                m.seen[readers] |= np.uint64(word.seen)
            else:
                m.order.pending[readers] = np.maximum(m.order.pending[readers], word.known)
                m.seen_pending[readers] |= np.uint64(word.seen)

    def fence(self, m: Machine, threads: Array, wide: bool, in_turn: bool) -> None:
        """fence.acq_rel, or fence.sc if `in_turn`, by these threads."""
        if wide:
            m.seen[threads] |= m.seen_pending[threads]
        m.order.fence(threads, wide, in_turn)
        m.seen_released[threads] = m.seen[threads]
