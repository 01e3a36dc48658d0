"""What an instruction sets a register to, in the normalised operations of `validator.ordering.program`.

Exact for everything that makes addresses, branch conditions, barrier ids and parities: where PTX semantics has no
counterpart the result is OPAQUE with all operands kept.

Attributes beyond those of `Op`: COPY has `cvta.<space>` for address conversions of other spaces than global and
`s<bits>` after a sign extension from that many bits; COMPARE has the width of its operands; a widening MUL and MIN,
MAX, DIV, REM have `s` when signed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from validator.ordering.bytewise import permuted
from validator.ordering.program import Const, Op, Operand, Operation, Reg
from validator.ordering.ptx.lexical import TYPE_BITS, split_commas
from validator.ordering.ptx.statement import Statement

__all__ = ["lower"]

_RELATIONS = {
    "eq": ("eq", None),
    "ne": ("ne", None),
    **{name: (name, None) for name in ("lt", "le", "gt", "ge")},
    "lo": ("lt", False),
    "ls": ("le", False),
    "hi": ("gt", False),
    "hs": ("ge", False),
}
_INVERSE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}
_COMBINE = ("and", "or", "xor")

Lower = Callable[[Statement, int], Operation]


def opaque(statement: Statement, position: int = 0) -> Operation:
    """Everything the instruction reads, and no claim about what it makes of it."""
    form = statement.form
    if statement.reads is None:
        statement.reads = statement.values(max(1, form.writes))
    return Operation(Op.OPAQUE, statement.reads, form.opcode, form.bits)


def _as_operation(operand: Operand, width: int, attr: object = None) -> Operation:
    return operand if isinstance(operand, Operation) and attr is None else Operation(Op.COPY, (operand,), attr, width)


def _binary(op: Op) -> Lower:
    def build(statement: Statement, position: int) -> Operation:
        form = statement.form
        if not form.integral or len(statement.operands) != 3 or not form.mods.isdisjoint(("sat", "cc", "relu")):
            return opaque(statement)
        width = form.bits
        attr = "s" if form.signed and op in (Op.SHR, Op.MIN, Op.MAX, Op.DIV, Op.REM) else None
        return Operation(op, (statement.operand(1, width), statement.operand(2, width)), attr, width)

    return build


def _unary(op: Op) -> Lower:
    def build(statement: Statement, position: int) -> Operation:
        form = statement.form
        if not form.integral or len(statement.operands) != 2:
            return opaque(statement)
        return Operation(op, (statement.operand(1, form.bits),), width=form.bits)

    return build


def _product(statement: Statement) -> Operation | None:
    """The product of mul and mad; None for the high half of 64-bit numbers and for floats."""
    form = statement.form
    high, wide = "hi" in form.mods, "wide" in form.mods
    if not form.integral or not form.types or len(statement.operands) < 3 or (high and form.bits != 32):
        return None
    args = tuple(statement.operand(k, form.bits) for k in (1, 2))
    if (high or wide) and not form.signed:
        # Compilers write the constants by which they divide as negative numbers.
        args = tuple(Const(a.value & ((1 << form.bits) - 1)) if isinstance(a, Const) else a for a in args)
    if high:
        return Operation(Op.EXTRACT, (Operation(Op.MUL, args, "s" if form.signed else None, 64),), (32, 32))
    return Operation(Op.MUL, args, "s" if wide and form.signed else None, form.bits * 2 if wide else form.bits)


def _multiply(statement: Statement, position: int) -> Operation:
    return _product(statement) or opaque(statement)


def _multiply_add(statement: Statement, position: int) -> Operation:
    product = _product(statement)
    if product is None or len(statement.operands) != 4 or "sat" in statement.form.mods or "cc" in statement.form.mods:
        return opaque(statement)
    return Operation(Op.ADD, (product, statement.operand(3, product.width)), width=product.width)


def _move(statement: Statement, position: int) -> Operation:
    form = statement.form
    if not statement.has(1):
        return opaque(statement)
    target = statement.operands[0]
    if target[:1] == "{":
        width = form.bits // max(1, len(split_commas(target[1:-1])))
        return Operation(Op.EXTRACT, (statement.operand(1, form.bits),), (position * width, width), width)
    return _as_operation(statement.operand(1, form.bits), form.bits)


def _permute(statement: Statement, position: int) -> Operation:
    """prmt.b32 d, a, b, selector in its default mode"""
    if statement.form.mods or len(statement.operands) != 4:
        return opaque(statement)
    selector = statement.operand(3, 32)
    if not isinstance(selector, Const):
        return opaque(statement)
    return permuted(statement.operand(1, 32), statement.operand(2, 32), selector.value)


def _convert_address(statement: Statement, position: int) -> Operation:
    """cvta.space and cvta.to.space: either way the value points into that space."""
    form = statement.form
    space = next((word for word in form.words[1:] if word != "to" and word not in TYPE_BITS), "").partition("::")[0]
    attr = "cvta" if space == "global" else f"cvta.{space}"
    return Operation(Op.COPY, (statement.operand(1, form.bits),), attr, form.bits)


def _convert(statement: Statement, position: int) -> Operation:
    form = statement.form
    target, source = form.types if len(form.types) == 2 else ("", "")
    wide, narrow = TYPE_BITS.get(target, form.bits), TYPE_BITS.get(source, form.bits)
    integers = all(kind[:1] in ("u", "s", "b") and kind[1:].isdigit() for kind in (target, source))
    if not integers or len(statement.operands) != 2 or "sat" in form.mods:
        return replace(opaque(statement), width=wide)
    value = statement.operand(1, narrow)
    if narrow >= wide:
        return Operation(Op.COPY, (value,), None, wide)
    if source[0] == "s":
        return Operation(Op.COPY, (value,), f"s{narrow}", wide)
    return (
        Operation(Op.COPY, (value,), None, wide) if narrow >= 32 else Operation(Op.EXTRACT, (value,), (0, narrow), wide)
    )


def _comparison(statement: Statement, second: bool) -> Operation | None:
    """COMPARE of setp and set over integers; `second` is the complement that `p|q` puts into q."""
    form = statement.form
    relation = next((word for word in form.words[1:] if word in _RELATIONS), None)
    source = form.types[-1] if form.types else ""
    if relation is None or not source or source[0] not in "usb" or not source[1:].isdigit():
        return None
    name, sign = _RELATIONS[relation]
    signed = source[0] == "s" if sign is None else sign
    width = TYPE_BITS[source]
    args: tuple[Operand, ...] = (statement.operand(1, width), statement.operand(2, width))
    if second:
        name = _INVERSE[name]
    combine = next((word for word in form.words[1:] if word in _COMBINE), None)
    if combine is None:
        return Operation(Op.COMPARE, args, (name, signed), width)
    return Operation(Op.COMPARE, (*args, statement.operand(3, 1)), (name, signed, combine), width)


def _set_predicate(statement: Statement, position: int) -> Operation:
    return _comparison(statement, position == 1) or opaque(statement)


def _set(statement: Statement, position: int) -> Operation:
    """set.lt.u32.s32: all ones, or 1.0 for a float result."""
    compared = _comparison(statement, False)
    if compared is None or not statement.form.types:
        return opaque(statement)
    true = 0x3F800000 if statement.form.types[0] == "f32" else 0xFFFFFFFF
    return Operation(Op.SELECT, (Const(true), Const(0), compared), width=32)


def _select(statement: Statement, position: int) -> Operation:
    if len(statement.operands) != 4:
        return opaque(statement)
    width = statement.form.bits
    return Operation(
        Op.SELECT, (statement.operand(1, width), statement.operand(2, width), statement.operand(3, 1)), width=width
    )


def _select_by_sign(statement: Statement, position: int) -> Operation:
    form = statement.form
    if len(statement.operands) != 4 or form.types[-1:] != ("s32",):
        return opaque(statement)
    width = TYPE_BITS[form.types[0]]
    positive = Operation(Op.COMPARE, (statement.operand(3, 32), Const(0)), ("ge", True), 32)
    return Operation(Op.SELECT, (statement.operand(1, width), statement.operand(2, width), positive), width=width)


def _lookup(statement: Statement, position: int) -> Operation:
    """lop3.b32 d, a, b, c, table; the form with a predicate result is left opaque."""
    if len(statement.operands) != 5:
        return opaque(statement)
    table = statement.operand(4)
    if not isinstance(table, Const):
        return opaque(statement)
    return Operation(Op.LOP3, tuple(statement.operand(k, 32) for k in (1, 2, 3)), table.value & 0xFF, 32)


def _extract(statement: Statement, position: int) -> Operation:
    """bfe d, a, low, bits"""
    low, bits = statement.operand(2), statement.operand(3)
    form = statement.form
    if form.signed or not (
        isinstance(low, Const) and isinstance(bits, Const) and 0 < bits.value <= form.bits - low.value
    ):
        return opaque(statement)
    return Operation(Op.EXTRACT, (statement.operand(1, form.bits),), (low.value, bits.value), form.bits)


def _insert(statement: Statement, position: int) -> Operation:
    """bfi d, a, b, low, bits: `a` into the field of `b`"""
    low, bits = statement.operand(3), statement.operand(4)
    width = statement.form.bits
    if not (
        isinstance(low, Const) and isinstance(bits, Const) and low.value >= 0 and 0 < bits.value <= width - low.value
    ):
        return opaque(statement)
    mask = (1 << bits.value) - 1
    field = Operation(Op.AND, (statement.operand(1, width), Const(mask)), width=width)
    kept = Const(((1 << width) - 1) & ~(mask << low.value))
    rest = Operation(Op.AND, (statement.operand(2, width), kept), width=width)
    return Operation(Op.OR, (rest, Operation(Op.SHL, (field, Const(low.value)), width=width)), width=width)


def _shuffle(statement: Statement, position: int) -> Operation:
    """shfl: value, lane, and the clamp that tells a whole warp from segments of it (often in a register)."""
    form = statement.form
    mode = next((word for word in form.words[1:] if word in ("idx", "up", "down", "bfly")), None)
    if position == 0 and mode is not None:
        return Operation(Op.SHUFFLE, tuple(statement.operand(i, 32) for i in (1, 2, 3)), mode, 32)
    return opaque(statement)


def _vote(statement: Statement, position: int) -> Operation:
    mode = next((word for word in statement.form.words[1:] if word in ("all", "any", "ballot", "uni")), None)
    if mode is None:
        return opaque(statement)
    return Operation(Op.VOTE, (statement.operand(1, 1),), mode, 32 if mode == "ballot" else 1)


def _elect(statement: Statement, position: int) -> Operation:
    return Operation(Op.ELECT, width=1) if position == 1 or "|" not in statement.operands[0] else opaque(statement)


def _map(statement: Statement, position: int) -> Operation:
    return Operation(Op.MAPA, (statement.operand(1), statement.operand(2)), width=statement.form.bits)


def _load(statement: Statement, position: int) -> Operation:
    size = max(8, statement.form.bits) // 8
    return Operation(Op.LOAD, (), position * size, statement.form.bits)


def _matrix(statement: Statement, position: int) -> Operation:
    return _load(statement, position) if "load" in statement.form.mods else opaque(statement)


def _atomic(statement: Statement, position: int) -> Operation:
    return Operation(Op.ATOMIC, (), None, statement.form.bits)


_LOWER: dict[str, Lower] = {
    "mov": _move,
    "cvta": _convert_address,
    "cvt": _convert,
    "add": _binary(Op.ADD),
    "sub": _binary(Op.SUB),
    "and": _binary(Op.AND),
    "or": _binary(Op.OR),
    "xor": _binary(Op.XOR),
    "shl": _binary(Op.SHL),
    "shr": _binary(Op.SHR),
    "min": _binary(Op.MIN),
    "max": _binary(Op.MAX),
    "div": _binary(Op.DIV),
    "rem": _binary(Op.REM),
    "not": _unary(Op.NOT),
    "neg": _unary(Op.NEG),
    "mul": _multiply,
    "mad": _multiply_add,
    "setp": _set_predicate,
    "set": _set,
    "selp": _select,
    "slct": _select_by_sign,
    "lop3": _lookup,
    "prmt": _permute,
    "bfe": _extract,
    "bfi": _insert,
    "shfl": _shuffle,
    "vote": _vote,
    "elect": _elect,
    "mapa": _map,
    "ld": _load,
    "ldu": _load,
    "ldmatrix": _load,
    "multimem": _load,
    "tex": _load,
    "tld4": _load,
    "suld": _load,
    "wmma": _matrix,
    "atom": _atomic,
}


def lower(statement: Statement, register: Reg) -> Operation:
    """What `statement` sets `register` to."""
    return _LOWER.get(statement.form.base, opaque)(statement, statement.lane_of(register))
