"""A small assembler for hand-written programs: what the analyses see, without any instruction set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.support.simple_program import SimpleProgram
from validator.manifest.contract import Argument, KernelContract, Launch, Role
from validator.ordering.audit import audit_program
from validator.ordering.program import (
    Access,
    Block,
    Const,
    Direction,
    Edge,
    Event,
    EventKind,
    Guard,
    Isa,
    Op,
    Operand,
    Operation,
    Order,
    Parameter,
    Reg,
    Scope,
    Space,
    Special,
)
from validator.ordering.result import KernelAudit

ZERO, ONE = Const(0), Const(1)


class Assembler:
    """Instructions one after the other; `build` cuts them into blocks."""

    def __init__(self, *arguments: str, isa: Isa = Isa.PTX) -> None:
        self.arguments = arguments
        self.isa = isa
        self.operations: list[dict[Reg, Operation]] = []
        self.guards: dict[int, Guard] = {}
        self.events: list[Event] = []
        self.labels: dict[str, int] = {}
        self.branches: dict[int, tuple[str, Guard | None]] = {}
        self.ends: set[int] = set()
        self.block_size: tuple[int, int, int] | None = None
        self._fresh = 0

    @property
    def next(self) -> int:
        return len(self.operations)

    def emit(self, sets: dict[Reg, Operation] | None = None, guard: Guard | None = None) -> int:
        index = self.next
        self.operations.append(sets or {})
        if guard is not None:
            self.guards[index] = guard
        return index

    def let(
        self,
        op: Op,
        *args: Operand,
        attr: object = None,
        width: int = 64,
        to: Reg | None = None,
        guard: Guard | None = None,
    ) -> Reg:
        """A register set to an operation."""
        if to is None:
            self._fresh += 1
            to = Reg(f"r{self._fresh}")
        self.emit({to: Operation(op, args, attr, width)}, guard)
        return to

    def param(self, name: str) -> Reg:
        return self.let(Op.PARAM, attr=(8 * self.arguments.index(name), 8))

    def tid(self) -> Reg:
        return self.let(Op.SPECIAL, attr=Special.TID_X, width=32)

    def shared(self, name: str, offset: int = 0) -> Reg:
        return self.let(Op.SYMBOL, attr=(Space.SHARED, name, offset), width=32)

    def compare(self, relation: str, a: Operand, b: Operand) -> Reg:
        return self.let(Op.COMPARE, a, b, attr=(relation, False), width=1)

    def event(self, kind: EventKind, guard: Guard | None = None, **more: Any) -> Event:
        index = self.emit(guard=guard)
        event = Event(kind, index, more.pop("opcode", kind.name.lower()), guard=guard, **more)
        self.events.append(event)
        return event

    def load(
        self, address: Operand, space: Space = Space.GLOBAL, size: int = 4, guard: Guard | None = None, **more: Any
    ) -> Reg:
        self._fresh += 1
        to = Reg(f"r{self._fresh}") if "to" not in more else more.pop("to")
        index = self.emit({to: Operation(Op.LOAD, (), 0, size * 8)}, guard)
        access = Access(Direction.READ, space, (address,), size)
        self.events.append(Event(EventKind.ACCESS, index, more.pop("opcode", "ld"), (access,), guard, **more))
        return to

    def store(
        self, address: Operand, value: Operand = ONE, space: Space = Space.GLOBAL, size: int = 4,
        guard: Guard | None = None, **more: Any,
    ) -> Event:  # fmt: skip
        access = Access(Direction.WRITE, space, (address,), size)
        return self.event(EventKind.ACCESS, guard, opcode="st", accesses=(access,), value=(value,), **more)

    def atomic(self, address: Operand, **more: Any) -> Event:
        access = Access(Direction.ATOMIC, Space.GLOBAL, (address,), 4)
        return self.event(EventKind.ACCESS, opcode="atom", accesses=(access,), order=Order.RELAXED, **more)

    def wait(self, guard: Guard | None = None) -> Event:
        return self.event(EventKind.GRID_WAIT, guard)

    def trigger(self) -> Event:
        return self.event(EventKind.GRID_TRIGGER)

    def barrier(self, number: Operand = ZERO, count: Operand | None = None, **more: Any) -> Event:
        return self.event(EventKind.BARRIER, barrier=(number,), thread_count=count, aligned=True, **more)

    def fence(self, scope: Scope = Scope.GPU) -> Event:
        return self.event(EventKind.FENCE, order=Order.ACQ_REL, scope=scope)

    def label(self, name: str) -> None:
        self.labels[name] = self.next

    def branch(self, label: str, when: Reg | None = None, negated: bool = False) -> int:
        guard = Guard(when, negated) if when is not None else None
        index = self.emit(guard=guard)
        self.branches[index] = (label, guard)
        return index

    def exit(self) -> None:
        event = self.event(EventKind.EXIT)
        self.ends.add(event.index)

    def build(self, name: str = "kernel") -> SimpleProgram:
        if not self.ends or max(self.ends) != self.next - 1:
            self.exit()
        starts = {0, *self.labels.values()}
        starts |= {i + 1 for i in (*self.branches, *self.ends) if i + 1 < self.next}
        order = sorted(starts)
        number = {start: n for n, start in enumerate(order)}
        blocks = []
        for n, start in enumerate(order):
            stop = order[n + 1] if n + 1 < len(order) else self.next
            blocks.append(Block(start, stop, self._edges(stop, number)))
        parameters = tuple(Parameter(i, 8 * i, 8, a) for i, a in enumerate(self.arguments))
        return SimpleProgram(
            self.isa, name, "sm_90a", parameters, tuple(blocks), tuple(self.events), tuple(self.operations),
            self.guards, self.block_size,
        )  # fmt: skip

    def _edges(self, stop: int, number: dict[int, int]) -> tuple[Edge, ...]:
        last = stop - 1
        if last in self.ends:
            return ()
        if last not in self.branches:
            return (Edge(number[stop]),)
        label, guard = self.branches[last]
        taken = Edge(number[self.labels[label]], guard)
        if guard is None:
            return (taken,)
        return (Edge(number[stop], Guard(guard.register, not guard.negated)), taken)


@pytest.fixture
def assembler() -> type[Assembler]:
    return Assembler


Roles = dict[str, str]


def contract_of(assembly: Assembler, roles: Roles, pdl: bool | None = True, **keys: dict[str, Any]) -> KernelContract:
    """A contract for the assembler's arguments; `keys` has more keys by argument."""
    arguments = []
    for name in assembly.arguments:
        more = dict(keys.get(name, {}))
        role = Role(roles[name]) if name in roles else None
        if role is Role.STABLE:
            more.setdefault("justification", "written at start-up")
        arguments.append(Argument(name=name, role=role, **more))
    return KernelContract(match="*", launch=Launch(pdl=pdl), args=tuple(arguments))


ROLES: Roles = {"x": "activation", "w": "weight", "out": "output", "flag": "flag", "box": "mailbox", "n": "scalar"}


@pytest.fixture
def audited() -> Callable[..., KernelAudit]:
    """`audited(assembly, roles, pdl, argument={...})`"""

    def run(assembly: Assembler, roles: Roles | None = None, pdl: bool | None = True, **keys: Any) -> KernelAudit:
        known = {a: r for a, r in (ROLES if roles is None else roles).items() if a in assembly.arguments}
        return audit_program(assembly.build(), contract_of(assembly, known, pdl, **keys), artifact="hand.ptx")

    return run


def rules_of(audit: KernelAudit) -> Sequence[str]:
    """Rules that keep a kernel from being proven, sorted."""
    return sorted({f.rule for f in audit.findings if f.severity.value in ("error", "unproven")})


@pytest.fixture
def alarms_for() -> Callable[[KernelAudit], Sequence[str]]:
    return rules_of
