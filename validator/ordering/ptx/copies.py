"""Asynchronous work: cp.async, bulk and tensor copies, tensor maps, wgmma, tcgen05, cluster launch control."""

from __future__ import annotations

from typing import TYPE_CHECKING

from validator.ordering.program import Access, Const, Direction, Event, EventKind, Operand, Order, Scope, Space
from validator.ordering.ptx.accesses import ACCESSES, space_of, strength
from validator.ordering.ptx.form import Builder, Family, Form, Meaning, Unknown, make_event

if TYPE_CHECKING:
    from validator.ordering.ptx.statement import Statement

__all__ = ["COPIES"]


def constant(operand: Operand) -> int | None:
    """The operand's value when it is a literal."""
    return operand.value if isinstance(operand, Const) else None


def commit(group: str) -> Builder:
    """Builder of a commit of the open group."""

    def build(statement: Statement) -> Event:
        event = make_event(statement, EventKind.ASYNC_COMMIT)
        event.group = group
        return event

    return build


def wait(group: str, everything: bool = False) -> Builder:
    """Builder of a wait for all but the last `n` groups (operand 0), or for all of them.

    A wait that only the async proxy may rely on is no more to this thread than a wait for the reads.
    """

    def build(statement: Statement) -> Event:
        event = make_event(statement, EventKind.ASYNC_WAIT)
        event.group = group
        event.pending = 0 if everything else constant(statement.operand(0))
        event.read_only = "read" in statement.form.mods or "sync_restrict::proxy::async" in statement.form.mods
        return event

    return build


def arrival(group: str | None = None) -> Builder:
    """Builder of an arrival at the first bracketed mbarrier once earlier asynchronous work is done."""

    def build(statement: Statement) -> Event:
        event = make_event(statement, EventKind.MBARRIER_ARRIVE)
        event.barrier = statement.address()
        event.group = group
        event.order, event.scope = (
            Order.RELEASE,
            Scope.CLUSTER if "multicast::cluster" in statement.form.mods else Scope.CTA,
        )
        return event

    return build


def _element_copy(statement: Statement) -> Event:
    """cp.async.ca.shared.global [dst], [src], bytes"""
    event = make_event(statement, EventKind.ASYNC_COPY)
    size = next((constant(statement.value(text)) for text in statement.operands if text[:1] != "["), None)
    event.accesses = (
        Access(Direction.READ, Space.GLOBAL, statement.address(1), size),
        Access(Direction.WRITE, Space.SHARED, statement.address(0), size),
    )
    event.group = "cp.async"
    return event


def _bulk(statement: Statement) -> Event:
    """cp.async.bulk, cp.reduce.async.bulk and their tensor forms, in every direction"""
    form = statement.form
    event = make_event(statement, EventKind.ASYNC_COPY)
    tensor = "tensor" in form.mods
    into, source = space_of(form, 0), space_of(form, 1)
    if not tensor:
        event.amount = next((statement.value(text, 32) for text in statement.operands if text[:1] != "["), None)
    size = None if event.amount is None else constant(event.amount)
    write = Direction.ATOMIC if "reduce" in form.mods else Direction.WRITE
    event.accesses = (
        Access(Direction.READ, source, statement.address(1), size, tensormap=tensor and source is Space.GLOBAL),
        Access(write, into, statement.address(0), size, tensormap=tensor and into is Space.GLOBAL),
    )
    if "bulk_group" in form.mods:
        event.group = "bulk"
    else:
        event.group = "mbarrier"
        event.barrier = statement.address(2)
    return event


def _bulk_prefetch(statement: Statement) -> Event:
    """cp.async.bulk.prefetch.L2.global [src], size and cp.async.bulk.prefetch.tensor [map, {coordinates}]"""
    event = make_event(statement, EventKind.ACCESS)
    tensor = "tensor" in statement.form.mods
    size = None if tensor or not statement.has(1) else constant(statement.operand(1))
    event.accesses = (Access(Direction.PREFETCH, Space.GLOBAL, statement.address(), size, tensormap=tensor),)
    return event


def _cp(form: Form) -> Meaning:
    words = form.words
    if words[1:3] == ("async", "bulk"):
        step = words[3:4]
        if step == ("commit_group",):
            return 0, commit("bulk")
        if step == ("wait_group",):
            return 0, wait("bulk")
        if step == ("prefetch",):
            return 0, _bulk_prefetch
        return _copy(form)
    if words[1:4] == ("reduce", "async", "bulk"):
        return _copy(form)
    if words[1:2] == ("async",):
        step = words[2:3]
        if step == ("commit_group",):
            return 0, commit("cp.async")
        if step == ("wait_group",):
            return 0, wait("cp.async")
        if step == ("wait_all",):
            return 0, wait("cp.async", everything=True)
        if step == ("mbarrier",):
            return 0, arrival("cp.async")
        if step in (("ca",), ("cg",)):
            return 0, _element_copy
    raise Unknown("variant of cp is not known")


def _copy(form: Form) -> Meaning:
    if len(form.spaces) != 2:
        raise Unknown("bulk copy without two state spaces")
    if "bulk_group" not in form.mods and "mbarrier::complete_tx::bytes" not in form.mods:
        raise Unknown("bulk copy with an unknown way to complete")
    return 0, _bulk


def _multimem(form: Form) -> Meaning:
    if form.words[1:2] == ("cp",):
        return _copy(form)
    return ACCESSES["multimem"](form)


def _replace(statement: Statement) -> Event:
    """tensormap.replace writes a field of the 128-byte descriptor."""
    event = make_event(statement, EventKind.ACCESS)
    event.accesses = (Access(Direction.WRITE, space_of(statement.form), statement.address(), 128),)
    return event


def _query(statement: Statement) -> Event:
    """tensormap.query reads the descriptor."""
    event = make_event(statement, EventKind.ACCESS)
    event.accesses = (Access(Direction.READ, space_of(statement.form), statement.address(), 128),)
    return event


def _publish_map(statement: Statement) -> Event:
    """tensormap.cp_fenceproxy copies a descriptor from shared to global memory and releases it there."""
    event = make_event(statement, EventKind.ACCESS)
    event.accesses = (Access(Direction.WRITE, Space.GLOBAL, statement.address(0), 128),)
    event.proxy = "tensormap"
    return strength(event, statement.form, Order.RELEASE, Scope.GPU)


def _tensormap(form: Form) -> Meaning:
    step = form.words[1:2]
    if step == ("replace",):
        return 0, _replace
    if step == ("cp_fenceproxy",):
        return 0, _publish_map
    if step == ("query",):
        return 1, _query
    raise Unknown("variant of tensormap is not known")


def _async_read(group: str) -> Builder:
    """Builder of work that reads shared memory through descriptors (the address is packed inside them)."""

    def build(statement: Statement) -> Event:
        event = make_event(statement, EventKind.ASYNC_READ)
        event.accesses = (Access(Direction.READ, Space.SHARED, (), None),)
        event.group = group
        return event

    return build


def _wgmma(form: Form) -> Meaning:
    step = form.words[1:2]
    if step == ("mma_async",):
        return 1, _async_read("wgmma")
    if step == ("commit_group",):
        return 0, commit("wgmma")
    if step == ("wait_group",):
        return 0, wait("wgmma")
    if step == ("fence",):
        return 0, None
    raise Unknown("variant of wgmma is not known")


def _tensor_alloc(statement: Statement) -> Event:
    """tcgen05.alloc writes the address of the columns it got to shared memory."""
    event = make_event(statement, EventKind.ACCESS)
    space = statement.form.spaces[0] if statement.form.spaces else Space.GENERIC
    event.accesses = (Access(Direction.WRITE, space, statement.address(), 4),)
    event.group = "tcgen05"
    return event


def _tensor_access(kind: EventKind, group: str) -> Builder:
    """Builder of a load or store of tensor memory."""

    def build(statement: Statement) -> Event:
        event = make_event(statement, kind)
        event.group = group
        return event

    return build


def _tcgen05(form: Form) -> Meaning:
    step, _, side = form.words[1].partition("::") if len(form.words) > 1 else ("", "", "")
    if step == "alloc":
        return 0, _tensor_alloc
    if step in ("mma", "cp"):
        return 0, _async_read("tcgen05")
    if step == "commit":
        return 0, arrival("tcgen05")
    if step == "ld":
        return 2 if "red" in form.mods else 1, _tensor_access(EventKind.TENSOR_LOAD, "tcgen05.ld")
    if step == "st":
        return 0, _tensor_access(EventKind.TENSOR_STORE, "tcgen05.st")
    if step == "wait" and side in ("ld", "st"):
        return 0, wait(f"tcgen05.{side}", everything=True)
    if step in ("dealloc", "relinquish_alloc_permit", "shift", "fence"):
        return 0, None
    raise Unknown("variant of tcgen05 is not known")


def _try_cancel(statement: Statement) -> Event:
    """clusterlaunchcontrol.try_cancel writes a 16-byte response to shared memory and signals an mbarrier."""
    event = make_event(statement, EventKind.ASYNC_COPY)
    multicast = "multicast::cluster::all" in statement.form.mods
    space = Space.CLUSTER if multicast else Space.SHARED
    event.accesses = (Access(Direction.WRITE, space, statement.address(0), 16),)
    event.group = "mbarrier"
    event.barrier = statement.address(1)
    return event


def _launch_control(form: Form) -> Meaning:
    step = form.words[1:2]
    if step == ("try_cancel",):
        return 0, _try_cancel
    if step == ("query_cancel",):
        return 1, None
    raise Unknown("variant of clusterlaunchcontrol is not known")


COPIES: dict[str, Family] = {
    "cp": _cp,
    "multimem": _multimem,
    "tensormap": _tensormap,
    "wgmma": _wgmma,
    "tcgen05": _tcgen05,
    "clusterlaunchcontrol": _launch_control,
}
"""Base opcode → family."""
