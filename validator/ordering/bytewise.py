"""Bytes picked from two words, as PTX `prmt` and SASS `PRMT` do with a constant selector."""

from __future__ import annotations

from validator.ordering.program import Const, Op, Operand, Operation

__all__ = ["permuted"]


def permuted(a: Operand, b: Operand, selector: int) -> Operation:
    """Four bytes, each named by four bits of the selector, low to high (PTX ISA, `prmt`, default mode).

    Bits 0 to 2 of a name count the bytes of `b:a`; bit 3 asks for the byte's sign in all of its bits.
    """
    names = [selector >> 4 * k & 0xF for k in range(4)]
    for word, whole in ((a, [0, 1, 2, 3]), (b, [4, 5, 6, 7])):
        if names == whole:
            return Operation(Op.COPY, (word,))
    return Operation(Op.PACK, tuple(_byte(b if name & 4 else a, name) for name in names))


def _byte(word: Operand, name: int) -> Operation:
    low = 8 * (name & 3)
    if name & 8:
        top = Operation(Op.SHL, (word, Const(24 - low)))
        return Operation(Op.EXTRACT, (Operation(Op.SHR, (top, Const(31)), "s"),), (0, 8), 8)
    return Operation(Op.EXTRACT, (word,), (low, 8), 8)
