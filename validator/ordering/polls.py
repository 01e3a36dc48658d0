"""Polling: a word of global memory is loaded again until it says so.

A branch decided by a loaded word passes the poll on the side that does not go back for the word: of a branch inside
the loop the side that leaves it (or goes on, where the other side goes straight back); of a first look before the loop
the side that does not lead to loading the word again. A side that is also taken for another reason, such as a limit
on the number of turns, does not pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from validator.ordering.conditions import Conditions
from validator.ordering.dataflow import Flow
from validator.ordering.masks import Masks
from validator.ordering.memory import Touch
from validator.ordering.program import EventKind, Order, Scope

__all__ = ["ACQUIRES", "RELEASES", "Again", "Poll", "fences", "find_polls", "passing_edges"]

ACQUIRES = (Order.ACQUIRE, Order.ACQ_REL, Order.SC)
RELEASES = (Order.RELEASE, Order.ACQ_REL, Order.SC)


@dataclass(frozen=True, slots=True)
class Poll:
    """One load that is repeated until it says so."""

    touch: Touch
    name: str
    """The polled argument."""
    exits: tuple[tuple[int, int], ...]
    """(block, number of the edge) that are taken once the word says so."""

    def acquires(self, scope: Scope) -> bool:
        event = self.touch.event
        return event.order in ACQUIRES and event.scope is not None and event.scope >= scope


def find_polls(
    flow: Flow, masks: Masks, conditions: Conditions, candidates: Iterable[Touch], others: set[int]
) -> list[Poll]:
    """Polls among loads of words that synchronise; `others`: instructions that touch other global memory."""
    loads = [t for t in candidates if t.word in ("read", "atomic") and masks.executing(t.event)]
    by_name: dict[str, set[int]] = {}
    for touch in loads:
        by_name.setdefault(_name(touch), set()).add(touch.index)
    result: list[Poll] = []
    for touch in loads:
        again = Again(flow, by_name[_name(touch)], others)
        exits = passing_edges(flow, conditions, touch.index, again)
        if exits:
            result.append(Poll(touch, _name(touch), exits))
    return result


def _name(touch: Touch) -> str:
    return touch.targets[0].name if touch.targets else ""


class Again:
    """Which blocks lead to loading the word again, on every path and before anything else is done with memory."""

    def __init__(self, flow: Flow, loads: set[int], others: set[int]) -> None:
        self._flow = flow
        self._loads = loads
        self._others = others
        self._known: dict[int, bool] = {}

    def leads(self, block: int) -> bool:
        known = self._known.get(block)
        if known is None:
            known = self._known[block] = self._search(block)
        return known

    def _search(self, block: int) -> bool:
        seen: set[int] = set()
        stack = [block]
        met = False
        while stack:
            number = stack.pop()
            if number in seen:
                continue
            seen.add(number)
            found = self._first(number)
            if found is False:
                return False
            if found:
                met = True
                continue
            # A block without successors is a trap: nothing follows.
            stack.extend(edge.target for edge in self._flow.blocks[number].successors)
        return met

    def _first(self, number: int) -> bool | None:
        for event in self._flow.events_in[number]:
            if event.index in self._loads:
                return True
            if event.index in self._others or event.kind in (EventKind.EXIT, EventKind.BARRIER):
                return False
        return None


def passing_edges(
    flow: Flow, conditions: Conditions, load: int, again: Again, word: object = None
) -> tuple[tuple[int, int], ...]:
    """(block, number of the edge) taken only when the word loaded at `load` has agreed.

    `word` is what `conditions` calls it, absent: `load`.
    """
    found: set[tuple[int, int]] = set()
    home = flow.block_of(load)
    body = next((b for b in flow.loops if home in b), frozenset[int]())
    for number in sorted(flow.rank):
        edges = _decided(flow, conditions, number, load if word is None else word)
        if not any(edges):
            continue
        successors = flow.blocks[number].successors
        if number in body:
            back = [flow.goes_back(edge.target, body) for edge in successors]
            found |= {
                (number, k)
                for k, edge in enumerate(successors)
                if edges[k] and (edge.target not in body or (any(back) and not back[k]))
            }
        repeats = [again.leads(edge.target) for edge in successors]
        if any(repeats):
            found |= {(number, k) for k in range(len(successors)) if edges[k] and not repeats[k]}
    return tuple(sorted(found))


def _decided(flow: Flow, conditions: Conditions, number: int, load: object) -> list[bool]:
    """For each edge of a block: whether it is taken only under a condition on the loaded word."""
    block = flow.blocks[number]
    known = {guard.register for edge in block.successors for guard in edge.guards}
    if len(block.successors) < 2 or not known:
        return []
    last = max(block.start, block.stop - 1)
    if not any(load in conditions.slices.of(register, last) for register in known):
        return []
    result: list[bool] = []
    for edge in block.successors:
        each = [conditions.decided_by(g.register, last, not g.negated, load) for g in edge.guards]
        result.append(bool(each) and (all(each) if edge.either else any(each)))
    return result


def fences(flow: Flow, scope: Scope) -> list[int]:
    """Instructions that fence at least as wide as `scope`, in both directions."""
    return [
        e.index
        for e in flow.program.events
        if e.kind is EventKind.FENCE
        and e.order in (Order.ACQ_REL, Order.SC)
        and e.scope is not None
        and e.scope >= scope
    ]
