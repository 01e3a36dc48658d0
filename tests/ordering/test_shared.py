"""Parts of shared memory, told apart by base and first byte."""

from __future__ import annotations

import pytest

from validator.manifest.load import load_contract
from validator.ordering.artifacts import audit_artifacts

CONTRACT = b"""
schema = "validator/manifest/1"

[[kernels]]
match = "two_stages"
launch = { pdl = false }
[[kernels.args]]
name = "out"
role = "output"
[[kernels.args]]
name = "x"
role = "activation"
"""

PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry two_stages(.param .u64 out, .param .u64 x)
{
    .reg .b32 %r<8>;
    .reg .b64 %rd<12>;
    .shared .align 16 .b8 tile[4096];
    ld.param.u64 %rd1, [out];
    ld.param.u64 %rd2, [x];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 16;
    add.s64 %rd4, %rd2, %rd3;
    mov.u32 %r2, tile;
    shl.b32 %r3, %r1, 4;
    add.s32 %r4, %r2, %r3;
    cp.async.cg.shared.global [%r4], [%rd4], 16;
    cp.async.commit_group;
    cp.async.cg.shared.global [%r4+2048], [%rd4+2048], 16;
    cp.async.commit_group;
    cp.async.wait_group 1;
    bar.sync 0;
    cvt.u64.u32 %rd5, %r4;
    add.s64 %rd6, %rd5, OFFSET;
    cvt.u32.u64 %r5, %rd6;
    ld.shared.u32 %r6, [%r5];
    mul.wide.u32 %rd7, %r1, 4;
    add.s64 %rd8, %rd1, %rd7;
    st.global.u32 [%rd8], %r6;
    ret;
}
"""


@pytest.mark.parametrize(
    ("offset", "verdict"), [(0, "proven"), (1 << 32, "proven"), (2048, "refuted"), ((1 << 32) + 2048, "refuted")]
)
def test_addresses_of_shared_memory_have_32_bits(offset: int, verdict: str):
    """A carry into the upper half of a sum is no part of the address."""
    kernels, _ = load_contract(CONTRACT, "contract.toml")
    text = PTX.replace("OFFSET", str(offset))
    (kernel,) = audit_artifacts([("kernel.ptx", text.encode())], kernels, ()).kernels
    assert kernel.status.value == verdict, kernel.reasons
