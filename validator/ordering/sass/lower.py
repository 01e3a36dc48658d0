"""What each SASS instruction sets its registers to.

An instruction that is not in the tables still defines its registers (`destinations`), as OPAQUE with its sources as
arguments: provenance survives, values do not.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping

from validator.ordering.bytewise import permuted
from validator.ordering.program import Const, Op, Operand, Operation, Reg, Special
from validator.ordering.sass.destinations import destinations, results
from validator.ordering.sass.disassemble import Instruction
from validator.ordering.sass.operands import Constants, constant_reference, is_predicate, operand, successor

__all__ = ["is_local", "operations"]

_RELATIONS = {"EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"}
_PAIRS: dict[tuple[int, ...], Op] = {(0, 0, 0, 1): Op.AND, (0, 1, 1, 1): Op.OR, (0, 1, 1, 0): Op.XOR}
_INVERSE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
_SPECIALS = {
    "SR_TID.X": Special.TID_X,
    "SR_TID.Y": Special.TID_Y,
    "SR_TID.Z": Special.TID_Z,
    "SR_LANEID": Special.LANE,
    "SR_NTID.X": Special.NTID_X,
    "SR_NTID.Y": Special.NTID_Y,
    "SR_NTID.Z": Special.NTID_Z,
    "SR_CLOCKLO": Special.CLOCK,
    "SR_CLOCKHI": Special.CLOCK,
    "SR_GLOBALTIMERLO": Special.CLOCK,
    "SR_GLOBALTIMERHI": Special.CLOCK,
}
_PER_CTA = re.compile(
    r"^SR_(CTAID|NCTAID|CgaCtaId|CgaSize|CLUSTER|CLUSTERID|NCLUSTERID|CgaId|GRIDID|SMEMSZ|SM|VIRTID|NSMID)"
)


def is_local(instruction: Instruction) -> bool:
    """Whether what it sets depends on nothing but its encoding, so that it can be lowered once for all kernels."""
    if instruction.base in ("LEA", "ULEA") and "0x18" in instruction.operands:
        return False
    return not any("c[" in token or "cx[" in token for token in instruction.operands)


class _Sources:
    """Source operands of one instruction, parsed when asked for."""

    def __init__(self, instruction: Instruction, constants: Constants, shared_windows: frozenset[str]) -> None:
        self.instruction = instruction
        self.constants = constants
        self.windows = shared_windows
        skip = set(results(instruction.opcode, instruction.operands))
        self.tokens = [t for i, t in enumerate(instruction.operands) if i not in skip]

    def __getitem__(self, index: int) -> Operand:
        return operand(self.tokens[index], self.constants)

    def plain(self) -> list[Operand]:
        """All but predicates."""
        return [operand(t, self.constants) for t in self.tokens if not is_predicate(t)]

    def all(self) -> tuple[Operand, ...]:
        return tuple(operand(t, self.constants) for t in self.tokens)


def operations(
    instruction: Instruction, constants: Constants, shared_windows: frozenset[str] = frozenset()
) -> Mapping[Reg, Operation]:
    """Register → what the instruction sets it to.

    Args:
        shared_windows: registers that hold the CTA's rank in its cluster somewhere in this kernel; shifted left by 24
            that is the base of the CTA's shared memory.
    """
    sources = _Sources(instruction, constants, shared_windows)
    rule = _RULES.get(instruction.base, _opaque)
    result: dict[Reg, Operation] = {}
    for reg, position, word in destinations(instruction):
        try:
            result[reg] = rule(sources, position, word, reg)
        except IndexError:
            # Fewer operands than the table expects: an unfamiliar form keeps its provenance.
            result[reg] = _opaque(sources, position, word, reg)
    return result


_Rule = Callable[[_Sources, int, int, Reg], Operation]


def _opaque(s: _Sources, position: int, word: int, reg: Reg) -> Operation:
    return Operation(Op.OPAQUE, s.all(), s.instruction.opcode)


def _high(low: Operation) -> Operation:
    return Operation(Op.HIGH, (low,))


def _add(terms: list[Operand], width: int = 32) -> Operation:
    kept = [_signed(t) for t in terms if t != Const(0)]
    if not kept:
        return Operation(Op.COPY, (Const(0),), None, width)
    if len(kept) == 1:
        return Operation(Op.COPY, (kept[0],), None, width)
    total: Operand = kept[0]
    for term in kept[1:]:
        total = Operation(Op.ADD, (total, term), None, width)
    assert isinstance(total, Operation)
    return total


def _signed(term: Operand) -> Operand:
    """`0xffffffff` in a 32-bit sum is -1; as a term of a 64-bit address it must not become 2^32 - 1."""
    if isinstance(term, Const) and 1 << 31 <= term.value < 1 << 32:
        return Const(term.value - (1 << 32))
    return term


def _multiply(a: Operand, b: Operand, width: int) -> Operand:
    if Const(0) in (a, b):
        return Const(0)
    if a == Const(1):
        return b
    if b == Const(1):
        return a
    return Operation(Op.MUL, (a, b), None, width)


def _move(s: _Sources, position: int, word: int, reg: Reg) -> Operation:
    source = s[0]
    if word == 0:
        return Operation(Op.COPY, (source,), None, 64 if "64" in s.instruction.modifiers else 32)
    following = successor(source, word) if isinstance(source, Reg) else None
    return Operation(Op.COPY, (following,)) if following else _high(Operation(Op.COPY, (source,)))


def _imad(s: _Sources, position: int, word: int, reg: Reg) -> Operation:
    mods = s.instruction.modifiers
    if position != 0 or "X" in mods:
        return _opaque(s, position, word, reg)
    width = 64 if "WIDE" in mods else 32
    a, b, c = s.plain()[:3]
    if c == Const(0) and ("HI" in mods or word == 1):
        # How compilers divide by constants.
        if "U32" in mods:
            a, b = (Const(t.value & 0xFFFFFFFF) if isinstance(t, Const) else t for t in (a, b))
        return Operation(Op.EXTRACT, (Operation(Op.MUL, (a, b), None if "U32" in mods else "s", 64),), (32, 32))
    if "HI" in mods:
        return _opaque(s, position, word, reg)
    low = _add([_multiply(a, b, width), c], width)
    return low if word == 0 else _high(low)


def _add3(s: _Sources, position: int, word: int, reg: Reg) -> Operation:
    if position != 0 or "X" in s.instruction.modifiers:
        return _opaque(s, position, word, reg)
    low = _add(s.plain(), 64 if "64" in s.instruction.modifiers else 32)
    return low if word == 0 else _high(low)


def _lea(s: _Sources, position: int, word: int, reg: Reg) -> Operation:
    mods = s.instruction.modifiers
    if position != 0 or "X" in mods:
        return _opaque(s, position, word, reg)
    values = s.plain()
    if "HI" in mods:
        # The upper word of (c:a) << n, plus b: with c = 0 that is a >> (32 - n).
        a, b = values[0], values[1]
        shift = values[-1]
        if not isinstance(shift, Const) or (len(values) == 4 and values[2] != Const(0)):
            return _opaque(s, position, word, reg)
        signed = "s" if "SX32" in mods else None
        return _add([Operation(Op.SHR, (a, Const(32 - shift.value)), signed), b])
    a, b, shift = values[0], values[1], values[2] if len(values) > 2 else Const(0)
    if shift == Const(24) and s.tokens[0] in s.windows:
        return _add([Operation(Op.SYMBOL, (), ("shared", "", 0)), b])
    return _add([Operation(Op.SHL, (a, shift)), b])


def _shift(s: _Sources, position: int, word: int, reg: Reg) -> Operation:
    """SHF is a funnel: {third, first} shifted by the second; .HI keeps the upper word."""
    mods = s.instruction.modifiers
    low, amount, high = s.plain()[:3]
    signed = "s" if mods & {"S32", "S64"} else None
    if "L" in mods:
        if "HI" not in mods:
            return Operation(Op.SHL, (low, amount)) if high == Const(0) else _opaque(s, position, word, reg)
        return Operation(Op.SHL, (high, amount)) if low == Const(0) else _opaque(s, position, word, reg)
    if "HI" in mods:
        return Operation(Op.SHR, (high, amount), signed) if low == Const(0) else _opaque(s, position, word, reg)
    return Operation(Op.SHR, (low, amount), signed) if high == Const(0) else _opaque(s, position, word, reg)


def _logic(a: Operand, b: Operand, c: Operand, table: int, width: int) -> Operation:
    """Three-input logic, made smaller where inputs are constant; the table has bit (a << 2 | b << 1 | c)."""
    full = (1 << width) - 1
    args: list[Operand] = [a, b, c]
    for place, arg in enumerate(args):
        if isinstance(arg, Const) and arg.value & full in (0, full):
            bit = 4 >> place
            fixed = bit if arg.value & full else 0
            table = sum(1 << i for i in range(8) if table >> (i & ~bit | fixed) & 1)
    live = [p for p in range(3) if any((table >> i ^ table >> (i ^ (4 >> p))) & 1 for i in range(8))]
    if not live:
        return Operation(Op.COPY, (Const(full if table & 1 else 0),), None, width)
    if len(live) == 1:
        keeps = table >> (4 >> live[0]) & 1
        return Operation(Op.COPY if keeps else Op.NOT, (args[live[0]],), None, width)
    if len(live) == 2:
        p, q = live
        four = [table >> ((4 >> p) * x | (4 >> q) * y) & 1 for x in (0, 1) for y in (0, 1)]
        simple = _PAIRS.get(tuple(four))
        if simple is not None:
            return Operation(simple, (args[p], args[q]), None, width)
    return Operation(Op.LOP3, (a, b, c), table, width)


def _lop3(s: _Sources, position: int, word: int, reg: Reg) -> Operation:
    values = [t for t in s.tokens if not is_predicate(t)]
    a, b, c = (operand(t, s.constants) for t in values[:3])
    value = _logic(a, b, c, int(values[3], 0), 32)
    if is_predicate(reg.name):
        return Operation(Op.COMPARE, (value, Const(0)), ("ne", False), 1)
    return value


def _plop3(s: _Sources, position: int, word: int, reg: Reg) -> Operation:
    a, b, c = (s[i] for i in range(3))
    table = s.tokens[3 + position] if len(s.tokens) > 3 + position else s.tokens[-1]
    return _logic(a, b, c, int(table, 0), 1)


def _compare(s: _Sources, position: int, word: int, reg: Reg) -> Operation:
    parts = s.instruction.opcode.split(".")[1:]
    relation = next((_RELATIONS[p] for p in parts if p in _RELATIONS), None)
    if relation is None or "EX" in parts:
        return _opaque(s, position, word, reg)
    if position == 1:
        relation = _INVERSE[relation]
    a, b, combined = s[0], s[1], s[2]
    signed = "U32" not in parts and "U64" not in parts
    join = next((p.lower() for p in parts if p in ("AND", "OR", "XOR")), "and")
    if (combined == Const(1) and join == "and") or (combined == Const(0) and join in ("or", "xor")):
        return Operation(Op.COMPARE, (a, b), (relation, signed), 1)
    return Operation(Op.COMPARE, (a, b, combined), (relation, signed, join), 1)


def _select(s: _Sources, position: int, word: int, reg: Reg) -> Operation:
    a, b = s[0], s[1]
    token = s.tokens[2]
    if token.startswith("!"):
        a, b, token = b, a, token[1:]
    if word:
        a, b = (successor(x, word) or x if isinstance(x, Reg) else x for x in (a, b))
    return Operation(Op.SELECT, (a, b, operand(token, s.constants)))


def _minimum(s: _Sources, position: int, word: int, reg: Reg) -> Operation:
    if position != 0 and is_predicate(reg.name):
        return _opaque(s, position, word, reg)
    signed = None if "U32" in s.instruction.modifiers else "s"
    values = s.plain()
    which = next((t for t in reversed(s.tokens) if is_predicate(t)), "PT")
    if which not in ("PT", "!PT", "UPT", "!UPT"):
        return _opaque(s, position, word, reg)
    op = Op.MAX if which.startswith("!") else Op.MIN
    if "ADDMNMX" in s.instruction.base:
        return Operation(op, (_add(values[:2]), values[2]), signed)
    return Operation(op, (values[0], values[1]), signed)


def _permute(s: _Sources, position: int, word: int, reg: Reg) -> Operation:
    a, selector, b = s.plain()[:3]
    if isinstance(selector, Const):
        if selector.value & 0xFFFF == 0x654:
            # Byte 0 of a becomes the top byte of b: how a shared address is moved to another CTA of the cluster.
            return Operation(Op.MAPA, (b, a))
        if s.instruction.opcode in ("PRMT", "UPRMT"):
            return permuted(a, b, selector.value)
    return _opaque(s, position, word, reg)


def _special(s: _Sources, position: int, word: int, reg: Reg) -> Operation:
    name = s.tokens[0]
    if name == "SRZ":
        return Operation(Op.COPY, (Const(0),))
    if name in _SPECIALS:
        value = Operation(Op.SPECIAL, (), _SPECIALS[name])
        if s.instruction.base == "S2UR" and _SPECIALS[name] in (
            Special.TID_X,
            Special.TID_Y,
            Special.TID_Z,
            Special.LANE,
        ):
            # A uniform register holds the value of one lane.
            return Operation(Op.SHUFFLE, (value, Const(0)), "idx")
        return value
    return Operation(Op.SPECIAL, (), Special.CTA if _PER_CTA.match(name) else Special.OTHER)


def _shuffle(s: _Sources, position: int, word: int, reg: Reg) -> Operation:
    if is_predicate(reg.name):
        return _opaque(s, position, word, reg)
    mode = next((p.lower() for p in s.instruction.opcode.split(".")[1:] if p in ("IDX", "UP", "DOWN", "BFLY")), "idx")
    return Operation(Op.SHUFFLE, (s[0], s[1]), mode)


def _vote(s: _Sources, position: int, word: int, reg: Reg) -> Operation:
    source = s[len(s.tokens) - 1]
    if not is_predicate(reg.name):
        return Operation(Op.VOTE, (source,), "ballot")
    mode = next((p.lower() for p in s.instruction.opcode.split(".")[1:] if p in ("ALL", "ANY")), "uni")
    return Operation(Op.VOTE, (source,), mode, 1)


def _elect(s: _Sources, position: int, word: int, reg: Reg) -> Operation:
    return Operation(Op.ELECT, (), None, 1) if is_predicate(reg.name) else _opaque(s, position, word, reg)


def _load(s: _Sources, position: int, word: int, reg: Reg) -> Operation:
    if is_predicate(reg.name):
        return _opaque(s, position, word, reg)
    extra = 16 if position == 1 and "256" in s.instruction.modifiers else 0
    return Operation(Op.LOAD, (), extra + 4 * word)


def _atomic(s: _Sources, position: int, word: int, reg: Reg) -> Operation:
    return _opaque(s, position, word, reg) if is_predicate(reg.name) else Operation(Op.ATOMIC, (), 4 * word)


def _constant(s: _Sources, position: int, word: int, reg: Reg) -> Operation:
    reference = constant_reference(s.tokens[0])
    if reference is None:
        return _opaque(s, position, word, reg)
    bank, offset, index = reference
    return s.constants.word(bank, offset + 4 * word, index)


def _half_constants(s: _Sources, position: int, word: int, reg: Reg) -> Operation:
    """`HFMA2 R7, -RZ, RZ, hi, lo` is how ptxas spreads constants over the pipes: two halves, the last one low."""
    if len(s.tokens) < 4 or s.tokens[0].lstrip("-") != "RZ" or s.tokens[1] != "RZ":
        return _opaque(s, position, word, reg)
    high, low = s.tokens[2:4]
    try:
        halves = [struct.unpack("<H", struct.pack("<e", float(t)))[0] for t in (low, high)]
    except (ValueError, OverflowError):
        return _opaque(s, position, word, reg)
    return Operation(Op.COPY, (Const(halves[0] | halves[1] << 16),))


def _call(s: _Sources, position: int, word: int, reg: Reg) -> Operation:
    return Operation(Op.RETURN, (), word)


_RULES: dict[str, _Rule] = {
    **dict.fromkeys(("MOV", "UMOV", "R2UR", "UR2R", "MOV32I", "RPCMOV"), _move),
    **dict.fromkeys(("IMAD", "UIMAD"), _imad),
    **dict.fromkeys(("IADD3", "UIADD3", "VIADD", "IADD", "UIADD", "UVIADD", "VIADD3"), _add3),
    **dict.fromkeys(("LEA", "ULEA"), _lea),
    **dict.fromkeys(("SHF", "USHF"), _shift),
    **dict.fromkeys(("LOP3", "ULOP3"), _lop3),
    **dict.fromkeys(("PLOP3", "UPLOP3"), _plop3),
    **dict.fromkeys(("ISETP", "UISETP"), _compare),
    **dict.fromkeys(("SEL", "USEL", "FSEL", "UFSEL"), _select),
    **dict.fromkeys(("VIMNMX", "UVIMNMX", "IMNMX", "UIMNMX", "VIADDMNMX", "UVIADDMNMX"), _minimum),
    **dict.fromkeys(("PRMT", "UPRMT"), _permute),
    **dict.fromkeys(("S2R", "S2UR", "CS2R"), _special),
    "SHFL": _shuffle,
    **dict.fromkeys(("VOTE", "VOTEU"), _vote),
    "ELECT": _elect,
    **dict.fromkeys(("LD", "LDG", "LDS", "LDL", "LDSM"), _load),
    **dict.fromkeys(("ATOM", "ATOMG", "ATOMS"), _atomic),
    **dict.fromkeys(("LDC", "LDCU", "ULDC"), _constant),
    "HFMA2": _half_constants,
    "CALL": _call,
}
