"""Copies that nobody has waited for, met by reads, by writes and by other copies."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate.support import INDEX, hazards, kernel, launch, words
from validator.emulate.adapter import Fault
from validator.emulate.hazard import HazardKind

OUT = (
    ".shared .align 128 .b8 tile[128];\n"
    + INDEX
    + """
mov.u32 %r5, tile;
shl.b32 %r6, %r1, 2;
add.u32 %r7, %r5, %r6;
ld.param.u64 %rd4, [p1];
st.shared.u32 [%r7], %r1;
fence.proxy.async.shared::cta;
bar.sync 0;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra NEXT;
cp.async.bulk.global.shared::cta.bulk_group [%rd4], [%r5], 128;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group{read} 0;
NEXT:
bar.sync 0;
xor.b32 %r8, %r6, {partner};
cvt.u64.u32 %rd5, %r8;
add.s64 %rd6, %rd4, %rd5;
{touch}
st.global.u32 [%rd3], %r9;
"""
)
READ, WRITE = "ld.global.u32 %r9, [%rd6];", "mov.u32 %r9, 7;\nst.global.u32 [%rd6], %r9;"


@pytest.mark.parametrize(("read", "partner", "touch"), [(".read", 4, READ), (".read", 0, WRITE), ("", 4, READ)])
def test_a_bulk_store_is_there_once_complete_not_once_it_has_read(read: str, partner: int, touch: str) -> None:
    made = kernel(OUT.format(read=read, partner=partner, touch=touch), ["output", "workspace"], plan=None)
    out = words(32)
    if not read:
        made(out, words(32), launch=launch())
        assert (out == np.arange(32) ^ 1).all()
        return
    with pytest.raises(Fault, match="async-copy-not-waited"):
        made(out, words(32), launch=launch())
    found = hazards(made)[HazardKind.COPY_NOT_WAITED]
    assert found.memory == "a1"
    assert found.other is not None
    assert "cp.async.bulk.global" in made.program.text(found.other.index)


TWICE = (
    ".shared .align 128 .b8 tile[128];\n.shared .align 8 .b64 full[2];\n"
    + INDEX
    + """
ld.param.u64 %rd4, [p1];
mov.u32 %r5, tile;
mov.u32 %r6, full;
setp.eq.u32 %p1, %r1, 0;
@!%p1 bra MEET;
mbarrier.init.shared::cta.b64 [%r6], 1;
mbarrier.init.shared::cta.b64 [%r6+8], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 128;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd4], 128, [%r6];
{wait}
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6+8], 128;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd4+128], 128, [%r6+8];
MEET:
bar.sync 0;
LAST:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r6+8], 0;
@!%p2 bra LAST;
shl.b32 %r7, %r1, 2;
add.u32 %r7, %r5, %r7;
ld.shared.u32 %r8, [%r7];
st.global.u32 [%rd3], %r8;
"""
)
FIRST = "FIRST:\nmbarrier.try_wait.parity.shared::cta.b64 %p3, [%r6], 0;\n@!%p3 bra FIRST;"


@pytest.mark.parametrize("wait", ["", FIRST])
def test_two_copies_under_way_to_one_place_are_a_fault(wait: str) -> None:
    made = kernel(TWICE.format(wait=wait), ["output", "activation"], plan=None)
    out, data = words(32), np.arange(64, dtype=np.uint32)
    if wait:
        made(out, data, launch=launch())
        assert (out == data[32:]).all()
        return
    with pytest.raises(Fault, match="async-copy-not-waited"):
        made(out, data, launch=launch())
