"""Instructions that order memory: grid dependency, barriers, mbarriers, fences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from validator.ordering.program import Access, Direction, Event, EventKind, Order, Scope, Space
from validator.ordering.ptx.accesses import strength
from validator.ordering.ptx.form import Builder, Family, Form, Meaning, Unknown, make_event

if TYPE_CHECKING:
    from validator.ordering.ptx.statement import Statement

__all__ = ["SYNCHRONIZATION"]


def _simple(kind: EventKind) -> Builder:
    return lambda statement: make_event(statement, kind)


def _grid(form: Form) -> Meaning:
    step = form.words[1:]
    if step == ("wait",):
        return 0, _simple(EventKind.GRID_WAIT)
    if step == ("launch_dependents",):
        return 0, _simple(EventKind.GRID_TRIGGER)
    raise Unknown("variant of griddepcontrol is not known")


def _cta_barrier(statement: Statement) -> Event:
    """barrier{.cta}.sync a{, b} · .arrive a, b · .red.popc d, a{, b}, {!}c · .red.and p, a{, b}, {!}c"""
    form = statement.form
    event = make_event(statement, EventKind.BARRIER)
    operands = statement.operands[1:-1] if form.writes else statement.operands
    event.barrier = (statement.value(operands[0]),) if operands else ()
    event.thread_count = statement.value(operands[1]) if len(operands) > 1 else None
    event.waits = "arrive" not in form.mods
    event.aligned = form.base == "bar" or "aligned" in form.mods
    event.order, event.scope = Order.ACQ_REL, Scope.CTA
    return event


def _cluster_barrier(statement: Statement) -> Event:
    """barrier.cluster.arrive{.release|.relaxed} · barrier.cluster.wait{.acquire}"""
    form = statement.form
    event = make_event(statement, EventKind.CLUSTER_BARRIER)
    event.arrives = "arrive" in form.mods
    event.waits = "wait" in form.mods
    event.aligned = "aligned" in form.mods
    event.order = form.order or (Order.RELEASE if event.arrives else Order.ACQUIRE)
    event.scope = Scope.CLUSTER
    return event


def _barrier(form: Form) -> Meaning:
    if form.words[1:] == ("warp", "sync"):
        return 0, _simple(EventKind.WARP_BARRIER)
    if form.words[1:2] == ("cluster",):
        if form.words[2:3] in (("arrive",), ("wait",)):
            return 0, _cluster_barrier
        raise Unknown("variant of barrier.cluster is not known")
    words = form.words[2:] if form.words[1:2] == ("cta",) else form.words[1:]
    if words[:1] == ("red",):
        return 1, _cta_barrier
    if words[:1] in (("sync",), ("arrive",)):
        return 0, _cta_barrier
    raise Unknown(f"variant of {form.base} is not known")


def _mbarrier_init(statement: Statement) -> Event:
    event = make_event(statement, EventKind.MBARRIER_INIT)
    event.barrier = statement.address()
    event.thread_count = statement.operand(1, 32)
    return event


def _mbarrier_inval(statement: Statement) -> Event:
    """mbarrier.inval makes the 8 bytes plain memory again."""
    event = make_event(statement, EventKind.ACCESS)
    event.accesses = (Access(Direction.WRITE, Space.SHARED, statement.address(), 8),)
    return event


def _mbarrier_arrive(statement: Statement) -> Event:
    event = make_event(statement, EventKind.MBARRIER_ARRIVE)
    event.barrier = statement.address()
    event.announces = "expect_tx" in statement.form.words
    event.arrives = statement.form.words[1] != "expect_tx"
    if event.announces:
        event.amount = statement.operand(len(statement.operands) - 1, 32)
    elif len(statement.operands) > 2:
        event.thread_count = statement.operand(2, 32)
    return strength(event, statement.form, Order.RELEASE, Scope.CTA)


def _mbarrier_complete(statement: Statement) -> Event:
    event = _mbarrier_arrive(statement)
    event.order = Order.RELAXED
    return event


def _mbarrier_wait(statement: Statement) -> Event:
    """test_wait / try_wait: waitComplete{|predicate}, [addr], state | parity {, hint}"""
    form = statement.form
    event = make_event(statement, EventKind.MBARRIER_WAIT)
    event.barrier = statement.address()
    destinations = statement.destinations()
    event.result = destinations[0] if destinations else None
    if "parity" in form.mods:
        event.parity = statement.operand(2, 32)
    return strength(event, form, Order.ACQUIRE, Scope.CTA)


def _mbarrier(form: Form) -> Meaning:
    step = form.words[1] if len(form.words) > 1 else ""
    if step == "init":
        return 0, _mbarrier_init
    if step == "inval":
        return 0, _mbarrier_inval
    if step in ("arrive", "arrive_drop"):
        return 1, _mbarrier_arrive
    if step == "complete_tx":
        return 0, _mbarrier_complete
    if step in ("test_wait", "try_wait"):
        return 1, _mbarrier_wait
    if step == "expect_tx":
        return 0, _mbarrier_arrive
    if step == "pending_count":
        return 1, None
    raise Unknown("variant of mbarrier is not known")


def _fence_event(statement: Statement) -> Event:
    event = make_event(statement, EventKind.FENCE)
    default = Order.SC if statement.form.base == "membar" else Order.ACQ_REL
    event.order = statement.form.order or default
    event.scope = statement.form.scope or Scope.GPU
    return event


def _proxy_fence_event(statement: Statement) -> Event:
    form = statement.form
    event = make_event(statement, EventKind.PROXY_FENCE)
    words = [word for word in form.words[2:] if word in ("global", "shared::cta", "shared::cluster")]
    family = form.words[2].partition("::")[0] if len(form.words) > 2 else ""
    event.proxy = ".".join((family, *words)) if family == "async" else family
    event.order = form.order or Order.ACQ_REL
    event.scope = form.scope or Scope.CTA
    return event


def _alias_fence_event(statement: Statement) -> Event:
    """fence.alias orders accesses to the same memory under another name, and nothing else."""
    event = make_event(statement, EventKind.PROXY_FENCE)
    event.proxy = "alias"
    event.order = statement.form.order or Order.ACQ_REL
    event.scope = statement.form.scope or Scope.GPU
    return event


def _fence(form: Form) -> Meaning:
    if form.words[1:2] == ("proxy",):
        family = form.words[2].partition("::")[0] if len(form.words) > 2 else ""
        if family not in ("async", "alias", "tensormap"):
            raise Unknown("proxy fence of an unknown proxy")
        return 0, _proxy_fence_event
    if form.words[1:2] == ("alias",):
        return 0, _alias_fence_event
    if form.words[1:2] == ("mbarrier_init",) or form.scope is not None:
        return 0, _fence_event
    raise Unknown(f"variant of {form.base} is not known")


SYNCHRONIZATION: dict[str, Family] = {
    "griddepcontrol": _grid,
    "bar": _barrier,
    "barrier": _barrier,
    "mbarrier": _mbarrier,
    "fence": _fence,
    "membar": _fence,
}
"""Base opcode → family."""
