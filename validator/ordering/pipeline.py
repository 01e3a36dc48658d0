"""Whether an asynchronous copy into shared memory is done where the memory is read.

Three questions, of three kinds of reader: the issuing thread comes to the read while its copy may be in flight;
another thread reads what an issuer hands over without ever waiting for it; a reader of a bulk or tensor copy has not
waited for the phase of the mbarrier that counts its bytes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Set
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from validator.ordering.around import by_launch, passed_with
from validator.ordering.masks import Clears
from validator.ordering.program import Event, EventKind
from validator.ordering.scalars import Place, happens
from validator.ordering.shared import Shared, SharedAccess

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["Late", "Pipeline"]

_CAP = 32
"""Groups counted; more than anybody keeps in flight."""

_WALKED, _LEAST = 2000, 200
"""Blocks walked to show that a read really can come too early, for all copies and for one."""

_TO_SEVERAL = ("multicast", "broadcast")
_STEPS = (EventKind.ASYNC_COMMIT, EventKind.ASYNC_WAIT, EventKind.MBARRIER_WAIT)


@dataclass(frozen=True, slots=True)
class Late:
    """A read that may come while a copy into what it reads is in flight."""

    copy: SharedAccess
    read: SharedAccess
    shown: bool = True
    """False: only over a path whose branches contradict each other for every number that was tried."""


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

    def late(self) -> Iterator[Late]:
        """Reads that may come while the copy is in flight."""
        parts: dict[object, list[SharedAccess]] = {}
        for read in self.shared.reads:
            parts.setdefault(self.shared.part(read.region), []).append(read)
        whole = {part: self._reads(members) for part, members in parts.items()}
        for copy in self._distinct():
            if copy.remote:
                continue  # what goes to another CTA is waited for there
            part = self.shared.part(copy.region)
            reads = whole.get(part, self._reads([]))
            if copy.region.bytes is not None:
                reads = self._reads([r for r in parts.get(part, ()) if self.shared.meet(copy.region, r.region)])
            unfinished = self._unfinished(copy, reads)
            if unfinished and len(self.facts.launch_kinds) > 1:
                unfinished = self._in_some_launch(copy, reads)
            if unfinished:
                shown = self._shown(copy, unfinished)
                yield from (Late(copy, read, read.event.index in shown) for read in unfinished)
            else:
                yield from (Late(copy, read) for read in self._unwaited(copy, reads) or self._abandoned(copy))

    def _shown(self, copy: SharedAccess, reads: list[SharedAccess]) -> Set[int]:
        """Reads to which a thread can really come, with the copy in flight; groups are counted along paths as it is."""
        issuing = self.facts.masks.executing(copy.event)
        places = {r.event.index: issuing & self.facts.masks.executing(r.event) for r in reads}
        if copy.event.group != "mbarrier":
            return places.keys()
        return self.facts.taken_in_flight(copy.event, places, max(_LEAST, _WALKED // len(self.shared.copies)))

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

    def _in_some_launch(self, copy: SharedAccess, reads: _Reads) -> list[SharedAccess]:
        """The same, in launches of each kind: the copy and the way around its wait may ask for different numbers."""
        kinds = [k for k in self.facts.launch_kinds if happens(self.facts.flow, k, copy.event.index)]
        found = {r.event.index: r for closed in kinds for r in self._unfinished(copy, reads, closed)}
        return [found[index] for index in sorted(found)]

    def _unfinished(
        self, copy: SharedAccess, reads: _Reads, closed: frozenset[Place] = frozenset()
    ) -> list[SharedAccess]:
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
                open_edge = masks.edges[number][k] & issuing and only in (None, k) and (number, k) not in closed
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
            if self._finishes(event, copy, commits, counted):
                return passed, None
        return passed, commits

    def _finishes(self, event: Event, copy: Event, commits: int, counted: bool) -> bool:
        """Whether a thread that has issued a copy knows behind an event that it is done."""
        if event.kind is EventKind.MBARRIER_WAIT:
            return event.index not in self._ignored and (copy.group == "mbarrier" or bool(self._handed_to_mbarriers))
        if event.kind is not EventKind.ASYNC_WAIT:
            # A barrier that a thread comes to which has waited for the phase.
            return copy.group == "mbarrier" and event.index in self.facts.mbarrier_order().carriers
        if event.group not in (copy.group, None):
            return False
        if event.pending is None or not counted:
            return True
        return event.pending == 0 or commits - 1 >= event.pending

    @property
    def _ignored(self) -> frozenset[int]:
        """Waits whose answer is thrown away."""
        return self.facts.barriers.tried.ignored

    @cached_property
    def _handed_to_mbarriers(self) -> list[Event]:
        """`cp.async.mbarrier.arrive`: arrives when the thread's earlier cp.async are done."""
        return [e for e in self.facts.events(EventKind.MBARRIER_ARRIVE) if e.group == "cp.async"]

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
        """Reads of an mbarrier-completed copy by threads that have not waited for its mbarrier, nor met one that has.

        A wait for another mbarrier counts too where that one's arrivals may stand behind a wait for the right one.
        """
        if copy.event.group != "mbarrier" or any(self.shared.meet(w.region, copy.region) for w in self.shared.writes):
            return []
        if copy.event.index in self._uncounted:
            return list(reads.by_index.values())
        name = self.facts.barriers.mbarriers.identities.get(copy.event.index)
        order = self.facts.mbarrier_order(name)
        late = [r for r in reads.by_index.values() if order.missing(r.event)]
        if late:
            around = [passed_with(self.facts, copy.event, order) or order]
            if len(self.facts.launch_kinds) > 1:
                around = by_launch(self.facts, copy.event, around[0])
            return [r for r in late if any(found.missing(r.event) for found in around)]
        untried = self.facts.taken_untried(name, (r.event for r in reads.by_index.values()))
        return [r for index, r in reads.by_index.items() if index in untried]

    @cached_property
    def _uncounted(self) -> frozenset[int]:
        here = [c.event for c in self.shared.copies if not c.remote]
        alone = {e.index for e in here if not any(word in e.opcode.lower() for word in _TO_SEVERAL)}
        return self.facts.barriers.mbarriers.uncounted(alone)

    def _abandoned(self, copy: SharedAccess) -> list[SharedAccess]:
        """Reads by other threads of a cp.async that its issuer never waits for, on any way it may go from there."""
        if copy.event.group != "cp.async":
            return []
        masks = self.facts.masks
        issuing = masks.executing(copy.event)
        others = [r for r in self.shared.reads if masks.executing(r.event) & ~issuing and self._may_read(r, copy)]
        return others if others and not self._ever_done(copy.event, issuing) else []

    def _may_read(self, read: SharedAccess, copy: SharedAccess) -> bool:
        """An index may be counted from below the copy too: `tile[t - 128]`, with nothing written in between."""
        if self.shared.meet(read.region, copy.region):
            return True
        below = read.region.bytes is None and read.region.offset <= copy.region.offset
        return (
            below and read.region.root == copy.region.root and self.shared.first_from(read.region) == copy.region.offset
        )

    def _ever_done(self, copy: Event, issuing: int) -> bool:
        """Whether some way from a copy passes something that waits for it, or hands it to an mbarrier."""
        flow, masks = self.facts.flow, self.facts.masks
        waits = [e for e in self.facts.events(EventKind.ASYNC_WAIT) if e.group in (copy.group, None)]
        done = {e.index for e in (*waits, *self._handed_to_mbarriers)}
        return any(e.index in done for e in flow.events_after((copy.index,), (), masks.open_to(issuing)))
