"""What is known of one distinct opcode string, worked out once and shared by all its instructions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from typing import TYPE_CHECKING

from validator.ordering.program import Event, EventKind, Order, Scope, Space
from validator.ordering.ptx.lexical import SPACES, TYPE_BITS

if TYPE_CHECKING:
    from validator.ordering.ptx.statement import Statement

__all__ = ["Builder", "Family", "Flow", "Form", "Meaning", "Unknown", "make_event"]


class Flow(Enum):
    """Where control goes after an instruction."""

    NEXT = auto()
    BRANCH = auto()
    INDIRECT = auto()
    """brx.idx"""
    CALL = auto()
    RETURN = auto()
    EXIT = auto()
    TRAP = auto()


_SEMANTICS = {order.value: order for order in Order}
_SCOPES = {"cta": Scope.CTA, "cluster": Scope.CLUSTER, "gpu": Scope.GPU, "sys": Scope.SYS, "gl": Scope.GPU}


@dataclass(frozen=True)
class Form:
    """One opcode with its modifiers."""

    opcode: str
    """As written."""
    writes: int = 0
    """How many leading operands are registers it writes."""
    flow: Flow = Flow.NEXT
    event: Callable[[Statement], Event | None] | None = None
    """Builds the event; None for instructions that neither touch memory nor order it."""
    parameter_store: bool = False
    """st.param: passes an argument or a result."""
    unknown: str = ""
    """Why it is not understood; empty when it is."""

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Base and modifiers: `ld`, `global`, `nc`, `b32`."""
        return tuple(self.opcode.split("."))

    @cached_property
    def base(self) -> str:
        return self.words[0]

    @cached_property
    def mods(self) -> frozenset[str]:
        return frozenset(self.words[1:])

    @cached_property
    def types(self) -> tuple[str, ...]:
        """Type modifiers in order: (`u64`, `u32`) of cvt.u64.u32."""
        return tuple(word for word in self.words[1:] if word in TYPE_BITS)

    @cached_property
    def bits(self) -> int:
        """Bits of one lane of the last type; 32 when the opcode has no type."""
        return TYPE_BITS[self.types[-1]] if self.types else 32

    @cached_property
    def signed(self) -> bool:
        return bool(self.types) and self.types[-1].startswith("s")

    @cached_property
    def integral(self) -> bool:
        """The last type is a plain integer, bit or predicate type."""
        return not self.types or (self.types[-1][0] in "busp" and "x" not in self.types[-1])

    @cached_property
    def lanes(self) -> int:
        return next((int(word[1:]) for word in self.words if word in ("v2", "v4", "v8", "v16", "v32")), 1)

    @cached_property
    def spaces(self) -> tuple[Space, ...]:
        """Spaces named, in order."""
        return tuple(SPACES[word] for word in self.words[1:] if word in SPACES)

    @cached_property
    def order(self) -> Order | None:
        return next((_SEMANTICS[word] for word in self.words[1:] if word in _SEMANTICS), None)

    @cached_property
    def scope(self) -> Scope | None:
        return next((_SCOPES[word] for word in self.words[1:] if word in _SCOPES), None)


Builder = Callable[["Statement"], "Event | None"]
"""Makes the event of one instruction; None when this one touches no memory."""

Meaning = tuple[int, Builder | None]
"""How many leading operands are written, and the event."""

Family = Callable[[Form], Meaning]
"""What the variants of one base opcode mean; raises `Unknown` for a variant nobody told it about."""


class Unknown(Exception):
    """A variant of a memory or ordering instruction that this reader does not know; says which part."""


def make_event(statement: Statement, kind: EventKind) -> Event:
    """An event with what every event has."""
    return Event(kind=kind, index=statement.index, opcode=statement.opcode, guard=statement.guard)
