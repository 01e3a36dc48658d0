"""What happens before what: vector clocks, hierarchical so that the common case costs nothing.

Every thread has a clock that moves on at each synchronisation. An access is remembered as (thread, clock). It happens
before what thread `u` does now if

- it was the thread's own, or both are of one CTA and all of it has passed a barrier since (`base`), or of one warp and
  the warp has met since (`warp_base`),
- or `u` knows the clock through releases and acquires, mbarriers or partial barriers: `known[u, g]`, kept only for
  kernels that have such instructions. `g` counts threads, or groups of neighbouring ones in launches too large for a
  full matrix: coarser knowledge misses races and invents none.

`fenced` is the same for the async proxy: which clocks a proxy fence has made visible to it, in the first half of its
columns for shared memory, in the second for global memory; a fence may name one of them.
"""

from __future__ import annotations

import numpy as np

from validator.emulate.lanes import Array

__all__ = ["LARGEST_MATRIX", "HappensBefore", "Word", "joined"]

Word = tuple[Array, Array] | None
"""(generic, async-proxy) knowledge left for others; None where none is kept."""
LARGEST_MATRIX = 1 << 23
"""Entries of a clock matrix."""


def joined(one: Word, other: Word) -> Word:
    """What two words say together."""
    if one is None or other is None:
        return one or other
    return np.maximum(one[0], other[0]), np.maximum(one[1], other[1])


class HappensBefore:
    def __init__(self, ctas: int, per_cta: int, fine: bool) -> None:
        """`per_cta`: threads of one CTA, a multiple of 32. `fine`: keep the matrices."""
        self.ctas, self.per_cta = ctas, per_cta
        total = ctas * per_cta
        self.clock = np.ones(total, np.int32)
        self.base = np.zeros(total, np.int32)
        self.warp_base = np.zeros(total, np.int32)
        self.group = 1
        while total * -(-total // self.group) > LARGEST_MATRIX:
            self.group *= 2
        self.fine = fine
        columns = -(-total // self.group)
        shape = (total, columns) if fine else (0, columns)
        self.known = np.zeros(shape, np.int32)
        self.columns = columns
        self.fenced = np.zeros((shape[0], 2 * columns), np.int32)
        self.released = np.zeros(shape, np.int32)
        """What a thread's last fence covers: its relaxed stores publish this much."""
        self.in_turn = np.zeros(total, np.int32)
        """What a thread's last fence.sc covers: such fences come in one order that all agree on."""
        self.wide = np.zeros(total, np.bool_)
        """Whether that fence was one of the whole GPU."""
        self.pending = np.zeros(shape, np.int32)
        """What a thread's relaxed loads have seen published: its next fence acquires it."""
        self.vouched: Array | None = None
        """`known` without what came through signals of too narrow a scope; None while there were none."""

    def ordered(self, writer: Array, clock: Array, reader: Array) -> Array:
        """Whether each access (writer, clock) happens before what `reader` does now; arrays of one element a pair."""
        same = writer // self.per_cta == reader // self.per_cta
        found = (writer == reader) | (same & (clock <= self.base[writer]))
        found |= (writer >> 5 == reader >> 5) & (clock <= self.warp_base[writer])
        if self.fine and not found.all():
            found |= clock <= self.known[reader, writer // self.group]
        result: Array = found
        return result

    def wide_enough(self, writer: Array, clock: Array, reader: Array) -> Array:
        """Whether an ordered access of another CTA was ordered by signals of a sufficient scope."""
        assert self.vouched is not None
        same: Array = writer // self.per_cta == reader // self.per_cta
        known: Array = clock <= self.vouched[reader, writer // self.group]
        return same | known

    def knows_of(self, threads: Array, cta: int) -> Array:
        """Whether each thread is ordered behind anything at all that this CTA did."""
        if not self.fine:
            return np.zeros(len(threads), bool)
        first, last = cta * self.per_cta // self.group, ((cta + 1) * self.per_cta - 1) // self.group
        return np.asarray((self.known[threads, first : last + 1] > 0).any(axis=1))

    def known_to_any(self, writer: Array, clock: Array, readers: Array) -> Array:
        """Whether each access of another CTA happens before the latest of any of `readers`."""
        known: Array = clock <= self.known[readers].max(axis=0)[writer // self.group]
        return known

    def visible_to_async(self, writer: Array, clock: Array, reader: Array, shared: bool) -> Array:
        """Whether each generic write is visible to an asynchronous copy that `reader` issues now. `shared`: to shared
        memory, else to global memory."""
        if not self.fine:
            return np.zeros(len(writer), bool)
        visible: Array = clock <= self.fenced[reader, writer // self.group + (0 if shared else self.columns)]
        return visible

    def fenced_in_turn(self, writer: Array, clock: Array, reader: Array) -> Array:
        """Whether a fence.sc follows each access and its reader has executed one too: where both have, one of them sees
        the other's write, and it is taken that all do."""
        found: Array = (clock <= self.in_turn[writer]) & (self.in_turn[reader] > 0)
        return found

    def clocks_for(self, threads: Array, strong: bool) -> Array:
        """The clock that a write is remembered with. A strong write behind a fence is part of what the fence
        releases: whoever acquires it through that very word is ordered behind the write too."""
        clocks: Array = self.clock[threads]
        if not strong or not self.fine:
            return clocks
        fenced = self.released[threads, threads // self.group]
        return np.where(fenced > 0, np.minimum(fenced, clocks), clocks)

    # --- rows: what a thread knows, itself included ------------------------------------------------------------------

    def _with_self(self, threads: Array, known: Array | None = None) -> Array:
        """Rows of `known` with the threads' own clocks and their CTA's last barrier in them."""
        rows = (self.known if known is None else known)[threads].copy()
        np.maximum.at(rows, (np.arange(len(threads)), threads // self.group), self.clock[threads])
        first = threads // self.per_cta * self.per_cta
        for start in np.unique(first):
            mine = first == start
            bases = self.base[start : start + self.per_cta]
            columns = np.arange(start, start + self.per_cta) // self.group
            low = int(columns[0])
            merged = np.zeros(int(columns[-1]) - low + 1, np.int32)
            np.maximum.at(merged, columns - low, bases)
            block = rows[mine, low : low + len(merged)]
            rows[mine, low : low + len(merged)] = np.maximum(block, merged)
        return rows

    def rows(self, threads: Array) -> tuple[Array, Array]:
        """(generic, async-proxy) knowledge that each thread publishes when it releases now."""
        return self._with_self(threads), self.fenced[threads].copy()

    def tick(self, threads: Array) -> None:
        """Later accesses of these threads are not covered by what they published before."""
        self.clock[threads] += 1

    def learn(self, threads: Array, rows: Array, fenced: Array, vouched: Array | None = None) -> None:
        """Each thread acquires a row (or all of them the same one). `vouched`: the part of it that signals of a
        sufficient scope brought; None: all."""
        if vouched is not None and self.vouched is None:
            self.vouched = self.known.copy()
        if self.vouched is not None:
            self.vouched[threads] = np.maximum(self.vouched[threads], rows if vouched is None else vouched)
        self.known[threads] = np.maximum(self.known[threads], rows)
        self.fenced[threads] = np.maximum(self.fenced[threads], fenced)

    # --- barriers ---------------------------------------------------------------------------------------------------

    def cta_barrier(self, ctas: Array) -> None:
        """All threads of these CTAs met."""
        blocks = [slice(c * self.per_cta, (c + 1) * self.per_cta) for c in ctas.tolist()]
        if len(blocks) == self.ctas:
            self.base[:] = self.clock
            self.clock += 1
        else:
            for block in blocks:
                self.base[block] = self.clock[block]
                self.clock[block] += 1
        if self.fine:
            for block in blocks:
                self.known[block] = self.known[block].max(axis=0)
                if self.vouched is not None:
                    self.vouched[block] = self.vouched[block].max(axis=0)
                self.fenced[block] = self.fenced[block].max(axis=0)
                # What one thread saw published and the barrier passes on is acquired by each other's own fence.
                self.pending[block] = self.pending[block].max(axis=0)
                # Writers that fence before the barrier, one thread that signals behind it with a relaxed atomic:
                # PyTorch's last-block reductions. To the letter of the PTX model the fence is another thread's; every
                # machine has drained it before the barrier lets anybody go.
                self._pass_on(np.arange(block.start, block.stop))

    def _pass_on(self, threads: Array) -> None:
        """What fences of the whole GPU covered in some of these threads is covered in all of them."""
        wide = threads[self.wide[threads]]
        if len(wide):
            self.released[threads] = np.maximum(self.released[threads], self.released[wide].max(axis=0))
            self.wide[threads] = True

    def warp_barrier(self, threads: Array) -> None:
        """These lanes met, warp by warp."""
        whole = threads
        if self.fine:
            warps = threads >> 5
            for warp in np.unique(warps).tolist():
                self.group_barrier(threads[warps == warp], False)
            # Some lanes meeting says nothing of the others: only the matrices tell who met whom.
            whole = threads[np.bincount(warps, minlength=self.ctas * self.per_cta >> 5)[warps] == 32]
        self.warp_base[whole] = self.clock[whole]
        self.tick(threads)

    def group_barrier(self, threads: Array, tick: bool = True) -> None:
        """These threads met."""
        if self.fine:
            rows, fenced = self.rows(threads)
            vouched = None if self.vouched is None else self._with_self(threads, self.vouched).max(axis=0)
            self.learn(threads, rows.max(axis=0), fenced.max(axis=0), vouched)
            self.pending[threads] = self.pending[threads].max(axis=0)
            self._pass_on(threads)
        if tick:
            self.tick(threads)

    def leave_word(self, threads: Array, relaxed: bool = False) -> Word:
        """What these threads bring to a barrier that they do not wait at; what they do next is not part of it.

        `relaxed`: only what their last fence covers.
        """
        if not self.fine:
            self.tick(threads)
            return None
        rows, fenced = self.rows(threads)
        if relaxed:
            rows = self.released[threads]
        self.tick(threads)
        return rows.max(axis=0), fenced.max(axis=0)

    # --- fences -----------------------------------------------------------------------------------------------------

    def fence(self, threads: Array, wide: bool = True, in_turn: bool = False) -> None:
        """fence.acq_rel or stronger: acquires what was seen published, covers what later relaxed stores publish.

        `wide`: for others than the own CTA too; `in_turn`: fence.sc.
        """
        if not self.fine:
            return
        self.known[threads] = np.maximum(self.known[threads], self.pending[threads])
        if self.vouched is not None:
            self.vouched[threads] = np.maximum(self.vouched[threads], self.pending[threads])
        self.released[threads] = self._with_self(threads)
        self.wide[threads] = wide
        if in_turn:
            self.in_turn[threads] = self.clock[threads]
        self.tick(threads)

    def proxy_fence(self, threads: Array, shared: bool = True, elsewhere: bool = True) -> None:
        """What each thread knows of shared memory, of global memory, or of both becomes visible to the async proxy."""
        if self.fine:
            rows = self._with_self(threads)
            shown = np.concatenate([rows * shared, rows * elsewhere], axis=1)
            self.fenced[threads] = np.maximum(self.fenced[threads], shown)
            self.tick(threads)
