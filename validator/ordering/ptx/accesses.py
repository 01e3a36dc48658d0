"""Instructions that read or write memory themselves: loads, stores, atomics, prefetches, matrices, surfaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from validator.ordering.program import Access, Direction, Event, EventKind, Operand, Order, Scope, Space
from validator.ordering.ptx.form import Builder, Family, Form, Meaning, Unknown, make_event
from validator.ordering.ptx.lexical import SPACES, TYPE_BITS, words

if TYPE_CHECKING:
    from validator.ordering.ptx.statement import Statement

__all__ = ["ACCESSES", "space_of", "strength"]


_CACHE = ("L1::", "L2::", "level::", "mbarrier::")
_KNOWN = words(
    """
    ca cg cs lu cv wb wt nc unified weak volatile relaxed acquire release acq_rel sc mmio cta cluster gpu sys v2 v4 v8
    noftz and or xor cas exch add inc dec min max popc async bulk
    """
)
"""Modifiers of loads, stores and atomics besides spaces, types and cache hints."""


def understood(family: Family) -> Family:
    """`family`, with every modifier it has never heard of refused."""

    def check(form: Form) -> Meaning:
        for word in form.words[1:]:
            if not (word in SPACES or word in TYPE_BITS or word in _KNOWN or word.startswith(_CACHE)):
                raise Unknown(f"modifier .{word} of {form.base} is not known")
        return family(form)

    return check


def space_of(form: Form, position: int = 0) -> Space:
    """The `position`-th space the opcode names; GENERIC when it names fewer."""
    return form.spaces[position] if position < len(form.spaces) else Space.GENERIC


def strength(event: Event, form: Form, default: Order, scope: Scope | None = None) -> Event:
    """Fill in order and scope from the opcode, with the defaults of the PTX ISA; strong accesses are not movable."""
    event.order = form.order or default
    event.scope = form.scope or scope
    if event.order is Order.VOLATILE or "mmio" in form.mods:
        event.scope = Scope.SYS
    event.movable = event.order is Order.WEAK
    return event


def written(statement: Statement) -> tuple[Operand, ...]:
    """What stands behind the address: the values of a store, the operand of an atomic (cache policies included)."""
    texts = statement.operands
    at = next((k for k, text in enumerate(texts) if text[:1] == "["), len(texts))
    return statement.values(at + 1, statement.form.bits)


def _plain(
    direction: Direction, default: Order = Order.WEAK, size: int | None = None, scope: Scope | None = None
) -> Builder:
    """Builder of an access to the first bracketed operand; `size` in bytes, by default lanes × type."""

    def build(statement: Statement) -> Event:
        form = statement.form
        event = make_event(statement, EventKind.ACCESS)
        count = form.lanes * max(8, form.bits) // 8 if size is None else size
        event.accesses = (Access(direction, space_of(form), statement.address(), count or None),)
        event.noncoherent = "nc" in form.mods or form.base == "ldu"
        event.value = written(statement) if direction in (Direction.WRITE, Direction.ATOMIC) else ()
        return strength(event, form, default, scope)

    return build


def _by_handle(direction: Direction) -> Builder:
    """Builder of an access through a texture or surface: its handle stands for the memory, as a pointer would."""

    def build(statement: Statement) -> Event:
        event = make_event(statement, EventKind.ACCESS)
        event.accesses = (Access(direction, Space.GLOBAL, statement.address(), None),)
        event.noncoherent = direction is Direction.READ and statement.form.base != "suld"
        return event

    return build


_READ, _WRITE = _plain(Direction.READ), _plain(Direction.WRITE)
_ATOMIC = _plain(Direction.ATOMIC, Order.RELAXED, scope=Scope.GPU)
_PREFETCH = _plain(Direction.PREFETCH, size=0)
_ROWS_READ, _ROWS_WRITTEN = _plain(Direction.READ, size=16), _plain(Direction.WRITE, size=16)
_OPEN_READ, _OPEN_WRITE = _plain(Direction.READ, size=0), _plain(Direction.WRITE, size=0)
_MULTIMEM_READ = _plain(Direction.READ, Order.RELAXED, scope=Scope.GPU)
_MULTIMEM_WRITE = _plain(Direction.WRITE, Order.RELAXED, scope=Scope.GPU)


def _unless_parameter(access: Builder) -> Builder:
    """Builder of an access that is data flow, not memory, where it goes to a known byte of parameter space."""
    return lambda statement: None if statement.parameter() is not None else access(statement)


_PARAMETER_READ, _PARAMETER_WRITE = _unless_parameter(_READ), _unless_parameter(_WRITE)


def _load(form: Form) -> Meaning:
    return 1, _PARAMETER_READ if space_of(form) in (Space.PARAM, Space.GENERIC) else _READ


def _store(form: Form) -> Meaning:
    if form.words[1:2] == ("async",):
        return 0, _remote(Direction.WRITE)
    if form.words[1:2] == ("bulk",):
        return 0, _OPEN_WRITE
    return 0, _PARAMETER_WRITE if space_of(form) is Space.PARAM else _WRITE


def _remote(direction: Direction) -> Builder:
    """st.async and red.async: completion is seen at the mbarrier, where one is named."""

    def build(statement: Statement) -> Event:
        form = statement.form
        signals = any(word.startswith("mbarrier") for word in form.words)
        event = make_event(statement, EventKind.ASYNC_COPY if signals else EventKind.ACCESS)
        default = Space.CLUSTER if signals else Space.GLOBAL
        space = form.spaces[0] if form.spaces else default
        size = form.lanes * form.bits // 8
        event.accesses = (Access(direction, space, statement.address(), size),)
        if signals:
            event.group = "mbarrier"
            event.barrier = statement.address(1)
        return strength(event, form, Order.RELAXED, Scope.CLUSTER)

    return build


def _reduction(form: Form) -> Meaning:
    return 0, _remote(Direction.ATOMIC) if form.words[1:2] == ("async",) else _ATOMIC


def _matrix(form: Form) -> Meaning:
    """wmma.load, wmma.store, wmma.mma"""
    step = form.words[1:2]
    if step == ("load",):
        return 1, _OPEN_READ
    if step == ("store",):
        return 0, _OPEN_WRITE
    if step == ("mma",):
        return 1, None
    raise Unknown("variant of wmma is not known")


def _multimem(form: Form) -> Meaning:
    """multimem.ld_reduce, .st, .red (the bulk copies are in `copies`)"""
    step = form.words[1:2]
    if step == ("ld_reduce",):
        return 1, _MULTIMEM_READ
    if step == ("st",):
        return 0, _MULTIMEM_WRITE
    if step == ("red",):
        return 0, _plain(Direction.ATOMIC, Order.RELAXED, scope=Scope.GPU)
    raise Unknown("variant of multimem is not known")


ACCESSES: dict[str, Family] = {
    "ld": understood(_load),
    "ldu": understood(lambda form: (1, _READ)),
    "st": understood(_store),
    "atom": understood(lambda form: (1, _ATOMIC)),
    "red": understood(_reduction),
    "prefetch": lambda form: (0, _PREFETCH),
    "prefetchu": lambda form: (0, _PREFETCH),
    "applypriority": lambda form: (0, _PREFETCH),
    "discard": lambda form: (0, _plain(Direction.WRITE, size=128)),
    "ldmatrix": lambda form: (1, _ROWS_READ),
    "stmatrix": lambda form: (0, _ROWS_WRITTEN),
    "wmma": _matrix,
    "multimem": _multimem,
    "tex": lambda form: (1, _by_handle(Direction.READ)),
    "tld4": lambda form: (1, _by_handle(Direction.READ)),
    "suld": lambda form: (1, _by_handle(Direction.READ)),
    "sust": lambda form: (0, _by_handle(Direction.WRITE)),
    "sured": lambda form: (0, _by_handle(Direction.ATOMIC)),
}
"""Base opcode → family."""
