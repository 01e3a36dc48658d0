"""What goes wrong with a stage of shared memory, and what a step of a thread does to one."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from validator.ordering.program import Direction, Event, EventKind, Order, Space
from validator.ordering.traces import Step, Thread

__all__ = [
    "UNSEEN",
    "Fault",
    "Kind",
    "Verdict",
    "is_access",
    "known_done",
    "least_size",
    "orders",
    "size_of",
    "to_several",
]

_UNKNOWN_SIZE = 16
"""Bytes that a copy fills at least, where nothing says how many."""
_TO_SEVERAL = ("multicast", "broadcast")
UNSEEN = (EventKind.CALL, EventKind.UNKNOWN)
"""What is not looked into."""


class Kind(Enum):
    REFILLED = "is filled again"
    """With nothing between that readers arrive at."""
    RELEASED = "is handed back"
    """The readers arrive before they have read."""
    STALE = "is read behind a wait for a phase that is over already"
    UNWAITED = "is read before the wait"
    RACED = "is filled again in no order with reads"
    """Told where nothing else shows why."""
    CROWDED = "is handed back by the first readers"
    UNFINISHED = "is handed over before it is done"
    SHORT = "counts fewer bytes"
    SOURCE = "is overwritten"
    MULTIPLIED = "is handed back while it is multiplied"


class Fault(NamedTuple):
    kind: Kind
    copy: int
    """Instruction that fills the memory, or stores from it."""
    other: int
    """The read, the write, or the copy that is not counted."""


_Verdict = tuple[Fault, bool]


Verdict = tuple[Fault, bool]
"""(what to look at, whether it is wrong in this launch)."""


def known_done(thread: Thread, copy: int) -> int | None:
    """Position of the wait behind which a copy of a group is done, or has read its source; None: there is none."""
    kind = thread.steps[copy].event.group
    committed = 0
    group: int | None = None
    for k, step in enumerate(thread.steps):
        event = step.event
        if k == copy:
            group = committed
        elif event.group not in (kind, None):
            continue
        elif event.kind is EventKind.ASYNC_COMMIT:
            committed += 1
        elif event.kind is EventKind.ASYNC_WAIT and group is not None:
            over = group < committed - (event.pending or 0) or "wait_all" in event.opcode
            if over:
                return k
    return None


def to_several(copy: Event) -> bool:
    return any(word in copy.opcode.lower() for word in _TO_SEVERAL)


def orders(event: Event) -> bool:
    """Whether an access may be the reading half of a handshake."""
    reads = any(a.direction in (Direction.READ, Direction.ATOMIC) for a in event.accesses)
    return event.kind is EventKind.ACCESS and reads and event.order is not Order.WEAK


def is_access(step: Step, kind: EventKind, direction: Direction) -> bool:
    inside = (Space.SHARED, Space.CLUSTER, Space.GENERIC)
    found = step.event.kind is kind and step.place is not None
    return found and any(a.direction is direction and a.space in inside for a in step.event.accesses)


def size_of(step: Step, places: Sequence[int]) -> int:
    """Bytes that a copy fills or stores; where nothing says it, the least distance between two stages."""
    if step.amount:
        return step.amount
    sides = [a.bytes for a in step.event.accesses if a.bytes and a.space is not Space.GLOBAL]
    gaps = [b - a for a, b in pairwise(places)]
    return sides[0] if sides else min(gaps, default=_UNKNOWN_SIZE)


def least_size(step: Step) -> int:
    """Bytes that a copy fills for sure."""
    sides = [a.bytes for a in step.event.accesses if a.bytes and a.space is not Space.GLOBAL]
    return step.amount or next(iter(sides), _UNKNOWN_SIZE)
