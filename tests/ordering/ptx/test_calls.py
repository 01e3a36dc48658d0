"""Calls: effects of callees, arguments and results, limits."""

from __future__ import annotations

from collections.abc import Callable

from validator.ordering.program import Const, EventKind, Op, Operation, Reg, Space
from validator.ordering.ptx import PtxProgram

Kernel = Callable[..., PtxProgram]

WAITER = """
.func (.param .b32 func_retval0) waiter(.param .b64 waiter_param_0, .param .b32 waiter_param_1)
{
.reg .b64 %rd<3>; .reg .b32 %r<3>;
ld.param.u64 %rd1, [waiter_param_0];
ld.param.u32 %r2, [waiter_param_1];
griddepcontrol.wait;
ld.global.b32 %r1, [%rd1];
st.param.b32 [func_retval0+0], %r1;
ret;
}
"""
CALL = """
{ // callseq 0, 0
.param .b64 param0; st.param.b64 [param0+0], %rd7;
.param .b32 param1; st.param.b32 [param1+0], 5;
.param .b32 retval0;
call.uni (retval0), waiter, ( param0, param1 );
ld.param.b32 %r9, [retval0+0];
}
"""


def kinds(program: PtxProgram) -> list[EventKind]:
    return [event.kind for event in program.events]


def test_effects_of_a_callee_belong_to_the_kernel(kernel: Kernel) -> None:
    program = kernel(CALL, before=WAITER)
    assert sorted(kind.name for kind in kinds(program)) == ["ACCESS", "EXIT", "GRID_WAIT"]
    body = program.blocks
    assert [[edge.target for edge in block.successors] for block in body] == [[2], [], [1]]
    assert program.text(body[0].stop - 1).startswith("call.uni")
    assert program.text(body[2].stop - 1) == "ret;"


def test_arguments_and_results_are_followed(kernel: Kernel) -> None:
    program = kernel(CALL, before=WAITER)
    load = next(e for e in program.events if e.kind is EventKind.ACCESS)
    (pointer,) = load.accesses[0].address
    assert isinstance(pointer, Reg)
    chain = resolve(program, pointer)
    assert chain == Reg("%rd7")
    result = resolve(program, Reg("%r9"))
    assert isinstance(result, Operation)
    assert result.op is Op.LOAD
    count = next(
        program.operation(i, r)
        for i in range(program.blocks[-1].stop)
        for r in program.definitions(i)
        if r.name.startswith("%r2@")
    )
    assert resolve(program, count.args[0]) == Const(5)


def resolve(program: PtxProgram, value: object) -> object:
    """Follow copies through single definitions."""
    where = {r: i for i in range(program.blocks[-1].stop) for r in program.definitions(i)}
    while isinstance(value, Reg) and value in where:
        operation = program.operation(where[value], value)
        value = operation.args[0] if operation.op is Op.COPY else operation
    return value


def test_each_call_has_registers_of_its_own(kernel: Kernel) -> None:
    program = kernel(CALL + CALL, before=WAITER)
    assert kinds(program).count(EventKind.GRID_WAIT) == 2
    names = [r.name for i in range(program.blocks[-1].stop) for r in program.definitions(i)]
    assert "%rd1@1" in names
    assert "%rd1@2" in names
    assert len([name for name in names if name.startswith("param0#")]) == 2


def test_nested_calls_and_aliases(kernel: Kernel) -> None:
    outer = """
.func outer(.param .b64 p)
{
.reg .b64 %rd<2>;
ld.param.u64 %rd1, [p];
{ .param .b64 param0; st.param.b64 [param0], %rd1; .param .b32 param1; .param .b32 r0;
call (r0), second, (param0, param1); }
ret;
}
"""
    program = kernel(
        "{ .param .b64 param0; st.param.b64 [param0], %rd7; call outer, (param0); }",
        before=WAITER + ".alias second, waiter;" + outer,
    )
    load = next(e for e in program.events if e.kind is EventKind.ACCESS)
    assert resolve(program, load.accesses[0].address[0]) == Reg("%rd7")


def test_arguments_in_registers(kernel: Kernel) -> None:
    callee = """
.func (.reg .u32 out) twice (.reg .u64 in, .reg .u32 k) { ld.global.u32 out, [in]; ret; }
"""
    program = kernel("call (%r1), twice, (%rd7, 3);\nmov.b32 %r2, %r1;", before=callee)
    load = next(e for e in program.events if e.kind is EventKind.ACCESS)
    assert resolve(program, load.accesses[0].address[0]) == Reg("%rd7")
    result = resolve(program, Reg("%r2"))
    assert isinstance(result, Operation)
    assert result.op is Op.LOAD


def test_structs_travel_in_parts(kernel: Kernel) -> None:
    callee = """
.func (.param .align 8 .b8 out[16]) swap (.param .align 8 .b8 in[16])
{
.reg .b64 %rd<3>; .reg .b32 %r<3>;
ld.param.v2.b64 {%rd1, %rd2}, [in];
ld.param.b32 %r1, [in+12];
st.param.v2.b32 [out+0], {%r1, %r2};
st.param.b64 [out+8], %rd1;
ret;
}
"""
    program = kernel(
        """
{ .param .align 8 .b8 param0[16]; st.param.v2.b64 [param0], {%rd7, %rd8};
.param .align 8 .b8 retval0[16];
call (retval0), swap, (param0);
ld.param.b64 %rd10, [retval0];
ld.param.b64 %rd11, [retval0+8]; }
""",
        before=callee,
    )
    found = {r.name: program.operation(i, r) for i in range(program.blocks[-1].stop) for r in program.definitions(i)}
    assert resolve(program, Reg("%rd11")) == Reg("%rd7")
    assert found["%rd10"].op is Op.PACK
    high = found["%r1@1"]
    assert (high.op, high.attr) == (Op.EXTRACT, (32, 32))
    assert resolve(program, high.args[0]) == Reg("%rd8")


def test_calls_out_of_the_file(kernel: Kernel) -> None:
    program = kernel(
        """
{ .param .b64 param0; st.param.b64 [param0], %rd7; .param .b32 retval0;
call.uni (retval0), vprintf, (param0);
ld.param.b32 %r9, [retval0]; }
@%p1 call.uni __assertfail;
bar.sync 0;
""",
        before=".extern .func (.param .b32 r) vprintf(.param .b64 a);\n.extern .func __assertfail() .noreturn;",
    )
    calls = [e for e in program.events if e.kind is EventKind.CALL]
    assert [e.name for e in calls] == ["vprintf", "__assertfail"]
    where = next(i for i in range(9) if program.text(i).startswith("ld.param"))
    assert program.operation(where, Reg("%r9")).op is Op.RETURN
    assert [len(block.successors) for block in program.blocks] == [1, 0], (
        "a guarded call that never returns falls through"
    )


def test_recursion_stays_a_call(kernel: Kernel) -> None:
    looping = ".func f() { call g; ret; }\n.func g() { griddepcontrol.wait; call f; ret; }"
    program = kernel("call f;", before=".func f();\n.func g();\n" + looping)
    assert sorted(kind.name for kind in kinds(program)) == ["CALL", "EXIT", "GRID_WAIT"]


def test_doubling_calls_stay_bounded(kernel: Kernel) -> None:
    chain = "\n".join(f".func f{n}() {{ call f{n + 1}; call f{n + 1}; ret; }}" for n in range(30))
    program = kernel("call f0;", before=chain + "\n.func f30() { bar.sync 0; ret; }")
    total = program.blocks[-1].stop
    assert total < 10_000
    assert EventKind.CALL in kinds(program)


def test_exit_in_a_callee_leaves_the_kernel(kernel: Kernel) -> None:
    program = kernel("call f;\nbar.sync 0;", before=".func f() { @%p1 exit; ret; }")
    exits = [e for e in program.events if e.kind is EventKind.EXIT]
    assert [e.opcode for e in exits] == ["ret", "exit"]


def test_addresses_of_functions_and_stack(kernel: Kernel) -> None:
    program = kernel(
        ".local .align 16 .b8 depot[64];\nmov.b64 %SPL, depot;\ncvta.local.u64 %SP, %SPL;\nmov.u64 %rd1, f;",
        before=".func f() { ret; }",
    )
    assert program.operation(0, Reg("%SPL")).attr == (Space.LOCAL, "depot", 0)
    assert program.operation(2, Reg("%rd1")).attr == (Space.CONST, "f", 0)
