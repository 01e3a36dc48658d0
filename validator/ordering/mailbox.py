"""Values of mailbox words, followed to their uses along paths on which no check has passed."""

from __future__ import annotations

from collections.abc import Iterator

from validator.manifest.contract import Role
from validator.ordering.dataflow import registers
from validator.ordering.facts import Facts
from validator.ordering.polls import Again, passing_edges
from validator.ordering.program import Op, Operand, Operation, Reg

__all__ = ["unchecked_uses"]

_CHECKS = (Op.COMPARE, Op.VOTE)


def unchecked_uses(facts: Facts) -> Iterator[tuple[str, int, int]]:
    """(mailbox, load, use) for loads before the grid wait whose value is used unchecked."""
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
    words = {t.index for t in loads}
    others = {t.index for t in facts.touches if t.word != "prefetch"} - words
    again = Again(facts.flow, words, others)
    for touch in loads:
        passing = set(passing_edges(facts.flow, facts.conditions, touch.index, again))
        for use in uses.unchecked(touch.index, passing):
            yield touch.targets[0].name, touch.index, use


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

    def unchecked(self, load: int, passing: set[tuple[int, int]]) -> list[int]:
        """Instructions that take the loaded value along a path without a passed check, sorted."""
        found: set[int] = set()
        seen: set[tuple[int, Reg]] = set()
        stack = [(load, register) for register in self.facts.program.definitions(load)]
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

    def _reached(self, node: tuple[int, Reg], passing: set[tuple[int, int]]) -> list[tuple[int, Reg | None]]:
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
