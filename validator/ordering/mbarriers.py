"""mbarriers as carriers of order.

A phase orders those who wait for it when every arrival that can complete it comes from ordered code, or announces bytes
of a copy that ordered code issues; and when the first phase waited for is not complete from the start (parity 0, or a
token). mbarriers are told apart by base and first constant byte; a variable stage index stands for its whole array,
which ends where the next array starts.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

from validator.ordering.dataflow import registers
from validator.ordering.masks import Masks, Turn
from validator.ordering.program import Const, Event, EventKind, Op, Operand, Operation, Reg
from validator.ordering.provenance import Provenance, Root, Source
from validator.ordering.slices import first_value, scalar

__all__ = ["Mbarrier", "Mbarriers"]

Mbarrier = tuple[Root, int]

_DEPTH = 12
_KINDS = (EventKind.MBARRIER_INIT, EventKind.MBARRIER_ARRIVE, EventKind.MBARRIER_WAIT, EventKind.ASYNC_COPY)


class Mbarriers:
    """All mbarriers of one kernel."""

    def __init__(self, masks: Masks, provenance: Provenance, any_phase: bool = False) -> None:
        """`any_phase`: a wait whose first parity does not show may be the right one."""
        self.masks = masks
        self.any_phase = any_phase
        self.flow = masks.flow
        self.provenance = provenance

    # -- names -------------------------------------------------------------------------------------------------------

    @cached_property
    def _events(self) -> list[Event]:
        return [e for e in self.flow.program.events if e.kind in _KINDS and e.barrier and self.masks.executing(e)]

    @cached_property
    def _sources(self) -> dict[int, Source | None]:
        """Instruction → base of its mbarrier, None where that cannot be told."""
        return {event.index: self._source(event) for event in self._events}

    def _source(self, event: Event) -> Source | None:
        found = self.provenance.sum(event.barrier, event.index)
        if len({s.root for s in found}) != 1 or found[0].is_unresolved:
            return None
        least = min(found, key=lambda s: s.offset)
        return Source(least.root, least.offset, len(found) == 1 and least.exact)

    @cached_property
    def identities(self) -> dict[int, Mbarrier]:
        """Instruction → base and first constant byte of the mbarrier, or of the array of mbarriers, that it means."""
        arrays: dict[Root, set[int]] = {}
        for source in self._sources.values():
            if source is not None and not source.exact:
                arrays.setdefault(source.root, set()).add(source.offset)
        result: dict[int, Mbarrier] = {}
        for index, source in self._sources.items():
            if source is not None:
                starts = [s for s in arrays.get(source.root, ()) if s <= source.offset]
                result[index] = (source.root, max(starts, default=source.offset))
        return result

    @cached_property
    def _users(self) -> dict[Mbarrier, tuple[list[Event], list[Event]]]:
        """mbarrier → (arrivals, copies) onto it."""
        result: dict[Mbarrier, tuple[list[Event], list[Event]]] = {}
        for event in self._events:
            name = self.identities.get(event.index)
            comes = event.kind is EventKind.MBARRIER_ARRIVE and event.arrives
            if name is not None and (comes or event.kind is EventKind.ASYNC_COPY):
                result.setdefault(name, ([], []))[event.kind is EventKind.ASYNC_COPY].append(event)
        return result

    @cached_property
    def _unplaced(self) -> bool:
        """Whether some arrival may be on any mbarrier: at no known address, or at a number where others have names."""
        arrivals = [e for e in self._events if e.kind is EventKind.MBARRIER_ARRIVE and e.arrives]
        named = {name[0][0] == "number" for name in self.identities.values()}
        bare = len(named) > 1
        return any(
            e.index not in self.identities or (bare and self.identities[e.index][0][0] == "number") for e in arrivals
        )

    @cached_property
    def _announced_apart(self) -> bool:
        """Whether bytes are announced in instructions of their own (`mbarrier.expect_tx`), for a later arrival."""
        return any(e.kind is EventKind.MBARRIER_ARRIVE and not e.arrives for e in self._events)

    @cached_property
    def _counts(self) -> dict[Mbarrier, int | None]:
        """mbarrier → arrivals that a phase of it takes; None where that is not one known number."""
        result: dict[Mbarrier, int | None] = {}
        for event in self._events:
            if event.kind is not EventKind.MBARRIER_INIT:
                continue
            name = self.identities.get(event.index)
            if name is None:
                return {}  # it may set any of them anew
            value = self._executed(event.thread_count, event.index, 0) if event.thread_count is not None else None
            result[name] = value if result.setdefault(name, value) == value else None
        return result

    def _executed(self, operand: Operand, index: int, depth: int) -> int | None:
        """A constant at an instruction that is executed: what stands before it in its block under a guard was too.

        Compilers initialise by one thread under one condition, which they vote on anew for every instruction.
        """
        if isinstance(operand, Const):
            return operand.value
        if depth > _DEPTH:
            return None
        if isinstance(operand, Operation):
            values = [self._executed(arg, index, depth + 1) for arg in operand.args]
            known = [value for value in values if value is not None]
            return scalar(operand, known) if values and len(known) == len(values) else None
        block = self.flow.blocks[self.flow.block_of(index)]
        program = self.flow.program
        near = (k for k in range(index - 1, block.start - 1, -1) if operand in program.definitions(k))
        sites = self.flow.reach(operand, index, program.guard(index))
        site = next(near, sites[0] if len(sites) == 1 else None)
        return None if site is None else self._executed(program.operation(site, operand), site, depth + 1)

    def arrivals(self, wait: Event) -> list[Event]:
        """Arrivals at the mbarrier that an event waits for; empty when it cannot be told which one that is."""
        name = self.identities.get(wait.index)
        return self._users.get(name, ([], []))[0] if name is not None else []

    def count(self, wait: Event) -> int | None:
        """Arrivals that a phase takes which an event waits for; None where that is not one known number."""
        name = self.identities.get(wait.index)
        return None if name is None else self._counts.get(name)

    def label(self, event: Event) -> str:
        """The mbarrier of an event in words."""
        root, offset = self.identities[event.index]
        name = str(root[-1]) if root[0] == "symbol" and root[-1] else "shared memory"
        return f"{name}+{offset}" if offset or name == "shared memory" else name

    # -- order -------------------------------------------------------------------------------------------------------

    def may_order(self, event: Event) -> bool:
        """Whether the first wait cannot pass with nothing arrived: its parity is 0 at first, or it has a token."""
        if event.index not in self.identities:
            return False
        if event.parity is None or self._of_token(event):
            return True
        value = first_value(self.flow, event.parity, event.index)
        return self.any_phase if value is None else value & 1 == 0

    def _of_token(self, wait: Event) -> bool:
        """Whether the parity asked for is that of the token which an arrival at this mbarrier gave."""
        arrivals = {arrival.index for arrival in self.arrivals(wait)}
        stack = [(register, wait.index) for register in registers(wait.parity)] if wait.parity is not None else []
        seen: set[tuple[Reg, int]] = set()
        found = False
        while stack:
            register, index = stack.pop()
            for site in self.flow.reach(register, index, self.flow.program.guard(index)):
                if site in arrivals:
                    found = True
                    continue
                made = self.flow.program.operation(site, register)
                if made.op is not Op.COPY or (register, site) in seen or len(seen) > _DEPTH:
                    return False
                seen.add((register, site))
                stack += [(read, site) for read in registers(made)]
        return found

    @cached_property
    def passing_at_first(self) -> frozenset[Mbarrier]:
        """mbarriers whose waits all pass at first, with nothing arrived: the "empty" ones of a ring, at parity 1."""
        odd: dict[Mbarrier, bool] = {}
        for event in self._events:
            if event.kind is EventKind.MBARRIER_WAIT and (name := self.identities.get(event.index)) is not None:
                value = first_value(self.flow, event.parity, event.index) if event.parity is not None else None
                odd[name] = odd.get(name, True) and value is not None and value & 1 == 1
        return frozenset(name for name, passes in odd.items() if passes)

    def source(self, event: Event, turn: Turn) -> int:
        """Threads whose arrivals and copies order those who wait; 0 when some arrival comes from anywhere."""
        name = self.identities.get(event.index)
        if name is None or self._unplaced:
            return 0
        known = turn.notes.get(name)
        if not isinstance(known, int):
            known = turn.notes[name] = self._from(name, turn)
        return known

    def _from(self, name: Mbarrier, turn: Turn) -> int:
        arrivals, copies = self._users.get(name, ([], []))
        ordered = {e.index for e in (*arrivals, *copies) if not self._unwaited(e, turn)}
        good = {c.index for c in copies if c.index in ordered}
        result = 0
        free: list[tuple[Event, int]] = []
        for arrival in arrivals:
            if arrival.index in ordered:
                result |= self.masks.executing(arrival)
            elif self._held(arrival, copies, good):
                continue
            elif self._spent(arrival, copies, good) or not self._announces(arrival, {e.index for e in arrivals}, good):
                # Of threads that arrive in one instruction some may have waited: a phase that needs all needs them.
                unwaited = self._unwaited(arrival, turn)
                free.append((arrival, unwaited))
                result |= self.masks.executing(arrival) & ~unwaited
        if free and not (result and self._too_few(free, self._counts.get(name))):
            return 0
        for copy in copies:
            if copy.index in good:
                result |= self.masks.executing(copy)
        return result

    def _held(self, arrival: Event, copies: list[Event], ordered: set[int]) -> bool:
        """Whether a phase waits for bytes that only ordered code can bring, whoever announces them."""
        anywhere = any(e.kind is EventKind.ASYNC_COPY and e.index not in self.identities for e in self._events)
        announced = self.bytes_of(arrival) if arrival.announces else None
        unknown = anywhere or self._announced_apart
        return bool(announced and copies) and len(ordered) == len(copies) and not unknown

    def _spent(self, arrival: Event, copies: list[Event], ordered: set[int]) -> bool:
        """Whether the bytes that an arrival announces are no more than copies bring that stand behind no wait: those
        that follow it in the text, up to the next arrival."""
        announced = self.bytes_of(arrival)
        if announced is None:
            return False
        brought = 0
        by_index = {copy.index: copy for copy in copies}
        for event in self._events:
            if event.index <= arrival.index:
                continue
            if event.kind is EventKind.MBARRIER_ARRIVE:
                break
            if event.index in by_index and event.index not in ordered:
                size = self.bytes_of(event)
                if size is None:
                    return False
                brought += size
        return bool(brought) and announced <= brought

    def uncounted(self, local: Collection[int]) -> frozenset[int]:
        """Copies of a phase that announces fewer bytes than they bring: it may be over before the last of them is in.

        Told of mbarriers whose bytes one instruction announces, and of copies (of those in `local`, which go to this
        CTA alone) that follow it on every path.
        """
        result: set[int] = set()
        for arrivals, copies in self._users.values():
            announcing = [a for a in arrivals if a.announces]
            if len(announcing) != 1 or self._announced_apart:
                continue
            announced = self.bytes_of(announcing[0])
            near = [c for c in copies if c.index in local and self._surely_follows(c, announcing[0])]
            if announced is not None and announced < sum(self.bytes_of(c) or 0 for c in near):
                result |= {copy.index for copy in near}
        return frozenset(result)

    def bytes_of(self, event: Event) -> int | None:
        """Bytes that an arrival announces or a copy brings; None where that is not one known number."""
        return None if event.amount is None else self._executed(event.amount, event.index, 0)

    def _surely_follows(self, copy: Event, arrival: Event) -> bool:
        return copy.guard in (None, arrival.guard) and self._announces(arrival, {arrival.index}, {copy.index})

    def _too_few(self, arrivals: list[tuple[Event, int]], count: int | None) -> bool:
        """Whether a phase takes more arrivals than some threads can make at each of these, once each."""
        if count is None or any(self._repeated(arrival) for arrival, _ in arrivals):
            return False
        total = 0
        for arrival, threads in arrivals:
            each = 1 if arrival.thread_count is None else self._executed(arrival.thread_count, arrival.index, 0)
            if each is None:
                return False
            total += each * threads.bit_count()
        return total < count

    def _repeated(self, arrival: Event) -> bool:
        """Whether a thread may come to an arrival twice with no wait for any mbarrier in between."""
        home = self.flow.block_of(arrival.index)
        body = next((b for b in self.flow.loops if home in b), None)
        if body is None:
            return False
        waits = (e for n in body for e in self.flow.events_in[n] if e.kind is EventKind.MBARRIER_WAIT)
        return not any(self.masks.executing(arrival) & ~self.masks.executing(w) == 0 for w in waits)

    def _unwaited(self, event: Event, turn: Turn) -> int:
        return self.masks.at(event.index, turn.state, turn.clears) & self.masks.executing(event)

    def _announces(self, arrival: Event, arrivals: set[int], copies: set[int]) -> bool:
        """Every path from an arrival meets an ordered copy onto the mbarrier before the next arrival or the end."""
        if not copies or not (arrival.announces or self._announced_apart):
            return False
        threads = self.masks.executing(arrival)
        stack = [(self.flow.block_of(arrival.index), arrival.index + 1)]
        seen: set[int] = set()
        while stack:
            number, first = stack.pop()
            hit = self._first_in(number, first, copies, arrivals)
            if hit is True:
                continue
            if hit is False or not self.flow.blocks[number].successors:
                return False
            for k, edge in enumerate(self.flow.blocks[number].successors):
                if edge.target not in seen and self.masks.edges[number][k] & threads:
                    seen.add(edge.target)
                    stack.append((edge.target, 0))
        return True

    def _first_in(self, number: int, first: int, good: set[int], bad: set[int]) -> bool | None:
        for event in self.flow.events_in[number]:
            if event.index >= first:
                if event.index in good:
                    return True
                if event.index in bad or (event.kind is EventKind.EXIT and event.guard is None):
                    return False
        return None
