"""One instruction in its place: operands resolved to registers, constants, parameters and symbols.

A `Frame` is one copy of a body in a program: the kernel's own, or one inlined copy of a function for each call.
Names are made unique with it: `p#3` is `p` of the third register scope, `%r1@2` is `%r1` of the second inlined copy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from validator.ordering.program import Const, Guard, Op, Operand, Operation, Parameter, Reg, Space, Special
from validator.ordering.ptx.declarations import Header, Variable
from validator.ordering.ptx.form import Form
from validator.ordering.ptx.lexical import integer, split_commas, words

if TYPE_CHECKING:
    from validator.ordering.ptx.body import Body

__all__ = ["Frame", "Place", "Statement", "destination_names"]

_CTA = words(
    """
    ctaid nctaid clusterid nclusterid cluster_ctaid cluster_nctaid cluster_ctarank cluster_nctarank
    is_explicit_cluster gridid nwarpid dynamic_smem_size total_smem_size aggr_smem_size current_graph_exec
    """
)
_SPECIALS = {
    **{
        f"%{name}": Special(name)
        for name in ("tid.x", "tid.y", "tid.z", "ntid.x", "ntid.y", "ntid.z", "laneid", "warpid")
    },
    **{f"%{name}{axis}": Special.CTA for name in _CTA for axis in ("", ".x", ".y", ".z")},
    **{
        f"%{name}": Special.CLOCK
        for name in ("clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi")
    },
    **{
        f"%{name}": Special.OTHER for name in ("tid", "ntid", "smid", "nsmid", "tid.w", "ntid.w", "ctaid.w", "nctaid.w")
    },
    **{f"%lanemask_{name}": Special.OTHER for name in ("eq", "le", "lt", "ge", "gt")},
}
_SPECIAL_FAMILY = re.compile(
    r"%(?:envreg\d{1,2}|pm\d(?:_64)?|reserved_smem_offset_(?:begin|end|cap|[01])|locality_\w{1,40})", re.ASCII
)
_ADDRESS = re.compile(r"([%A-Za-z_$][\w$]*+)\s*+(?:([+-])\s*+(-?\w++))?", re.ASCII)
_DESTINATION = re.compile(r"\s*+(?:\{([^}]*+)\}|([%\w$]++)(?:\s*+\|\s*+([%\w$]++))?)", re.ASCII)

_CHAIN = 16
"""Moves followed from a register back to the parameter it points to."""

VECTOR_COMPONENT = re.compile(r"(%?[\w$]++)\.([xyzwrgba])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Place:
    """A byte of a `.param` variable of a call, or of the kernel's parameter block."""

    variable: str | None
    """Unique name; None: the kernel's parameter block."""
    offset: int


@dataclass(slots=True)
class Frame:
    """One copy of a body."""

    body: Body
    number: int
    """0: the kernel itself."""
    base: int
    """Program index of the body's first instruction."""
    header: Header
    parameters: Mapping[str, Parameter]
    """The kernel's; empty for a function."""
    symbols: Mapping[str, Variable]
    """Variables of the module."""
    functions: Mapping[str, object]
    registers: dict[str, Reg]
    """Every register object of the program by unique name."""
    aliases: dict[str, str] = field(default_factory=dict)
    """Formal of an inlined function → unique name of the caller's `.param` variable."""
    caller: Frame | None = None
    call_index: int = -1
    """Program index of the call that this copy stands for."""
    outer: dict[str, Reg] = field(default_factory=dict)
    """Registers already asked for as seen from the function's own scope, by their name there."""
    writers: dict[str, int] | None = None
    """Unique register name → local index of its only writer, -1 for several; made when first needed."""

    def unique(self, name: str, scope: int) -> str:
        """Name that means the same register or variable in the whole program."""
        declared = self.body.declaring_scope(name, scope) if scope else 0
        if declared:
            name = f"{name}#{declared}"
        elif name in self.aliases:
            return self.aliases[name]
        return f"{name}@{self.number}" if self.number else name

    def register(self, name: str, scope: int) -> Reg:
        """The register `name` as seen from `scope`."""
        if not scope and (known := self.outer.get(name)) is not None:
            return known
        unique = self.unique(name, scope)
        found = self.registers.get(unique)
        if found is None:
            found = self.registers[unique] = Reg(unique)
        if not scope:
            self.outer[name] = found
        return found

    def guard(self, text: str, scope: int, uniform: bool = False) -> Guard:
        """`%p1` or `!%p1`."""
        return Guard(self.register(text.lstrip("!"), scope), text[0] == "!", uniform)

    def place(self, name: str, scope: int, offset: int = 0) -> Place | None:
        """The byte of parameter space that `name` + `offset` means, when it is a parameter."""
        variable = self.body.variable(name, scope)
        if variable is not None:
            return Place(self.unique(name, scope), offset) if variable.space is Space.PARAM else None
        parameter = self.parameters.get(name)
        if parameter is not None:
            return Place(None, parameter.offset + offset)
        formal = any(f.name == name and f.space == "param" for f in (*self.header.formals, *self.header.results))
        return Place(self.unique(name, 0), offset) if formal else None

    def writer(self, unique: str) -> int | None:
        """Local index of the only instruction of this frame that writes a register."""
        if self.writers is None:
            self.writers = {}
            body = self.body
            for local, form in enumerate(body.forms):
                if form.writes:
                    scope = body.scope(local)
                    for name in destination_names(body.text, body.starts[local] + len(form.opcode)):
                        target = self.unique(name, scope)
                        self.writers[target] = -1 if target in self.writers else local
        found = self.writers.get(unique, -1)
        return None if found < 0 else found

    def pointed(self, name: str, scope: int, offset: int) -> Place | None:
        """The byte of parameter space that register `name` + `offset` points to, where one chain of moves says so."""
        for _ in range(_CHAIN):
            place = self.place(name, scope, offset)
            if place is not None:
                return place
            local = self.writer(self.unique(name, scope))
            if local is None or local in self.body.guards:
                return None
            form, scope = self.body.forms[local], self.body.scope(local)
            operands = split_commas(self.body.operands(local))
            step = integer(operands[2]) if form.base == "add" and len(operands) == 3 else 0
            if form.base not in ("mov", "add") and not form.opcode.startswith("cvta.param"):
                return None
            match = _ADDRESS.fullmatch(operands[1]) if len(operands) > 1 else None
            inner = None if match is None else _offset(match)
            if match is None or inner is None or step is None:
                return None
            name, offset = match[1], offset + step + inner
        return None

    def named(self, name: str, scope: int, offset: int = 0, width: int = 64) -> Operand:
        """What an identifier (plus a constant) means: special register, parameter, variable, function or register."""
        special = _SPECIALS.get(name)
        if special is not None or _SPECIAL_FAMILY.fullmatch(name):
            return Operation(Op.SPECIAL, attr=special or Special.OTHER, width=width)
        if name[0] != "%" or name in self.parameters:
            place = self.place(name, scope, offset)
            if place is not None and place.variable is None:
                return Operation(Op.PARAM_ADDRESS, attr=place.offset, width=width)
            if place is not None:
                return Operation(Op.SYMBOL, attr=(Space.PARAM, place.variable, place.offset), width=width)
            if not self.body.declaring_scope(name, scope) or self.body.variable(name, scope):
                variable = self.body.variable(name, scope)
                if variable is not None:
                    attr = (variable.space, self.unique(name, scope), offset)
                    return Operation(Op.SYMBOL, attr=attr, width=width)
                variable = self.symbols.get(name)
                if variable is not None:
                    return Operation(Op.SYMBOL, attr=(variable.space, name, offset), width=width)
                if name in self.functions:
                    return Operation(Op.SYMBOL, attr=(Space.CONST, name, offset), width=width)
        register = self.register(name, scope)
        return Operation(Op.ADD, (register, Const(offset)), width=width) if offset else register


@dataclass(slots=True)
class Statement:
    """An instruction with its operands."""

    frame: Frame
    index: int
    """In the program."""
    form: Form
    scope: int
    guard: Guard | None
    operands: list[str]
    reads: tuple[Operand, ...] | None = None
    """`values` behind the destinations, once somebody asked."""

    @property
    def opcode(self) -> str:
        return self.form.opcode

    def has(self, position: int) -> bool:
        return position < len(self.operands)

    def operand(self, position: int, width: int = 64) -> Operand:
        """Operand `position` as a value; OPAQUE without arguments when it is missing or not understood."""
        return (
            self.value(self.operands[position], width) if self.has(position) else Operation(Op.OPAQUE, attr="missing")
        )

    def value(self, text: str, width: int = 64) -> Operand:
        """One operand's text as a value."""
        text = text.strip()
        if not self.scope and (register := self.frame.outer.get(text)) is not None:
            return register
        first = text[:1]
        if first in "0123456789-~W" and first:
            number = integer(text)
            if number is not None:
                return Const(number)
        if first == "!":
            return Operation(Op.NOT, (self.value(text[1:], 1),), width=1)
        if first == "{":
            return Operation(Op.PACK, tuple(self.value(part, width) for part in split_commas(text[1:-1])), width=width)
        match = _ADDRESS.fullmatch(text)
        if match is not None:
            offset = _offset(match)
            if offset is not None:
                return self.frame.named(match[1], self.scope, offset, width)
        if text in _SPECIALS:
            return self.frame.named(text, self.scope, 0, width)
        component = VECTOR_COMPONENT.fullmatch(text)
        if component is not None:
            return Operation(Op.OPAQUE, (self.frame.register(component[1], self.scope),), text, width)
        names = tuple(self.frame.named(name, self.scope) for name in re.findall(r"[%A-Za-z_$][\w$]*+", text[:400]))
        return Operation(Op.OPAQUE, names, text[:80], width)

    def values(self, start: int = 1, width: int = 64) -> tuple[Operand, ...]:
        """Operands from `start` on, vectors spread out, brackets opened."""
        found: list[Operand] = []
        for text in self.operands[start:]:
            if text[:1] == "{":
                found.extend(self.value(part, width) for part in split_commas(text[1:-1]) if part != "_")
            elif text[:1] == "[":
                found.extend(self.sum(text))
            elif text != "_":
                found.append(self.value(text, width))
        return tuple(found)

    def brackets(self) -> list[str]:
        """Operands that are addresses, `[…]`, in order."""
        return [text for text in self.operands if text[:1] == "["]

    def address(self, position: int = 0) -> tuple[Operand, ...]:
        """The `position`-th bracketed operand as a sum; empty when there is none or it is not understood."""
        brackets = self.brackets()
        return self.sum(brackets[position]) if position < len(brackets) else ()

    def sum(self, bracketed: str) -> tuple[Operand, ...]:
        """`[%rd1+16]` as its summands; of a tensor operand `[map, {coordinates}]` the map."""
        inner = bracketed.strip()[1:].removesuffix("]")
        text = inner.partition(",")[0].strip()
        match = _ADDRESS.fullmatch(text)
        if match is None:
            number = integer(text)
            return (Const(number),) if number is not None else (self.value(text),) if text else ()
        offset = _offset(match)
        if offset is None:
            return (self.value(text),)
        base = self.frame.named(match[1], self.scope)
        if isinstance(base, Reg):
            return (base, Const(offset)) if offset else (base,)
        return (self.frame.named(match[1], self.scope, offset),)

    def parameter(self) -> Place | None:
        """The byte of parameter space that the first bracketed operand means.

        `[name+8]` with `name` a parameter, or a register that points to one; a generic address only where the body
        turns a parameter's address into one at all.
        """
        brackets = self.brackets()
        match = _ADDRESS.fullmatch(brackets[0][1:].removesuffix("]").strip()) if brackets else None
        offset = None if match is None else _offset(match)
        if match is None or offset is None:
            return None
        if Space.PARAM not in self.form.spaces and not self.frame.body.generic_parameters:
            return None
        return self.frame.place(match[1], self.scope, offset) or self.frame.pointed(match[1], self.scope, offset)

    def destinations(self) -> list[Reg]:
        """Registers written, in operand order (`_` sinks left out)."""
        return [register for register in self.destination_lanes() if register is not None]

    def lane_of(self, register: Reg) -> int:
        """Position of `register` among the registers written."""
        first = self.operands[0] if self.operands else ""
        if self.form.writes < 2 and first[:1] != "{" and "|" not in first:
            return 0
        lanes = self.destination_lanes()
        return lanes.index(register) if register in lanes else 0

    def destination_lanes(self) -> list[Reg | None]:
        """Registers written by lane, None for a sink."""
        lanes: list[Reg | None] = []
        for text in self.operands[: self.form.writes]:
            names = destination_names(text, 0, sinks=True)
            lanes.extend(None if name == "_" else self.frame.register(name, self.scope) for name in names)
        return lanes


def destination_names(text: str, start: int, sinks: bool = False) -> list[str]:
    """Names in the destination operand at `start`: `%r1`, `%p1|%p2`, `{%r1, _}`; `_` only with `sinks`."""
    match = _DESTINATION.match(text, start)
    if match is None:
        return []
    vector, first, second = match.groups()
    if vector is not None:
        names = [part.strip() for part in vector.split(",")]
    elif second is None and first != "_":
        return [first]
    else:
        names = [first] if second is None else [first, second]
    return [name for name in names if name and (sinks or name != "_")]


def _offset(match: re.Match[str]) -> int | None:
    """Signed constant of `name ± constant`; 0 without one, None when it is no literal."""
    if match[3] is None:
        return 0
    number = integer(match[3])
    if number is None:
        return None
    return -number if match[2] == "-" else number
