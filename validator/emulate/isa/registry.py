"""From a mnemonic to its semantics."""

from __future__ import annotations

from functools import lru_cache

from validator.emulate.isa import approximate, compare, convert, half, integers, logic, matrix, reals, warp
from validator.emulate.isa.model import Op, WarpOp
from validator.emulate.isa.words import Family, Unsupported, Words

__all__ = ["lookup", "lookup_warp"]

_FAMILIES: tuple[Family, ...] = (
    integers.FAMILY,
    logic.FAMILY,
    reals.FAMILY,
    half.FAMILY,
    compare.FAMILY,
    approximate.FAMILY,
    convert.FAMILY,
)
_WARP_FAMILY = {**warp.FAMILY, **matrix.FAMILY}


@lru_cache(maxsize=4096)
def lookup(opcode: str, modifiers: tuple[str, ...]) -> Op | None:
    """Semantics of `opcode.modifiers`, thread by thread; None for a form that is not known here."""
    for family in _FAMILIES:
        build = family.get(opcode)
        if build is None:
            continue
        try:
            return build(Words(modifiers))
        except Unsupported:
            continue
    return None


@lru_cache(maxsize=512)
def lookup_warp(opcode: str, modifiers: tuple[str, ...]) -> WarpOp | None:
    """Semantics of a collective over whole warps; None for a form that is not known here."""
    build = _WARP_FAMILY.get(opcode)
    try:
        return build(Words(modifiers)) if build is not None else None
    except Unsupported:
        return None
