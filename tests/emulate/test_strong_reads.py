"""Strong accesses without order between them: no race, but the first read may get what was there before."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate.support import INDEX, kernel, launch, words
from validator.emulate.adversary import FRIENDLY

HANDED = (
    INDEX
    + """
ld.param.u64 %rd4, [p1];
setp.ne.u32 %p2, %r1, 0;
@%p2 bra END;
setp.eq.u32 %p1, %r2, 0;
@!%p1 bra READ;
mov.u32 %r5, 5;
st.relaxed.gpu.global.u32 [%rd4], %r5;
{publish}
st.relaxed.gpu.global.u32 [%rd4+4], 1;
bra END;
READ:
ld.relaxed.gpu.global.u32 %r6, [%rd4+4];
setp.eq.u32 %p3, %r6, 1;
@!%p3 bra READ;
{observe}
ld.relaxed.gpu.global.u32 %r7, [%rd4];
st.global.u32 [%rd1], %r7;
END:
"""
)
FENCE = "fence.acq_rel.gpu;"


@pytest.mark.parametrize(
    ("publish", "observe", "got"), [("", "", 0), (FENCE, "", 0), ("", FENCE, 0), (FENCE, FENCE, 5)]
)
def test_relaxed_data_behind_a_relaxed_flag_needs_fences_on_both_sides(publish: str, observe: str, got: int) -> None:
    for plan, expected in ((FRIENDLY, 5), (None, got)):
        out = words(1)
        made = kernel(HANDED.format(publish=publish, observe=observe), ["output", "state"], plan=plan)
        made(out, words(2), launch=launch(2))
        assert out[0] == expected


WARP = (
    ".shared .align 16 .b8 tile[256];\n"
    + INDEX
    + """
mov.u32 %r5, tile;
shl.b32 %r6, %r1, 2;
add.u32 %r7, %r5, %r6;
st.volatile.shared.u32 [%r7], %r1;
{between}
xor.b32 %r8, %r6, 4;
add.u32 %r8, %r5, %r8;
ld.volatile.shared.u32 %r9, [%r8];
st.global.u32 [%rd3], %r9;
"""
)


@pytest.mark.parametrize("between", ["", "bar.warp.sync 0xffffffff;"])
def test_a_volatile_exchange_within_a_warp_needs_a_barrier(between: str) -> None:
    out = words(32)
    kernel(WARP.format(between=between), ["output"], plan=None)(out, launch=launch())
    assert (out == np.arange(32) ^ 1).all() == bool(between)


TURNS = (
    INDEX
    + """
ld.param.u64 %rd4, [p1];
setp.ne.u32 %p2, %r1, 0;
@%p2 bra END;
xor.b32 %r5, %r2, 1;
mul.wide.u32 %rd5, %r2, 4;
mul.wide.u32 %rd6, %r5, 4;
add.s64 %rd5, %rd4, %rd5;
add.s64 %rd6, %rd4, %rd6;
st.relaxed.gpu.global.u32 [%rd5], 1;
fence.sc.gpu;
ld.relaxed.gpu.global.u32 %r6, [%rd6];
st.global.u32 [%rd3], %r6;
END:
"""
)


def test_of_two_that_write_fence_and_read_one_sees_the_other() -> None:
    for number in range(6):
        out = words(64)
        made = kernel(TURNS, ["output", "state"], plan=None)
        made.number = number
        made(out, words(2), launch=launch(2))
        assert out[0] + out[32] >= 1


def test_a_counter_that_is_polled_never_runs_backwards() -> None:
    body = INDEX + (
        "ld.param.u64 %rd4, [p1];\natom.relaxed.gpu.global.add.u32 %r5, [%rd4], 1;\n"
        "ld.relaxed.gpu.global.u32 %r6, [%rd4];\nld.relaxed.gpu.global.u32 %r7, [%rd4];\n"
        "setp.gt.u32 %p1, %r5, %r6;\nsetp.gt.or.u32 %p1, %r6, %r7, %p1;\nselp.u32 %r8, 1, 0, %p1;\n"
        "st.global.u32 [%rd3], %r8;"
    )
    for number in range(6):
        out, counter = words(64), words(1)
        made = kernel(body, ["output", "state"], plan=None)
        made.number = number
        made(out, counter, launch=launch(2))
        assert (out.sum(), counter[0]) == (0, 64)
