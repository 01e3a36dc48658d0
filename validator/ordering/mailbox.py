"""Values of mailbox words, followed to their uses along paths on which no check has passed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from validator.manifest.roles import Role
from validator.ordering.conditions import Conditions
from validator.ordering.dataflow import registers
from validator.ordering.polls import Again, passing_edges
from validator.ordering.program import Op, Operand, Operation, Reg
from validator.ordering.slices import Node, WordSlices

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["Unchecked", "unchecked_uses"]

_CHECKS = (Op.COMPARE, Op.VOTE)


@dataclass(frozen=True, slots=True)
class Unchecked:
    """One use of a mailbox word before its check."""

    mailbox: str
    load: int
    use: int
    beside: bool
    """Another word of the same load was checked: it may speak for this one."""


def unchecked_uses(facts: Facts) -> Iterator[Unchecked]:
    """Uses of words that were loaded before the grid wait and not checked, every word of a vector for itself."""
    loads = [
        t
        for t in facts.touches
        if t.word == "read"
        and t.targets
        and all(x.role is Role.MAILBOX for x in t.targets)
        # Behind the grid wait the words need no check.
        and (facts.pdl is False or t.index in facts.early_indices)
    ]
    if not loads:
        return
    uses = _Uses(facts)
    polled = {t.index for t in loads}
    others = {t.index for t in facts.touches if t.word != "prefetch"} - polled
    again = Again(facts.flow, polled, others)
    conditions = Conditions(facts.flow, WordSlices(facts.flow))
    for touch in loads:
        load = touch.index
        words = sorted(facts.program.definitions(load), key=lambda r: r.name)
        passing = {w: set(passing_edges(facts.flow, conditions, load, again, (load, w))) for w in words}
        for word in words:
            # Words of one load that a branch asks for may carry the validity of the others.
            beside = not passing[word] and any(passing.values())
            for use in uses.unchecked((load, word), passing[word]):
                yield Unchecked(touch.targets[0].name, load, use, beside)


class _Uses:
    """Who reads which register."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.readers: dict[Reg, list[tuple[int, Reg | None]]] = {}
        """Register → (instruction, register it is turned into; None: memory or an asynchronous operation takes it)."""
        program = facts.program
        for block in program.blocks:
            for index in range(block.start, block.stop):
                for target in program.definitions(index):
                    self._note(program.operation(index, target), index, target)
        for event in program.events:
            taken = [*event.value, *(o for access in event.accesses for o in access.address)]
            for operand in taken:
                for register in registers(operand):
                    self.readers.setdefault(register, []).append((event.index, None))

    def _note(self, operation: Operation, index: int, target: Reg) -> None:
        if operation.op in _CHECKS or operation.op in (Op.LOAD, Op.ATOMIC):
            return
        args: tuple[Operand, ...] = operation.args[:2] if operation.op is Op.SELECT else operation.args
        for arg in args:
            if isinstance(arg, Operation) and arg.op in _CHECKS:
                continue
            for register in registers(arg):
                self.readers.setdefault(register, []).append((index, target))

    def unchecked(self, word: Node, passing: set[tuple[int, int]]) -> list[int]:
        """Instructions that take the loaded word along a path without a passed check, sorted."""
        found: set[int] = set()
        seen: set[Node] = set()
        stack = [word]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            for index, target in self._reached(node, passing):
                if target is None:
                    found.add(index)
                else:
                    stack.append((index, target))
        return sorted(found)

    def _reached(self, node: Node, passing: set[tuple[int, int]]) -> list[tuple[int, Reg | None]]:
        """Readers of a definition on paths without a passed check and without another definition."""
        index, register = node
        readers = self.readers.get(register, [])
        if not readers:
            return []
        flow = self.facts.flow
        by_block: dict[int, list[tuple[int, Reg | None]]] = {}
        for reader in readers:
            by_block.setdefault(flow.block_of(reader[0]), []).append(reader)
        kills = [s for s in flow.sites.get(register, []) if self.facts.program.guard(s) is None]
        result: list[tuple[int, Reg | None]] = []
        seen: set[int] = set()
        stack = [(flow.block_of(index), index + 1)]
        while stack:
            number, first = stack.pop()
            block = flow.blocks[number]
            end = next((s for s in kills if first <= s < block.stop and s >= block.start), block.stop)
            result += [r for r in by_block.get(number, ()) if first <= r[0] <= end]
            if end < block.stop:
                continue
            for k, edge in enumerate(block.successors):
                if (number, k) not in passing and edge.target not in seen:
                    seen.add(edge.target)
                    stack.append((edge.target, flow.blocks[edge.target].start))
        return result
