"""Conditions thread by thread."""

from __future__ import annotations

import numpy as np
import pytest

from validator.ordering.dataflow import Flow
from validator.ordering.program import Choice, Const, Guard, Op, Operation, Special
from validator.ordering.threads import Agreement, Threads
from validator.ordering.threadset import describe
from validator.ordering.vectors import computed

ALL = (1 << 1024) - 1


def asked(assembly, register, block=None):
    """(threads for which it may hold, threads for which it may not)."""
    program = assembly.build()
    return Threads(Flow(program), block).holds(Guard(register, False), len(program.operations) - 1)


@pytest.mark.parametrize(("relation", "want"), [("lt", (1 << 32) - 1), ("eq", 1 << 32), ("ge", ALL & ~((1 << 32) - 1))])
def test_comparisons_with_the_thread_number(assembler, relation, want):
    a = assembler("x")
    p = a.compare(relation, a.tid(), Const(32))
    assert asked(a, p) == (want, ALL & ~want)


def test_warp_number_through_a_shuffle(assembler):
    a = assembler("x")
    warp = a.let(Op.SHR, a.tid(), Const(5), width=32)
    p = a.compare("eq", a.let(Op.SHUFFLE, warp, Const(0), attr="idx", width=32), Const(1))
    assert asked(a, p)[0] == ((1 << 64) - 1) & ~((1 << 32) - 1)


@pytest.mark.parametrize(("clamp", "decided"), [(31, True), (0x181F, False)])
def test_a_shuffle_in_segments_decides_nothing(assembler, clamp, decided):
    a = assembler("x")
    warp = a.let(Op.SHR, a.tid(), Const(5), width=32)
    held = a.let(Op.COPY, Const(clamp), width=32)
    p = a.compare("eq", a.let(Op.SHUFFLE, warp, Const(0), held, attr="idx", width=32), Const(0))
    assert (asked(a, p)[0] == (1 << 32) - 1) is decided


def test_elect_is_one_lane_of_every_warp(assembler):
    a = assembler("x")
    p = a.let(Op.ELECT, width=1)
    mask = asked(a, p, (64, 1, 1))[0]
    assert mask == 1 | 1 << 32


@pytest.mark.parametrize(("values", "want"), [({0, 2}, 0x0000FFFF | 0xFFFF << 32), ({7}, 0)])
def test_a_table_sends_threads_by_their_numbers(assembler, values, want):
    a = assembler("x")
    place = a.let(Op.SHR, a.tid(), Const(4), width=32)
    threads = Threads(Flow(a.build()), (64, 1, 1))
    assert threads.choosing(Choice(place, a.next, frozenset(values))) == want


def test_a_table_asked_for_data_sends_anybody_anywhere(assembler):
    a = assembler("x", "n")
    n = a.param("n")
    threads = Threads(Flow(a.build()), (64, 1, 1))
    assert threads.choosing(Choice(n, a.next, frozenset({3}))) == threads.everyone


def test_data_decides_nothing(assembler):
    a = assembler("x", "n")
    p = a.compare("lt", a.tid(), a.param("n"))
    assert asked(a, p) == (ALL, ALL)


def test_who_agrees(assembler):
    a = assembler("x", "n")
    block = a.let(Op.SPECIAL, attr=Special.CTA, width=32)
    uniform = a.compare("lt", block, a.param("n"))
    parted = a.compare("lt", a.tid(), a.param("n"))
    loaded = a.load(a.param("x"))
    mixed = a.load(a.let(Op.ADD, a.param("x"), a.tid()))
    program = a.build()
    threads = Threads(Flow(program), None)
    at = len(program.operations) - 1
    kinds = [threads.value(r, at) for r in (uniform, parted, loaded, mixed)]
    assert kinds == [Agreement.UNIFORM, Agreement.BY_THREAD, Agreement.UNIFORM, Agreement.VARYING]


def test_two_dimensions_when_the_block_is_known(assembler):
    a = assembler("x")
    p = a.compare("eq", a.let(Op.SPECIAL, attr=Special.TID_Y, width=32), Const(1))
    assert asked(a, p, (8, 4, 1))[0] == 0xFF00


def test_rows_of_a_block_of_unknown_size(assembler):
    a = assembler("x")
    p = a.compare("eq", a.let(Op.SPECIAL, attr=Special.TID_Y, width=32), Const(0))
    program = a.build()
    flat = Threads(Flow(program), None)
    flat.holds(Guard(p, False), 2)
    assert flat.wants_rows
    rows = Threads(Flow(program), None, rows=True)
    may, may_not = rows.holds(Guard(p, False), 2)
    assert may & ALL == ALL
    assert not may & may_not
    assert may_not


def test_the_rank_in_a_block_of_unknown_size(assembler):
    """x + ntid.x * (y + ntid.y * z) == 0 surely holds for (0, 0, 0) and surely not for (1, 0, 0)."""
    a = assembler("x")
    x, y, z, nx, ny = (
        a.let(Op.SPECIAL, attr=s, width=32)
        for s in (Special.TID_X, Special.TID_Y, Special.TID_Z, Special.NTID_X, Special.NTID_Y)
    )
    plane = a.let(Op.ADD, y, a.let(Op.MUL, ny, z, width=32), width=32)
    p = a.compare("eq", a.let(Op.ADD, x, a.let(Op.MUL, nx, plane, width=32), width=32), Const(0))
    program = a.build()
    may, may_not = Threads(Flow(program), None, rows=True).holds(Guard(p, False), len(program.operations) - 1)
    assert may & 3 == 1
    assert may_not & 3 == 2
    beyond = (may & may_not) >> 1024
    assert beyond


def test_signed_and_unsigned(assembler):
    a = assembler("x")
    less = a.let(Op.SUB, a.tid(), Const(1), width=32)
    signed = a.let(Op.COMPARE, less, Const(0), attr=("lt", True), width=1)
    unsigned = a.let(Op.COMPARE, less, Const(4), attr=("lt", False), width=1)
    assert asked(a, signed)[0] == 1
    assert asked(a, unsigned)[0] == 0b11110


@pytest.mark.parametrize(
    ("mask", "text"),
    [
        (0xFFFF, "all threads"),
        (1, "thread 0"),
        (0xFF00, "threads 8 and up"),
        (0x0FF0, "threads 4 to 11"),
        (0x0003, "threads 0 to 1"),
        (0, "no thread"),
    ],
)
def test_sets_of_threads_in_words(mask, text):
    assert describe(mask, 0xFFFF) == text


@pytest.mark.parametrize(("factor", "sign"), [(0xAAAAAAAB, None), (0x55555556, "s")])
def test_a_division_by_three_is_a_product_shifted(factor: int, sign: str | None):
    numbers = np.array([0, 1, 2, 3, 6, 100, (1 << 31) - 1], dtype=np.int64)
    product = computed(Operation(Op.MUL, attr=sign, width=64), [numbers, np.full_like(numbers, factor)])
    high = computed(Operation(Op.EXTRACT, attr=(32, 32)), [product])
    assert ((high >> 1 if sign is None else high) == numbers // 3).all()


@pytest.mark.parametrize(
    ("join", "inverted", "guarded", "told"),
    [
        ("and", False, True, False),
        ("or", True, True, False),
        ("or", False, True, True),
        ("and", True, True, True),
        ("and", False, False, True),
    ],
)
def test_a_joined_comparison_reads_under_what_it_is_joined_with(assembler, join, inverted, guarded, told):
    """`@q r = n; p = r == n && q`: where q is false, nothing hangs on what r held before, be it the thread's number."""
    a = assembler("n")
    n = a.param("n")
    q = a.compare("ne", n, Const(0))
    r = a.let(Op.COPY, a.tid(), width=32)
    a.let(Op.COPY, n, to=r, width=32, guard=Guard(q, not guarded))
    joined = Operation(Op.NOT, (q,), None, 1) if inverted else q
    p = a.let(Op.COMPARE, r, n, joined, attr=("eq", True, join), width=1)
    program = a.build()
    threads = Threads(Flow(program), (64, 1, 1))
    assert threads.varies(Guard(p, False), len(program.operations) - 1) is told
