"""Who has waited where: alone, through barriers, through mbarriers."""

from __future__ import annotations

import pytest

from validator.ordering.program import (
    Access,
    Const,
    Direction,
    Event,
    EventKind,
    Guard,
    Isa,
    Op,
    Operation,
    Reg,
    Space,
    Special,
)
from validator.verdict.model import Status


def read_after(a, before):
    """`before` emits the order; then x is read and out written by all threads."""
    x, out = a.param("x"), a.param("out")
    before(a)
    a.store(out, a.load(x))
    return a


def thread_zero_waits(a, thread=0):
    p = a.compare("ne", a.tid(), Const(thread))
    a.branch("join", p)
    a.wait()
    a.label("join")


def warp_zero_waits(a):
    p = a.compare("ge", a.tid(), Const(32))
    a.branch("join", p)
    a.wait()
    a.label("join")


def early(audit):
    return {(row.access, row.params[0].name, row.count) for row in audit.early if not row.allowed}


ALL_EARLY = {("read", "x", 1), ("write", "out", 1)}


def test_a_wait_by_all(assembler, audited):
    audit = audited(read_after(assembler("x", "out"), lambda a: a.wait()))
    assert audit.status is Status.PROVEN
    assert [w.text for w in audit.waits] == ["all threads"]
    assert audit.always_waits


def test_no_wait_at_all(assembler, audited, alarms_for):
    audit = audited(read_after(assembler("x", "out"), lambda a: None))
    assert early(audit) == ALL_EARLY
    assert alarms_for(audit) == ["order/early-read", "order/early-write", "order/no-wait"]


def test_one_thread_waits_and_nothing_orders_the_others(assembler, audited, alarms_for):
    audit = audited(read_after(assembler("x", "out"), thread_zero_waits))
    assert early(audit) == ALL_EARLY
    assert "order/wait-missing-on-path" in alarms_for(audit)


def test_one_thread_waits_and_a_barrier_orders_the_others(assembler, audited):
    audit = audited(read_after(assembler("x", "out"), lambda a: (thread_zero_waits(a), a.barrier())))
    assert audit.status is Status.PROVEN
    assert "ordered through barrier 0, thread 0 waits" in [w.text for w in audit.waits]
    assert not audit.assumptions


def test_a_thread_that_a_small_block_has_not(assembler, audited):
    audit = audited(read_after(assembler("x", "out"), lambda a: (thread_zero_waits(a, 40), a.barrier())))
    assert audit.status is Status.REFUTED


def test_a_thread_that_a_fixed_block_has(assembler, audited):
    a = assembler("x", "out")
    a.block_size = (64, 1, 1)
    audit = audited(read_after(a, lambda b: (thread_zero_waits(b, 40), b.barrier())))
    assert audit.status is Status.PROVEN


def test_another_lane_of_the_first_warp_is_an_assumption(assembler, audited):
    audit = audited(read_after(assembler("x", "out"), lambda a: (thread_zero_waits(a, 7), a.barrier())))
    assert audit.status is Status.PROVEN
    assert "the block has at least 8 threads" in audit.assumptions


def test_the_barrier_before_the_wait_orders_nothing(assembler, audited):
    audit = audited(read_after(assembler("x", "out"), lambda a: (a.barrier(), thread_zero_waits(a))))
    assert early(audit) == ALL_EARLY


def test_a_warp_barrier_orders_nothing(assembler, audited):
    audit = audited(read_after(assembler("x", "out"), lambda a: (warp_zero_waits(a), a.event(EventKind.WARP_BARRIER))))
    assert early(audit) == ALL_EARLY


def lane_zero_waits(a):
    p = a.compare("ne", a.let(Op.AND, a.tid(), Const(31), width=32), Const(0))
    a.branch("join", p)
    a.wait()
    a.label("join")


def test_a_warp_barrier_orders_the_lanes_of_its_warp(assembler, audited):
    audit = audited(read_after(assembler("x", "out"), lambda a: (lane_zero_waits(a), a.event(EventKind.WARP_BARRIER))))
    assert audit.status is Status.PROVEN
    assert "ordered through the warp barrier, lane 0 of every warp waits" in [w.text for w in audit.waits]
    assert early(audited(read_after(assembler("x", "out"), lane_zero_waits))) == ALL_EARLY


def test_a_warp_that_meets_again_in_machine_code_is_left_open(assembler, audited, alarms_for):
    """__syncwarp leaves no instruction behind: neither proof nor refutation."""
    audit = audited(read_after(assembler("x", "out", isa=Isa.SASS), lane_zero_waits))
    assert audit.status is Status.UNPROVEN
    assert list(alarms_for(audit)) == ["order/early-read", "order/early-write"]
    other_warps = audited(read_after(assembler("x", "out", isa=Isa.SASS), thread_zero_waits))
    assert other_warps.status is Status.REFUTED


def test_a_wait_that_hangs_on_data(assembler, audited):
    def before(a):
        a.branch("join", a.compare("eq", a.param("n"), Const(0)))
        a.wait()
        a.label("join")
        a.barrier()

    assert early(audited(read_after(assembler("x", "out", "n"), before))) == ALL_EARLY


def test_a_wait_under_a_predicate_of_all_threads(assembler, audited):
    def before(a):
        a.wait(Guard(a.compare("ge", a.tid(), Const(0)), False))

    assert audited(read_after(assembler("x", "out"), before)).status is Status.PROVEN


def named(a, *, mine=3, theirs=3, count=128):
    """Warp 0 waits and arrives at a named barrier, the other three warps sync there."""
    others = a.compare("ge", a.tid(), Const(32))
    x, out = a.param("x"), a.param("out")
    a.branch("others", others)
    a.wait()
    a.barrier(Const(mine), Const(count), waits=False)
    a.exit()
    a.label("others")
    a.barrier(Const(theirs), Const(count))
    a.store(out, a.load(x))
    a.block_size = (128, 1, 1)
    return a


def test_a_named_barrier_with_all_its_threads(assembler, audited):
    audit = audited(named(assembler("x", "out")))
    assert audit.status is Status.PROVEN
    assert "ordered through barrier 3, threads 0 to 31 wait" in [w.text for w in audit.waits]


def test_a_named_barrier_of_another_number(assembler, audited):
    assert early(audited(named(assembler("x", "out"), theirs=2))) == ALL_EARLY


def test_a_named_barrier_that_needs_fewer_threads(assembler, audited):
    """96 of 128 users complete it: the waiting warp need not be among them."""
    assert early(audited(named(assembler("x", "out"), count=96))) == ALL_EARLY


def test_a_barrier_number_that_is_not_known(assembler, audited):
    def before(a):
        thread_zero_waits(a)
        a.barrier(a.param("n"))

    assert early(audited(read_after(assembler("x", "out", "n"), before))) == ALL_EARLY


def test_two_arms_pair_by_ordinal(assembler, audited):
    """if (warp 0) { bar; wait; bar } else { bar; bar; read }: the second barrier follows the wait."""
    a = assembler("x", "out")
    x, out = a.param("x"), a.param("out")
    a.branch("others", a.compare("ge", a.tid(), Const(32)))
    a.barrier()
    a.wait()
    a.barrier()
    a.exit()
    a.label("others")
    a.barrier()
    a.barrier()
    a.store(out, a.load(x))
    assert audited(a).status is Status.PROVEN


def test_the_first_barrier_of_two_arms_does_not_pair_with_the_second(assembler, audited):
    a = assembler("x", "out")
    x, out = a.param("x"), a.param("out")
    a.branch("others", a.compare("ge", a.tid(), Const(32)))
    a.barrier()
    a.wait()
    a.barrier()
    a.exit()
    a.label("others")
    a.barrier()
    a.store(out, a.load(x))
    a.barrier()
    assert early(audited(a)) == ALL_EARLY


def test_cluster_barrier(assembler, audited):
    def before(a):
        thread_zero_waits(a)
        a.event(EventKind.CLUSTER_BARRIER, waits=False)
        a.event(EventKind.CLUSTER_BARRIER, arrives=False)

    audit = audited(read_after(assembler("x", "out"), before))
    assert audit.status is Status.PROVEN
    assert any("cluster barrier" in w.text for w in audit.waits)


def ring(a, *, parity=0, wait=True, expect_first=False, arrive_early=False, asks_again=True, announces=True):
    """Warp 4 waits, announces and copies; the others wait for the mbarrier's phase and store."""
    x, out = a.param("x"), a.param("out")
    bar, tile = a.shared("bar"), a.shared("tile")
    a.branch("consumer", a.compare("lt", a.tid(), Const(128)))
    a.branch("end", a.compare("ne", a.tid(), Const(128)))
    if expect_first or arrive_early:
        a.event(EventKind.MBARRIER_ARRIVE, barrier=(bar,), announces=expect_first and announces)
    if wait:
        a.wait()
    if not expect_first:
        a.event(EventKind.MBARRIER_ARRIVE, barrier=(bar,))
    sides = (Access(Direction.READ, Space.GLOBAL, (x,), 512), Access(Direction.WRITE, Space.SHARED, (tile,), 512))
    a.event(EventKind.ASYNC_COPY, accesses=sides, group="mbarrier", barrier=(bar,))
    a.label("end")
    a.exit()
    a.label("consumer")
    over = Reg("over")
    index = a.emit({over: Operation(Op.OPAQUE, (), "try_wait", 1)})
    asked = {"barrier": (bar,), "parity": Const(parity), "result": over}
    a.events.append(Event(EventKind.MBARRIER_WAIT, index, "try_wait", **asked))
    if asks_again:
        a.branch("consumer", over, negated=True)
    a.store(out, a.load(tile, Space.SHARED))
    a.block_size = (160, 1, 1)
    return a


def test_consumers_behind_an_mbarrier(assembler, audited):
    audit = audited(ring(assembler("x", "out")))
    assert audit.status is Status.PROVEN
    assert any("the mbarrier at bar" in w.text for w in audit.waits)


def test_bytes_announced_before_the_wait_arrive_behind_it(assembler, audited):
    assert audited(ring(assembler("x", "out"), expect_first=True)).status is Status.PROVEN


@pytest.mark.parametrize(
    "change",
    [
        {"parity": 1},
        {"wait": False},
        {"arrive_early": True},
        {"asks_again": False},
        {"expect_first": True, "announces": False},
    ],
)
def test_an_mbarrier_that_orders_nothing(assembler, audited, change):
    audit = audited(ring(assembler("x", "out"), **change))
    assert ("write", "out", 1) in early(audit)
    assert audit.status is Status.REFUTED


def test_mutually_waiting_mbarriers_without_a_wait_prove_nothing(assembler, audited):
    """Full and empty barriers order each other in time; with no grid wait anywhere nobody is ordered."""
    audit = audited(ring(assembler("x", "out"), wait=False))
    assert not audit.always_waits


def test_a_wait_inside_a_loop_does_not_order_what_comes_before_it(assembler, audited):
    a = assembler("x", "out", "n")
    x, out, n = a.param("x"), a.param("out"), a.param("n")
    a.label("head")
    value = a.load(x)
    a.wait()
    a.store(out, value)
    a.branch("head", a.compare("ne", n, Const(0)))
    assert early(audited(a)) == {("read", "x", 1)}


def first_turn(a, *, start=0):
    """for (i = start; i < n; i++) { if (i == 0) wait; out = x }"""
    x, out, n = a.param("x"), a.param("out"), a.param("n")
    i = a.let(Op.COPY, Const(start), width=32)
    a.label("head")
    a.branch("work", a.compare("ne", i, Const(0)))
    a.wait()
    a.label("work")
    a.store(out, a.load(x))
    a.let(Op.ADD, i, Const(1), to=i, width=32)
    a.branch("head", a.compare("lt", i, n))
    return a


def test_a_wait_in_the_first_turn_of_a_loop(assembler, audited):
    assert audited(first_turn(assembler("x", "out", "n"))).status is Status.PROVEN
    assert early(audited(first_turn(assembler("x", "out", "n"), start=1))) == ALL_EARLY


def test_a_wait_in_a_later_turn_comes_too_late(assembler, audited):
    a = assembler("x", "out", "n")
    x, out, n = a.param("x"), a.param("out"), a.param("n")
    i = a.let(Op.COPY, Const(0), width=32)
    a.label("head")
    a.branch("work", a.compare("ne", i, Const(1)))
    a.wait()
    a.label("work")
    a.store(out, a.load(x))
    a.let(Op.ADD, i, Const(1), to=i, width=32)
    a.branch("head", a.compare("lt", i, n))
    assert early(audited(a)) == ALL_EARLY


def test_a_first_turn_that_may_be_skipped(assembler, audited):
    """if (c) continue; before the wait: a later turn may be the first to read."""
    a = assembler("x", "out", "n", "w")
    x, out, n, w = a.param("x"), a.param("out"), a.param("n"), a.param("w")
    i = a.let(Op.COPY, Const(0), width=32)
    a.label("head")
    a.branch("next", a.compare("eq", a.load(a.let(Op.ADD, w, i)), Const(0)))
    a.branch("work", a.compare("ne", i, Const(0)))
    a.wait()
    a.label("work")
    a.store(out, a.load(x))
    a.label("next")
    a.let(Op.ADD, i, Const(1), to=i, width=32)
    a.branch("head", a.compare("lt", i, n))
    assert early(audited(a)) == ALL_EARLY


def test_the_path_to_an_early_access_is_told(assembler, audited):
    audit = audited(read_after(assembler("x", "out"), warp_zero_waits))
    finding = next(f for f in audit.findings if f.rule == "order/early-read")
    assert finding.steps[0] == "enter kernel (thread 32, for example)"
    assert "branch taken" in finding.steps[1]
    assert "no wait passed" in finding.steps[-1]


def test_unknown_launch(assembler, audited, alarms_for):
    audit = audited(read_after(assembler("x", "out"), lambda a: None), pdl=None)
    assert audit.status is Status.UNPROVEN
    assert alarms_for(audit) == ["order/no-wait"]
    assert audited(read_after(assembler("x", "out"), lambda a: None), pdl=False).status is Status.PROVEN


def test_nothing_global_is_not_applicable(assembler, audited):
    a = assembler("x")
    a.store(a.shared("s"), Const(1), Space.SHARED)
    assert audited(a).status is Status.NOT_APPLICABLE


def test_distributed_shared_memory_is_not_global(assembler, audited):
    a = assembler("x")
    meets = {"waits": False}, {"arrives": False}
    for half in meets:
        a.event(EventKind.CLUSTER_BARRIER, **half)
    a.load(a.let(Op.MAPA, a.shared("s"), Const(1)), Space.CLUSTER)
    for half in meets:
        a.event(EventKind.CLUSTER_BARRIER, **half)
    assert audited(a).status is Status.NOT_APPLICABLE


@pytest.mark.parametrize(("trigger", "severity"), [("first", "error"), ("last", "unproven")])
def test_blocks_that_leave_before_the_wait(assembler, audited, trigger, severity):
    """A launch that triggers behind its wait has waited: what is open is whether each launch comes there."""
    a = assembler("x", "out", "n")
    x, out, n = a.param("x"), a.param("out"), a.param("n")
    p = a.compare("ge", a.let(Op.SPECIAL, attr=Special.CTA, width=32), n)
    if trigger == "first":
        a.trigger()
    a.branch("end", p)
    a.wait()
    a.store(out, a.load(x))
    if trigger == "last":
        a.trigger()
    a.label("end")
    audit = audited(a)
    assert [(f.rule, f.severity.value) for f in audit.findings] == [("order/trigger-without-wait", severity)]
    assert audit.status is (Status.REFUTED if severity == "error" else Status.UNPROVEN)


def test_a_trigger_by_a_thread_that_nothing_orders_behind_the_wait(assembler, audited):
    """Thread 1 triggers at the end, but it is thread 0 that waited."""
    a = assembler("n")
    n = a.param("n")
    a.branch("end", a.compare("ge", a.let(Op.SPECIAL, attr=Special.CTA, width=32), n))
    thread_zero_waits(a)
    a.branch("end", a.compare("ne", a.tid(), Const(1)))
    a.trigger()
    a.label("end")
    assert [(f.rule, f.severity.value) for f in audited(a).findings] == [("order/trigger-without-wait", "error")]
