"""What the tensor core writes into shared memory is no plain store that a copy might be overtaken by."""

from __future__ import annotations

import pytest

from validator.ordering.facts import Facts
from validator.ordering.ptx import read_ptx
from validator.ordering.rules.missing_proxy_fence import check

KERNEL = """.version 9.0
.target sm_100a
.address_size 64
.extern .shared .align 128 .b8 tile[];
.visible .entry k(.param .u64 x)
.reqntid 32, 1, 1
{
    .reg .b32 %r<4>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [x];
    mov.b32 %r1, tile;
    add.s32 %r2, %r1, 4096;
    mbarrier.init.shared::cta.b64 [%r2], 1;
    WRITE
    bar.sync 0;
    ld.shared.b32 %r3, [%r1];
    bar.sync 0;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 512, [%r2];
    ret;
}
"""
ALLOT = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 64;"


@pytest.mark.parametrize(("write", "fires"), [(ALLOT, False), ("st.shared.b32 [%r1], 7;", True)])
def test_copies_land_on_what_the_tensor_core_wrote(write: str, fires: bool) -> None:
    (program,) = read_ptx(KERNEL.replace("WRITE", write).encode(), "k.ptx").programs
    assert bool(list(check(Facts(program, None, "k.ptx")))) is fires
