"""Shared memory of other CTAs: behind their start, and ordered by signals whose scope holds both."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate.support import INDEX, hazards, kernel, launch, words
from validator.emulate.adapter import Fault
from validator.emulate.hazard import HazardKind

MEETING = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"
RELAXED = "barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;"
STORED = "st.shared::cluster.u32 [%r24], %r4;\nmbarrier.arrive{release}.shared::cluster.b64 _, [%r23];"
SENT = "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r24], %r4, [%r23];"
EXCHANGE = (
    ".shared .align 16 .b8 tile[128];\n.shared .align 8 .b64 full;\n"
    + INDEX
    + """
mov.u32 %r20, %cluster_ctarank;
xor.b32 %r21, %r20, 1;
mov.u32 %r5, tile;
mov.u32 %r6, full;
shl.b32 %r8, %r1, 2;
add.u32 %r9, %r5, %r8;
mapa.shared::cluster.u32 %r24, %r9, %r21;
mapa.shared::cluster.u32 %r23, %r6, %r21;
setp.eq.u32 %p1, %r1, 0;
@%p1 mbarrier.init.shared::cta.b64 [%r6], {arrivals};
{expect}
@%p1 fence.mbarrier_init.release.cluster;
{start}
{send}
WAIT:
mbarrier.try_wait.parity{acquire}.shared::cta.b64 %p2, [%r6], 0;
@!%p2 bra WAIT;
{between}
ld.shared.u32 %r10, [%r9];
st.global.u32 [%rd3], %r10;
{end}
"""
)
EXPECT = "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 128;"


def body(release: str, acquire: str, start: str = MEETING, send: str = STORED, between: str = "") -> str:
    arrivals, expect = ("1", EXPECT) if send is SENT else ("32", "")
    return EXCHANGE.format(
        arrivals=arrivals, expect=expect, start=start, send=send.format(release=release), acquire=acquire,
        between=between, end=MEETING,
    )  # fmt: skip


def judge(text: str, fault: str) -> None:
    """Two CTAs of a cluster under three plans: silent and right, or one of them finds the fault."""
    found = set()
    for number in range(3):
        made, out = kernel(text, ["output"], plan=None), words(64)
        made.number = number
        try:
            made(out, launch=launch(2, cluster=2))
        except Fault:
            found |= {h.detail for h in hazards(made).values() if h.kind is HazardKind.RACE}
        else:
            assert (out == np.arange(64) ^ 32).all()
    assert bool(found) == bool(fault)
    assert all(fault in detail for detail in found)


CLUSTER = (".release.cluster", ".acquire.cluster")


@pytest.mark.parametrize(
    ("release", "acquire", "send", "between", "fault"),
    [
        (*CLUSTER, STORED, "", ""),
        (".release.cluster", "", STORED, "", "at the scope of the CTA"),
        ("", ".acquire.cluster", STORED, "", "at the scope of the CTA"),
        (".release.cluster", "", STORED, "bar.sync 0;", "at the scope of the CTA"),
        (".release.cluster", "", STORED, "bar.warp.sync 0xffffffff;", "at the scope of the CTA"),
        (".release.cluster", "", STORED, MEETING, ""),
        ("", "", SENT, "", ""),
        ("", ".acquire.cluster", SENT, "", ""),
    ],
)
def test_what_another_cta_stored_is_ordered_at_the_scope_of_the_cluster_alone(
    release: str, acquire: str, send: str, between: str, fault: str
) -> None:
    judge(body(release, acquire, send=send, between=between), fault)


@pytest.mark.parametrize(("start", "fault"), [(MEETING, ""), (RELAXED, ""), ("bar.sync 0;", "has begun")])
@pytest.mark.parametrize("send", [STORED, SENT])
def test_shared_memory_of_another_cta_is_used_behind_its_start(start: str, fault: str, send: str) -> None:
    text = body(*CLUSTER, start=start, send=send)
    if not fault:
        judge(text, "")
        return
    made = kernel(text, ["output"])
    with pytest.raises(Fault, match="race"):
        made(words(64), launch=launch(2, cluster=2))
    assert made.last is not None
    assert any(fault in hazard.detail for hazard in made.last.hazards)
