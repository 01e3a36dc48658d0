"""Random programs: no shape of control or data flow crashes the audit, hangs it, or changes its answer."""

from __future__ import annotations

import random

import pytest

from validator.ordering.program import Access, Const, Direction, EventKind, Guard, Op, Order, Scope, Space

ARITHMETIC = (Op.ADD, Op.MUL, Op.SUB, Op.AND, Op.SHL, Op.SHR, Op.XOR, Op.MIN, Op.DIV, Op.REM)
OTHERS = (
    EventKind.ASYNC_COMMIT,
    EventKind.ASYNC_WAIT,
    EventKind.PROXY_FENCE,
    EventKind.WARP_BARRIER,
    EventKind.GRID_TRIGGER,
    EventKind.UNKNOWN,
    EventKind.CALL,
    EventKind.CLUSTER_BARRIER,
)


def filled(a, r):
    """Random instructions over a handful of registers, predicates and labels."""
    registers = [*(a.param(p) for p in a.arguments), a.tid()]
    predicates = [a.compare("lt", registers[-1], Const(32))]
    labels = [f"L{i}" for i in range(r.randint(1, 8))]
    pending = list(labels)
    bar, tile = a.shared("bar"), a.shared("tile")
    for _ in range(r.randint(10, 60)):
        kind = r.randint(0, 17)
        guard = Guard(r.choice(predicates), r.random() < 0.5) if r.random() < 0.3 else None
        register, other = r.choice(registers), r.choice([*registers, Const(r.randint(0, 64))])
        if kind < 4:
            to = r.choice([None, None, registers[-1]])
            registers.append(a.let(r.choice(ARITHMETIC), register, other, width=r.choice([32, 64]), to=to, guard=guard))
        elif kind == 4:
            predicates.append(a.compare(r.choice(["lt", "eq", "ge"]), register, other))
        elif kind == 5:
            order, scope = r.choice(list(Order)), r.choice([None, *Scope])
            size = r.choice([4, 8])
            registers.append(a.load(register, size=size, guard=guard, order=order, scope=scope, noncoherent=size == 8))
        elif kind == 6:
            a.store(register, other, guard=guard, order=r.choice(list(Order)))
        elif kind == 7:
            a.wait(guard)
        elif kind == 8:
            a.barrier(r.choice([Const(0), Const(1), register]), r.choice([None, Const(64)]), waits=r.random() < 0.9)
        elif kind == 9:
            a.event(EventKind.MBARRIER_ARRIVE, guard, barrier=(bar,))
        elif kind == 10:
            a.event(
                EventKind.MBARRIER_WAIT, guard, barrier=(bar,), parity=r.choice([Const(0), Const(1), register, None])
            )
        elif kind == 11:
            sides = (
                Access(Direction.READ, Space.GLOBAL, (register,), 16),
                Access(Direction.WRITE, Space.SHARED, (tile,), 16),
            )
            a.event(
                EventKind.ASYNC_COPY, guard, accesses=sides, group=r.choice(["cp.async", "mbarrier"]), barrier=(bar,)
            )
        elif kind == 12:
            a.event(r.choice(OTHERS), guard, group="cp.async")
        elif kind == 13:
            registers.append(a.load(tile, Space.SHARED))
        elif kind == 14 and pending:
            a.label(pending.pop())
        elif kind >= 15:
            a.branch(r.choice(labels), r.choice(predicates) if r.random() < 0.8 else None)
    for label in pending:
        a.label(label)
    a.emit()
    return a


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(assembler, audited, seed):
    def once():
        r = random.Random(seed)
        a = filled(assembler("x", "w", "out", "flag", "box", "n"), r)
        return audited(a, pdl=r.choice([True, False, None]), x={"guarded_by": "flag"})

    audit = once()
    assert audit == once()
    assert all(f.message and f.identity and f.fix for f in audit.findings)
    assert all(row.lines for row in (*audit.early, *audit.accesses))
