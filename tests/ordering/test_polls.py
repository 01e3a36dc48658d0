"""What a branch says about a polled word."""

from __future__ import annotations

import pytest

from validator.ordering.conditions import Conditions
from validator.ordering.dataflow import Flow
from validator.ordering.program import Const, Op, Order, Scope
from validator.ordering.slices import LoadSlices
from validator.verdict.model import Status

GUARDED = {"x": {"guarded_by": "flag"}}
ACQUIRE = {"order": Order.ACQUIRE, "scope": Scope.GPU}


@pytest.mark.parametrize(
    ("op", "value", "decided"),
    [(Op.AND, True, True), (Op.AND, False, False), (Op.OR, True, False), (Op.OR, False, True)],
)
def test_and_needs_both_or_needs_either(assembler, op, value, decided):
    a = assembler("flag", "n")
    word = a.load(a.param("flag"))
    load = a.next - 1
    ready = a.compare("ne", word, Const(0))
    other = a.compare("ne", a.param("n"), Const(0))
    both = a.let(op, ready, other, width=1)
    flow = Flow(a.build())
    assert Conditions(flow, LoadSlices(flow)).decided_by(both, a.next - 1, value, load) is decided


def test_a_table_of_three_inputs(assembler):
    """0x80 is a & b & c, 0xFE is a | b | c."""
    a = assembler("flag", "n")
    word = a.load(a.param("flag"))
    load = a.next - 1
    ready = a.compare("ne", word, Const(0))
    other = a.compare("ne", a.param("n"), Const(0))
    both = a.let(Op.LOP3, ready, other, Const(1), attr=0x80, width=1)
    either = a.let(Op.LOP3, ready, other, Const(0), attr=0xFE, width=1)
    at = a.next
    flow = Flow(a.build())
    conditions = Conditions(flow, LoadSlices(flow))
    assert conditions.decided_by(both, at, True, load)
    assert not conditions.decided_by(either, at, True, load)
    assert conditions.decided_by(either, at, False, load)


def spin(a, *, limit=None, first_look=False, words=1):
    """`limit`: "trap" or "break" after some turns; `first_look`: one load before the loop."""
    x, out, flag, n = (a.param(p) for p in ("x", "out", "flag", "n"))
    if first_look:
        a.branch("done", a.compare("ne", a.load(flag, **ACQUIRE), Const(0)))
    a.label("spin")
    for number in range(words):
        word = a.load(a.let(Op.ADD, flag, Const(4 * number)), **ACQUIRE)
        if limit == "break":
            over = a.let(Op.OR, a.compare("ne", word, Const(0)), a.compare("gt", n, Const(9)), width=1)
            a.branch("spin", over, negated=True)
        else:
            a.branch("spin", a.compare("eq", word, Const(0)))
    a.label("done")
    a.store(out, a.load(x))
    return a


@pytest.mark.parametrize("change", [{}, {"first_look": True}, {"words": 2}])
def test_polls_that_pass(assembler, audited, change):
    assert audited(spin(assembler("x", "out", "flag", "n"), **change), pdl=False, **GUARDED).status is Status.PROVEN


def test_a_poll_that_gives_up_proves_nothing(assembler, audited, alarms_for):
    audit = audited(spin(assembler("x", "out", "flag", "n"), limit="break"), pdl=False, **GUARDED)
    assert list(alarms_for(audit)) == ["order/early-read"]


def one_thread(a, *, barrier=True, fence=False, **order):
    x, out, flag = (a.param(p) for p in ("x", "out", "flag"))
    a.branch("join", a.compare("ne", a.tid(), Const(0)))
    a.label("spin")
    a.branch("spin", a.compare("eq", a.load(flag, **(order or ACQUIRE)), Const(0)))
    if fence:
        a.fence()
    a.label("join")
    if barrier:
        a.barrier()
    a.store(out, a.load(x))
    return a


def test_one_thread_polls_for_all_behind_a_barrier(assembler, audited, alarms_for):
    assert audited(one_thread(assembler("x", "out", "flag")), pdl=False, **GUARDED).status is Status.PROVEN
    alone = audited(one_thread(assembler("x", "out", "flag"), barrier=False), pdl=False, **GUARDED)
    assert list(alarms_for(alone)) == ["order/early-read"]


def test_the_polling_thread_acquires_for_all(assembler, audited, alarms_for):
    relaxed = {"order": Order.RELAXED, "scope": Scope.GPU}
    audit = audited(one_thread(assembler("x", "out", "flag"), **relaxed), pdl=False, **GUARDED)
    assert list(alarms_for(audit)) == ["order/flag-without-acquire"]
    fenced = audited(one_thread(assembler("x", "out", "flag"), fence=True, **relaxed), pdl=False, **GUARDED)
    assert fenced.status is Status.PROVEN
