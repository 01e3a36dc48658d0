"""Reaching definitions, dominators, loops."""

from __future__ import annotations

import pytest

from validator.ordering.dataflow import Flow
from validator.ordering.program import Const, Guard, Op, Operation, Reg
from validator.ordering.slices import LoadSlices, first_value, scalar

R, P = Reg("R"), Reg("P")


def test_the_nearest_definition_reaches(assembler):
    a = assembler("x")
    a.let(Op.COPY, Const(1), to=R)
    a.let(Op.COPY, Const(2), to=R)
    use = a.let(Op.COPY, R)
    flow = Flow(a.build())
    assert flow.reach(R, 2) == (1,)
    assert flow.reach(use, 3) == (2,)
    assert flow.reach(Reg("never"), 2) == ()


def test_both_arms_reach_the_join(assembler):
    a = assembler("x")
    a.let(Op.COMPARE, Const(0), Const(0), attr=("eq", False), to=P)
    a.branch("else", P)
    a.let(Op.COPY, Const(1), to=R)
    a.branch("join")
    a.label("else")
    a.let(Op.COPY, Const(2), to=R)
    a.label("join")
    use = a.next
    a.let(Op.COPY, R)
    assert Flow(a.build()).reach(R, use) == (2, 4)


def test_a_guarded_definition_does_not_hide_the_one_before(assembler):
    a = assembler("x")
    a.let(Op.COPY, Const(1), to=R)
    a.let(Op.COPY, Const(2), to=R, guard=Guard(P, False))
    plain = a.let(Op.COPY, R)
    same = a.let(Op.COPY, R, guard=Guard(P, False))
    opposite = a.let(Op.COPY, R, guard=Guard(P, True))
    flow = Flow(a.build())
    assert flow.reach(R, 2) == (0, 1)
    assert flow.reach(R, 3, Guard(P, False)) == (1,)
    assert flow.reach(R, 4, Guard(P, True)) == (0,)
    assert {plain, same, opposite} == {Reg("r1"), Reg("r2"), Reg("r3")}


def test_a_predicate_set_between_makes_the_same_guard_another_one(assembler):
    a = assembler("x")
    a.let(Op.COPY, Const(1), to=R)
    a.let(Op.COPY, Const(2), to=R, guard=Guard(P, False))
    a.let(Op.COPY, Const(0), to=P)
    a.let(Op.COPY, R, guard=Guard(P, False))
    assert Flow(a.build()).reach(R, 3, Guard(P, False)) == (0, 1)


def guarded_turns(assembler, *inside):
    """R set without a condition, then in a loop under P, read there under P behind a branch; `inside`: what else is
    done in between."""
    a = assembler("x")
    a.let(Op.COPY, Const(1), to=R)
    a.label("turn")
    a.let(Op.COPY, Const(2), to=R, guard=Guard(P, False))
    a.branch("read", Reg("Q"))
    for register in inside:
        a.let(Op.COPY, Const(3), to=register)
    a.label("read")
    use = a.next
    a.let(Op.COPY, R, guard=Guard(P, False))
    a.branch("turn", Reg("Q"))
    return Flow(a.build()), use


def test_the_same_guard_hides_what_stands_before_it_in_other_blocks(assembler):
    flow, use = guarded_turns(assembler, Reg("other"))
    assert flow.reach(R, use) == (0, 1)
    assert flow.reach(R, use, Guard(P, False)) == (1,)
    assert flow.reach(R, use, Guard(P, True)) == (0,)
    assert flow.reach(R, use, Guard(Reg("other"), False)) == (0, 1)


def test_a_predicate_set_on_one_way_makes_the_same_guard_another_one(assembler):
    flow, use = guarded_turns(assembler, P)
    assert flow.reach(R, use, Guard(P, False)) == (0, 1)
    assert flow.reach(R, use, Guard(P, True)) == (0, 1)


def loop(assembler):
    """R counts; the load's value decides when the loop ends."""
    a = assembler("x")
    base = a.param("x")
    a.let(Op.COPY, Const(0), to=R)
    a.label("head")
    value = a.load(base)
    a.let(Op.XOR, R, Const(1), to=R)
    done = a.compare("eq", value, Const(0))
    a.branch("head", done)
    return a, done


def test_definitions_come_round_a_loop(assembler):
    a, done = loop(assembler)
    flow = Flow(a.build())
    assert flow.reach(R, 3) == (1, 3)
    assert [sorted(body) for body in flow.loops] == [[1]]
    assert flow.dominates(0, 1)
    assert not flow.dominates(1, 0)
    assert LoadSlices(flow).of(done, 5) == frozenset({2})


def test_the_first_value_of_a_phase_is_what_it_starts_with(assembler):
    a, _ = loop(assembler)
    flow = Flow(a.build())
    assert first_value(flow, R, 3) == 0
    assert first_value(flow, R, 4) == 1
    assert first_value(flow, Const(7), 0) == 7


@pytest.mark.parametrize(("turn", "phase"), [(0, 0), (2, 0), (3, 1), (5, 1), (6, 0)])
def test_the_phase_of_a_ring_of_three_is_known(turn: int, phase: int, assembler) -> None:
    """`turn / 3` as compilers write it: the upper word of a product."""
    third = Operation(Op.EXTRACT, (Operation(Op.MUL, (Const(turn), Const(0xAAAAAAAB)), None, 64),), (32, 32))
    quotient = Operation(Op.SHR, (third, Const(1)))
    a, _ = loop(assembler)
    assert first_value(Flow(a.build()), Operation(Op.AND, (quotient, Const(1))), 0) == phase


@pytest.mark.parametrize(
    ("op", "width", "args", "value"),
    [
        (Op.MUL, 64, (-2, 3), (1 << 64) - 6),
        (Op.SHR, 32, (0x80000000, 31), 0xFFFFFFFF),
        (Op.MIN, 32, (0xFFFFFFFF, 1), 0xFFFFFFFF),
        (Op.MAX, 32, (0xFFFFFFFF, 1), 1),
    ],
)
def test_signed_operations_take_their_operands_as_signed(op: Op, width: int, args: tuple[int, int], value: int) -> None:
    assert scalar(Operation(op, (), "s", width), list(args)) == value


def test_long_chains_do_not_exhaust_the_stack(assembler):
    a = assembler("x")
    last = a.param("x")
    for _ in range(5000):
        last = a.let(Op.ADD, last, Const(4))
    a.load(last)
    program = a.build()
    flow = Flow(program)
    assert LoadSlices(flow).of(last, 5001) == frozenset()
    assert first_value(flow, last, 5001) is None


def test_what_comes_after_goes_round_loops_and_stops_where_it_is_told(assembler):
    a = assembler("x")
    before = a.load(a.param("x"))
    a.label("head")
    inside = a.load(a.param("x"))
    barrier = a.barrier()
    a.branch("head", a.compare("eq", inside, Const(0)))
    a.store(a.param("x"), before)
    program = a.build()
    flow = Flow(program)
    loads = [e.index for e in program.events if e.accesses]
    assert {e.index for e in flow.events_after((barrier.index,))} >= {loads[1], barrier.index, loads[2]}
    assert loads[0] not in {e.index for e in flow.events_after((barrier.index,))}
    assert {e.index for e in flow.events_after((loads[0],), {barrier.index})} == {loads[1], barrier.index}
    assert list(flow.events_after((barrier.index,), (), lambda number, edge: False)) == []
