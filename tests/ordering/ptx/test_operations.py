"""What instructions set registers to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from validator.ordering.program import Const, Op, Operand, Operation, Reg, Space, Special
from validator.ordering.ptx import PtxProgram

Make = Callable[..., Operation]
Kernel = Callable[..., PtxProgram]

a, b, c, p = Reg("%a"), Reg("%b"), Reg("%c"), Reg("%p")


def op(kind: Op, *args: Operand, attr: object = None, width: int = 32) -> Operation:
    return Operation(kind, args, attr, width)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mov.b32 %d, %a", op(Op.COPY, a)),
        ("mov.u32 %d, -1", op(Op.COPY, Const(-1))),
        ("mov.u32 %d, 0x1F", op(Op.COPY, Const(31))),
        ("mov.f32 %d, 0f3F800000", op(Op.COPY, Const(0x3F800000))),
        ("mov.u32 %d, WARP_SZ", op(Op.COPY, Const(32))),
        ("mov.u32 %d, %tid.x", op(Op.SPECIAL, attr=Special.TID_X)),
        ("mov.u32 %d, %ntid.y", op(Op.SPECIAL, attr=Special.NTID_Y)),
        ("mov.u32 %d, %laneid", op(Op.SPECIAL, attr=Special.LANE)),
        ("mov.u32 %d, %warpid", op(Op.SPECIAL, attr=Special.WARP)),
        ("mov.u32 %d, %ctaid.z", op(Op.SPECIAL, attr=Special.CTA)),
        ("mov.u32 %d, %cluster_ctarank", op(Op.SPECIAL, attr=Special.CTA)),
        ("mov.u32 %d, %dynamic_smem_size", op(Op.SPECIAL, attr=Special.CTA)),
        ("mov.u64 %d, %clock64", op(Op.SPECIAL, attr=Special.CLOCK, width=64)),
        ("mov.u32 %d, %lanemask_lt", op(Op.SPECIAL, attr=Special.OTHER)),
        ("mov.u32 %d, %smid", op(Op.SPECIAL, attr=Special.OTHER)),
        ("mov.b64 %d, s", op(Op.PARAM_ADDRESS, attr=24, width=64)),
        ("mov.b64 %d, s+16", op(Op.PARAM_ADDRESS, attr=40, width=64)),
        ("mov.u32 %d, dyn+64", op(Op.SYMBOL, attr=(Space.SHARED, "dyn", 64))),
        ("mov.b64 %d, {%a, %b}", op(Op.PACK, a, b, width=64)),
        ("cvta.to.global.u64 %d, %a", op(Op.COPY, a, attr="cvta", width=64)),
        ("cvta.global.u64 %d, %a", op(Op.COPY, a, attr="cvta", width=64)),
        ("cvta.shared::cta.u64 %d, %a", op(Op.COPY, a, attr="cvta.shared", width=64)),
        ("cvta.param.u64 %d, s", op(Op.COPY, op(Op.PARAM_ADDRESS, attr=24, width=64), attr="cvta.param", width=64)),
        ("cvt.u64.u32 %d, %a", op(Op.COPY, a, width=64)),
        ("cvt.s64.s32 %d, %a", op(Op.COPY, a, attr="s32", width=64)),
        ("cvt.u32.u64 %d, %a", op(Op.COPY, a)),
        ("cvt.u32.u8 %d, %a", op(Op.EXTRACT, a, attr=(0, 8))),
        ("cvt.rn.f32.s32 %d, %a", op(Op.OPAQUE, a, attr="cvt.rn.f32.s32")),
        ("add.s64 %d, %a, 16", op(Op.ADD, a, Const(16), width=64)),
        ("sub.u32 %d, %a, %b", op(Op.SUB, a, b)),
        ("add.f32 %d, %a, %b", op(Op.OPAQUE, a, b, attr="add.f32")),
        ("add.cc.u32 %d, %a, %b", op(Op.OPAQUE, a, b, attr="add.cc.u32")),
        ("mul.lo.s32 %d, %a, %b", op(Op.MUL, a, b)),
        ("mul.wide.s32 %d, %a, 4", op(Op.MUL, a, Const(4), attr="s", width=64)),
        ("mul.wide.u32 %d, %a, 4", op(Op.MUL, a, Const(4), width=64)),
        ("mul.hi.u32 %d, %a, -1", op(Op.EXTRACT, op(Op.MUL, a, Const(0xFFFFFFFF), width=64), attr=(32, 32))),
        ("mul.hi.s32 %d, %a, %b", op(Op.EXTRACT, op(Op.MUL, a, b, attr="s", width=64), attr=(32, 32))),
        ("mul.hi.u64 %d, %a, %b", op(Op.OPAQUE, a, b, attr="mul.hi.u64", width=64)),
        ("mad.lo.s32 %d, %a, %b, %c", op(Op.ADD, op(Op.MUL, a, b), c)),
        ("mad.wide.u32 %d, %a, %b, %c", op(Op.ADD, op(Op.MUL, a, b, width=64), c, width=64)),
        ("shl.b64 %d, %a, 3", op(Op.SHL, a, Const(3), width=64)),
        ("shr.u32 %d, %a, 5", op(Op.SHR, a, Const(5))),
        ("shr.s32 %d, %a, 31", op(Op.SHR, a, Const(31), attr="s")),
        ("and.b32 %d, %a, 31", op(Op.AND, a, Const(31))),
        ("or.pred %d, %a, %b", op(Op.OR, a, b, width=1)),
        ("xor.b32 %d, %a, %b", op(Op.XOR, a, b)),
        ("not.pred %d, %p", op(Op.NOT, p, width=1)),
        ("neg.s32 %d, %a", op(Op.NEG, a)),
        ("min.s32 %d, %a, %b", op(Op.MIN, a, b, attr="s")),
        ("max.u64 %d, %a, %b", op(Op.MAX, a, b, width=64)),
        ("min.f32 %d, %a, %b", op(Op.OPAQUE, a, b, attr="min.f32")),
        ("div.u32 %d, %a, 3", op(Op.DIV, a, Const(3))),
        ("rem.s32 %d, %a, %b", op(Op.REM, a, b, attr="s")),
        ("lop3.b32 %d, %a, %b, %c, 0xE8", op(Op.LOP3, a, b, c, attr=0xE8)),
        ("bfe.u32 %d, %a, 4, 8", op(Op.EXTRACT, a, attr=(4, 8))),
        (
            "bfi.b32 %d, %a, %b, 8, 4",
            op(
                Op.OR,
                op(Op.AND, b, Const(0xFFFFF0FF)),
                op(Op.SHL, op(Op.AND, a, Const(15)), Const(8)),
            ),
        ),
        ("prmt.b32 %d, %a, %b, 0x5410", op(Op.OPAQUE, a, b, Const(0x5410), attr="prmt.b32")),
        ("selp.b64 %d, %a, %b, %p", op(Op.SELECT, a, b, p, width=64)),
        ("selp.b32 %d, 1, 0, !%p", op(Op.SELECT, Const(1), Const(0), op(Op.NOT, p, width=1))),
        (
            "slct.u32.s32 %d, %a, %b, %c",
            op(Op.SELECT, a, b, op(Op.COMPARE, c, Const(0), attr=("ge", True))),
        ),
        ("setp.lt.s32 %d, %a, %b", op(Op.COMPARE, a, b, attr=("lt", True))),
        ("setp.hs.u64 %d, %a, %b", op(Op.COMPARE, a, b, attr=("ge", False), width=64)),
        ("setp.eq.and.b32 %d, %a, 0, %p", op(Op.COMPARE, a, Const(0), p, attr=("eq", False, "and"))),
        (
            "setp.ne.or.s32 %d, %a, 0, !%p",
            op(Op.COMPARE, a, Const(0), op(Op.NOT, p, width=1), attr=("ne", True, "or")),
        ),
        ("setp.gtu.f32 %d, %a, %b", op(Op.OPAQUE, a, b, attr="setp.gtu.f32")),
        (
            "set.lt.u32.s32 %d, %a, %b",
            op(Op.SELECT, Const(0xFFFFFFFF), Const(0), op(Op.COMPARE, a, b, attr=("lt", True))),
        ),
        ("ld.global.b64 %d, [%a]", op(Op.LOAD, attr=0, width=64)),
        ("atom.global.add.u32 %d, [%a], 1", op(Op.ATOMIC)),
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%d}, [%a]", op(Op.LOAD, attr=0, width=16)),
        ("multimem.ld_reduce.relaxed.gpu.global.add.f32 %d, [%a]", op(Op.LOAD, attr=0)),
        ("cvt.f64.f32 %d, %a", op(Op.OPAQUE, a, attr="cvt.f64.f32", width=64)),
        ("ld.param.u64 %d, [y]", op(Op.PARAM, attr=(8, 8), width=64)),
        ("ld.param.b32 %d, [s+24]", op(Op.PARAM, attr=(48, 4))),
        ("shfl.sync.idx.b32 %d|%q, %a, 0, 31, -1", op(Op.SHUFFLE, a, Const(0), Const(31), attr="idx")),
        ("shfl.sync.bfly.b32 %d, %a, 1, 31, -1", op(Op.SHUFFLE, a, Const(1), Const(31), attr="bfly")),
        (
            "shfl.sync.idx.b32 %d, %a, 0, 0x181f, -1",
            op(Op.SHUFFLE, a, Const(0), Const(0x181F), attr="idx"),
        ),
        ("vote.sync.any.pred %d, %p, -1", op(Op.VOTE, p, attr="any", width=1)),
        ("vote.sync.ballot.b32 %d, %p, -1", op(Op.VOTE, p, attr="ballot")),
        ("elect.sync _|%d, -1", op(Op.ELECT, width=1)),
        ("mapa.shared::cluster.u32 %d, %a, %b", op(Op.MAPA, a, b)),
        ("isspacep.global %d, %a", op(Op.OPAQUE, a, attr="isspacep.global")),
        ("popc.b32 %d, %a", op(Op.OPAQUE, a, attr="popc.b32")),
        ("mov.u32 %d, %v.x", op(Op.OPAQUE, Reg("%v"), attr="%v.x")),
        ("ld.global.u64 %d, [%a]", op(Op.LOAD, attr=0, width=64)),
    ],
)
def test_operations(operation: Make, text: str, expected: Operation) -> None:
    assert operation(text + ";", "%d", before=".extern .shared .align 16 .b8 dyn[];") == expected


@pytest.mark.parametrize(
    ("text", "register", "expected"),
    [
        ("mov.b64 {%d, %e}, %a", "%e", op(Op.EXTRACT, a, attr=(32, 32))),
        ("mov.b32 {%d, _}, %a", "%d", op(Op.EXTRACT, a, attr=(0, 16), width=16)),
        ("ld.global.v4.b32 {%d, _, %e, %f}, [%a]", "%e", op(Op.LOAD, attr=8)),
        ("ld.param.v2.u32 {%d, %e}, [s+8]", "%e", op(Op.PARAM, attr=(36, 4))),
        ("setp.lt.and.s32 %d|%e, %a, %b, %p", "%e", op(Op.COMPARE, a, b, p, attr=("ge", True, "and"))),
    ],
)
def test_lanes(operation: Make, text: str, register: str, expected: Operation) -> None:
    assert operation(text + ";", register) == expected


def test_destinations(kernel: Kernel) -> None:
    texts = {
        "st.global.b32 [%a], %b": [],
        "bar.sync 0": [],
        "setp.eq.s32 %p|%q, %a, %b": ["%p", "%q"],
        "ld.global.v2.b32 {%a,_}, [%b]": ["%a"],
        "mbarrier.arrive.shared.b64 _, [%a]": [],
        "mbarrier.arrive.shared.b64 [%a]": [],
        "tcgen05.ld.red.sync.aligned.32x32b.x2.min.f32 {%a, %b}, %c, [%d]": ["%a", "%b", "%c"],
        "bar.red.popc.u32 %a, 0, %p": ["%a"],
        "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%a,%b,%c,_}, %q": ["%a", "%b", "%c"],
        "red.global.add.u32 [%a], 1": [],
    }
    program = kernel("\n".join(text + ";" for text in texts))
    assert [[r.name for r in program.definitions(i)] for i in range(len(texts))] == list(texts.values())


def test_parameters_through_pointers(kernel: Kernel) -> None:
    program = kernel(
        """
mov.b64 %rd1, s;
add.s64 %rd2, %rd1, 8;
ld.param.u64 %rd3, [%rd2+8];
cvta.param.u64 %rd4, %rd1;
ld.u64 %rd5, [%rd4+32];
ld.u64 %rd6, [%rd9];
"""
    )
    assert program.operation(2, Reg("%rd3")) == op(Op.PARAM, attr=(40, 8), width=64)
    assert program.operation(4, Reg("%rd5")) == op(Op.PARAM, attr=(56, 8), width=64)
    assert program.operation(5, Reg("%rd6")) == op(Op.LOAD, attr=0, width=64)
    assert [e.index for e in program.events] == [5, 6]


def test_a_pointer_that_two_instructions_write_is_not_followed(kernel: Kernel) -> None:
    program = kernel("mov.b64 %rd1, s;\n@%p mov.b64 %rd1, s+8;\nld.param.u64 %rd3, [%rd1];")
    assert program.operation(2, Reg("%rd3")).op is Op.LOAD
    assert program.events[0].accesses[0].space is Space.PARAM
