"""Control flow facts and demand-driven reaching definitions over one `Program`.

Everything is asked for lazily and remembered: an audit slices a few addresses and conditions out of a kernel of many
thousand instructions. No function recurses, so no input can exhaust the stack.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from validator.ordering.program import Block, Edge, Event, Guard, Op, Operand, Operation, Program, Reg

__all__ = ["Flow", "registers"]


def registers(operand: Operand) -> Iterator[Reg]:
    """Every register inside an operand, nested operations included."""
    stack: list[Operand] = [operand]
    while stack:
        item = stack.pop()
        if isinstance(item, Reg):
            yield item
        elif isinstance(item, Operation):
            stack.extend(item.args)


class Flow:
    """What follows what, and which definitions of a register reach an instruction."""

    def __init__(self, program: Program, blocks: Sequence[Block] | None = None) -> None:
        """`blocks`: those of the program with fewer edges, None: as they are."""
        self.program = program
        self.blocks = program.blocks if blocks is None else blocks
        self._reaching: dict[tuple[Reg, int, Guard | None], tuple[int, ...]] = {}
        self._entry: dict[tuple[Reg, Guard | None], dict[int, tuple[int, ...]]] = {}
        self._setting: dict[Reg, set[int]] = {}
        """Register → blocks that set it."""
        self.first_values: dict[tuple[int, Reg], Any] = {}
        """What `slices.first_value` has found out, for all who ask it about this kernel."""

    # -- control flow ------------------------------------------------------------------------------------------------

    def block_of(self, index: int) -> int:
        """Number of the block that holds instruction `index` (front ends give blocks in text order)."""
        return self._order[bisect_right(self._sorted_starts, index) - 1]

    @cached_property
    def _order(self) -> list[int]:
        # An empty block shares its start with the next one and holds no instruction.
        return sorted(range(len(self.blocks)), key=lambda b: (self.blocks[b].start, self.blocks[b].stop))

    @cached_property
    def _sorted_starts(self) -> list[int]:
        return [self.blocks[b].start for b in self._order]

    @cached_property
    def predecessors(self) -> list[list[tuple[int, Edge]]]:
        """Block → (block before, edge taken)."""
        result: list[list[tuple[int, Edge]]] = [[] for _ in self.blocks]
        for number, block in enumerate(self.blocks):
            for edge in block.successors:
                result[edge.target].append((number, edge))
        return result

    def leading_to(self, target: int) -> set[int]:
        """Blocks from which block `target` can be reached, itself included."""
        seen = {target}
        stack = [target]
        while stack:
            for before, _ in self.predecessors[stack.pop()]:
                if before not in seen:
                    seen.add(before)
                    stack.append(before)
        return seen

    @cached_property
    def order(self) -> list[int]:
        """Blocks reachable from the entry, in reverse post-order."""
        if not self.blocks:
            return []
        seen = {0}
        post: list[int] = []
        stack: list[tuple[int, Iterator[Edge]]] = [(0, iter(self.blocks[0].successors))]
        while stack:
            number, edges = stack[-1]
            for edge in edges:
                if edge.target not in seen:
                    seen.add(edge.target)
                    stack.append((edge.target, iter(self.blocks[edge.target].successors)))
                    break
            else:
                post.append(number)
                stack.pop()
        return post[::-1]

    @cached_property
    def rank(self) -> dict[int, int]:
        """Block → place in reverse post-order; unreachable blocks are absent."""
        return {number: place for place, number in enumerate(self.order)}

    @cached_property
    def immediate_dominators(self) -> dict[int, int]:
        """Block → immediate dominator (Cooper, Harvey and Kennedy 2001); the entry dominates itself."""
        rank, idom = self.rank, {0: 0}
        changed = True
        while changed:
            changed = False
            for number in self.order[1:]:
                new: int | None = None
                for before, _ in self.predecessors[number]:
                    if before not in idom:
                        continue
                    if new is None:
                        new = before
                        continue
                    a, b = before, new
                    while a != b:
                        while rank[a] > rank[b]:
                            a = idom[a]
                        while rank[b] > rank[a]:
                            b = idom[b]
                    new = a
                if new is not None and idom.get(number) != new:
                    idom[number] = new
                    changed = True
        return idom

    def dominates(self, above: int, below: int) -> bool:
        """Whether every path from the entry to block `below` passes block `above`."""
        idom, rank = self.immediate_dominators, self.rank
        if below not in rank or above not in rank:
            return False
        while rank[below] > rank[above]:
            below = idom[below]
        return below == above

    @cached_property
    def loops(self) -> list[frozenset[int]]:
        """Bodies of the natural loops, loops with one header joined, smallest first."""
        bodies: dict[int, set[int]] = {}
        for tail in self.order:
            for edge in self.blocks[tail].successors:
                head = edge.target
                if self.rank.get(head, 1 << 62) <= self.rank[tail] and self.dominates(head, tail):
                    body = bodies.setdefault(head, {head})
                    stack = [tail]
                    while stack:
                        number = stack.pop()
                        if number not in body:
                            body.add(number)
                            stack.extend(before for before, _ in self.predecessors[number] if before in self.rank)
        return sorted((frozenset(body) for body in bodies.values()), key=lambda body: (len(body), min(body)))

    def header(self, body: frozenset[int]) -> int:
        """The block through which a natural loop is entered."""
        return min(body, key=lambda number: self.rank[number])

    def goes_back(self, target: int, body: frozenset[int]) -> bool:
        """Whether block `target` leads to the loop's header without a choice."""
        head = self.header(body)
        for _ in range(len(body)):
            if target == head:
                return True
            following = self.blocks[target].successors
            if target not in body or len(following) != 1:
                return False
            target = following[0].target
        return target == head

    def reachable(self, start: Iterable[int], stop: frozenset[int] = frozenset()) -> set[int]:
        """Blocks reachable from `start` (included) without entering a block in `stop`."""
        seen: set[int] = set()
        stack = [number for number in start if number not in stop]
        while stack:
            number = stack.pop()
            if number in seen:
                continue
            seen.add(number)
            stack.extend(e.target for e in self.blocks[number].successors if e.target not in stop)
        return seen

    def events_after(
        self, places: Iterable[int], stops: Container[int] = (), may_take: Callable[[int, int], object] | None = None
    ) -> Iterator[Event]:
        """Events that may come after some instructions, not past an event at one of `stops`.

        What a loop leads back to in the block of such an instruction may come twice.

        Args:
            stops: instructions behind which nothing is looked at; their own events are given.
            may_take: (block, number of the edge) → whether an edge counts; None: all do.
        """
        stack, seen = [(self.block_of(index), index + 1) for index in places], set[int]()
        while stack:
            number, first = stack.pop()
            stopped = False
            for event in self.events_in[number]:
                if event.index >= first:
                    yield event
                    if event.index in stops:
                        stopped = True
                        break
            for k, edge in enumerate(self.blocks[number].successors if not stopped else ()):
                if edge.target not in seen and (may_take is None or may_take(number, k)):
                    seen.add(edge.target)
                    stack.append((edge.target, 0))

    @cached_property
    def events_in(self) -> list[list[Event]]:
        """Block → its events in order."""
        result: list[list[Event]] = [[] for _ in self.blocks]
        for event in self.program.events:
            result[self.block_of(event.index)].append(event)
        return result

    @cached_property
    def event_at(self) -> dict[int, list[Event]]:
        """Instruction → its events (an acquiring load may carry a fence of its own)."""
        result: dict[int, list[Event]] = {}
        for event in self.program.events:
            result.setdefault(event.index, []).append(event)
        return result

    # -- data flow ---------------------------------------------------------------------------------------------------

    @cached_property
    def sites(self) -> dict[Reg, list[int]]:
        """Register → instructions that define it, in text order. The one pass over all instructions."""
        result: dict[Reg, list[int]] = {}
        definitions = self.program.definitions
        for block in self.blocks:
            for index in range(block.start, block.stop):
                for register in definitions(index):
                    places = result.get(register)
                    if places is None:
                        result[register] = [index]
                    else:
                        places.append(index)
        for places in result.values():
            places.sort()
        return result

    def reach(self, register: Reg, index: int, guard: Guard | None = None) -> tuple[int, ...]:
        """Definitions of `register` that reach instruction `index`, sorted; empty when it is never set.

        `guard` is the predicate of the instruction that reads: a definition under the same predicate hides what stands
        before it, one under the opposite predicate never reaches, as long as the predicate is not set between.
        """
        places = self.sites.get(register)
        if places is None:
            return ()
        if len(places) == 1:
            return (places[0],)
        key = (register, index, guard)
        known = self._reaching.get(key)
        if known is None:
            block = self.block_of(index)
            start = self.blocks[block].start
            found, open_end = self._scan(places, start, index, guard)
            if open_end:
                found = [*found, *self._at_entry(register, block, places, self._before(guard, start, index, places))]
            known = self._reaching[key] = tuple(sorted(set(found)))
        return known

    def _scan(self, places: list[int], start: int, stop: int, guard: Guard | None) -> tuple[list[int], bool]:
        """Definitions in [start, stop) that survive to `stop`, and whether earlier ones survive too."""
        found: list[int] = []
        position = bisect_right(places, stop - 1) - 1
        predicate_set: int | None = None
        while position >= 0 and places[position] >= start:
            site = places[position]
            position -= 1
            under = self.program.keeps_under(site)
            if under is None:
                return [*found, site], False
            if guard is not None and under.register == guard.register:
                if predicate_set is None:
                    predicate_set = self._set_anew(guard.register, start, stop)
                if predicate_set < site:
                    if under.negated == guard.negated:
                        return [*found, site], False
                    continue
            found.append(site)
        return found, True

    def _set_anew(self, register: Reg, start: int, stop: int) -> int:
        """Where a predicate was last set before `stop`; -1 for never.

        Votes on one thing, one after the other in a block that starts at `start`, count as the first of them: ptxas
        votes again for each uniform instruction.
        """
        places = self.sites.get(register, [])
        position = bisect_right(places, stop - 1) - 1
        while (
            position > 0
            and places[position - 1] >= start
            and self._repeats(register, *places[position - 1 : position + 1])
        ):
            position -= 1
        return places[position] if position >= 0 else -1

    def _repeats(self, register: Reg, first: int, second: int) -> bool:
        """Whether two settings of a predicate in one block are votes on the same value."""
        vote = self.program.operation(second, register)
        if vote.op is not Op.VOTE or self.program.operation(first, register) != vote:
            return False
        if self.program.guard(first) is not None or self.program.guard(second) is not None:
            return False
        places = (self.sites.get(read, []) for read in registers(vote))
        return all(bisect_right(found, second - 1) == bisect_right(found, first) for found in places)

    def _before(self, guard: Guard | None, start: int, stop: int, places: Sequence[int]) -> Guard | None:
        """What is known of a predicate before `start` when `guard` holds at `stop`; None where that hides none of some
        definitions."""
        if guard is None or self._set_anew(guard.register, start, stop) >= start:
            return None
        under = (self.program.keeps_under(site) for site in places)
        return guard if any(g is not None and g.register == guard.register for g in under) else None

    def _at_entry(self, register: Reg, block: int, places: list[int], guard: Guard | None) -> tuple[int, ...]:
        """Definitions that reach the start of a block, for a reader under a predicate that is set before it."""
        known = self._entry.setdefault((register, guard), {}).get(block)
        if known is None:
            if guard is None:
                found = self._walked_plainly(register, block, places)
            else:
                found = self._walked(register, block, places, guard)
            known = tuple(sorted(found))
            self._entry[register, guard][block] = known
        return known

    def _walked_plainly(self, register: Reg, block: int, places: list[int]) -> set[int]:
        """The same where no predicate is known, as nearly always: most blocks on the way do not set the register."""
        found: set[int] = set()
        seen: set[int] = set()
        entry = self._entry[register, None]
        before = self._blocks_before
        setting = self._setting.get(register)
        if setting is None:
            setting = self._setting[register] = {self.block_of(site) for site in places}
        stack = list(before[block])
        while stack:
            number = stack.pop()
            if number in seen:
                continue
            seen.add(number)
            if number in setting:
                here, open_end = self._scan(places, self.blocks[number].start, self.blocks[number].stop, None)
                found.update(here)
                if not open_end:
                    continue
            inner = entry.get(number)
            if inner is not None:
                found.update(inner)
            else:
                stack.extend(before[number])
        return found

    @cached_property
    def _blocks_before(self) -> list[tuple[int, ...]]:
        return [tuple(dict.fromkeys(number for number, _ in edges)) for edges in self.predecessors]

    def _walked(self, register: Reg, block: int, places: list[int], guard: Guard | None) -> set[int]:
        found: set[int] = set()
        seen: set[tuple[int, Guard | None]] = set()
        stack = [(before, guard) for before, _ in self.predecessors[block]]
        while stack:
            number, under = stack.pop()
            if (number, under) in seen:
                continue
            seen.add((number, under))
            start, stop = self.blocks[number].start, self.blocks[number].stop
            here, open_end = self._scan(places, start, stop, under)
            found.update(here)
            if open_end:
                above = self._before(under, start, stop, places)
                inner = self._entry.get((register, above), {}).get(number)
                if inner is not None:
                    found.update(inner)
                else:
                    stack.extend((before, above) for before, _ in self.predecessors[number])
        return found
