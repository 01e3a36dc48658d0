"""Shared memory between the generic proxy, asynchronous copies and the async proxy.

Regions are told apart by base and first constant byte: a region that is indexed by something that varies starts at its
constant part and ends where the next one starts. Where the base is not known nothing is claimed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from validator.ordering.program import Access, Direction, Event, EventKind, Op, Operand, Operation, Reg, Space
from validator.ordering.provenance import Root

if TYPE_CHECKING:
    from validator.ordering.dataflow import Flow
    from validator.ordering.facts import Facts

__all__ = ["Region", "Shared", "SharedAccess", "comes_of_mapa"]

_SHARED = (Space.SHARED, Space.CLUSTER)
_MAYBE_SHARED = (*_SHARED, Space.GENERIC)
"""Pointers that were aligned by hand are generic to the compiler."""
_KEEPS = (Op.COPY, Op.ADD, Op.PACK, Op.EXTRACT)
_STEPS = 64
"""Values looked through behind one address."""


def _wrapped(offset: int) -> int:
    """Shared addresses have 32 bits: -16 that was added as 2^32 - 16, with the carry in another register, is -16."""
    return (offset + (1 << 31)) % (1 << 32) - (1 << 31)


@dataclass(frozen=True, slots=True)
class Region:
    root: Root
    offset: int
    bytes: int | None
    """None when something that varies is added to `offset`."""


@dataclass(frozen=True, slots=True)
class SharedAccess:
    """One side of an event that touches shared memory."""

    event: Event
    access: Access
    region: Region
    remote: bool = False
    """The address was mapped into another CTA of the cluster."""


class Shared:
    """Shared-memory accesses of one kernel, by region."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def _all(self, direction: Direction, *kinds: EventKind) -> Iterator[SharedAccess]:
        facts = self.facts
        for event in facts.program.events:
            if event.kind not in kinds:
                continue
            for access in event.accesses:
                if access.direction is direction and access.space in _MAYBE_SHARED and facts.masks.executing(event):
                    region = self._region(event, access)
                    if region is not None and (access.space in _SHARED or region.root[:2] == ("symbol", Space.SHARED)):
                        yield SharedAccess(event, access, region, self._mapped(event, access))

    def _mapped(self, event: Event, access: Access) -> bool:
        """Whether an address comes out of `mapa`, with constants added at most."""
        far = access.space is Space.CLUSTER
        return far and comes_of_mapa(self.facts.flow, access.address, event.index, _KEEPS, _STEPS)

    def _region(self, event: Event, access: Access) -> Region | None:
        sources = self.facts.provenance.sum(access.address, event.index) if access.address else ()
        roots = {s.root for s in sources if not s.is_number} or {s.root for s in sources}
        if len(roots) != 1 or any(s.is_unresolved or s.chain for s in sources):
            return None
        root = roots.pop()
        if root[0] not in ("symbol", "number"):
            return None
        mine = [s for s in sources if s.root == root]
        exact = len(mine) == 1 and mine[0].exact
        return Region(root, min(_wrapped(s.offset) for s in mine), access.bytes if exact else None)

    @cached_property
    def copies(self) -> list[SharedAccess]:
        """Asynchronous copies into shared memory."""
        return list(self._all(Direction.WRITE, EventKind.ASYNC_COPY))

    @cached_property
    def reads(self) -> list[SharedAccess]:
        """Plain reads of shared memory."""
        return list(self._all(Direction.READ, EventKind.ACCESS))

    @cached_property
    def writes(self) -> list[SharedAccess]:
        """Plain writes of shared memory (generic proxy)."""
        return list(self._all(Direction.WRITE, EventKind.ACCESS))

    @cached_property
    def async_reads(self) -> list[SharedAccess]:
        """Reads of shared memory through the async proxy: bulk and tensor stores, wgmma, tcgen05."""
        return list(self._all(Direction.READ, EventKind.ASYNC_COPY, EventKind.ASYNC_READ))

    @cached_property
    def stores(self) -> list[SharedAccess]:
        """Sources of bulk and tensor stores."""
        return [r for r in self.async_reads if r.event.kind is EventKind.ASYNC_COPY and r.event.group == "bulk"]

    @property
    def by_descriptor(self) -> list[tuple[Event, None]]:
        """Asynchronous reads whose place is packed in a descriptor."""
        return [
            (event, None)
            for event in self.facts.events(EventKind.ASYNC_READ)
            if any(a.direction is Direction.READ and not a.address for a in event.accesses)
        ]

    @cached_property
    def _starts(self) -> dict[Root, list[int]]:
        result: dict[Root, set[int]] = {}
        for item in (*self.copies, *self.writes):
            result.setdefault(item.region.root, set()).add(item.region.offset)
        return {root: sorted(starts) for root, starts in result.items()}

    def part(self, region: Region) -> tuple[Root, int]:
        """Base and first byte of the written part that a region lies in."""
        starts = self._starts.get(region.root, [])
        position = bisect_right(starts, region.offset)
        return region.root, starts[position - 1] if position else region.offset

    def first_from(self, region: Region) -> int | None:
        """Where the first written part starts that does not start before a region does."""
        starts = self._starts.get(region.root, [])
        position = bisect_left(starts, region.offset)
        return starts[position] if position < len(starts) else None

    def meet(self, a: Region, b: Region) -> bool:
        """Whether two regions are, as far as can be told, the same part of shared memory."""
        if a.root != b.root:
            return False
        if a.bytes is not None and b.bytes is not None:
            return a.offset < b.offset + b.bytes and b.offset < a.offset + a.bytes
        return self.part(a) == self.part(b)


def comes_of_mapa(flow: Flow, address: Iterable[Operand], index: int, through: Collection[Op], steps: int) -> bool:
    """Whether an address that instruction `index` uses comes out of `mapa`, through nothing but these operations; of at
    most so many values that is looked up."""
    stack = [(operand, index) for operand in address]
    seen: set[tuple[Operand, int]] = set()
    while stack and len(seen) < steps:
        operand, place = stack.pop()
        if (operand, place) in seen:
            continue
        seen.add((operand, place))
        if isinstance(operand, Operation):
            if operand.op is Op.MAPA:
                return True
            stack += [(arg, place) for arg in operand.args if operand.op in through]
        elif isinstance(operand, Reg):
            sites = flow.reach(operand, place, flow.program.guard(place))
            stack += [(flow.program.operation(site, operand), site) for site in sites]
    return False
