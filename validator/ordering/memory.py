"""Global memory as the contract sees it: which access touches which argument, in which role.

`Contract roles` stand per kernel parameter, per field of a by-value struct, and per pointer table (`points_to`).
Without a contract everything is undeclared.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor
from typing import TYPE_CHECKING

from validator.manifest.roles import Role
from validator.ordering.program import Access, Direction, Event, EventKind, Parameter, Program, Scope, Space
from validator.ordering.provenance import Provenance, Source
from validator.ordering.result import ParamRef

if TYPE_CHECKING:
    from validator.manifest.contract import Argument, ContractField, KernelContract

__all__ = ["Declarations", "Declared", "Touch", "touches"]


@dataclass(frozen=True, slots=True)
class Declared:
    """One possible target of an access, as the contract describes it."""

    label: str
    """How reports call it: "x", "tables: pointer loaded from tables+8, then dereferenced"."""
    ref: ParamRef
    role: Role | None
    guarded_by: str | None = None
    alias_of: str | None = None
    ambiguous: bool = False

    @property
    def name(self) -> str:
        return self.ref.name

    @property
    def memory(self) -> str:
        """Name of the memory: two arguments that alias have the same."""
        return self.alias_of or self.name


@dataclass(frozen=True, slots=True)
class Touch:
    """One access of one instruction to global memory."""

    event: Event
    access: Access
    word: str
    """read, write, atomic, async-copy, prefetch."""
    targets: tuple[Declared, ...]
    """Possible targets, sorted; empty when unresolved."""
    unresolved: str = ""
    """Why there is no target, or why there may be others; empty when all are known."""

    @property
    def index(self) -> int:
        return self.event.index

    @property
    def role(self) -> Role | None:
        """The role when all targets share one."""
        roles = {t.role for t in self.targets}
        return roles.pop() if len(roles) == 1 and not self.unresolved else None

    @property
    def level(self) -> int:
        return max((1 + len(t.ref.chain) for t in self.targets), default=1)

    @property
    def label(self) -> str:
        return " or ".join(f"'{t.label}'" for t in self.targets) or "memory at an address that is not known"

    @property
    def writes(self) -> bool:
        return self.word in ("write", "atomic")


class Declarations:
    """The contract of one kernel, by byte offset in the parameter block."""

    def __init__(self, program: Program, contract: KernelContract | None) -> None:
        self.parameters = sorted(program.parameters, key=lambda p: p.offset)
        self.contract = contract
        self._offsets = [p.offset for p in self.parameters]
        self._typed = any(p.pointer for p in self.parameters)

    def parameter(self, offset: int) -> tuple[Parameter, int] | None:
        """(parameter, byte offset inside it) at an offset of the block."""
        position = bisect_right(self._offsets, offset) - 1
        if position < 0:
            return None
        parameter = self.parameters[position]
        inner = offset - parameter.offset
        return (parameter, inner) if inner < max(parameter.size, 1) else None

    def argument(self, parameter: Parameter) -> Argument | None:
        args = self.contract.args if self.contract is not None else ()
        return args[parameter.index] if parameter.index < len(args) else None

    def field(self, parameter: Parameter, inner: int) -> ContractField | None:
        argument = self.argument(parameter)
        fields = argument.fields if argument is not None else ()
        return next((f for f in fields if f.offset == inner), None)

    def role(self, parameter: Parameter, inner: int) -> Role | None:
        """Role of the memory behind the pointer at `inner` of a parameter."""
        field = self.field(parameter, inner)
        if field is not None:
            return field.role
        argument = self.argument(parameter)
        # A role on a struct with fields speaks of what no field names.
        return argument.role if argument is not None and (inner == 0 or not argument.fields) else None

    def bounds(self, offset: int) -> tuple[int, int] | None:
        """(least, greatest) number that the contract lets a by-value argument be; None where it says neither."""
        found = self.parameter(offset)
        argument = self.argument(found[0]) if found is not None and found[1] == 0 else None
        if argument is None or self.contract is None or argument.role not in (Role.SCALAR, None):
            return None
        domain, value = argument.domain, argument.value
        if isinstance(value, int):
            return value, value
        if isinstance(value, str):
            return self.contract.extremes(value)
        if domain.values:
            return floor(min(domain.values)), ceil(max(domain.values))
        low, high = domain.fixed
        if low is None or high is None:
            return None if low is None else (ceil(low), (1 << 31) - 1)
        return ceil(low), floor(high)

    def rank(self, offset: int) -> int | None:
        """How likely the slot at an offset of the block is a pointer, 0 to 3; None when it cannot hold one."""
        place = self.parameter(offset)
        if place is None:
            return None
        parameter, inner = place
        if parameter.size < 8 or inner + 8 > parameter.size:
            return None
        role = self.role(parameter, inner)
        if role is not None:
            return 3 if role.memory else 0
        if parameter.pointer is not None and parameter.size == 8:
            return 3 if parameter.pointer else 0
        argument = self.argument(parameter)
        return 1 if argument is not None and argument.fields else 2

    def name(self, parameter: Parameter, inner: int) -> str:
        argument, field = self.argument(parameter), self.field(parameter, inner)
        base = argument.name if argument is not None else parameter.name or f"arg{parameter.index}"
        if field is not None:
            return f"{base}.{field.name}"
        return f"{base}+{inner}" if inner else base

    def declare(self, source: Source, tensormap: bool = False) -> Declared | str:
        """What a source means under this contract; why it cannot have a role when no argument leads to it."""
        kind = source.root[0]
        if source.is_unresolved:
            return str(source.root[1])
        if kind in ("param", "block"):
            place = self.parameter(int(source.root[1]) + (source.offset if kind == "block" else 0))
            if place is not None:
                return self._parameter(*place, source, tensormap)
        if kind == "symbol":
            space, name = str(source.root[1]), str(source.root[-1])
            what = "constant variable" if space == Space.CONST else "module variable"
            if space == Space.LOCAL:
                what = "local memory"
            elif space in (Space.SHARED, Space.CLUSTER):
                what = "shared variable" if name else "shared memory"
            through = "through a pointer in " if source.chain else ""
            return f"{through}{what}{' ' * bool(name)}{name}, which no argument leads to"
        return "memory outside the parameters"

    def _parameter(self, parameter: Parameter, inner: int, source: Source, tensormap: bool) -> Declared:
        argument, field = self.argument(parameter), self.field(parameter, inner)
        if tensormap and source.root[0] == "block":
            inner = 0 if field is None else inner
        holder = field if field is not None else argument
        name = self.name(parameter, inner)
        role = self.role(parameter, inner)
        chain = source.chain
        label = name
        if chain:
            steps = "".join(f", then at +{c}" if c is not None else "" for c in chain[1:])
            first = f"+{chain[0]}" if chain[0] else ""
            label = f"{name}: pointer loaded from {name}{first}{steps}, then dereferenced"
            role = holder.points_to if holder is not None else None
        elif tensormap and source.root[0] == "param" and holder is not None and holder.points_to is not None:
            role = holder.points_to
        ref = ParamRef(parameter.index, inner, name, chain, parameter.offset + inner)
        guarded = holder.guarded_by if holder is not None else None
        alias = holder.alias_of if holder is not None and not chain else None
        return Declared(label, ref, role, guarded, alias, source.ambiguous)

    def scope(self, name: str) -> Scope:
        """How wide an acquire of this flag must be: the contract's `scope`, gpu by default."""
        for argument in self.contract.args if self.contract is not None else ():
            holders = [
                (argument.name, argument.scope),
                *((f"{argument.name}.{f.name}", f.scope) for f in argument.fields),
            ]
            for own, scope in holders:
                if own == name or own.rpartition(".")[2] == name:
                    return Scope.SYS if scope == "sys" else Scope.GPU
        return Scope.GPU


def _word(event: Event, access: Access) -> str:
    if access.direction is Direction.PREFETCH:
        return "prefetch"
    if event.kind is EventKind.ASYNC_COPY and access.direction is Direction.READ:
        return "async-copy"
    return {Direction.READ: "read", Direction.WRITE: "write"}.get(access.direction, "atomic")


_ELSEWHERE = (Space.SHARED, Space.CLUSTER, Space.LOCAL, Space.PARAM, Space.CONST)


def _global_sources(event: Event, access: Access, provenance: Provenance) -> tuple[Source, ...] | None:
    """Sources of an access that may go to global memory, None when it does not."""
    if access.space in _ELSEWHERE and not access.tensormap:
        return None
    sources = provenance.address(event, access)
    if access.tensormap:
        return sources
    if access.space is Space.GENERIC and sources:
        elsewhere = [s for s in sources if s.root[0] == "symbol" and not s.chain and s.root[1] in _ELSEWHERE]
        elsewhere += [s for s in sources if s.root[0] == "block" and not s.chain]
        if len(elsewhere) == len(sources):
            return None
        return tuple(s for s in sources if s not in elsewhere)
    return sources


def _compilers_own(source: Source) -> bool:
    """Whether it is a table of CUDA's mathematical functions (`__cudart_i2opi_f`): a reserved name, never written."""
    return source.root[0] == "symbol" and not source.chain and str(source.root[-1]).startswith("__cudart_")


def touches(program: Program, declarations: Declarations, provenance: Provenance) -> Iterator[Touch]:
    """Every access to global memory, in text order."""
    for event in program.events:
        if event.kind not in (EventKind.ACCESS, EventKind.ASYNC_COPY):
            continue
        for access in event.accesses:
            sources = _global_sources(event, access, provenance)
            if sources is None:
                continue
            if access.direction is Direction.READ and sources and all(map(_compilers_own, sources)):
                continue
            meant = [declarations.declare(s, access.tensormap) for s in sources]
            targets = {t for t in meant if isinstance(t, Declared)}
            reason = "; ".join(sorted({t for t in meant if isinstance(t, str)}))
            if not targets and not reason:
                reason = "the address is computed from no parameter"
            ordered = tuple(sorted(targets, key=lambda t: (t.label, repr(t.ref))))
            yield Touch(event, access, _word(event, access), ordered, reason)
