"""Paths that can be taken, and paths that only look like it."""

from __future__ import annotations

import numpy as np
import pytest

from validator.ordering.bytewise import permuted
from validator.ordering.dataflow import Flow
from validator.ordering.program import Const, Guard, Op, Operation, Reg
from validator.ordering.samples import ANYTHING, SAMPLES, UNKNOWN, Samples, Value, known, made, merged
from validator.ordering.threads import Threads
from validator.ordering.vectors import computed

STATUS = {True: "refuted", False: "unproven"}


def guarded_by_flag(a, sets_flag_when_waiting):
    """A flag of the thread's own, kept in bit 3 of a word; a wait that loaded data decide about sets it."""
    flags, bit = Reg("flags"), Const(8)
    a.let(Op.COPY, Const(0), to=flags, width=32)
    data = a.load(a.param("w"))
    a.branch("no", when=a.compare("eq", data, Const(0)))
    a.wait()
    a.let(Op.OR, flags, bit if sets_flag_when_waiting else Const(4), to=flags, width=32)
    a.label("no")
    a.let(Op.XOR, flags, Const(4), to=flags, width=32)
    a.branch("done", when=a.compare("eq", a.let(Op.AND, flags, bit, width=32), Const(0)))
    a.load(a.param("x"))
    a.label("done")
    return a


def read_unless_known(a, guard):
    """The read is left out when the flag is not set, or (the mutant) when it is."""
    flags = Reg("flags")
    a.let(Op.COPY, Const(0), to=flags, width=32)
    a.branch("no", when=a.compare("eq", a.load(a.param("w")), Const(0)))
    a.wait()
    a.let(Op.ADD, flags, Const(2), to=flags, width=32)
    a.label("no")
    a.branch("done", when=a.compare(guard, a.let(Op.MUL, flags, Const(3), width=32), Const(6)))
    a.load(a.param("x"))
    a.label("done")
    return a


def test_a_path_whose_branches_contradict_each_other_is_not_shown(assembler, audited):
    audit = audited(guarded_by_flag(assembler("w", "x"), True))
    assert audit.status.value == "unproven"
    (finding,) = [f for f in audit.findings if f.rule == "order/early-read"]
    assert "contradict each other" in finding.why


def test_a_flag_that_the_wait_does_not_set_hides_nothing(assembler, audited):
    """The bit is never set, so the read never happens; the other way round it is early."""
    assert audited(guarded_by_flag(assembler("w", "x"), False)).status.value == "unproven"
    assert audited(read_unless_known(assembler("w", "x"), "ne")).status.value == "unproven"
    assert audited(read_unless_known(assembler("w", "x"), "eq")).status.value == "refuted"


@pytest.mark.parametrize(("first", "taken"), [(0, False), (1, True)])
def test_the_first_turn_of_a_count(assembler, audited, first, taken):
    """`for (k = first; k < n; k++) { if (2 * k == 0) wait(); read(); }`"""
    a = assembler("x", "n")
    k = Reg("k")
    a.let(Op.COPY, Const(first), to=k, width=32)
    a.label("turn")
    a.branch("end", when=a.compare("ge", k, a.param("n")))
    a.branch("read", when=a.compare("ne", a.let(Op.MUL, k, Const(2), width=32), Const(0)))
    a.wait()
    a.label("read")
    a.load(a.param("x"))
    a.let(Op.ADD, k, Const(1), to=k, width=32)
    a.branch("turn")
    a.label("end")
    assert audited(a).status.value in (("refuted",) if taken else ("proven", "unproven"))


@pytest.mark.parametrize(("size", "shown"), [(40, True), (5000, True), (1 << 40, False)])
def test_sizes_that_a_kernel_compares_with_are_tried(assembler, audited, size, shown):
    a = assembler("x", "n")
    a.branch("read", when=a.compare("eq", a.param("n"), Const(size)))
    a.wait()
    a.label("read")
    a.load(a.param("x"))
    assert audited(a).status.value == STATUS[shown]


def test_a_guarded_wait_that_is_not_executed(assembler, audited):
    """Whoever did not wait knows its predicate: the same predicate guards the read."""
    a = assembler("w", "x")
    p = a.compare("ne", a.load(a.param("w")), Const(0))
    a.wait(guard=Guard(p, False))
    a.let(Op.ADD, Reg("unused"), Const(1), to=Reg("unused"), width=32)
    q = a.let(Op.COPY, p, width=1)
    a.branch("done", when=q, negated=True)
    a.load(a.param("x"))
    a.label("done")
    assert audited(a).status.value in ("proven", "unproven")
    b = assembler("w", "x")
    p = b.compare("ne", b.load(b.param("w")), Const(0))
    b.wait(guard=Guard(p, False))
    q = b.let(Op.COPY, p, width=1)
    b.branch("done", when=q)
    b.load(b.param("x"))
    b.label("done")
    assert audited(b).status.value == "refuted"


def test_bits_of_a_word_that_is_not_known():
    low = made(Operation(Op.PACK, (), None, 32), [known(7), UNKNOWN])
    assert low.bits & 0xFFFF == 0xFFFF
    assert not low.bits & 0xFFFF0000
    assert (made(Operation(Op.AND, (), None, 32), [low, known(0xFF)]).numbers == 7).all()
    assert made(Operation(Op.AND, (), None, 32), [low, known(0xFF)]).bits == -1
    assert made(Operation(Op.ADD, (), None, 32), [low, known(1)]) is UNKNOWN
    assert made(Operation(Op.MUL, (), None, 32), [UNKNOWN, known(0)]).bits == -1


def test_joined_values_are_known_where_they_agree():
    alive = np.ones(SAMPLES, dtype=np.bool_)
    both = merged(None, known(5), known(7), alive)
    assert both.bits & 7 == 5
    half = np.arange(SAMPLES) % 2 == 0
    assert set(merged(half, known(5), known(7), alive).numbers.tolist()) == {5, 7}
    assert merged(half, known(5), Value(ANYTHING.numbers, 0), alive).bits == 0


@pytest.mark.parametrize(
    ("selector", "a", "b", "want"),
    [
        (0x3210, 0x44332211, 0x88776655, 0x44332211),
        (0x7654, 0x44332211, 0x88776655, 0x88776655),
        (0x7610, 0x44332211, 0x88776655, 0x88772211),
        (0x5410, 0x44332211, 0x88776655, 0x66552211),
        (0x9910, 0x00008111, 0, 0xFFFF8111),
        (0x8880, 0x0000007F, 0, 0x0000007F),
        (0x0123, 0x44332211, 0, 0x11223344),
        (0xCCCC, 0, 0x80, 0xFFFFFFFF),
    ],
)
def test_permuted_bytes(selector, a, b, want):
    def value(operand):
        if isinstance(operand, Const):
            return np.array([operand.value])
        result = computed(operand, [value(arg) for arg in operand.args])
        assert result is not None
        return result

    assert value(permuted(Const(a), Const(b), selector)).tolist() == [want]


@pytest.mark.parametrize(
    ("op", "attr", "width", "args", "want"),
    [
        (Op.DIV, "s", 32, (-7 & 0xFFFFFFFF, 2), -3 & 0xFFFFFFFF),
        (Op.REM, "s", 32, (-7 & 0xFFFFFFFF, 2), -1 & 0xFFFFFFFF),
        (Op.MIN, "s", 32, (-7 & 0xFFFFFFFF, 2), -7 & 0xFFFFFFFF),
        (Op.MIN, None, 32, (-7 & 0xFFFFFFFF, 2), 2),
        (Op.COPY, "s8", 32, (0x80,), 0xFFFFFF80),
        (Op.COPY, None, 32, (0x80,), 0x80),
        (Op.MUL, "s", 64, (-1 & 0xFFFFFFFF, 3), -3),
        (Op.SHR, "s", 32, (0x80000000, 31), 0xFFFFFFFF),
    ],
)
def test_signed_arithmetic(op, attr, width, args, want):
    got = computed(Operation(op, (), attr, width), [np.array([a], dtype=np.int64) for a in args])
    assert got is not None
    assert got.tolist() == [want]


def test_where_everything_is_drawn_a_thread_is_elected_and_its_warp_votes_as_it_does(assembler):
    a = assembler("x")
    a.param("x")
    program = a.build()
    samples = Samples(program, Threads(Flow(program), (64, 1, 1)), [3], [], whole=True)
    assert (samples.value(Operation(Op.ELECT, (), None, 1), 0, {}).numbers == 1).all()
    for number in (0, 1):
        for mode in ("any", "all"):
            vote = Operation(Op.VOTE, (Const(number),), mode, 1)
            assert (samples.value(vote, 0, {}).numbers == number).all()
