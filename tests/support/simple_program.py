"""A kernel that no front end made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from validator.ordering.program import Block, Event, Guard, Isa, Line, Operation, Parameter, Reg


@dataclass(slots=True)
class SimpleProgram:
    """A `Program` held in plain tables: what tests write by hand."""

    isa: Isa
    name: str
    arch: str
    parameters: tuple[Parameter, ...]
    blocks: tuple[Block, ...]
    events: tuple[Event, ...]
    operations: tuple[Mapping[Reg, Operation], ...]
    guards: Mapping[int, Guard] = field(default_factory=dict)
    block_size: tuple[int, int, int] | None = None
    max_block_size: int | None = None
    unknown: Mapping[str, int] = field(default_factory=dict)

    def definitions(self, index: int) -> Iterable[Reg]:
        return self.operations[index]

    def guard(self, index: int) -> Guard | None:
        return self.guards.get(index)

    def keeps_under(self, index: int) -> Guard | None:
        return self.guard(index)

    def operation(self, index: int, register: Reg) -> Operation:
        return self.operations[index][register]

    def line(self, index: int) -> Line:
        return Line(text=index + 1)

    def text(self, index: int) -> str:
        return f"instruction {index}"
