"""Control flow of one kernel: what follows what, whatever the text order says.

Device functions that were not inlined stand in the kernel's own section; each call gets a copy of its callee, so that a
path enters and leaves through the same call. Calls that leave the section are events without a body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from validator.ordering.program import Block, Choice, Edge, Guard
from validator.ordering.sass.disassemble import Instruction
from validator.ordering.sass.operands import is_predicate, register

__all__ = ["ControlFlow", "control_flow"]

_WORD = 16
_CONTROL = frozenset(["BRA", "BRX", "BRXU", "JMP", "JMX", "JMXU", "CALL", "RET", "EXIT", "KILL", "BPT", "BSYNC", "RTT"])
_MAX_DEPTH = 12
_ROOM = 1 << 18


@dataclass(frozen=True, slots=True)
class ControlFlow:
    """Blocks over `places`."""

    places: list[int]
    """Program instruction → instruction of the section (the same one may stand in several copies)."""
    blocks: tuple[Block, ...]
    outside: frozenset[int]
    """Instructions of the section that call something whose body is not followed."""
    unresolved: Mapping[int, str]
    """Instruction of the section → what is not known about where it goes."""


@dataclass(frozen=True, slots=True)
class _Exit:
    """One way out of a section block: `target` is an instruction of the section, None: back to the caller."""

    target: int | None
    condition: Guard | None = None
    also: Guard | None = None
    either: bool = False
    choice: Choice | None = None
    """Its `index` is one of the section's instructions."""


@dataclass(slots=True)
class _Body:
    """A straight run of the section's instructions."""

    start: int
    stop: int
    exits: list[_Exit]
    callee: int | None = None
    """Instruction at which the function called at the end of this run starts; `exits` then say where it returns to."""
    guard: Guard | None = None
    """Under which it is called; else the run goes on where the function would return to."""


def control_flow(
    instructions: Sequence[Instruction],
    targets: Mapping[int, tuple[int, ...]],
    relocated: frozenset[int],
    tables: Mapping[int, Mapping[int, Choice]] = MappingProxyType({}),
) -> ControlFlow:
    """The flow of the kernel that starts at instruction 0.

    Args:
        instructions: the whole section.
        targets: byte offset of an indirect branch → byte offsets it may go to.
        relocated: instructions whose target is still a relocation.
        tables: indirect branch → target → what it is picked by, all by instruction of the section.
    """
    section = _Section(instructions, targets, relocated, tables)
    return _Expansion(section).run()


class _Section:
    """The code of one section, cut into runs once."""

    def __init__(
        self,
        instructions: Sequence[Instruction],
        targets: Mapping[int, tuple[int, ...]],
        relocated: frozenset[int],
        tables: Mapping[int, Mapping[int, Choice]],
    ) -> None:
        self.instructions = instructions
        self._targets = targets
        self._relocated = relocated
        self._tables = tables
        self.unresolved: dict[int, str] = {}
        self.outside: set[int] = set()
        self._exits = {i: self._leave(i) for i, x in enumerate(instructions) if x.base in _CONTROL and not x.never}

    def _target(self, index: int) -> int | None:
        distance = self.instructions[index].distance
        if distance is None or distance % _WORD or index in self._relocated:
            return None
        place = index + distance // _WORD
        return place if 0 <= place < len(self.instructions) else None

    def _leave(self, index: int) -> tuple[list[_Exit], int | None]:
        """(ways out, start of the called function) of a control instruction."""
        instruction = self.instructions[index]
        guard, base = instruction.guard, instruction.base
        stay = [_Exit(index + 1, _opposite(guard))] if guard else []
        match base:
            case "EXIT" | "KILL" | "RTT":
                return stay, None
            case "BPT":
                # A trap ends the grid with an error: no path goes on.
                return (stay, None) if "TRAP" in instruction.modifiers else ([_Exit(index + 1)], None)
            case "RET":
                return [_Exit(None, guard), *stay], None
            case "BSYNC":
                return self._meet(index), None
            case "CALL":
                return self._call(index)
            case "BRA" | "JMP":
                return self._branch(index, stay), None
            case _:
                choices = self._tables.get(index, {})
                return [*(_Exit(t, choice=choices.get(t)) for t in self._recorded(index)), *stay], None

    def _branch(self, index: int, stay: list[_Exit]) -> list[_Exit]:
        instruction = self.instructions[index]
        place = self._target(index)
        if place is None:
            self.unresolved[index] = "a branch whose target is not in the section"
            return stay
        if instruction.modifiers & {"DIV", "CONV", "ANY"}:
            # Taken or not by what all lanes hold together, which no thread's own predicate says.
            return [_Exit(place), _Exit(index + 1)]
        second = next((_condition(t) for t in instruction.operands if is_predicate(t)), None)
        if second is None:
            return [_Exit(place, instruction.guard), *stay]
        if instruction.guard is None:
            return [_Exit(place, second), _Exit(index + 1, _opposite(second))]
        guard = instruction.guard
        return [_Exit(place, guard, second), _Exit(index + 1, _opposite(guard), _opposite(second), either=True)]

    def _recorded(self, index: int) -> list[int]:
        found = sorted(
            {t // _WORD for t in self._targets.get(index * _WORD, ()) if t // _WORD < len(self.instructions)}
        )
        if not found:
            self.unresolved[index] = "an indirect branch without recorded targets"
        return found

    def _meet(self, index: int) -> list[_Exit]:
        """BSYNC goes on where its BSSY says: nearly always the next instruction."""
        instruction = self.instructions[index]
        places = self._meeting_points.get(instruction.operands[0] if instruction.operands else "", [])
        if index + 1 in places or not places:
            return [_Exit(index + 1)]
        return [*(_Exit(p) for p in sorted(set(places))), *([_Exit(index + 1)] if instruction.guard else [])]

    @cached_property
    def _meeting_points(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for index, instruction in enumerate(self.instructions):
            if instruction.base == "BSSY" and instruction.operands:
                place = self._target(index)
                if place is not None:
                    found.setdefault(instruction.operands[0], []).append(place)
        return found

    def _call(self, index: int) -> tuple[list[_Exit], int | None]:
        instruction = self.instructions[index]
        callee = None if instruction.operands else self._target(index)
        if callee is None:
            # A guarded call keeps its guard on the event.
            self.outside.add(index)
            return [_Exit(index + 1)], None
        # The callee returns to the address that the caller left in a register: the instruction after the call.
        return [_Exit(index + 1)], callee

    @cached_property
    def bodies(self) -> dict[int, _Body]:
        """First instruction → run."""
        count = len(self.instructions)
        starts = {0}
        for index, (exits, callee) in self._exits.items():
            starts.add(index + 1)
            starts.update(e.target for e in exits if e.target is not None)
            if callee is not None:
                starts.add(callee)
        ordered = sorted(s for s in starts if s < count)
        found: dict[int, _Body] = {}
        for start, stop in zip(ordered, [*ordered[1:], count], strict=True):
            exits, callee = self._exits.get(stop - 1, ([_Exit(stop)], None))
            guard = self.instructions[stop - 1].guard if callee is not None else None
            ways = [e for e in exits if e.target is None or e.target < count]
            found[start] = _Body(start, stop, ways, callee, guard)
        return found


def _condition(token: str) -> Guard | None:
    name = token.removeprefix("!")
    if name in ("PT", "UPT"):
        return None
    return Guard(register(name), token.startswith("!"), uniform=name.startswith("U"))


def _opposite(guard: Guard | None) -> Guard | None:
    return Guard(guard.register, not guard.negated, guard.uniform) if guard else None


@dataclass(slots=True)
class _Copy:
    """One use of a function: the kernel itself or one call."""

    entry: int
    back: tuple[int, int] | None
    """(copy, run) it returns to."""
    parents: tuple[int, ...]
    """Functions that are open around it."""
    runs: list[int]
    """Starts of its runs, sorted."""


class _Expansion:
    """Copies of functions laid out one after the other."""

    def __init__(self, section: _Section) -> None:
        self._section = section
        self._copies: list[_Copy] = []
        self._room = len(section.instructions) + _ROOM

    def _inside(self, entry: int) -> list[int]:
        """Runs reachable from a function's entry, its callees left out."""
        bodies = self._section.bodies
        seen: set[int] = set()
        stack = [entry]
        while stack:
            start = stack.pop()
            if start not in seen:
                seen.add(start)
                stack.extend(e.target for e in bodies[start].exits if e.target is not None)
        return sorted(seen)

    def run(self) -> ControlFlow:
        bodies = self._section.bodies
        if not bodies:
            return ControlFlow([], (), frozenset(), {})
        self._copies.append(_Copy(0, None, (0,), self._inside(0)))
        entered: dict[tuple[int, int], int] = {}
        at = 0
        while at < len(self._copies):
            here = self._copies[at]
            for start in here.runs:
                body = bodies[start]
                if body.callee is None:
                    continue
                runs = self._inside(body.callee)
                size = sum(bodies[r].stop - bodies[r].start for r in runs)
                if body.callee in here.parents or len(here.parents) > _MAX_DEPTH or size > self._room:
                    self._section.outside.add(body.stop - 1)
                    continue
                self._room -= size
                entered[(at, start)] = len(self._copies)
                target = body.exits[0].target if body.exits else None
                back = (at, target) if target is not None else None
                self._copies.append(_Copy(body.callee, back, (*here.parents, body.callee), runs))
            at += 1
        return self._lay_out(entered)

    def _lay_out(self, entered: Mapping[tuple[int, int], int]) -> ControlFlow:
        bodies = self._section.bodies
        numbers: dict[tuple[int, int], int] = {}
        for at, copy in enumerate(self._copies):
            for start in copy.runs:
                numbers[(at, start)] = len(numbers)
        places: list[int] = []
        blocks: list[Block] = []
        for at, copy in enumerate(self._copies):
            for start in copy.runs:
                body = bodies[start]
                first = len(places)
                places.extend(range(body.start, body.stop))
                child = entered.get((at, start))
                ways, edges = body.exits, []
                if child is not None:
                    edges = [Edge(numbers[(child, self._copies[child].entry)], body.guard)]
                    around = _opposite(body.guard)
                    ways = [_Exit(w.target, around) for w in body.exits] if around is not None else []
                edges += (e for w in ways if (e := self._edge(at, copy, w, numbers)) is not None)
                edges = [_placed(edge, body, first) for edge in edges]
                blocks.append(Block(first, len(places), tuple(edges)))
        return ControlFlow(places, tuple(blocks), frozenset(self._section.outside), self._section.unresolved)

    def _edge(self, at: int, copy: _Copy, way: _Exit, numbers: Mapping[tuple[int, int], int]) -> Edge | None:
        if way.target is not None:
            return Edge(numbers[(at, way.target)], way.condition, way.also, way.either, way.choice)
        return Edge(numbers[copy.back], way.condition, way.also, way.either) if copy.back is not None else None


def _placed(edge: Edge, body: _Body, first: int) -> Edge:
    """An edge of a run that was laid out from instruction `first` on."""
    choice = edge.choice
    if choice is None:
        return edge
    inside = body.start <= choice.index < body.stop
    return replace(edge, choice=replace(choice, index=first + choice.index - body.start) if inside else None)
