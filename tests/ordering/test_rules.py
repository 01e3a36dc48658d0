"""Each rule on a hand-written program: it fires, it stays quiet, and a mutant brings it back."""

from __future__ import annotations

import pytest

from validator.ordering.program import Access, Const, Direction, EventKind, Isa, Line, Op, Order, Scope, Space
from validator.ordering.rules import MODULES, RULES, STEP_MODULES
from validator.verdict.model import Severity, Status


def test_every_rule_has_a_page_and_an_id_of_its_own():
    assert len({r.id for r in RULES}) == len(RULES)
    for module in (*MODULES, *STEP_MODULES):
        assert module.RULE.id == "order/" + module.__name__.rpartition(".")[2].replace("_", "-")
        for part in ("Bad:", "Good:", "Mend it", "Not seen:"):
            assert part in module.__doc__


def poll(a, *, order=Order.ACQUIRE, scope=Scope.GPU, fence=None, early=False):
    """while (flag == 0) {}; out = x"""
    x, out, flag = a.param("x"), a.param("out"), a.param("flag")
    value = a.load(x) if early else None
    a.label("spin")
    ready = a.load(flag, order=order, scope=scope)
    a.branch("spin", a.compare("eq", ready, Const(0)))
    if fence is not None:
        a.fence(fence)
    a.store(out, a.load(x) if value is None else value)
    return a


GUARDED = {"x": {"guarded_by": "flag"}}


def test_an_acquired_flag_takes_the_place_of_the_wait(assembler, audited):
    audit = audited(poll(assembler("x", "out", "flag")), pdl=False, **GUARDED)
    assert audit.status is Status.PROVEN
    assert any(w.kind == "flag" for w in audit.waits)


def test_a_relaxed_poll_with_a_fence_is_an_acquire(assembler, audited):
    a = poll(assembler("x", "out", "flag"), order=Order.RELAXED, fence=Scope.GPU)
    assert audited(a, pdl=False, **GUARDED).status is Status.PROVEN


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"order": Order.VOLATILE, "scope": Scope.SYS}, "order/flag-without-acquire"),
        ({"order": Order.RELAXED, "fence": Scope.CTA}, "order/flag-without-acquire"),
        ({"order": Order.WEAK, "scope": None}, "order/flag-without-acquire"),
        ({"scope": Scope.CTA}, "order/flag-scope-too-narrow"),
        ({"early": True}, "order/early-read"),
    ],
)
def test_polls_that_order_nothing(assembler, audited, alarms_for, change, rule):
    audit = audited(poll(assembler("x", "out", "flag"), **change), pdl=False, **GUARDED)
    assert list(alarms_for(audit)) == [rule]


def test_a_flag_of_the_whole_system_needs_sys_scope(assembler, audited, alarms_for):
    audit = audited(poll(assembler("x", "out", "flag")), pdl=False, flag={"scope": "sys"}, **GUARDED)
    assert list(alarms_for(audit)) == ["order/flag-scope-too-narrow"]


def publish(a, *, order=Order.RELEASE, barrier=True, fence=False):
    out, flag = a.param("out"), a.param("flag")
    a.store(a.let(Op.ADD, out, a.let(Op.MUL, a.tid(), Const(4))))
    if barrier:
        a.barrier()
    a.branch("end", a.compare("ne", a.tid(), Const(0)))
    if fence:
        a.fence()
    a.store(flag, Const(1), order=order, scope=Scope.GPU)
    a.label("end")
    return a


@pytest.mark.parametrize(
    ("change", "fires"),
    [
        ({}, False),
        ({"order": Order.RELAXED, "fence": True}, False),
        ({"order": Order.RELAXED}, True),
        ({"order": Order.VOLATILE}, True),
        ({"barrier": False}, True),
    ],
)
def test_publish(assembler, audited, alarms_for, change, fires):
    audit = audited(publish(assembler("out", "flag"), **change), pdl=False)
    assert list(alarms_for(audit)) == (["order/publish-without-release"] if fires else [])


def test_taking_a_flag_down_publishes_nothing(assembler, audited):
    a = assembler("out", "flag")
    a.store(a.param("out"))
    a.store(a.param("flag"), Const(0), order=Order.RELAXED, scope=Scope.GPU)
    assert audited(a, pdl=False).status is Status.PROVEN


def mailbox(a, *, check=True, use_before=False, second=False):
    box, out = a.param("box"), a.param("out")
    s = a.shared("s")
    a.label("spin")
    word = a.load(box, order=Order.RELAXED, scope=Scope.GPU)
    other = a.load(a.let(Op.ADD, box, Const(4)), order=Order.RELAXED, scope=Scope.GPU) if second else None
    if use_before:
        a.store(s, word, Space.SHARED)
    if check:
        a.branch("spin", a.compare("eq", word, Const(0x80000000)))
    total = a.let(Op.OPAQUE, word, attr="add.f32") if other is None else a.let(Op.OPAQUE, word, other, attr="add.f32")
    a.wait()
    a.store(out, total)
    return a


@pytest.mark.parametrize(
    ("change", "fires"),
    [({}, False), ({"check": False}, True), ({"use_before": True}, True), ({"second": True}, True)],
)
def test_mailbox(assembler, audited, alarms_for, change, fires):
    audit = audited(mailbox(assembler("box", "out"), **change))
    assert list(alarms_for(audit)) == (["order/mailbox-used-before-check"] if fires else [])
    assert all(row.allowed for row in audit.early)


def staged(a, *, groups=1, pending=0, wait=True):
    """`groups` copies in groups of their own, a wait, a barrier, then the last region is read."""
    w, out = a.param("w"), a.param("out")
    for number in range(groups):
        sides = (
            Access(Direction.READ, Space.GLOBAL, (w,), 16),
            Access(Direction.WRITE, Space.SHARED, (a.shared(f"s{number}"),), 16),
        )
        a.event(EventKind.ASYNC_COPY, accesses=sides, group="cp.async")
        a.event(EventKind.ASYNC_COMMIT, group="cp.async")
    if wait:
        a.event(EventKind.ASYNC_WAIT, group="cp.async", pending=pending)
    a.barrier()
    value = a.load(a.shared(f"s{groups - 1}"), Space.SHARED)
    a.wait()
    a.store(out, value)
    return a


@pytest.mark.parametrize(
    ("change", "fires"),
    [({}, False), ({"wait": False}, True), ({"groups": 2, "pending": 1}, True), ({"groups": 2}, False)],
)
def test_async_copy_not_waited(assembler, audited, alarms_for, change, fires):
    audit = audited(staged(assembler("w", "out"), **change))
    assert list(alarms_for(audit)) == (["order/async-copy-not-waited"] if fires else [])


def bulk_store(a, *, fence=True, late=False):
    out, tile = a.param("out"), a.shared("tile")
    a.wait()
    a.store(a.let(Op.ADD, tile, a.let(Op.MUL, a.tid(), Const(4))), Const(1), Space.SHARED)
    if fence:
        a.event(EventKind.PROXY_FENCE, proxy="async.shared::cta")
    a.barrier()
    a.branch("end", a.compare("ne", a.tid(), Const(0)))
    if late:
        a.event(EventKind.PROXY_FENCE, proxy="async.shared::cta")
    sides = (Access(Direction.READ, Space.SHARED, (tile,), 512), Access(Direction.WRITE, Space.GLOBAL, (out,), 512))
    a.event(EventKind.ASYNC_COPY, accesses=sides, group="bulk")
    a.label("end")
    return a


def test_missing_proxy_fence(assembler, audited, alarms_for):
    assert audited(bulk_store(assembler("out"))).status is Status.PROVEN
    assert list(alarms_for(audited(bulk_store(assembler("out"), fence=False)))) == ["order/missing-proxy-fence"]
    late = audited(bulk_store(assembler("out"), fence=False, late=True))
    assert [f.severity for f in late.findings] == [Severity.WARNING]


def divergent(a, *, inside=True):
    n, out = a.param("n"), a.param("out")
    a.wait()
    a.branch("skip", a.compare("ge", a.tid(), n))
    a.store(a.shared("s"), Const(1), Space.SHARED)
    if inside:
        a.barrier()
    a.label("skip")
    a.barrier()
    a.store(out)
    return a


def test_barrier_in_divergent_code(assembler, audited, alarms_for):
    assert list(alarms_for(audited(divergent(assembler("n", "out"))))) == ["order/barrier-in-divergent-code"]
    assert audited(divergent(assembler("n", "out"), inside=False)).status is Status.PROVEN


def test_threads_that_leave_do_not_diverge(assembler, audited):
    a = assembler("n", "out")
    n, out = a.param("n"), a.param("out")
    a.wait()
    a.branch("work", a.compare("lt", a.tid(), n))
    a.exit()
    a.label("work")
    a.barrier()
    a.store(out)
    a.barrier()
    assert audited(a).status is Status.PROVEN


def movable(isa, assembler):
    a = assembler("x", "w", "out", isa=isa)
    x, w, out = a.param("x"), a.param("w"), a.param("out")
    a.wait()
    a.load(w, noncoherent=True)
    a.store(out, a.load(x, noncoherent=True))
    return a


def test_a_movable_load_is_settled_by_the_machine_code(assembler, audited, alarms_for):
    ptx = audited(movable(Isa.PTX, assembler))
    assert list(alarms_for(ptx)) == ["order/movable-load"]
    sass = audited(movable(Isa.SASS, assembler))
    assert sass.status is Status.PROVEN
    assert [(f.rule, f.severity) for f in sass.findings] == [("order/movable-load", Severity.WARNING)]
    assert [(r.params[0].name, r.count) for r in sass.movable] == [("x", 1)]


def test_noncoherent_load_of_written_memory(assembler, audited, alarms_for):
    a = assembler("x", "out")
    x, out = a.param("x"), a.param("out")
    a.store(out, Const(1))
    a.load(x, noncoherent=True)
    assert audited(a, pdl=False).status is Status.PROVEN
    audit = audited(a, pdl=False, x={"alias_of": "out"})
    assert list(alarms_for(audit)) == ["order/noncoherent-load-of-written-memory"]


def test_trigger_without_wait(assembler, audited, alarms_for):
    def leaving(first):
        a = assembler("x", "n", "out")
        x, n, out = a.param("x"), a.param("n"), a.param("out")
        a.trigger()
        if first:
            a.branch("work", a.compare("ne", n, Const(0)))
            a.exit()
            a.label("work")
        a.wait()
        a.store(out, a.load(x))
        return a

    assert list(alarms_for(audited(leaving(True)))) == ["order/trigger-without-wait"]
    good = audited(leaving(False))
    assert good.status is Status.PROVEN
    assert good.triggers_early
    assert good.always_waits


def test_undeclared_and_unresolved(assembler, audited, alarms_for):
    a = assembler("tab", "out")
    tab, out = a.param("tab"), a.param("out")
    value = a.load(tab)
    a.wait()
    a.store(out, value)
    audit = audited(a)
    assert audit.status is Status.UNPROVEN
    assert list(alarms_for(audit)) == ["order/undeclared-argument"]
    assert 'tab: role = "…"' in audit.findings[0].fix
    b = assembler("out")
    out = b.param("out")
    value = b.load(b.let(Op.RETURN))
    b.wait()
    b.store(out, value)
    audit = audited(b)
    assert list(alarms_for(audit)) == ["order/unresolved-address"]
    assert audit.unresolved == 1


def test_unknown_instructions_count_before_the_wait(assembler, audited, alarms_for):
    def at(early):
        a = assembler("out")
        out = a.param("out")
        if early:
            a.event(EventKind.UNKNOWN, opcode="frob.b32", name="the opcode is not known")
        a.wait()
        if not early:
            a.event(EventKind.CALL, name="helper")
        a.store(out)
        return audited(a)

    assert list(alarms_for(at(True))) == ["order/unknown-instruction"]
    behind = at(False)
    assert behind.status is Status.PROVEN
    assert [f.severity for f in behind.findings] == [Severity.WARNING]


def test_a_selected_pointer_is_as_bad_as_its_worst_target(assembler, audited, alarms_for):
    a = assembler("x", "w", "out")
    x, w, out = a.param("x"), a.param("w"), a.param("out")
    value = a.load(a.let(Op.SELECT, x, w, a.compare("eq", a.tid(), Const(0))))
    a.wait()
    a.store(out, value)
    audit = audited(a)
    assert list(alarms_for(audit)) == ["order/early-read"]
    assert len(audit.early[0].params) == 2


def test_prefetches_and_triggers_alarm_nobody(assembler, audited):
    a = assembler("x", "out")
    x, out = a.param("x"), a.param("out")
    a.event(EventKind.ACCESS, accesses=(Access(Direction.PREFETCH, Space.GLOBAL, (x,), None),))
    a.trigger()
    a.wait()
    a.store(out, a.load(x))
    audit = audited(a)
    assert audit.status is Status.PROVEN
    assert [(r.access, r.allowed) for r in audit.early] == [("prefetch", True)]


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("csrc/fused/kernel.cu", "csrc/fused/kernel.cu:7"),
        ("./kernel.cu", "kernel.cu:7"),
        ("csrc\\kernel.cu", "csrc/kernel.cu:7"),
        ("/build/csrc/kernel.cu", "kernel.cu:7"),
        ("../csrc/kernel.cu", "kernel.cu:7"),
        ("C:\\csrc\\kernel.cu", "kernel.cu:7"),
    ],
)
def test_a_source_keeps_its_folder_where_that_is_relative(file: str, source: str):
    assert Line(file=file, line=7).source == source
