"""Control flow, memory spaces and collectives, on kernels of a few lines with results one can work out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate.support import INDEX, hazards, kernel, launch, words
from validator.emulate.adapter import Fault, NotRunHere
from validator.emulate.adversary import Plan
from validator.emulate.hazard import HazardKind


def test_threads_that_part_meet_again_where_the_branches_join() -> None:
    body = (
        INDEX
        + """
    and.b32 %r5, %r1, 1;
    setp.eq.u32 %p1, %r5, 0;
    @%p1 bra EVEN;
    mov.u32 %r6, 100;
    bra JOIN;
EVEN:
    mov.u32 %r6, 200;
JOIN:
    activemask.b32 %r7;
    add.u32 %r6, %r6, %r7;
    st.global.u32 [%rd3], %r6;
"""
    )
    out = words(32)
    kernel(body, ["output"])(out, launch=launch())
    expected = np.where(np.arange(32) % 2, 100, 200) + 0xFFFFFFFF
    assert (out == expected.astype(np.uint32)).all()


def test_a_loop_runs_as_often_as_each_thread_asks() -> None:
    body = (
        INDEX
        + """
    mov.u32 %r5, 0;
    mov.u32 %r6, 0;
LOOP:
    setp.ge.u32 %p1, %r6, %r1;
    @%p1 bra DONE;
    add.u32 %r5, %r5, %r6;
    add.u32 %r6, %r6, 1;
    bra LOOP;
DONE:
    st.global.u32 [%rd3], %r5;
"""
    )
    out = words(64)
    kernel(body, ["output"])(out, launch=launch(2))
    n = np.arange(64) % 32
    assert (out == n * (n - 1) // 2).all()


def test_an_indirect_branch_goes_where_its_index_says() -> None:
    body = (
        INDEX
        + """
    and.b32 %r5, %r1, 3;
    TARGETS: .branchtargets A, B, C;
    min.u32 %r5, %r5, 2;
    brx.idx %r5, TARGETS;
A:  mov.u32 %r6, 10; bra END;
B:  mov.u32 %r6, 20; bra END;
C:  mov.u32 %r6, 30;
END:
    st.global.u32 [%rd3], %r6;
"""
    )
    out = words(32)
    kernel(body, ["output"])(out, launch=launch())
    assert out[:4].tolist() == [10, 20, 30, 30]


def test_calls_pass_arguments_and_results() -> None:
    function = """
.func (.param .b32 result) twice_and(.param .b32 a, .param .b32 b)
{
    .reg .b32 %r<4>;
    ld.param.u32 %r1, [a];
    ld.param.u32 %r2, [b];
    mad.lo.u32 %r3, %r1, 2, %r2;
    st.param.b32 [result], %r3;
    ret;
}
"""
    body = (
        INDEX
        + """
    {
    .param .b32 x; .param .b32 y; .param .b32 z;
    st.param.b32 [x], %r1;
    st.param.b32 [y], 7;
    call.uni (z), twice_and, (x, y);
    ld.param.b32 %r5, [z];
    }
    st.global.u32 [%rd3], %r5;
"""
    )
    out = words(32)
    kernel(body, ["output"], before=function)(out, launch=launch())
    assert (out == 2 * np.arange(32) + 7).all()


def test_local_memory_belongs_to_each_thread_and_generic_addresses_reach_it() -> None:
    body = (
        """
    .local .align 8 .b8 depot[64];
"""
        + INDEX
        + """
    mov.u64 %rd4, depot;
    cvta.local.u64 %rd5, %rd4;
    st.u32 [%rd5+12], %r4;
    ld.local.u32 %r5, [%rd4+12];
    st.global.u32 [%rd3], %r5;
"""
    )
    out = words(64)
    kernel(body, ["output"])(out, launch=launch(2))
    assert (out == np.arange(64)).all()


def test_constant_tables_hold_their_initial_values() -> None:
    table = ".const .align 4 .u32 primes[4] = {2, 3, 5, 7};\n.global .align 4 .b8 bytes[4] = {1, 2, 3, 4};"
    body = (
        INDEX
        + """
    and.b32 %r5, %r1, 3;
    mul.wide.u32 %rd4, %r5, 4;
    mov.u64 %rd5, primes;
    add.s64 %rd5, %rd5, %rd4;
    ld.const.u32 %r6, [%rd5];
    mov.u64 %rd6, bytes;
    ld.global.u32 %r7, [%rd6];
    add.u32 %r6, %r6, %r7;
    st.global.u32 [%rd3], %r6;
"""
    )
    out = words(32)
    kernel(body, ["output"], before=table)(out, launch=launch())
    assert (out[:4] == np.array([2, 3, 5, 7]) + 0x04030201).all()


def test_vectors_and_narrow_types_move_as_they_lie() -> None:
    body = """
    ld.param.u64 %rd1, [p0];
    ld.param.u64 %rd2, [p1];
    ld.global.v4.u8 {%h1, %h2, %h3, %h4}, [%rd2];
    ld.global.s16 %r1, [%rd2+4];
    cvt.u32.u16 %r2, %h4;
    st.global.v2.u32 [%rd1], {%r1, %r2};
"""
    data = np.array([1, 2, 3, 200, 0xFE, 0xFF, 0, 0], np.uint8)
    out = words(2)
    kernel(body, ["output", "activation"])(out, data, launch=launch(block=1))
    assert out.tolist() == [0xFFFFFFFE, 200]


@pytest.mark.parametrize("plan", [None, Plan(late=False, flags_at_once=True, shuffled=True, seed=5)])
def test_atomics_serve_one_thread_after_the_other(plan: Plan | None) -> None:
    body = (
        INDEX
        + """
    ld.param.u64 %rd4, [p1];
    atom.global.add.u32 %r5, [%rd4], 3;
    st.global.u32 [%rd3], %r5;
    red.global.max.u32 [%rd4+4], %r4;
"""
    )
    out, counters = words(96), words(2)
    kernel(body, ["output", "state"], plan=plan)(out, counters, launch=launch(3))
    assert sorted(out.tolist()) == list(range(0, 288, 3))
    assert counters.tolist() == [288, 95]


@pytest.mark.parametrize("plan", [None, Plan(late=False, flags_at_once=True, shuffled=True, seed=5)])
def test_atomics_of_which_most_change_nothing_go_in_some_order_all_the_same(plan: Plan | None) -> None:
    body = INDEX + (
        "ld.param.u64 %rd4, [p1];\nld.param.u64 %rd5, [p2];\nadd.u32 %r6, %r4, 1;\n"
        "atom.global.cas.b32 %r5, [%rd4], 0, %r6;\natom.global.exch.b32 %r7, [%rd4+4], %r6;\n"
        "atom.global.or.b32 %r8, [%rd4+8], 2;\n"
        "mul.wide.u32 %rd6, %r4, 12;\nadd.s64 %rd7, %rd5, %rd6;\n"
        "st.global.u32 [%rd7], %r5;\nst.global.u32 [%rd7+4], %r7;\nst.global.u32 [%rd7+8], %r8;"
    )
    found, state = words(3 * 96), words(3)
    kernel(body, ["output", "state", "output"], plan=plan)(words(96), state, found, launch=launch(3))
    swapped, exchanged, joined = found.reshape(96, 3).T.tolist()
    (winner,) = {*swapped} - {0}
    assert swapped.count(0) == 1
    assert swapped[winner - 1] == 0
    assert sorted([*exchanged, int(state[1])]) == list(range(97))
    assert sorted(joined) == [0, *[2] * 95]


def test_a_vector_atomic_is_one_of_each_element() -> None:
    body = INDEX + (
        "ld.param.u64 %rd4, [p1];\nmov.f32 %f1, 0f3F800000;\nmov.f32 %f2, 0f40000000;\n"
        "atom.global.v2.f32.add {%f3, %f4}, [%rd4], {%f1, %f2};\n"
        "red.global.v4.f32.add [%rd4+16], {%f1, %f2, %f2, %f1};\nst.global.f32 [%rd3], %f4;"
    )
    out, sums = np.zeros(64, np.float32), np.zeros(8, np.float32)
    kernel(body, ["output", "state"])(out, sums, launch=launch(2))
    assert sums.tolist() == [64, 128, 0, 0, 64, 128, 128, 64]
    assert sorted(out.tolist()) == list(range(0, 128, 2))
    with pytest.raises(Fault, match="no multiple of 16"):
        kernel(body.replace("rd4+16", "rd4+8"), ["output", "state"])(out, sums, launch=launch(2))


def test_a_cluster_reads_its_neighbours_shared_memory() -> None:
    body = (
        """
    .shared .align 4 .b8 mine[128];
"""
        + INDEX
        + """
    mov.u32 %r5, mine;
    shl.b32 %r6, %r1, 2;
    add.u32 %r7, %r5, %r6;
    st.shared.u32 [%r7], %r4;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    mov.u32 %r8, %cluster_ctarank;
    xor.b32 %r8, %r8, 1;
    mapa.shared::cluster.u32 %r9, %r7, %r8;
    ld.shared::cluster.u32 %r10, [%r9];
    st.global.u32 [%rd3], %r10;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
"""
    )
    out = words(128)
    kernel(body, ["output"], plan=None)(out, launch=launch(4, cluster=2))
    assert (out.reshape(2, 2, 32) == np.arange(128).reshape(2, 2, 32)[:, ::-1]).all()


def test_bar_red_tells_every_thread_what_all_say() -> None:
    body = (
        INDEX
        + """
    setp.lt.u32 %p1, %r1, 10;
    bar.red.popc.u32 %r5, 0, %p1;
    st.global.u32 [%rd3], %r5;
"""
    )
    out = words(64)
    kernel(body, ["output"])(out, launch=launch(1, 64))
    assert (out == 10).all()


def test_special_registers_say_where_a_thread_is() -> None:
    body = (
        INDEX
        + """
    mov.u32 %r5, %laneid;
    mov.u32 %r6, %warpid;
    mov.u32 %r7, %nctaid.x;
    mad.lo.u32 %r5, %r6, 100, %r5;
    mad.lo.u32 %r5, %r7, 1000, %r5;
    st.global.u32 [%rd3], %r5;
"""
    )
    out = words(80)
    kernel(body, ["output"])(out, launch=launch(2, 40))
    thread = np.arange(80) % 40
    assert (out == 2000 + 100 * (thread // 32) + thread % 32).all()


# --- what cannot be run, or does not end -----------------------------------------------------------------------------


def test_an_instruction_that_is_not_executed_is_named_and_only_where_it_is_reached() -> None:
    body = (
        INDEX
        + """
    ld.param.u32 %r5, [p1];
    setp.eq.u32 %p1, %r5, 0;
    @%p1 bra OVER;
    wgmma.fence.sync.aligned;
OVER:
    st.global.u32 [%rd3], %r5;
"""
    )
    made = kernel(body, ["output", "scalar"])
    assert sum(made.code.unsupported.values()) == 1
    made(words(32), 0, launch=launch())
    with pytest.raises(NotRunHere, match="wgmma"):
        made(words(32), 1, launch=launch())


def test_a_trap_is_a_fault() -> None:
    made = kernel(INDEX + "setp.eq.u32 %p1, %r1, 5;\n@%p1 trap;", ["output"])
    with pytest.raises(Fault, match="trap"):
        made(words(32), launch=launch())


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (launch(1, 2048), "block"),
        (launch(1 << 20, 1024), "threads"),
        (launch(3, 32, cluster=2), "cluster"),
        (launch(1, 32, shared=1 << 20), "shared"),
        (launch(-1, 32), "grid"),
    ],
)
def test_launches_that_no_gpu_takes_or_that_are_too_large_are_refused(shape: dict, said: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(NotRunHere, match=said):
        kernel(INDEX, ["output"])(words(32), launch=shape)


def test_a_kernel_that_polls_for_what_nobody_writes_is_told_apart_from_one_that_works_for_ever() -> None:
    polls = (
        INDEX
        + """
AGAIN:
    ld.volatile.global.u32 %r5, [%rd3];
    setp.eq.u32 %p1, %r5, 77;
    @!%p1 bra AGAIN;
"""
    )
    made = kernel(polls, ["state"])
    with pytest.raises(Fault, match="livelock"):
        made(words(32), launch=launch())
    assert "never comes" in hazards(made)[HazardKind.LIVELOCK].detail


def test_a_barrier_that_half_of_a_cta_skips_for_ever_is_a_deadlock() -> None:
    body = (
        INDEX
        + """
    setp.lt.u32 %p1, %r1, 32;
    @%p1 bra FIRST;
    bar.sync 1, 64;
    bra END;
FIRST:
    bar.sync 2, 64;
END:
"""
    )
    made = kernel(body, ["output"])
    with pytest.raises(Fault, match="deadlock"):
        made(words(64), launch=launch(1, 64))
    assert "barrier" in hazards(made)[HazardKind.DEADLOCK].detail


def test_the_greatest_and_least_of_three_numbers() -> None:
    body = INDEX + (
        "cvt.rn.f32.u32 %f1, %r1; mov.f32 %f2, 0f41200000; mov.f32 %f3, 0f7FC00000; mov.f32 %f4, 0f40A00000;\n"
        "max.f32 %f5, %f1, %f3, %f2; min.NaN.f32 %f6, %f1, %f2, %f4; max.NaN.f32 %f7, %f1, %f3, %f2;\n"
        "testp.notanumber.f32 %p1, %f7; selp.f32 %f6, %f6, %f1, %p1; add.f32 %f5, %f5, %f6; st.global.f32 [%rd3], %f5;"
    )
    out = np.zeros(32, np.float32)
    kernel(body, ["output"])(out, launch=launch())
    t = np.arange(32)
    assert (out == np.maximum(t, 10) + np.minimum(t, 5)).all()


def test_a_failed_assertion_is_a_trap() -> None:
    before = ".extern .func __assertfail(.param .b64 a);"
    call = "{ .param .b64 p; st.param.b64 [p], %rd1; call.uni __assertfail, (p); }"
    body = INDEX + "setp.eq.u32 %p1, %r1, {number}; @!%p1 bra END;\n" + call + "\nEND:"
    made = kernel(body.replace("{number}", "99"), ["output"], before=before)
    made(words(32), launch=launch())
    assert not made.code.unsupported
    with pytest.raises(Fault, match="trap"):
        kernel(body.replace("{number}", "7"), ["output"], before=before)(words(32), launch=launch())
