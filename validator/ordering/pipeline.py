"""Whether an asynchronous copy into shared memory is done where the memory is read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from validator.ordering.masks import Clears
from validator.ordering.program import Event, EventKind
from validator.ordering.shared import Shared, SharedAccess

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["Pipeline"]

_CAP = 32
"""Groups counted; more than anybody keeps in flight."""

_STEPS = (EventKind.ASYNC_COMMIT, EventKind.ASYNC_WAIT, EventKind.MBARRIER_WAIT)


@dataclass(frozen=True, slots=True)
class _Reads:
    """Reads of one part of shared memory."""

    by_index: dict[int, SharedAccess]
    blocks: frozenset[int]


class Pipeline:
    """Copies into the shared memory of one kernel, and the reads of what they fill."""

    def __init__(self, facts: Facts, shared: Shared) -> None:
        self.facts = facts
        self.shared = shared
        self._waited: dict[str | None, tuple[list[int], Clears]] = {}

    def late(self) -> Iterator[tuple[SharedAccess, SharedAccess]]:
        """(copy, read) where the copy may be in flight when the memory is read."""
        parts: dict[object, list[SharedAccess]] = {}
        for read in self.shared.reads:
            parts.setdefault(self.shared.part(read.region), []).append(read)
        whole = {part: self._reads(members) for part, members in parts.items()}
        for copy in self._distinct():
            part = self.shared.part(copy.region)
            if part not in whole or copy.remote:
                # What goes to another CTA is waited for there.
                continue
            reads = whole[part]
            if copy.region.bytes is not None:
                reads = self._reads([r for r in parts[part] if self.shared.meet(copy.region, r.region)])
            for read in self._unfinished(copy, reads) or self._unwaited(copy, reads):
                yield copy, read

    def _reads(self, members: list[SharedAccess]) -> _Reads:
        by_index = {r.event.index: r for r in members}
        return _Reads(by_index, frozenset(self.facts.flow.block_of(i) for i in by_index))

    def _distinct(self) -> Iterator[SharedAccess]:
        """Copies to one region between two steps of the pipeline fare alike: the first stands for all."""
        steps = sorted(e.index for e in self.facts.program.events if e.kind in _STEPS)
        seen: set[object] = set()
        for copy in self.shared.copies:
            index = copy.event.index
            key = (self.facts.flow.block_of(index), bisect_left(steps, index), copy.event.group, copy.region)
            if key not in seen:
                seen.add(key)
                yield copy

    @cached_property
    def _looped(self) -> frozenset[int]:
        return frozenset(number for body in self.facts.flow.loops for number in body)

    def _unfinished(self, copy: SharedAccess, reads: _Reads) -> list[SharedAccess]:
        """Reads that the issuing thread reaches while its copy may be in flight.

        Groups are counted: after `wait_group n` a copy is done when n groups were committed after its own. Of a
        software pipeline's stages only the first is counted into the first turns of the loop: it is read first, and
        later ones may be in flight. Where the copy itself is in a loop any wait counts, before or after it.
        """
        flow, masks = self.facts.flow, self.facts.masks
        wanted = reads.by_index
        start = flow.block_of(copy.event.index)
        counted = start not in self._looped and (not self._looped & reads.blocks or self._first_stage(copy))
        if not counted and self._waited_before(copy.event):
            return []
        issuing = masks.executing(copy.event)
        found: set[int] = set()
        least: dict[tuple[int, bool], int] = {}
        stack = [(start, copy.event.index + 1, 0, False)]
        while stack:
            number, first, commits, in_first = stack.pop()
            passed, left = self._through(number, first, commits, copy.event, counted, wanted)
            found |= passed
            if left is None:
                continue
            only = masks.first_turns.decided.get(number) if in_first else None
            for k, edge in enumerate(flow.blocks[number].successors):
                into = masks.first_turns.first(number, edge.target, in_first)
                open_edge = masks.edges[number][k] & issuing and only in (None, k)
                if open_edge and left < least.get((edge.target, into), _CAP + 1):
                    least[edge.target, into] = left
                    stack.append((edge.target, 0, left, into))
        return [wanted[index] for index in sorted(found)]

    def _first_stage(self, copy: SharedAccess) -> bool:
        """Whether no other copy into the same part can have been committed before this one, in another group."""
        flow = self.facts.flow
        home = flow.block_of(copy.event.index)
        before = flow.leading_to(home)
        committed = [e.index for e in self.facts.events(EventKind.ASYNC_COMMIT) if e.group in (copy.event.group, None)]
        for other in self.shared.copies:
            index = other.event.index
            if index == copy.event.index or self.shared.part(other.region) != self.shared.part(copy.region):
                continue
            place = flow.block_of(index)
            if place == home and index < copy.event.index:
                if any(index < c < copy.event.index for c in committed):
                    return False
            elif place != home and place in before:
                return False
        return True

    def _through(
        self, number: int, first: int, commits: int, copy: Event, counted: bool, wanted: dict[int, SharedAccess]
    ) -> tuple[set[int], int | None]:
        """(reads passed in a block, groups committed at its end; None when the copy is done in it)."""
        passed: set[int] = set()
        for event in self.facts.flow.events_in[number]:
            if event.index < first:
                continue
            if event.index in wanted:
                passed.add(event.index)
            if event.kind is EventKind.ASYNC_COMMIT and event.group in (copy.group, None):
                commits = min(commits + 1, _CAP)
            if event.index not in self._ignored and _finishes(event, copy, commits, counted):
                return passed, None
        return passed, commits

    @property
    def _ignored(self) -> frozenset[int]:
        """Waits whose answer is thrown away."""
        return self.facts.barriers.tried.ignored

    def _waited_before(self, copy: Event) -> bool:
        """Whether every path to the copy has passed some wait for copies of its kind."""
        masks = self.facts.masks
        if copy.group not in self._waited:
            waits = self.facts.events(EventKind.ASYNC_WAIT, EventKind.MBARRIER_WAIT)
            own = [e for e in waits if e.kind is EventKind.MBARRIER_WAIT or e.group in (copy.group, None)]
            own = [e for e in own if e.index not in self._ignored]
            clears = Clears({e.index: masks.everyone for e in own})
            self._waited[copy.group] = (masks.solve(clears, {}), clears)
        return not masks.at(copy.index, *self._waited[copy.group])

    def _unwaited(self, copy: SharedAccess, reads: _Reads) -> list[SharedAccess]:
        """Reads of an mbarrier-completed copy by threads that never waited for any mbarrier nor met one that did."""
        if copy.event.group != "mbarrier" or any(self.shared.meet(w.region, copy.region) for w in self.shared.writes):
            return []
        return [r for r in reads.by_index.values() if self.facts.mbarrier_order.missing(r.event)]


def _finishes(event: Event, copy: Event, commits: int, counted: bool) -> bool:
    if event.kind is EventKind.MBARRIER_WAIT:
        return True
    if event.kind is not EventKind.ASYNC_WAIT or event.group not in (copy.group, None):
        return False
    if event.pending is None or not counted:
        return True
    return event.pending == 0 or commits - 1 >= event.pending
