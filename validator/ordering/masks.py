"""Forward analysis over sets of threads: who may stand here without having passed something.

State at the start of a block is a bit mask of threads. Edges let through the threads whose branch condition may hold,
so every thread has its own pruned control flow without a graph of its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from validator.ordering.dataflow import Flow
from validator.ordering.program import Edge, Event, EventKind
from validator.ordering.remembered import remembering_edges
from validator.ordering.slices import first_value

if TYPE_CHECKING:
    from validator.ordering.threads import Threads

__all__ = ["Clears", "FirstTurns", "Masks", "Turn"]


class Clears(dict[int, int]):
    """Instruction → threads that have passed once they executed it. Not changed once it is used."""

    @cached_property
    def _order(self) -> list[int]:
        return sorted(self)

    def between(self, start: int, stop: int) -> int:
        """Threads that pass in [start, stop)."""
        result = 0
        order = self._order
        for position in range(bisect_left(order, start), bisect_left(order, stop)):
            result |= self[order[position]]
        return result


class FirstTurns:
    """Branches whose side is known in the first turn of an outermost loop: `for (i = 0; …) { if (i == 0) wait; … }`.

    The solver keeps threads in such a loop's first turn apart until they take the way back to its header.
    """

    def __init__(self, flow: Flow) -> None:
        self.decided: dict[int, int] = {}
        """Block → number of the edge that the first turn takes."""
        self._loop_of: dict[int, tuple[int, frozenset[int]]] = {}
        """Block → (header, body) of the loop whose first turn is kept apart."""
        loops = flow.loops
        for body in loops:
            if any(body < other for other in loops):
                continue
            inner = frozenset().union(*(other for other in loops if other < body))
            known = {n: k for n in body - inner if (k := _first_edge(flow, n)) is not None}
            if known:
                self.decided |= known
                self._loop_of |= dict.fromkeys(body, (flow.header(body), body))

    def first(self, source: int, target: int, in_first: bool) -> bool:
        """Whether an edge leads into (or stays in) a first turn."""
        loop = self._loop_of.get(target)
        if loop is None:
            return False
        header, body = loop
        if source not in body:
            return True
        return in_first and target != header


def _first_edge(flow: Flow, number: int) -> int | None:
    """The edge of a block whose condition holds the first time, when it alone does."""
    block = flow.blocks[number]
    if len(block.successors) != 2:
        return None
    taken = [_first_taken(flow, edge, block.stop - 1) for edge in block.successors]
    if sorted(map(str, taken)) == ["False", "True"]:
        return taken.index(True)
    return None


def _first_taken(flow: Flow, edge: Edge, last: int) -> bool | None:
    """Whether an edge is taken the first time, None when that cannot be told."""
    if edge.condition is None:
        return None
    values = [first_value(flow, guard.register, last) for guard in edge.guards]
    holds = [None if v is None else bool(v & 1) is not g.negated for v, g in zip(values, edge.guards, strict=True)]
    if edge.either in holds:
        return edge.either
    return None if None in holds else not edge.either


@dataclass(slots=True)
class Turn:
    """One turn of settling which barriers carry order: a solution, and what was worked out from it."""

    state: list[int]
    """Block → threads that may stand at its start without having passed."""
    clears: Clears
    notes: dict[object, object] = field(default_factory=dict)


_NOTHING = Clears()


class Masks:
    """Edge filters and the solver."""

    def __init__(self, flow: Flow, threads: Threads) -> None:
        self.flow = flow
        self.threads = threads
        self.everyone = threads.everyone
        self._executing: dict[int, int] = {}

    @cached_property
    def edges(self) -> list[list[int]]:
        """Block → for each of its edges the threads that may take it."""
        result: list[list[int]] = []
        for block in self.flow.blocks:
            last = max(block.start, block.stop - 1)
            result.append([self._may_take(edge, last) for edge in block.successors])
        return result

    def _may_take(self, edge: Edge, last: int) -> int:
        first = self.threads.holds(edge.condition, last)[0] & self.threads.choosing(edge.choice)
        if edge.also is None:
            return first
        second = self.threads.holds(edge.also, last)[0]
        return first | second if edge.either else first & second

    def open_to(self, threads: int) -> Callable[[int, int], int]:
        """(block, number of the edge) → those of some threads that may take the edge."""
        return lambda number, k: self.edges[number][k] & threads

    @cached_property
    def remembering(self) -> dict[tuple[int, int], frozenset[int]]:
        """(block, number of the edge) → places one of which a thread has passed that takes the edge."""
        return remembering_edges(self.flow)

    @cached_property
    def _exits(self) -> dict[int, list[tuple[int, int]]]:
        """Block → (instruction, threads that surely end there)."""
        result: dict[int, list[tuple[int, int]]] = {}
        for event in self.flow.program.events:
            if event.kind is EventKind.EXIT:
                gone = self.everyone & ~self.threads.holds(event.guard, event.index)[1]
                result.setdefault(self.flow.block_of(event.index), []).append((event.index, gone))
        return result

    @cached_property
    def reach(self) -> list[int]:
        """Block → threads that may get there."""
        return self.solve({}, {})

    def solve(self, at_events: Mapping[int, int], at_edges: Mapping[tuple[int, int], int]) -> list[int]:
        """Block → threads that may stand at its start without having passed a clearing place.

        `at_events`: instruction → threads that have passed once they executed it; `at_edges`: (block, number of the
        edge) → threads that have passed once they took it.
        """
        flow = self.flow
        clears: dict[int, list[tuple[int, int]]] = {}
        for index, mask in at_events.items():
            clears.setdefault(flow.block_of(index), []).append((index, mask))
        through = {b: self._combined(clears.get(b, []), self._exits.get(b, [])) for b in {*clears, *self._exits}}
        later, first = [0] * len(flow.blocks), [0] * len(flow.blocks)
        if not later:
            return later
        later[0] = self.everyone
        turns = self.first_turns
        queue = [(flow.rank[0], 0, False)]
        queued = {(0, False)}
        while queue:
            _, number, in_first = heappop(queue)
            queued.discard((number, in_first))
            mask = (first if in_first else later)[number] & ~through.get(number, 0)
            only = turns.decided.get(number) if in_first else None
            for k, edge in enumerate(flow.blocks[number].successors):
                if only is not None and k != only:
                    continue
                out = mask & self.edges[number][k] & ~at_edges.get((number, k), 0)
                into = turns.first(number, edge.target, in_first)
                state = first if into else later
                if out & ~state[edge.target]:
                    state[edge.target] |= out
                    if (edge.target, into) not in queued:
                        queued.add((edge.target, into))
                        heappush(queue, (flow.rank[edge.target], edge.target, into))
        return [a | b for a, b in zip(later, first, strict=True)]

    @cached_property
    def first_turns(self) -> FirstTurns:
        """Which branches are known in the first turn of a loop."""
        return FirstTurns(self.flow)

    @staticmethod
    def _combined(*lists: list[tuple[int, int]]) -> int:
        result = 0
        for items in lists:
            for _, mask in items:
                result |= mask
        return result

    def at(self, index: int, state: list[int], at_events: Mapping[int, int]) -> int:
        """The state just before instruction `index` (its own guard not applied)."""
        number = self.flow.block_of(index)
        mask = state[number]
        if mask:
            clears = at_events if isinstance(at_events, Clears) else Clears(at_events)
            mask &= ~clears.between(self.flow.blocks[number].start, index)
            for place, gone in self._exits.get(number, ()):
                if place < index:
                    mask &= ~gone
        return mask

    def executing(self, event: Event) -> int:
        """Threads that may execute an event."""
        known = self._executing.get(id(event))
        if known is None:
            known = self.at(event.index, self.reach, _NOTHING) & self.threads.holds(event.guard, event.index)[0]
            self._executing[id(event)] = known
        return known
