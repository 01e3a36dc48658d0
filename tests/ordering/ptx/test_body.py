"""Statements, register scopes, labels, source positions and control flow of one body."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from validator.ordering.program import Choice, EventKind, Guard, Line, Op, Reg
from validator.ordering.ptx import PtxModule, PtxProgram

Kernel = Callable[..., PtxProgram]
Read = Callable[[str], PtxModule]


def successors(program: PtxProgram, block: int) -> set[tuple[int, Guard | None]]:
    return {(edge.target, edge.condition) for edge in program.blocks[block].successors}


def names(program: PtxProgram, index: int) -> list[str]:
    return [register.name for register in program.definitions(index)]


def test_several_statements_a_line_and_comments_anywhere(kernel: Kernel) -> None:
    program = kernel(
        "mov.u32 %r1, /* one; { */ 1; mov.u32 %r2, // two;\n 2; { add.s32\t%r3,%r1,%r2; } ;\n"
        '.pragma "nounroll; } // {";\n// begin inline asm\nbar.sync 0;'
    )
    assert [program.text(i) for i in range(5)] == [
        "mov.u32 %r1, 1;",
        "mov.u32 %r2, 2;",
        "add.s32 %r3,%r1,%r2;",
        "bar.sync 0;",
        "ret;",
    ]
    assert program.unknown == {}


def test_lines_are_those_of_the_file(kernel: Kernel, read: Read) -> None:
    program = kernel("mov.u32 %r1, 1;\n\n/* a\n b */ mov.u32\n %r2, 2;\nbar.sync 0;")
    assert [program.line(i).text for i in range(4)] == [9, 12, 14, 15]


def test_scopes_make_registers_different(kernel: Kernel) -> None:
    program = kernel(
        """
.reg .b32 %r<5>; .reg .pred p;
setp.eq.s32 p, %r1, 0;
{ .reg .pred p, q; .reg .b32 t<3>;
  setp.ne.s32 p|q, %r1, 1;
  { .reg .pred p; setp.lt.s32 p, t2, t3; @p mov.b32 t1, %r2; }
  @!q mov.b32 t0, %r1;
}
{ .reg .pred p; setp.ne.s32 p, %r1, 1; }
@p mov.b32 %r3, %r4;
"""
    )
    assert names(program, 0) == ["p"]
    first, q = names(program, 1)
    inner = names(program, 2)[0]
    later = names(program, 5)[0]
    assert len({"p", first, inner, later}) == 4
    assert program.guard(3) == Guard(Reg(inner), False)
    assert program.guard(4) == Guard(Reg(q), True)
    assert program.guard(6) == Guard(Reg("p"), False)
    args = program.operation(2, Reg(inner)).args
    assert args == (Reg(names(program, 4)[0].replace("t0", "t2")), Reg("t3")), "t<3> declares t0 to t2, not t3"
    assert program.operation(6, Reg("%r3")).args == (Reg("%r4"),)


def test_labels_belong_to_their_scope(kernel: Kernel) -> None:
    spin = "{ .reg .pred P; WAIT: mbarrier.try_wait.parity.shared::cta.b64 P, [%r1], 0; @P bra DONE; bra WAIT; DONE: }"
    program = kernel(f"{spin}\n{spin}\nbar.sync 0;")
    waits = [e.index for e in program.events if e.kind is EventKind.MBARRIER_WAIT]
    assert waits == [0, 3]
    starts = {block.start: number for number, block in enumerate(program.blocks)}
    loops = [(starts[0], starts[2]), (starts[3], starts[5])]
    for head, back in loops:
        assert [edge.target for edge in program.blocks[back].successors] == [head]
    taken = {edge.target for edge in program.blocks[starts[0]].successors}
    assert taken == {starts[2], starts[3]}


def test_branches_carry_their_condition(kernel: Kernel) -> None:
    program = kernel("@%p1 bra A;\nbar.sync 1;\nA: @!%p2 bra.uni A;\nbra.uni B;\nbar.sync 2;\nB:")
    p1, p2 = Reg("%p1"), Reg("%p2")
    assert successors(program, 0) == {(2, Guard(p1, False)), (1, Guard(p1, True))}
    assert successors(program, 1) == {(2, None)}
    assert successors(program, 2) == {(2, Guard(p2, True, True)), (3, Guard(p2, False, True))}
    assert successors(program, 3) == {(5, None)}
    assert program.text(program.blocks[4].start) == "bar.sync 2;", "unreachable code is kept"


def test_indirect_branches_reach_every_target(kernel: Kernel) -> None:
    program = kernel("T: .branchtargets A, B, A;\n@%p1 brx.idx %r1, T;\nret;\nA: bar.sync 1;\nB: bar.sync 2;")
    targets = {program.text(program.blocks[e.target].start) for e in program.blocks[0].successors}
    assert targets == {"bar.sync 1;", "bar.sync 2;", "ret;"}


def test_indirect_branches_say_by_which_place_in_their_table(kernel: Kernel) -> None:
    program = kernel("T: .branchtargets A, B, A;\nbrx.idx %r1, T;\nA: bar.sync 1;\nB: bar.sync 2;")
    chosen = {program.text(program.blocks[e.target].start): e.choice for e in program.blocks[0].successors}
    assert chosen == {
        "bar.sync 1;": Choice(Reg("%r1"), 0, frozenset({0, 2})),
        "bar.sync 2;": Choice(Reg("%r1"), 0, frozenset({1})),
    }


@pytest.mark.parametrize("opcode", ["exit", "ret", "ret.uni"])
def test_guarded_exits_fall_through(kernel: Kernel, opcode: str) -> None:
    program = kernel(f"@%p1 {opcode};\nbar.sync 0;")
    assert successors(program, 0) == {(1, Guard(Reg("%p1"), True, opcode.endswith("uni")))}
    exits = [e for e in program.events if e.kind is EventKind.EXIT]
    assert [e.guard is None for e in exits] == [False, True]


def test_a_trap_ends_a_path_without_an_exit(kernel: Kernel) -> None:
    program = kernel("@%p1 bra A;\ntrap;\nA:")
    assert program.blocks[1].successors == ()
    assert [e.index for e in program.events if e.kind is EventKind.EXIT] == [2]


def test_the_closing_brace_returns(read: Read) -> None:
    head = ".version 9.0\n.target sm_90\n.entry k() {\n"
    (fell,) = read(head + "bar.sync 0;\n}\n").programs
    assert [e.kind for e in fell.events] == [EventKind.BARRIER, EventKind.EXIT]
    assert fell.line(1).text == 5
    (branched,) = read(head + "@p bra E; ret;\nE: }\n").programs
    assert {e.target for e in branched.blocks[0].successors} == {1, 2}
    (empty,) = read(head + "}").programs
    assert [e.kind for e in empty.events] == [EventKind.EXIT]
    (closed,) = read(head + "ret;\n$L__tmp1:\n}").programs
    assert len(closed.events) == 1, "nothing branches to the label"


def test_source_positions(read: Read) -> None:
    text = """.version 9.0
.target sm_90
.entry k() {
bar.sync 0;
.loc 1 8 3
bar.sync 1; .loc 1 9 5 bar.sync 2;
.loc	1 3 3, function_name $L__info_string0, inlined_at 1 9 3
.loc	2 151 3, function_name $L__info_string1+4, inlined_at 1 3 3
bar.sync 3;
.loc 1 0 5
ret;
}
.file 1 "k.cu"
.file 2 "h.hpp"
"""
    (program,) = read(text).programs
    assert [program.line(i) for i in range(5)] == [
        Line(text=4),
        Line(text=6, file="k.cu", line=8),
        Line(text=6, file="k.cu", line=9),
        Line(text=9, file="h.hpp", line=151, inlined_at=("k.cu", 9)),
        Line(text=11),
    ]


def test_unknown_statements_become_events(kernel: Kernel) -> None:
    program = kernel(
        "frobnicate.global.b32 %r1, [%rd1];\n.novelty 3;\nld.remote.b32 %r2, [%rd2];\nmbarrier.juggle [%r3];"
    )
    unknown = [e for e in program.events if e.kind is EventKind.UNKNOWN]
    assert [e.opcode for e in unknown] == ["frobnicate.global.b32", ".novelty", "ld.remote.b32", "mbarrier.juggle"]
    assert all(e.name for e in unknown)
    assert program.unknown == {e.opcode: 1 for e in unknown}
    assert program.operation(0, Reg("%r1")).op is Op.OPAQUE


def test_a_guarded_definition_keeps_its_guard(kernel: Kernel) -> None:
    program = kernel("@! %p1 ld.global.b32 %r1, [%rd1];")
    assert program.guard(0) == Guard(Reg("%p1"), True)
    assert program.events[0].guard == Guard(Reg("%p1"), True)
    assert program.text(0) == "@!%p1 ld.global.b32 %r1, [%rd1];"
