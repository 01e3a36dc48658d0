"""Where addresses come from."""

from __future__ import annotations

from validator.ordering.dataflow import Flow
from validator.ordering.program import Const, Op, Reg, Space
from validator.ordering.provenance import Provenance


def sources(assembly, rank=lambda offset: 2):
    """Of the last global access: {(root, offset or None, chain)}."""
    program = assembly.build()
    found = Provenance(Flow(program), rank)
    event = next(e for e in reversed(program.events) if e.accesses)
    return {(s.root, s.offset if s.exact else None, s.chain) for s in found.address(event, event.accesses[0])}


def test_base_plus_scaled_index(assembler):
    a = assembler("x", "n")
    index = a.let(Op.MUL, a.param("n"), Const(4))
    a.load(a.let(Op.ADD, a.param("x"), index))
    assert sources(a) == {(("param", 0), None, ())}


def test_constant_offsets_stay_exact(assembler):
    a = assembler("x")
    a.load(a.let(Op.ADD, a.param("x"), Const(16)))
    assert sources(a) == {(("param", 0), 16, ())}


def test_a_typed_pointer_wins_over_an_untyped_word(assembler):
    a = assembler("x", "n")
    a.load(a.let(Op.ADD, a.param("x"), a.param("n")))
    assert sources(a, lambda offset: 3 if offset == 0 else 2) == {(("param", 0), None, ())}
    assert {s[0] for s in sources(a)} == {("param", 0), ("param", 8)}


def test_what_went_through_cvta_is_the_base(assembler):
    a = assembler("n", "x")
    pointer = a.let(Op.COPY, a.param("x"), attr="cvta")
    a.load(a.let(Op.ADD, a.param("n"), pointer))
    assert sources(a) == {(("param", 8), None, ())}


def test_select_keeps_both(assembler):
    a = assembler("x", "w")
    a.load(a.let(Op.SELECT, a.param("x"), a.param("w"), Reg("p")))
    assert {s[0] for s in sources(a)} == {("param", 0), ("param", 8)}


def test_a_pointer_advanced_in_a_loop(assembler):
    a = assembler("x")
    pointer = Reg("pointer")
    a.let(Op.COPY, a.param("x"), to=pointer)
    a.label("head")
    value = a.load(pointer)
    a.let(Op.ADD, pointer, Const(4), to=pointer)
    a.branch("head", a.compare("eq", value, Const(0)))
    assert {s[0] for s in sources(a)} == {("param", 0)}


def test_a_pointer_loaded_from_a_table(assembler):
    a = assembler("tables")
    pointer = a.load(a.let(Op.ADD, a.param("tables"), Const(8)), size=8)
    a.load(a.let(Op.ADD, pointer, Const(4)))
    assert sources(a) == {(("param", 0), 4, (8,))}


def test_a_loaded_word_of_four_bytes_is_no_pointer(assembler):
    a = assembler("x", "index")
    step = a.load(a.param("index"))
    a.load(a.let(Op.ADD, a.param("x"), step))
    assert sources(a) == {(("param", 0), None, ())}


def test_a_pointer_spilled_to_the_stack(assembler):
    a = assembler("x", "w")
    frame = a.let(Op.SYMBOL, attr=(Space.LOCAL, "stack", 0))
    a.store(frame, a.param("x"), Space.LOCAL, 8)
    a.store(a.let(Op.ADD, frame, Const(8)), a.param("w"), Space.LOCAL, 8)
    a.load(a.load(a.let(Op.ADD, frame, Const(8)), Space.LOCAL, 8))
    assert sources(a) == {(("param", 8), 0, ())}


def test_an_array_of_pointers_on_the_stack_is_a_set(assembler):
    a = assembler("x", "w", "n")
    frame = a.let(Op.SYMBOL, attr=(Space.LOCAL, "stack", 0))
    a.store(frame, a.param("x"), Space.LOCAL, 8)
    a.store(a.let(Op.ADD, frame, Const(8)), a.param("w"), Space.LOCAL, 8)
    a.load(a.load(a.let(Op.ADD, frame, a.let(Op.MUL, a.param("n"), Const(8))), Space.LOCAL, 8))
    assert {s[0] for s in sources(a)} == {("param", 0), ("param", 8)}


def test_numbers_alone_are_no_source(assembler):
    a = assembler("x")
    a.load(a.let(Op.MUL, a.tid(), Const(4)))
    assert sources(a) == set()


def test_a_call_result_is_unresolved(assembler):
    a = assembler("x")
    a.load(a.let(Op.RETURN))
    assert {s[0][0] for s in sources(a)} == {"unresolved"}


def test_many_sources_are_capped_and_said(assembler):
    names = [f"p{i}" for i in range(30)]
    a = assembler(*names)
    chosen = a.param("p0")
    for name in names[1:]:
        chosen = a.let(Op.SELECT, chosen, a.param(name), Reg("p"))
    a.load(chosen)
    found = sources(a)
    assert len(found) <= 12
    assert "unresolved" in {s[0][0] for s in found}


def test_memory_aligned_by_hand_is_a_base_of_its_own(assembler):
    a = assembler()
    raw = a.let(Op.SYMBOL, attr=(Space.SHARED, "raw", 0))
    aligned = a.let(Op.AND, a.let(Op.ADD, raw, Const(1023)), Const(-1024 & 0xFFFFFFFF))
    a.load(a.let(Op.ADD, aligned, Const(64)), Space.SHARED)
    assert sources(a) == {(("symbol", "shared", "raw aligned to 1024"), 64, ())}


def test_what_is_aligned_already_stays_where_it_is(assembler):
    a = assembler()
    raw = a.let(Op.SYMBOL, attr=(Space.SHARED, "raw", 0))
    first = a.let(Op.AND, a.let(Op.ADD, raw, Const(1023)), Const(-1024))
    second = a.let(Op.AND, a.let(Op.ADD, first, Const(1000 + 127)), Const(-128))
    a.load(second, Space.SHARED)
    assert sources(a) == {(("symbol", "shared", "raw aligned to 1024"), 1024, ())}


def test_the_window_of_machine_code_is_aligned(assembler):
    a = assembler()
    window = a.let(Op.SYMBOL, attr=(Space.SHARED, "", 0))
    a.load(a.let(Op.AND, a.let(Op.ADD, window, Const(0x7FF)), Const(0xFFFFFC00)), Space.SHARED)
    assert sources(a) == {(("symbol", "shared", ""), 0x400, ())}


def test_a_mask_that_does_not_align_leaves_the_offset_open(assembler):
    a = assembler()
    window = a.let(Op.SYMBOL, attr=(Space.SHARED, "", 0))
    a.load(a.let(Op.AND, a.let(Op.ADD, window, Const(0x7FF)), Const(0xFF0)), Space.SHARED)
    assert sources(a) == {(("symbol", "shared", ""), None, ())}
