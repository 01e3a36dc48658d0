"""What stores leave in memory, kept by place: the same as asking every store anew, whatever changed in between."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from validator.ordering.program import Access, Const, Direction, Event, EventKind, Reg, Space
from validator.ordering.provenance import Source
from validator.ordering.slices import Node
from validator.ordering.stored import Stored

ROOTS: tuple[tuple[str, str, str], ...] = (("symbol", "shared", "a"), ("symbol", "shared", "b"))


@dataclass
class Memory:
    """Stores whose places and values are looked up by node, as a solver does."""

    stores: list[tuple[Event, Access]]
    known: dict[Node, frozenset[Source]] = field(default_factory=dict)
    asked: int = 0

    def nodes(self, event: Event, access: Access) -> list[Node]:
        return [(event.index, Reg("address")), *((event.index, Reg(f"v{k}")) for k in range(len(event.value)))]

    def found(self, event: Event, access: Access) -> tuple[frozenset[Source], list[frozenset[Source]]]:
        self.asked += 1
        place, *values = (self.known.get(node, frozenset()) for node in self.nodes(event, access))
        return place, values

    def directly(self, address: frozenset[Source], part: int) -> tuple[bool, set[Source]]:
        """Every store asked, one after the other."""
        exact = all(s.exact for s in address)
        where = {(s.root, s.offset + part) for s in address}
        hit, result = False, set[Source]()
        for event, access in self.stores:
            places, values = self.found(event, access)
            size = (access.bytes or 0) // len(event.value)
            for number, value in enumerate(values):
                if exact and all(s.exact for s in places):
                    meets = any((s.root, s.offset + number * size) in where for s in places)
                else:
                    meets = bool({s.root for s in places} & {s.root for s in address})
                hit |= meets
                result |= value if meets else frozenset()
        return hit, result


def memory(count: int) -> Memory:
    access = Access(Direction.WRITE, Space.SHARED, (Reg("address"),), 16)
    value = (Const(0), Const(0))
    return Memory([(Event(EventKind.ACCESS, i, "STS.128", (access,), value=value), access) for i in range(count)])


def places(draw: random.Random) -> frozenset[Source]:
    made = (Source(draw.choice(ROOTS), 8 * draw.randrange(3), draw.random() < 0.7) for _ in range(draw.randrange(3)))
    return frozenset(made)


def pointers(draw: random.Random) -> frozenset[Source]:
    return frozenset(Source(("param", 8 * draw.randrange(6))) for _ in range(draw.randrange(3)))


@pytest.mark.parametrize("seed", range(40))
def test_same_as_asking_every_store(seed: int) -> None:
    draw = random.Random(seed)
    here = memory(6)
    stored: Stored = Stored(here.stores, here.nodes, here.found)
    for _ in range(60):
        node = draw.choice(stored.inputs)
        here.known[node] = places(draw) if node[1].name == "address" else pointers(draw)
        stored.changed(node)
        address, part = places(draw), 8 * draw.randrange(2)
        assert stored.at(address, part) == here.directly(address, part)


def test_only_what_changed_is_worked_out_again() -> None:
    here = memory(50)
    stored: Stored = Stored(here.stores, here.nodes, here.found)
    address = frozenset((Source(ROOTS[0]),))
    stored.at(address, 0)
    here.asked = 0
    here.known[7, Reg("v0")] = frozenset((Source(("param", 0)),))
    stored.changed((7, Reg("v0")))
    stored.changed((7, Reg("elsewhere")))
    assert stored.at(address, 0) == stored.at(address, 0)
    assert here.asked == 1
