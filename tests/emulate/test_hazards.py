"""Detectors, by the byte and with both places; a look-alike that is right beside each."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate.support import INDEX, hazards, kernel, launch, words
from validator.emulate.adapter import Fault
from validator.emulate.adversary import FRIENDLY, Plan
from validator.emulate.hazard import HazardKind

SHARED = (
    ".shared .align 16 .b8 tile[256];\n" + INDEX + "mov.u32 %r5, tile;\nshl.b32 %r6, %r1, 2;\nadd.u32 %r7, %r5, %r6;\n"
)


def test_one_byte_beyond_an_array_is_out_of_bounds() -> None:
    body = "ld.param.u64 %rd1, [p0];\nmov.u16 %h1, 1;\nst.global.u8 [%rd1+{at}], %h1;"
    out = np.zeros(13, np.uint8)
    kernel(body.format(at=12), ["output"])(out, launch=launch(block=1))
    assert out[12] == 1
    for at in ("13", "-1", "1000000", "-1000000"):
        made = kernel(body.format(at=at).replace("+-", "-"), ["output"])
        with pytest.raises(Fault, match="out-of-bounds"):
            made(np.zeros(13, np.uint8), launch=launch(block=1))
        assert hazards(made)[HazardKind.OUT_OF_BOUNDS].memory == "a0"


def test_a_null_pointer_belongs_to_nobody() -> None:
    made = kernel("mov.u64 %rd1, 0;\nld.global.u32 %r1, [%rd1];", ["output"])
    with pytest.raises(Fault, match="belongs to no argument"):
        made(words(1), launch=launch(block=1))


def test_a_misaligned_vector_is_named() -> None:
    made = kernel("ld.param.u64 %rd1, [p0];\nld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1+4];", ["activation"])
    with pytest.raises(Fault, match="no multiple of 16"):
        made(words(16), launch=launch(block=1))


def test_shared_memory_that_nobody_wrote_is_noticed_and_alone_refutes_nothing() -> None:
    made = kernel(SHARED + "ld.shared.u32 %r8, [%r7];\nst.global.u32 [%rd3], %r8;", ["output"])
    out = words(32)
    made(out, launch=launch())
    assert (out == 0xFFFFFFFF).all()
    found = hazards(made)[HazardKind.UNINITIALISED]
    assert found.unsettled
    assert found.memory == "tile"


EXCHANGE = """
st.shared.u32 [%r7], %r1;
{between}
xor.b32 %r8, %r1, {partner};
shl.b32 %r8, %r8, 2;
add.u32 %r8, %r5, %r8;
ld.shared.u32 %r9, [%r8];
st.global.u32 [%rd3], %r9;
"""


@pytest.mark.parametrize(
    ("between", "partner", "races"),
    [
        ("", 32, True),
        ("bar.sync 0;", 32, False),
        ("bar.sync 0, 64;", 32, False),
        ("bar.warp.sync 0xffffffff;", 32, True),
        ("bar.warp.sync 0xffffffff;", 1, False),
        ("", 1, True),
        ("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", 32, False),
    ],
)
def test_shared_memory_exchanged_behind_the_right_barrier(between: str, partner: int, races: bool) -> None:
    made = kernel(SHARED + EXCHANGE.format(between=between, partner=partner), ["output"])
    out = words(64)
    if not races:
        made(out, launch=launch(1, 64))
        assert (out == np.arange(64) ^ partner).all()
        return
    with pytest.raises(Fault, match="race"):
        made(out, launch=launch(1, 64))
    found = hazards(made)[HazardKind.RACE]
    assert found.other is not None
    assert found.other.thread == found.place.thread ^ partner
    assert "st.shared" in made.program.text(found.other.index)


def test_writing_the_same_value_twice_is_no_fault_and_different_values_are() -> None:
    same = INDEX + "mov.u32 %r5, 4;\nst.global.u32 [%rd1], %r5;"
    out = words(1)
    kernel(same, ["output"])(out, launch=launch(2))
    assert out[0] == 4
    made = kernel(INDEX + "st.global.u32 [%rd1], %r4;", ["output"])
    with pytest.raises(Fault, match="race"):
        made(words(1), launch=launch(2))


PUBLISH = (
    INDEX
    + """
    ld.param.u64 %rd4, [p1];
    setp.ne.u32 %p2, %r1, 0;
    @%p2 bra END;
    setp.eq.u32 %p1, %r2, 0;
    @!%p1 bra READ;
    mov.u32 %r5, 5;
    st.global.u32 [%rd1], %r5;
    {release}
    bra END;
READ:
    {acquire}
    setp.eq.u32 %p3, %r6, 1;
    @!%p3 bra READ;
    {after}
    ld.global.u32 %r7, [%rd1];
    st.global.u32 [%rd1+4], %r7;
END:
"""
)
RELEASE = "mov.u32 %r8, 1; st.release.gpu.global.u32 [%rd4], %r8;"
RELAXED = "mov.u32 %r8, 1; st.relaxed.gpu.global.u32 [%rd4], %r8;"
FENCED = "fence.acq_rel.gpu; " + RELAXED
ACQUIRE = "ld.acquire.gpu.global.u32 %r6, [%rd4];"
LOOSE = "ld.relaxed.gpu.global.u32 %r6, [%rd4];"


@pytest.mark.parametrize(
    ("release", "acquire", "after", "races"),
    [
        (RELEASE, ACQUIRE, "", False),
        (FENCED, ACQUIRE, "", False),
        (FENCED, LOOSE, "fence.acq_rel.gpu;", False),
        (RELEASE, LOOSE, "", True),
        (RELAXED, ACQUIRE, "", True),
        (RELEASE.replace("gpu", "cta"), ACQUIRE, "", True),
        (RELEASE, ACQUIRE.replace("gpu", "cta"), "", True),
        (RELEASE, "atom.acquire.gpu.global.or.b32 %r6, [%rd4], 0;", "", False),
    ],
)
@pytest.mark.parametrize("seed", [0, 3, 4])
def test_data_of_another_cta_is_there_behind_release_and_acquire_alone(
    release: str, acquire: str, after: str, races: bool, seed: int
) -> None:
    body = PUBLISH.format(release=release, acquire=acquire, after=after)
    made = kernel(body, ["state", "workspace"], plan=None)
    made.number = seed
    data, flag = words(2), words(1)
    if races:
        with pytest.raises(Fault, match="race"):
            made(data, flag, launch=launch(2))
        assert data[1] == 0, "the old value is allowed, so it is what the reader gets"
    else:
        made(data, flag, launch=launch(2))
        assert data.tolist() == [5, 5]


def test_lanes_of_a_warp_at_different_barriers_diverge() -> None:
    body = (
        INDEX
        + """
    setp.lt.u32 %p1, %r1, 16;
    @%p1 bra LOW;
    bar.sync 0;
    bra END;
LOW:
    bar.sync 0;
END:
"""
    )
    made = kernel(body, ["output"])
    with pytest.raises(Fault, match="barrier-divergence"):
        made(words(32), launch=launch())


def test_a_shuffle_waits_for_the_lanes_that_its_mask_names() -> None:
    body = (
        INDEX
        + """
    mov.u32 %r5, %r1;
    setp.lt.u32 %p1, %r1, 16;
    @%p1 bra LOW;
    add.u32 %r5, %r5, 100;
LOW:
    shfl.sync.bfly.b32 %r6, %r5, 16, 31, 0xffffffff;
    st.global.u32 [%rd3], %r6;
"""
    )
    out = words(32)
    kernel(body, ["output"], plan=Plan(late=False, classes=2))(out, launch=launch())
    lane = np.arange(32)
    assert (out == np.where(lane < 16, lane + 116, lane - 16)).all()


MBARRIER = (
    """
.shared .align 8 .b64 full;
.shared .align 128 .b8 tile[128];
"""
    + INDEX
    + """
    ld.param.u64 %rd4, [p1];
    mov.u32 %r5, tile; mov.u32 %r6, full;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r6], 1;
    bar.sync 0;
    @!%p1 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 %rd5, [%r6], {expected};
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd4], 128, [%r6];
WAIT:
    {wait}
    shl.b32 %r7, %r1, 2;
    add.u32 %r7, %r5, %r7;
    ld.shared.u32 %r8, [%r7];
    st.global.u32 [%rd3], %r8;
"""
)
WAITS = "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r6], 0;\n@!%p2 bra WAIT;"


def test_a_bulk_copy_is_there_behind_its_mbarrier_and_not_before() -> None:
    data, out = np.arange(32, dtype=np.uint32), words(32)
    kernel(MBARRIER.format(expected=128, wait=WAITS), ["output", "activation"], plan=None)(out, data, launch=launch())
    assert (out == data).all()
    made = kernel(MBARRIER.format(expected=128, wait=""), ["output", "activation"], plan=None)
    with pytest.raises(Fault, match="async-copy-not-waited"):
        made(words(32), data, launch=launch())


def test_an_mbarrier_that_expects_more_bytes_than_come_is_waited_for_in_vain() -> None:
    made = kernel(MBARRIER.format(expected=256, wait=WAITS), ["output", "activation"], plan=None)
    with pytest.raises(Fault, match="livelock"):
        made(words(32), words(32), launch=launch())


STAGED = (
    SHARED
    + """
    st.shared.u32 [%r7], %r1;
    {fence}
    bar.sync 0;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra END;
    {late_fence}
    cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r5], 128;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group{read} 0;
END:
    {again}
"""
)


@pytest.mark.parametrize(
    ("fence", "late_fence", "seen"),
    [
        ("fence.proxy.async.shared::cta;", "", True),
        ("", "fence.proxy.async.shared::cta;", True),
        ("fence.proxy.async;", "", True),
        ("fence.proxy.async.global;", "", False),
        ("", "", False),
    ],
)
def test_a_bulk_store_sees_what_a_proxy_fence_shows_it(fence: str, late_fence: str, seen: bool) -> None:
    out = words(32)
    made = kernel(STAGED.format(fence=fence, late_fence=late_fence, read="", again=""), ["output"], plan=None)
    if seen:
        made(out, launch=launch())
        assert (out == np.arange(32)).all()
        return
    with pytest.raises(Fault, match="missing-proxy-fence"):
        made(out, launch=launch())
    assert (out == 0xFFFFFFFF).all()


def test_the_source_of_a_bulk_store_is_left_alone_until_it_has_been_read() -> None:
    fence = "fence.proxy.async.shared::cta;"
    again = "bar.sync 0;\nst.shared.u32 [%r7], %r4;"
    kernel(STAGED.format(fence=fence, late_fence="", read=".read", again=again), ["output"], plan=None)(
        words(32), launch=launch()
    )
    unwaited = STAGED.format(fence=fence, late_fence="", read=".read", again=again).replace(
        "wait_group.read 0", "wait_group.read 1"
    )
    made = kernel(unwaited, ["output"], plan=None)
    with pytest.raises(Fault, match="async-copy-source-changed"):
        made(words(32), launch=launch())


ROWS = """
mov.u32 %r1, %tid.x;
ld.param.u64 %rd1, [p0];
ld.param.u64 %rd2, [p1];
ld.param.u64 %rd4, [p2];
{offset}
add.s64 %rd2, %rd2, %rd6;
ld.global.u32 %r3, [%rd2];
mul.wide.u32 %rd7, %r1, 4;
add.s64 %rd1, %rd1, %rd7;
st.global.u32 [%rd1], %r3;
"""
WIDE = "cvt.u64.u32 %rd5, %r1; mul.lo.s64 %rd6, %rd5, %rd4; shl.b64 %rd6, %rd6, 2;"
NARROW = "cvt.u32.u64 %r4, %rd4; mul.lo.s32 %r2, %r1, %r4; mul.wide.s32 %rd6, %r2, 4;"


@pytest.mark.parametrize("offset", [WIDE, NARROW])
def test_offsets_that_leave_32_bits_are_found_without_the_memory_for_them(offset: str) -> None:
    made = kernel(
        ROWS.format(offset=offset), ["output", "weight", "scalar"], kinds=["u64", "u64", "u64"],
        a1={"distant": True}, a2={"stride": "a1.0", "dtype": "int64"},
    )  # fmt: skip
    table, out = np.arange(64, dtype=np.uint32).reshape(4, 16), words(4)
    if offset is WIDE:
        made(out, table, 16, launch=launch(block=4))
        assert out.tolist() == [0, 16, 32, 48]
        return
    with pytest.raises(Fault, match="address-overflow"):
        made(out, table, 16, launch=launch(block=4))
    assert hazards(made)[HazardKind.OVERFLOW].place.thread == 3


HALVES = """
st.shared.u32 [%r7], %r1;
setp.lt.u32 %p1, %r1, 16;
@%p1 bra LOW;
bar.warp.sync {high};
bra READ;
LOW:
bar.warp.sync {low};
READ:
xor.b32 %r8, %r6, {partner};
add.u32 %r8, %r5, %r8;
ld.shared.u32 %r9, [%r8];
st.global.u32 [%rd3], %r9;
"""


@pytest.mark.parametrize(
    ("low", "high", "partner", "kind"),
    [
        ("0xffffffff", "0xffffffff", 64, None),
        ("0xffff", "0xffff0000", 4, None),
        ("0xffff", "0xffff0000", 64, HazardKind.RACE),
        ("0xff", "0xffff0000", 4, HazardKind.BARRIER_DIVERGENCE),
    ],
)
def test_lanes_of_a_warp_meet_wherever_they_stand_and_only_those_of_the_mask(
    low: str, high: str, partner: int, kind: HazardKind | None
) -> None:
    made = kernel(SHARED + HALVES.format(low=low, high=high, partner=partner), ["output"], plan=Plan(late=False))
    out = words(32)
    if kind is None:
        made(out, launch=launch())
        assert (out == np.arange(32) ^ (partner // 4)).all()
        return
    with pytest.raises(Fault, match=kind.value):
        made(out, launch=launch())


def test_a_store_behind_the_last_shared_variable_is_out_of_bounds() -> None:
    body = SHARED + "mov.u32 %r8, tile;\nst.shared.u32 [%r8+256], %r1;"
    with pytest.raises(Fault, match="out-of-bounds"):
        kernel(body, ["output"])(words(32), launch=launch(shared=4096))


@pytest.mark.parametrize(("partner", "races"), [(4, False), (64, True)])
def test_lanes_that_name_different_masks_at_one_barrier_do_not_meet_each_other(partner: int, races: bool) -> None:
    mask = "setp.lt.u32 %p1, %r1, 16;\nselp.b32 %r10, 0xffff, 0xffff0000, %p1;\nbar.warp.sync %r10;"
    body = SHARED + "st.shared.u32 [%r7], %r1;\n" + mask + HALVES.partition("READ:")[2].format(partner=partner)
    made = kernel(body, ["output"], plan=Plan(late=False))
    if races:
        with pytest.raises(Fault, match="race"):
            made(words(32), launch=launch())
    else:
        made(words(32), launch=launch())


SOME_LANES = """
mov.u32 %r5, %r1;
setp.ge.u32 %p1, %r1, 24;
@%p1 bra END;
shfl.sync.down.b32 %r6, %r1, 8, 31, 0xffffff;
setp.ge.u32 %p2, %r1, {used};
@%p2 bra END;
mov.u32 %r5, %r6;
END:
st.global.u32 [%rd3], %r5;
"""


@pytest.mark.parametrize(("used", "steady"), [(24, False), (16, True)])
def test_what_a_shuffle_reads_of_an_absent_lane_is_anything_and_may_be_dropped(used: int, steady: bool) -> None:
    found = []
    for plan in (FRIENDLY, None):
        out = words(32)
        kernel(INDEX + SOME_LANES.format(used=used), ["output"], plan=plan)(out, launch=launch())
        found.append(out)
    assert (found[0] == found[1]).all() == steady
    assert (found[0][:16] == np.arange(8, 24)).all()


@pytest.mark.parametrize(
    ("fence", "hidden"), [("", True), ("fence.proxy.async.global;", True), ("fence.proxy.async.shared::cta;", False)]
)
def test_a_copy_that_overwrites_generic_writes_needs_a_proxy_fence_too(fence: str, hidden: bool) -> None:
    zeros = f"shl.b32 %r7, %r1, 2;\nadd.u32 %r7, %r5, %r7;\nst.shared.u32 [%r7], 0;\n{fence}\nbar.sync 0;"
    body = MBARRIER.format(expected=128, wait=WAITS).replace("bar.sync 0;", zeros)
    data, out = np.arange(32, dtype=np.uint32), words(32)
    made = kernel(body, ["output", "activation"], plan=None)
    if not hidden:
        made(out, data, launch=launch())
        assert (out == data).all()
        return
    with pytest.raises(Fault, match="missing-proxy-fence"):
        made(out, data, launch=launch())


def test_local_memory_that_nobody_wrote_holds_something_else_in_another_run() -> None:
    body = INDEX + "mov.u32 %r5, spill;\nld.local.u32 %r6, [%r5];\nst.global.u32 [%rd3], %r6;"
    found = []
    for plan in (FRIENDLY, None):
        out = words(32)
        kernel(".local .align 4 .b8 spill[8];\n" + body, ["output"], plan=plan)(out, launch=launch())
        found.append(out)
    assert (found[0] != found[1]).all()
