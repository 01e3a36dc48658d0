"""Every family of instructions that touches memory or orders it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from validator.ordering.program import Const, Direction, Event, EventKind, Op, Order, Reg, Scope, Space
from validator.ordering.ptx import PtxProgram

Make = Callable[[str], Event]
Kernel = Callable[..., PtxProgram]

R, W, A, P = Direction.READ, Direction.WRITE, Direction.ATOMIC, Direction.PREFETCH
G, S, C, GEN, L = Space.GLOBAL, Space.SHARED, Space.CLUSTER, Space.GENERIC, Space.LOCAL

ACCESSES = [
    # text, direction, space, bytes, order, scope, non-coherent
    ("ld.global.f32 %f1, [%a]", R, G, 4, Order.WEAK, None, False),
    ("ld.global.nc.L1::no_allocate.v4.u32 {%r1,%r2,%r3,%r4}, [%a]", R, G, 16, Order.WEAK, None, True),
    ("ld.global.L1::evict_last.L2::cache_hint.L2::256B.b64 %rd1, [%a], %pol", R, G, 8, Order.WEAK, None, False),
    ("ld.weak.global.v8.b32 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%a]", R, G, 32, Order.WEAK, None, False),
    ("ld.volatile.global.u32 %r1, [%a]", R, G, 4, Order.VOLATILE, Scope.SYS, False),
    ("ld.relaxed.gpu.global.b8 %rs1, [%a]", R, G, 1, Order.RELAXED, Scope.GPU, False),
    ("ld.acquire.cta.global.u32 %r1, [%a]", R, G, 4, Order.ACQUIRE, Scope.CTA, False),
    ("ld.acquire.sys.u32 %r1, [%a]", R, GEN, 4, Order.ACQUIRE, Scope.SYS, False),
    ("ld.mmio.relaxed.sys.global.u32 %r1, [%a]", R, G, 4, Order.RELAXED, Scope.SYS, False),
    ("ld.shared::cluster.b128 %rq1, [%a]", R, C, 16, Order.WEAK, None, False),
    ("ld.shared::cta.v2.f16x2 {%r1,%r2}, [%a]", R, S, 8, Order.WEAK, None, False),
    ("ld.local.u16 %rs1, [%a]", R, L, 2, Order.WEAK, None, False),
    ("ld.const.f64 %fd1, [%a]", R, Space.CONST, 8, Order.WEAK, None, False),
    ("ldu.global.f32 %f1, [%a]", R, G, 4, Order.WEAK, None, True),
    ("st.global.v2.b64 [%a], {%rd1, %rd2}", W, G, 16, Order.WEAK, None, False),
    ("st.release.gpu.global.u32 [%a], %r1", W, G, 4, Order.RELEASE, Scope.GPU, False),
    ("st.volatile.shared.u32 [%a], 0", W, S, 4, Order.VOLATILE, Scope.SYS, False),
    ("st.bulk.weak.shared::cta [%a], 1024, 0", W, S, None, Order.WEAK, None, False),
    ("st.async.mmio.release.sys.global.u32 [%a], %r1", W, G, 4, Order.RELEASE, Scope.SYS, False),
    ("atom.global.add.u32 %r1, [%a], 1", A, G, 4, Order.RELAXED, Scope.GPU, False),
    ("atom.acq_rel.sys.global.cas.b64 %rd1, [%a], %rd2, %rd3", A, G, 8, Order.ACQ_REL, Scope.SYS, False),
    ("atom.shared::cluster.cta.exch.b128 %rq1, [%a], %rq2", A, C, 16, Order.RELAXED, Scope.CTA, False),
    ("atom.global.v4.f32.add {%f1,%f2,%f3,%f4}, [%a], {%f1,%f2,%f3,%f4}", A, G, 16, Order.RELAXED, Scope.GPU, False),
    ("red.release.gpu.global.add.noftz.bf16x2 [%a], %r1", A, G, 4, Order.RELEASE, Scope.GPU, False),
    ("prefetch.global.L2::evict_last [%a]", P, G, None, Order.WEAK, None, False),
    ("prefetch.tensormap [%a]", P, GEN, None, Order.WEAK, None, False),
    ("prefetchu.L1 [%a]", P, GEN, None, Order.WEAK, None, False),
    ("applypriority.global.L2::evict_normal [%a], 128", P, G, None, Order.WEAK, None, False),
    ("discard.global.L2 [%a], 128", W, G, 128, Order.WEAK, None, False),
    ("cp.async.bulk.prefetch.L2.global [%a], 4096", P, G, 4096, Order.WEAK, None, False),
    ("ldmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 {%r1,%r2,%r3,%r4}, [%a]", R, S, 16, Order.WEAK, None, False),
    ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%a], {%r1}", W, S, 16, Order.WEAK, None, False),
    ("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1,%r2}, [%a], 16", R, G, None, Order.WEAK, None, False),
    ("wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%a], {%f1}, 16", W, S, None, Order.WEAK, None, False),
    ("multimem.ld_reduce.acquire.sys.global.add.f32 %f1, [%a]", R, G, 4, Order.ACQUIRE, Scope.SYS, False),
    ("multimem.st.weak.global.v4.f32 [%a], {%f1,%f2,%f3,%f4}", W, G, 16, Order.WEAK, None, False),
    ("multimem.red.relaxed.gpu.global.add.u32 [%a], %r1", A, G, 4, Order.RELAXED, Scope.GPU, False),
    ("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%a], %rd1", W, S, 128, Order.WEAK, None, False),
    ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%a], 128", W, S, 4, Order.WEAK, None, False),
    ("mbarrier.inval.shared.b64 [%a]", W, S, 8, Order.WEAK, None, False),
]


@pytest.mark.parametrize(("text", "direction", "space", "size", "order", "scope", "noncoherent"), ACCESSES)
def test_accesses(
    event: Make,
    text: str,
    direction: Direction,
    space: Space,
    size: int | None,
    order: Order,
    scope: Scope | None,
    noncoherent: bool,
) -> None:
    found = event(text + ";")
    assert found.kind is EventKind.ACCESS
    (access,) = found.accesses
    assert (access.direction, access.space, access.bytes) == (direction, space, size)
    assert access.address == (Reg("%a"),)
    assert found.noncoherent is noncoherent
    if direction is not P and "mbarrier" not in text and "alloc" not in text and "tensormap" not in text:
        assert (found.order, found.movable) == (order, order is Order.WEAK)
        if order is not Order.WEAK:
            assert found.scope is scope


def test_addresses_are_sums(kernel: Kernel) -> None:
    program = kernel(
        """
.shared .align 8 .b8 buf[64];
ld.global.b32 %r1, [%rd1+16];
ld.global.b32 %r1, [ %rd1 + 0 ];
ld.global.b32 %r1, [%rd1+-0x8];
ld.global.b32 %r1, [%rd1 - 4];
ld.shared.b32 %r1, [buf+8];
ld.shared.b32 %r1, [128];
ld.global.b32 %r1, [table+4];
""",
        before=".global .b8 table[8];",
    )
    address = [e.accesses[0].address for e in program.events if e.accesses]
    register = Reg("%rd1")
    assert address[:4] == [(register, Const(16)), (register,), (register, Const(-8)), (register, Const(-4))]
    assert [(a[0].op, a[0].attr) for a in (address[4], address[6])] == [  # type: ignore[union-attr]
        (Op.SYMBOL, (Space.SHARED, "buf", 8)),
        (Op.SYMBOL, (Space.GLOBAL, "table", 4)),
    ]
    assert address[5] == (Const(128),)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("st.global.v2.b32 [%a], {%r1, 7}", (Reg("%r1"), Const(7))),
        ("red.global.add.u32 [%a+4], %r1", (Reg("%r1"),)),
        ("atom.global.cas.b32 %r1, [%a], %r2, 5", (Reg("%r2"), Const(5))),
        ("ld.global.b32 %r1, [%a]", ()),
    ],
)
def test_stored_values(event: Make, text: str, value: tuple[object, ...]) -> None:
    assert event(text + ";").value == value


@pytest.mark.parametrize(
    ("text", "direction"),
    [
        ("tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd1, {%f5,%f6}]", R),
        ("tld4.r.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd1, {%f5,%f6}]", R),
        ("suld.b.1d.b32.trap %r1, [%rd1, {%r2}]", R),
        ("sust.b.2d.v2.b32.clamp [%rd1, {%r1,%r2}], {%r3,%r4}", W),
        ("sured.b.add.2d.u32.trap [%rd1, {%r1,%r2}], %r3", A),
    ],
)
def test_the_handle_of_a_texture_or_surface_stands_for_its_memory(event: Make, text: str, direction: Direction) -> None:
    (access,) = event(text + ";").accesses
    assert (access.direction, access.space, access.address) == (direction, G, (Reg("%rd1"),))


COPIES = [
    # text, [(direction, space, address, bytes, tensormap)], group, barrier
    (
        "cp.async.cg.shared.global.L2::128B [%d], [%s], 16",
        [(R, G, "%s", 16, False), (W, S, "%d", 16, False)],
        "cp.async",
        None,
    ),
    (
        "cp.async.ca.shared::cta.global [%d], [%s], 4, %r1",
        [(R, G, "%s", 4, False), (W, S, "%d", 4, False)],
        "cp.async",
        None,
    ),
    (
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%d], [%s], 512, [%m], %rs1",
        [(R, G, "%s", 512, False), (W, C, "%d", 512, False)],
        "mbarrier",
        "%m",
    ),
    (
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%d], [%s], %r1, [%m]",
        [(R, G, "%s", None, False), (W, S, "%d", None, False)],
        "mbarrier",
        "%m",
    ),
    (
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%d], [%s], 64, [%m]",
        [(R, S, "%s", 64, False), (W, C, "%d", 64, False)],
        "mbarrier",
        "%m",
    ),
    (
        "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%d], [%s], 256, %pol",
        [(R, S, "%s", 256, False), (W, G, "%d", 256, False)],
        "bulk",
        None,
    ),
    (
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%d], [%s], 256",
        [(R, S, "%s", 256, False), (A, G, "%d", 256, False)],
        "bulk",
        None,
    ),
    (
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%d], [%s, {%r1, %r2}], [%m]",
        [(R, G, "%s", None, True), (W, C, "%d", None, False)],
        "mbarrier",
        "%m",
    ),
    (
        "cp.async.bulk.tensor.3d.shared::cta.global.im2col.mbarrier::complete_tx::bytes.cta_group::1 "
        "[%d], [%s, {%r1, %r2, %r3}], [%m], {%rs1}",
        [(R, G, "%s", None, True), (W, S, "%d", None, False)],
        "mbarrier",
        "%m",
    ),
    (
        "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%d, {%r1, %r2}], [%s]",
        [(R, S, "%s", None, False), (W, G, "%d", None, True)],
        "bulk",
        None,
    ),
    (
        "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%d, {%r1}], [%s]",
        [(R, S, "%s", None, False), (A, G, "%d", None, True)],
        "bulk",
        None,
    ),
    (
        "multimem.cp.async.bulk.global.shared::cta.bulk_group [%d], [%s], 64",
        [(R, S, "%s", 64, False), (W, G, "%d", 64, False)],
        "bulk",
        None,
    ),
    (
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%d], {%r1,%r2,%r3,%r4}, [%m]",
        [(W, C, "%d", 16, False)],
        "mbarrier",
        "%m",
    ),
    (
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%d], %r1, [%m]",
        [(A, C, "%d", 4, False)],
        "mbarrier",
        "%m",
    ),
    (
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%d], [%m]",
        [(W, S, "%d", 16, False)],
        "mbarrier",
        "%m",
    ),
]


@pytest.mark.parametrize(("text", "sides", "group", "barrier"), COPIES)
def test_asynchronous_copies(
    event: Make, text: str, sides: list[tuple[object, ...]], group: str, barrier: str | None
) -> None:
    found = event(text + ";")
    assert found.kind is EventKind.ASYNC_COPY
    assert found.group == group
    assert found.barrier == ((Reg(barrier),) if barrier else ())
    shown = [(a.direction, a.space, a.address[0].name, a.bytes, a.tensormap) for a in found.accesses]  # type: ignore[union-attr]
    assert shown == sides


def test_tensor_prefetch_is_quiet(event: Make) -> None:
    found = event("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%a, {%r1, %r2}];")
    assert found.kind is EventKind.ACCESS
    assert (found.accesses[0].direction, found.accesses[0].tensormap) == (P, True)


@pytest.mark.parametrize(
    ("text", "kind", "fields"),
    [
        ("griddepcontrol.wait", EventKind.GRID_WAIT, {}),
        ("griddepcontrol.launch_dependents", EventKind.GRID_TRIGGER, {}),
        ("cp.async.commit_group", EventKind.ASYNC_COMMIT, {"group": "cp.async"}),
        ("cp.async.wait_group 3", EventKind.ASYNC_WAIT, {"group": "cp.async", "pending": 3, "read_only": False}),
        ("cp.async.wait_all", EventKind.ASYNC_WAIT, {"group": "cp.async", "pending": 0}),
        ("cp.async.bulk.commit_group", EventKind.ASYNC_COMMIT, {"group": "bulk"}),
        ("cp.async.bulk.wait_group 0", EventKind.ASYNC_WAIT, {"group": "bulk", "pending": 0, "read_only": False}),
        ("cp.async.bulk.wait_group.read 1", EventKind.ASYNC_WAIT, {"group": "bulk", "pending": 1, "read_only": True}),
        (
            "cp.async.bulk.wait_group.sync_restrict::proxy::async 1",
            EventKind.ASYNC_WAIT,
            {"group": "bulk", "pending": 1, "read_only": True},
        ),
        ("wgmma.commit_group.sync.aligned", EventKind.ASYNC_COMMIT, {"group": "wgmma"}),
        ("wgmma.wait_group.sync.aligned 0", EventKind.ASYNC_WAIT, {"group": "wgmma", "pending": 0}),
        (
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, %rd1, %rd2, 1, 1, 1, 0, 0",
            EventKind.ASYNC_READ,
            {"group": "wgmma"},
        ),
        ("tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1", EventKind.ASYNC_READ, {"group": "tcgen05"}),
        ("tcgen05.cp.cta_group::1.128x256b [%r1], %rd1", EventKind.ASYNC_READ, {"group": "tcgen05"}),
        (
            "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r3]",
            EventKind.TENSOR_LOAD,
            {"group": "tcgen05.ld"},
        ),
        ("tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {%r1}", EventKind.TENSOR_STORE, {"group": "tcgen05.st"}),
        ("tcgen05.wait::ld.sync.aligned", EventKind.ASYNC_WAIT, {"group": "tcgen05.ld", "pending": 0}),
        ("tcgen05.wait::st.sync.aligned", EventKind.ASYNC_WAIT, {"group": "tcgen05.st", "pending": 0}),
        (
            "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%a]",
            EventKind.MBARRIER_ARRIVE,
            {"group": "tcgen05", "barrier": (Reg("%a"),)},
        ),
        (
            "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%a]",
            EventKind.MBARRIER_ARRIVE,
            {"group": "cp.async", "barrier": (Reg("%a"),)},
        ),
        (
            "mbarrier.init.shared::cta.b64 [%a+8], 32",
            EventKind.MBARRIER_INIT,
            {"barrier": (Reg("%a"), Const(8)), "thread_count": Const(32)},
        ),
        (
            "mbarrier.arrive.shared::cta.b64 %rd1, [%a]",
            EventKind.MBARRIER_ARRIVE,
            {"barrier": (Reg("%a"),), "order": Order.RELEASE, "scope": Scope.CTA},
        ),
        (
            "mbarrier.arrive.expect_tx.relaxed.cluster.shared::cluster.b64 _, [%a], 128",
            EventKind.MBARRIER_ARRIVE,
            {"barrier": (Reg("%a"),), "order": Order.RELAXED, "scope": Scope.CLUSTER},
        ),
        ("mbarrier.arrive_drop.shared.b64 _, [%a]", EventKind.MBARRIER_ARRIVE, {"barrier": (Reg("%a"),)}),
        (
            "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%a], 16",
            EventKind.MBARRIER_ARRIVE,
            {"order": Order.RELAXED},
        ),
        (
            "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%a], %r1, 0x989680",
            EventKind.MBARRIER_WAIT,
            {"barrier": (Reg("%a"),), "parity": Reg("%r1"), "result": Reg("%p1"), "order": Order.ACQUIRE},
        ),
        (
            "mbarrier.test_wait.relaxed.cluster.shared.b64 %p1, [%a], %rd1",
            EventKind.MBARRIER_WAIT,
            {"parity": None, "result": Reg("%p1"), "order": Order.RELAXED, "scope": Scope.CLUSTER},
        ),
        ("bar.warp.sync -1", EventKind.WARP_BARRIER, {}),
        (
            "bar.sync 0",
            EventKind.BARRIER,
            {"barrier": (Const(0),), "thread_count": None, "arrives": True, "waits": True, "aligned": True},
        ),
        (
            "barrier.sync %r1, 128",
            EventKind.BARRIER,
            {"barrier": (Reg("%r1"),), "thread_count": Const(128), "aligned": False},
        ),
        ("barrier.cta.sync.aligned 3", EventKind.BARRIER, {"barrier": (Const(3),), "aligned": True}),
        (
            "bar.arrive 2, 64",
            EventKind.BARRIER,
            {"barrier": (Const(2),), "thread_count": Const(64), "arrives": True, "waits": False},
        ),
        (
            "barrier.cta.red.popc.aligned.u32 %r1, 4, 256, !%p1",
            EventKind.BARRIER,
            {"barrier": (Const(4),), "thread_count": Const(256), "waits": True},
        ),
        ("bar.red.and.pred %p1, 1, %p2", EventKind.BARRIER, {"barrier": (Const(1),), "thread_count": None}),
        (
            "barrier.cluster.arrive.release.aligned",
            EventKind.CLUSTER_BARRIER,
            {"arrives": True, "waits": False, "order": Order.RELEASE},
        ),
        ("barrier.cluster.arrive.relaxed", EventKind.CLUSTER_BARRIER, {"order": Order.RELAXED, "aligned": False}),
        (
            "barrier.cluster.wait.acquire.aligned",
            EventKind.CLUSTER_BARRIER,
            {"arrives": False, "waits": True, "order": Order.ACQUIRE},
        ),
        ("fence.acq_rel.gpu", EventKind.FENCE, {"order": Order.ACQ_REL, "scope": Scope.GPU}),
        ("fence.sc.cta", EventKind.FENCE, {"order": Order.SC, "scope": Scope.CTA}),
        ("membar.gl", EventKind.FENCE, {"order": Order.SC, "scope": Scope.GPU}),
        ("membar.sys", EventKind.FENCE, {"order": Order.SC, "scope": Scope.SYS}),
        (
            "fence.mbarrier_init.release.cluster",
            EventKind.FENCE,
            {"order": Order.RELEASE, "scope": Scope.CLUSTER},
        ),
        (
            "fence.acquire.sync_restrict::shared::cluster.cluster",
            EventKind.FENCE,
            {"order": Order.ACQUIRE, "scope": Scope.CLUSTER},
        ),
        ("fence.proxy.async", EventKind.PROXY_FENCE, {"proxy": "async"}),
        ("fence.proxy.async.shared::cta", EventKind.PROXY_FENCE, {"proxy": "async.shared::cta"}),
        ("fence.proxy.async.global", EventKind.PROXY_FENCE, {"proxy": "async.global"}),
        ("fence.proxy.alias", EventKind.PROXY_FENCE, {"proxy": "alias"}),
        (
            "fence.proxy.tensormap::generic.acquire.gpu [%a], 128",
            EventKind.PROXY_FENCE,
            {"proxy": "tensormap", "order": Order.ACQUIRE, "scope": Scope.GPU},
        ),
        (
            "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster",
            EventKind.PROXY_FENCE,
            {"proxy": "async", "order": Order.RELEASE},
        ),
        ("fence.alias.sync_restrict::read.release.sys", EventKind.PROXY_FENCE, {"proxy": "alias"}),
        ("call vprintf, (%r1)", EventKind.CALL, {"name": "vprintf"}),
        ("call (%r1), %rd1, (%r2), proto", EventKind.CALL, {"name": "%rd1"}),
        ("exit", EventKind.EXIT, {}),
        ("cp.async.bulk.teleport [%a]", EventKind.UNKNOWN, {}),
        ("wgmma.dance", EventKind.UNKNOWN, {}),
        ("tcgen05.dance", EventKind.UNKNOWN, {}),
        ("fence.proxy.warp", EventKind.UNKNOWN, {}),
        ("griddepcontrol.maybe", EventKind.UNKNOWN, {}),
        ("barrier.cluster.leave", EventKind.UNKNOWN, {}),
        ("clusterlaunchcontrol.dance", EventKind.UNKNOWN, {}),
        ("tensormap.dance [%a]", EventKind.UNKNOWN, {}),
        ("multimem.dance [%a]", EventKind.UNKNOWN, {}),
        ("st.global.sideways.b32 [%a], %r1", EventKind.UNKNOWN, {}),
    ],
)
def test_ordering(event: Make, text: str, kind: EventKind, fields: dict[str, object]) -> None:
    found = event(text + ";")
    assert found.kind is kind
    assert found.opcode == text.split()[0].rstrip(";")
    assert {name: getattr(found, name) for name in fields} == fields


@pytest.mark.parametrize(
    "text",
    [
        "mbarrier.pending_count.b64 %r1, %rd1",
        "wgmma.fence.sync.aligned",
        "tcgen05.fence::before_thread_sync",
        "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned",
        "setmaxnreg.dec.sync.aligned.u32 40",
        "nanosleep.u32 20",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2}, {%r3}, {%f1,%f2,%f3,%f4}",
        "elect.sync _|%p1, -1",
        "redux.sync.add.s32 %r1, %r2, -1",
        "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %rq1",
        "createpolicy.fractional.L2::evict_first.b64 %rd1, 1.0",
        "ld.param.u64 %rd1, [x]",
        "dp4a.u32.u32 %r1, %r2, %r3, %r4",
        "vadd4.u32.u32.u32 %r1, %r2, %r3, %r4",
        "txq.width.b32 %r1, [%rd1]",
        "fabric.submit",
    ],
)
def test_quiet_instructions(kernel: Kernel, text: str) -> None:
    program = kernel(text + ";")
    assert [e.kind for e in program.events] == [EventKind.EXIT]
    assert program.unknown == {}


def test_publishing_a_tensor_map(event: Make) -> None:
    found = event(
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%a], [%b], 128;"
    )
    assert (found.proxy, found.order, found.scope) == ("tensormap", Order.RELEASE, Scope.GPU)
    assert [(a.direction, a.space, a.address) for a in found.accesses] == [(W, G, (Reg("%a"),))]
