"""SASS operands as nvdisasm prints them: registers, predicates, immediates, constant banks and addresses.

Registers are 32-bit. The low half of a 64-bit pair carries the provenance of the pair; the high half of a value that
one instruction defines is `HIGH` of the low one. Descriptors (`desc[UR4]`) say how memory is cached, not where it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from validator.ordering.program import Const, Op, Operand, Operation, Parameter, Reg, Special

__all__ = ["Constants", "address", "constant_reference", "is_predicate", "operand", "register", "successor"]

_REGISTER = re.compile(r"^(U?R)(\d+)$")
_PREDICATE = re.compile(r"^U?P(\d|T)$")
_INTEGER = re.compile(r"^-?(0x[0-9a-f]{1,16}|0|[1-9][0-9]{0,18})$")
_CONSTANT = re.compile(r"^c(x?)\[(0x[0-9a-f]+|UR\d+)\]\[([^\]]*)\]$")
_SUFFIX = re.compile(r"\.(64|U32|S32|H0_H0|H1_H1|H0|H1|B\d|F32x2|X\d+|U16|S16|U8|S8|tnspA|tnspB)$")
_SCALE = re.compile(r"^(.*)\.X(\d+)$")
_ZERO = frozenset(("RZ", "URZ", "SRZ"))
_TRUE = frozenset(("PT", "UPT"))

_NTID = (Special.NTID_X, Special.NTID_Y, Special.NTID_Z)


@lru_cache(maxsize=4096)
def register(name: str) -> Reg:
    """The one `Reg` of a name."""
    return Reg(name)


@lru_cache(maxsize=4096)
def successor(reg: Reg, distance: int) -> Reg | None:
    """`R5` for `R4` and 1; None for predicates and the zero register."""
    found = _REGISTER.match(reg.name)
    return register(f"{found[1]}{int(found[2]) + distance}") if found else None


def is_predicate(token: str) -> bool:
    return _PREDICATE.match(token.removeprefix("!")) is not None


def constant_reference(token: str) -> tuple[int, int, str] | None:
    """`c[0x0][R3+0x224]` → (bank, byte offset, register or ""); None: no constant; bank -1: bindless."""
    found = _CONSTANT.match(token)
    if found is None:
        return None
    bank = -1 if found[1] or not found[2].startswith("0x") else int(found[2], 16)
    offset, index = 0, ""
    for part in found[3].split("+"):
        name = _SUFFIX.sub("", part)
        if _INTEGER.match(name):
            offset += int(name, 0)
        elif name not in _ZERO:
            index = name
    return bank, offset, index


@dataclass(frozen=True, slots=True)
class Constants:
    """What the constant banks of one kernel hold."""

    base: int | None
    """Where the parameter block starts in bank 0 (EIATTR_PARAM_CBANK)."""
    size: int
    """Bytes of the parameter block."""
    parameters: Sequence[Parameter]
    symbols: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    """Bank 4: byte offset → (symbol whose address stands there, addend), from its relocations."""

    def word(self, bank: int, offset: int, index: str = "") -> Operation:
        """The 32-bit word at `offset`."""
        if bank == 4 and not index:
            return self._symbol(offset)
        if bank != 0:
            return _opaque(f"c[{bank:#x}]", index)
        if self.base is not None and self.base <= offset < self.base + self.size:
            return self._parameter(offset - self.base, index)
        return _opaque("c[0x0]", index) if index else self._driver(offset)

    def _symbol(self, offset: int) -> Operation:
        if offset in self.symbols:
            name, addend = self.symbols[offset]
            return Operation(Op.SYMBOL, (), ("global", name, addend), 64)
        if offset - 4 in self.symbols:
            return Operation(Op.HIGH, (self._symbol(offset - 4),))
        return _opaque("c[0x4]", "")

    def _parameter(self, offset: int, index: str) -> Operation:
        at = (register(index),) if index else ()
        wide = bool(index) or self._wide(offset)  # where an index leads is not known here: it may be half a pointer
        if offset % 8 == 4 and wide:
            return Operation(Op.HIGH, (Operation(Op.PARAM, at, (offset - 4, 8), 64),))
        return Operation(Op.PARAM, at, (offset, 8 if offset % 8 == 0 and wide else 4))

    def _wide(self, offset: int) -> bool:
        """Whether a 64-bit value may lie around this word: false for parameters of four bytes and less."""
        return any(p.offset <= offset < p.offset + p.size and p.size >= 8 for p in self.parameters)

    def _driver(self, offset: int) -> Operation:
        """Words that the driver fills in before the parameters; they moved with sm_100."""
        if self.base is None:
            return _opaque("c[0x0]", "")
        blocks, window = (0x360, 0x348) if self.base >= 0x380 else (0x0, 0x198)
        if offset == window:
            # The generic address of the parameter block: how `__grid_constant__` parameters are addressed.
            return Operation(Op.PARAM_ADDRESS, (), 0, 64)
        if offset == window + 4:
            return Operation(Op.HIGH, (self._driver(window),))
        if offset in (blocks, blocks + 4, blocks + 8):
            return Operation(Op.SPECIAL, (), _NTID[(offset - blocks) // 4])
        if blocks + 12 <= offset < blocks + 24:
            return Operation(Op.SPECIAL, (), Special.CTA)
        return _opaque("c[0x0]", "")


def _opaque(what: str, index: str) -> Operation:
    return Operation(Op.OPAQUE, (register(index),) if index else (), what)


def operand(token: str, constants: Constants) -> Operand:
    """One source operand as a value."""
    if token.startswith("-") and not _INTEGER.match(token):
        return Operation(Op.NEG, (operand(token[1:], constants),))
    if token.startswith("~"):
        return Operation(Op.NOT, (operand(token[1:], constants),))
    if token.startswith("!"):
        inner = operand(token[1:], constants)
        return Const(1 - inner.value) if isinstance(inner, Const) else Operation(Op.NOT, (inner,), None, 1)
    if token.startswith("|"):
        return Operation(Op.OPAQUE, (operand(token.strip("|"), constants),), "abs")
    if token in _TRUE:
        return Const(1)
    if token.startswith("Rpc"):
        return register("Rpc.LO" if token == "Rpc" else token)
    name = _SUFFIX.sub("", token)
    if name in _ZERO:
        return Const(0)
    if _REGISTER.match(name):
        part = token[len(name) :]
        plain = part in ("", ".64", ".U32")
        return register(name) if plain else Operation(Op.OPAQUE, (register(name),), part)
    if _PREDICATE.match(name):
        return register(name)
    if _INTEGER.match(token):
        return Const(int(token, 0))
    constant = constant_reference(token)
    if constant is not None:
        return constants.word(*constant)
    return Operation(Op.OPAQUE, (), token)


def address(token: str, constants: Constants) -> tuple[Operand, ...] | None:
    """`desc[UR4][R2.64+UR6+0x10]` → (R2, UR6, 16); None when the token is no address. Zero terms are left out."""
    if not token.endswith("]") or constant_reference(token) is not None:
        return None
    start = token.rfind("[")
    terms: list[Operand] = []
    for part in token[start + 1 : -1].split("+"):
        scaled = _SCALE.match(part)
        term = operand(scaled[1] if scaled else part, constants)
        if scaled and not isinstance(term, Const):
            term = Operation(Op.MUL, (term, Const(int(scaled[2]))))
        if term != Const(0):
            terms.append(term)
    return tuple(terms) or (Const(0),)
