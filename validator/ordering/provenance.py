"""Where an address comes from: kernel parameters, module variables, the stack, or nowhere that can be told.

The value of a register is a small set of `Source`s. A sum of several values that could each be a pointer keeps the
likeliest base: what went through a pointer conversion or is declared a pointer, before an untyped 8-byte parameter,
before a loaded word. Products and shifted values are never a base. What stays undecided between two is `ambiguous`.

Not seen: a pointer built by integer arithmetic alone, pointers that pass through memory at addresses that vary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from validator.ordering.dataflow import Flow
from validator.ordering.program import (
    Access,
    Const,
    Direction,
    Event,
    EventKind,
    Isa,
    Op,
    Operand,
    Operation,
    Space,
)
from validator.ordering.slices import Node, Solver
from validator.ordering.stored import Stored

__all__ = ["Provenance", "Root", "Source"]

Root = tuple[str, ...] | tuple[str, int] | tuple[str, str, str]
"""("number",) · ("param", byte offset in the block) · ("block", byte offset) · ("symbol", space, name) ·
("unresolved", reason)."""

_LIMIT = 12
"""Sources kept for one value."""
_DEPTH = 4
"""Pointers followed through memory."""

_WINDOW = 1 << 24
"""What the window of a CTA's shared memory is aligned to."""

_BASE, _MAYBE, _HARDLY = 3, 2, 1


class Source(NamedTuple):
    """One thing a value may be based on. A tuple: millions are made and compared."""

    root: Root
    offset: int = 0
    """Constant bytes added to the root."""
    exact: bool = True
    """False when something that varies was added as well."""
    chain: tuple[int | None, ...] = ()
    """Byte offsets at which further pointers were loaded, None where they vary."""
    rank: int = _BASE
    """How likely it is a pointer, 0 to 3."""
    ambiguous: bool = False
    """It was added to another source that is as likely the base."""

    @property
    def is_number(self) -> bool:
        return self.root[0] == "number"

    @property
    def is_unresolved(self) -> bool:
        return self.root[0] == "unresolved"

    @property
    def level(self) -> int:
        return 1 + len(self.chain)


_VARIES = Source(("number",), exact=False, rank=0)
_Set = frozenset[Source]
_NUMBER: _Set = frozenset((_VARIES,))


def _in_shared(source: Source) -> bool:
    return source.root[0] == "symbol" and source.root[1] in (Space.SHARED, Space.CLUSTER)


def _number(value: int) -> _Set:
    return frozenset((Source(("number",), value, rank=0),))


def _unresolved(reason: str) -> Source:
    return Source(("unresolved", reason), rank=_MAYBE, exact=False)


def _capped(items: Iterable[Source]) -> _Set:
    result = frozenset(items)
    if len(result) <= _LIMIT:
        return result
    # Many offsets of few roots say no more than that the offset varies.
    result = frozenset(item._replace(offset=0, exact=False) for item in result)
    if len(result) <= _LIMIT:
        return result
    kept = sorted(result, key=repr)[: _LIMIT - 1]
    return frozenset((*kept, _unresolved("too many possible sources")))


class Provenance(Solver[_Set]):
    """Sources of the addresses of one kernel.

    `rank_of(byte offset)` says how likely the parameter slot at a byte offset of the block is a pointer, 0 to 3
    (contract and declaration together); None when the slot is too small to hold one.
    """

    def __init__(self, flow: Flow, rank_of: Callable[[int], int | None]) -> None:
        super().__init__(flow)
        self._rank_of = rank_of
        self._addresses: dict[tuple[int, int], tuple[Source, ...]] = {}
        self._alignments: dict[Root, int] = {}
        self._spills: dict[Space, Stored] = {}

    # -- questions ---------------------------------------------------------------------------------------------------

    def address(self, event: Event, access: Access) -> tuple[Source, ...]:
        """What the address of an access may be based on, sorted; empty when it is based on nothing but numbers."""
        if not access.address:
            return (_unresolved(f"the address of {event.opcode} is not in the instruction"),)
        found = tuple(s for s in self.sum(access.address, event.index) if not s.is_number)
        # A register reused under a condition may seem to hold a shared address; a global access cannot go there.
        fitting = tuple(s for s in found if access.space is not Space.GLOBAL or s.chain or not _in_shared(s))
        return fitting or found

    def sum(self, operands: Sequence[Operand], index: int) -> tuple[Source, ...]:
        """Sources of the sum of operands of instruction `index`, numbers included, sorted."""
        self.require(operands, index)
        found = self._add([self._operand(o, index) for o in operands])
        return tuple(found) if len(found) < 2 else tuple(sorted(found, key=repr))

    # -- solver ------------------------------------------------------------------------------------------------------

    def inputs(self, node: Node) -> Iterable[Node]:
        index, register = node
        operation = self.program.operation(index, register)
        if operation.op is not Op.LOAD:
            yield from super().inputs(node)
            return
        if not self._may_load_pointer(operation, index):
            return
        for event, access in self._reads(index):
            for operand in access.address:
                yield from self.nodes(operand, index)
            if access.space in (Space.LOCAL, Space.SHARED):
                yield from self._stored(access.space).inputs
            del event

    def evaluate(self, node: Node) -> _Set:
        result = self._value(node)
        self._changed(node)
        return result

    def _value(self, node: Node) -> _Set:
        index, register = node
        return self._operation(self.program.operation(index, register), index)

    def _changed(self, node: Node) -> None:
        for stored in self._spills.values():
            stored.changed(node)

    def evaluate_cycle(self, nodes: list[Node]) -> dict[Node, _Set]:
        members = set(nodes)
        for node in nodes:
            self.known[node] = frozenset()
            self._changed(node)
        for _ in range(8):
            changed = False
            for node in reversed(nodes):
                value = _widened(self._value(node))
                if value != self.known[node]:
                    self.known[node] = _widened(value | self.known[node])
                    self._changed(node)
                    changed = True
            if not changed:
                break
        return {node: self.known[node] for node in members}

    # -- operations --------------------------------------------------------------------------------------------------

    def _operand(self, operand: Operand, index: int) -> _Set:
        if isinstance(operand, Const):
            return _number(operand.value)
        if isinstance(operand, Operation):
            return self._operation(operand, index)
        sites = self.flow.reach(operand, index, self.program.guard(index))
        if len(sites) == 1:
            return self.known.get((sites[0], operand), _NUMBER)
        if not sites:
            return _NUMBER
        return _capped(item for site in sites for item in self.known.get((site, operand), ()))

    def _operation(self, operation: Operation, index: int) -> _Set:
        op, args = operation.op, operation.args
        if op is Op.COPY or op is Op.SHUFFLE or op is Op.MAPA:
            value = self._operand(args[0], index)
            if op is Op.COPY and operation.attr == "cvta":
                return frozenset(s._replace(rank=_BASE) if s.root[0] == "param" or s.chain else s for s in value)
            return value
        if op in (Op.ADD, Op.OR, Op.XOR):
            return self._add([self._operand(arg, index) for arg in args], exact=op is Op.ADD)
        if op is Op.LOP3:
            return self._add([self._operand(arg, index) for arg in args], exact=False)
        if op is Op.SUB:
            return self._subtract(self._operand(args[0], index), self._operand(args[1], index))
        if op is Op.AND:
            return self._masked([self._operand(arg, index) for arg in args])
        if op is Op.SELECT or op in (Op.MIN, Op.MAX):
            return _capped(item for arg in args[:2] for item in self._operand(arg, index))
        if op is Op.PACK:
            return self._operand(args[0], index) if args else _NUMBER
        if op is Op.EXTRACT:
            low = operation.attr[0] if isinstance(operation.attr, tuple) else 0
            return self._operand(args[0], index) if low == 0 else _NUMBER
        if op is Op.MUL or op is Op.SHL:
            return self._scaled(op, operation, index)
        return self._leaf(operation, index)

    def _leaf(self, operation: Operation, index: int) -> _Set:
        op, attr = operation.op, operation.attr
        if op is Op.PARAM and isinstance(attr, tuple):
            return self._indexed(operation, index) if operation.args else self._parameter(int(attr[0]), int(attr[1]))
        if op is Op.PARAM_ADDRESS and isinstance(attr, int):
            return frozenset((Source(("block", attr)),))
        if op is Op.SYMBOL and isinstance(attr, tuple):
            space, name, offset = attr
            return frozenset((Source(("symbol", str(space), str(name)), int(offset)),))
        if op is Op.LOAD:
            return self._loaded(operation, index)
        if op is Op.RETURN:
            return frozenset((_unresolved("returned by a call that is not looked into"),))
        if op is Op.OPAQUE:
            found = {s for arg in operation.args for s in self._operand(arg, index) if not s.is_number and s.rank > 1}
            return _capped(s._replace(exact=False, rank=min(s.rank, _MAYBE)) for s in found) or _NUMBER
        return _NUMBER

    def _parameter(self, offset: int, size: int) -> _Set:
        rank = self._rank_of(offset)
        whole = size >= 8 if self.program.isa is Isa.PTX else offset % 8 == 0
        if rank is None or not whole:
            return _NUMBER
        return frozenset((Source(("param", offset), rank=rank),))

    def _indexed(self, operation: Operation, index: int) -> _Set:
        """A word of the parameter block at an index: known where the index is, else nothing that can be told."""
        offset, size = operation.attr if isinstance(operation.attr, tuple) else (0, 0)
        steps = self._operand(operation.args[0], index)
        if not all(s.is_number and s.exact for s in steps):
            return frozenset((_unresolved("a parameter that is chosen at run time"),))
        return _capped(found for s in steps for found in self._parameter(int(offset) + s.offset, int(size)))

    def _add(self, values: list[_Set], exact: bool = True) -> _Set:
        total = values[0] if values else _number(0)
        for value in values[1:]:
            total = _capped(s for a in total for b in value for s in _sum(a, b, exact))
        return total

    @staticmethod
    def _subtract(left: _Set, right: _Set) -> _Set:
        """Pointer minus number; a difference of two pointers is a number."""
        result: set[Source] = set()
        for a in left:
            for b in right:
                if not b.is_number and not a.is_number and b.rank >= a.rank:
                    result.add(_VARIES)
                else:
                    step = b.offset if b.is_number else 0
                    result.add(a._replace(offset=a.offset - step, exact=a.exact and b.is_number and b.exact))
        return _capped(result)

    def _masked(self, values: list[_Set]) -> _Set:
        """An aligned pointer is still that pointer; a number with known bits stays known."""
        known = [next(iter(v)).offset for v in values if len(v) == 1 and all(s.is_number and s.exact for s in v)]
        if len(known) == len(values):
            result = -1
            for value in known:
                result &= value
            return _number(result)
        step = _step(known[0]) if len(values) == 2 and known else 0
        found = {s for v in values for s in v if not s.is_number and s.rank >= _MAYBE}
        return _capped(self._aligned(s, step) if step else s._replace(exact=False) for s in found) or _NUMBER

    def _aligned(self, source: Source, step: int) -> Source:
        """A pointer rounded down to a multiple of `step`.

        Shared memory that is aligned by hand is a base of its own where the address of the variable is not known
        (PTX), so that what lies at different constant distances from it is told apart.
        """
        if not source.exact or not _in_shared(source) or source.chain:
            return source._replace(exact=False)
        rest = source.offset % step
        if self._alignment(source.root) % step == 0:
            return source._replace(offset=source.offset - rest)
        space, name = str(source.root[1]), str(source.root[-1])
        how = f"aligned to {step}" if rest == step - 1 else f"+{rest} rounded down to a multiple of {step}"
        root = ("symbol", space, f"{name} {how}")
        self._alignments[root] = step
        return source._replace(root=root, offset=source.offset - rest)

    def _alignment(self, root: Root) -> int:
        """What the address of a base is known to be a multiple of; that of the window that machine code adds to."""
        return self._alignments.get(root, 1 if root[-1] else _WINDOW)

    def _scaled(self, op: Op, operation: Operation, index: int) -> _Set:
        values = [self._operand(arg, index) for arg in operation.args[:2]]
        single = [next(iter(v)) for v in values if len(v) == 1]
        if len(single) == 2 and all(s.is_number and s.exact for s in single):
            a, b = single[0].offset, single[1].offset
            if op is Op.MUL:
                return _number(a * b)
            return _number(a << b) if 0 <= b < 64 else _NUMBER
        if len(single) == 2 and op is Op.MUL and any(s.is_number and s.exact and s.offset == 1 for s in single):
            return values[0] if single[1].is_number and single[1].offset == 1 else values[1]
        shift = values[1] if len(values) > 1 else _NUMBER
        if op is Op.SHL and operation.width == 32 and len(shift) == 1 and next(iter(shift)).offset >= 24:
            # The CTA's rank in the top bits of a shared-window address: which CTA, not which byte.
            return _number(0)
        return _NUMBER

    # -- pointers in memory ------------------------------------------------------------------------------------------

    def _may_load_pointer(self, operation: Operation, index: int) -> bool:
        reads = self._reads(index)
        if not reads:
            return True
        size = reads[0][1].bytes
        if self.program.isa is Isa.PTX:
            return operation.width >= 64
        part = operation.attr if isinstance(operation.attr, int) else 0
        return part % 8 == 0 and (size is None or size >= 8)

    def _reads(self, index: int) -> list[tuple[Event, Access]]:
        return [
            (event, access)
            for event in self.flow.event_at.get(index, ())
            for access in event.accesses
            if access.direction in (Direction.READ, Direction.ATOMIC)
        ]

    def _stored(self, space: Space) -> Stored:
        known = self._spills.get(space)
        if known is None:
            stores = [
                (event, access)
                for event in self.program.events
                if event.kind is EventKind.ACCESS
                for access in event.accesses
                if access.space is space and access.direction is Direction.WRITE
            ]
            known = self._spills[space] = Stored(stores, self._rests_on, self._put)
        return known

    def _rests_on(self, store: Event, target: Access) -> Iterator[Node]:
        return (node for o in (*target.address, *store.value) for node in self.nodes(o, store.index))

    def _put(self, store: Event, target: Access) -> tuple[_Set, list[_Set]]:
        """(where a store goes, what it puts there, numbers left out), as far as it is known now."""
        places = self._add([self._operand(o, store.index) for o in target.address])
        operands = [self._operand(operand, store.index) for operand in store.value]
        return places, [frozenset(s for s in operand if not s.is_number) for operand in operands]

    def _loaded(self, operation: Operation, index: int) -> _Set:
        reads = self._reads(index)
        if not reads:
            return frozenset((_unresolved("loaded by an instruction without an address"),))
        if not self._may_load_pointer(operation, index):
            return _NUMBER
        part = operation.attr if isinstance(operation.attr, int) else 0
        result: set[Source] = set()
        for event, access in reads:
            address = self._add([self._operand(o, event.index) for o in access.address])
            if access.space in (Space.LOCAL, Space.SHARED):
                result |= self._reloaded(access.space, address, part)
                continue
            for source in address:
                if source.is_number or source.is_unresolved or source.level > _DEPTH:
                    result.add(_unresolved("loaded through an address that has no known source"))
                else:
                    step = source.offset + part if source.exact else None
                    chain = (*source.chain, step)
                    result.add(Source(source.root, chain=chain, rank=_MAYBE, ambiguous=source.ambiguous))
        return _capped(result)

    def _reloaded(self, space: Space, address: _Set, part: int) -> _Set:
        """What was stored at the place that is loaded here; everything stored to that space when places vary."""
        said, found = self._stored(space).at(address, part)
        if found:
            return _capped(found)
        if said:
            return _NUMBER
        return frozenset((_unresolved(f"loaded from {space.value} memory"),))


def _sum(a: Source, b: Source, exact: bool) -> tuple[Source, ...]:
    """Source(s) of a sum of two values."""
    if a.is_number and b.is_number:
        return (Source(("number",), a.offset + b.offset, a.exact and b.exact and exact, rank=0),)
    if a.is_number or b.is_number:
        base, step = (b, a) if a.is_number else (a, b)
        return (base._replace(offset=base.offset + step.offset, exact=base.exact and step.exact and exact),)
    if a.rank != b.rank:
        return ((a if a.rank > b.rank else b)._replace(exact=False),)
    if a.root == b.root and a.chain == b.chain:
        return (a._replace(exact=False),)
    return (a._replace(exact=False, ambiguous=True), b._replace(exact=False, ambiguous=True))


def _step(mask: int) -> int:
    """The power of two that an AND with a mask rounds down to; 0 where it does something else."""
    step = mask & -mask
    return step if -mask % (1 << 32) == step or -mask % (1 << 64) == step else 0


def _widened(value: _Set) -> _Set:
    """Inside a cycle offsets grow without end: keep the smallest of each root and say that it varies."""
    least: dict[tuple[object, ...], Source] = {}
    for source in value:
        key = (source.root, source.chain, source.rank, source.ambiguous)
        if key not in least or source.offset < least[key].offset:
            least[key] = source
    return _capped(s._replace(exact=False) if s.exact else s for s in least.values())
