"""What the indirect branch of a `switch` picks its target by.

ptxas puts the targets into constant bank 2, as byte offsets in the function, and branches with

    LDC R2, c[0x2][R6+0x18] ;  SHF.R.S32.HI R3, RZ, 0x1f, R2 ;  BRX R2 -0x240

where the displacement takes away the place behind the branch. Seen in the code of ptxas 13.0 for sm_90a and sm_100a.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from validator.ordering.program import Choice, Reg
from validator.ordering.sass.destinations import definitions
from validator.ordering.sass.disassemble import Instruction
from validator.ordering.sass.opcodes import CONTROL
from validator.ordering.sass.operands import constant_reference, register

__all__ = ["jump_tables"]

_WORD, _BANK = 16, 2
_LOOK_BACK = 64
"""Instructions between the load of a target and the branch, at most."""


def jump_tables(
    section: Sequence[Instruction], targets: Mapping[int, tuple[int, ...]], bank: bytes
) -> dict[int, dict[int, Choice]]:
    """Indirect branch → target → what it is picked by, all by instruction of the section.

    Args:
        targets: byte offset of an indirect branch → byte offsets it may go to.
        bank: the kernel's constant bank 2.
    """
    found: dict[int, dict[int, Choice]] = {}
    words = struct.unpack(f"<{len(bank) // 4}I", bank[: len(bank) // 4 * 4])
    for offset, goals in targets.items():
        place = offset // _WORD
        load = _load_of(section, place) if words and place < len(section) else None
        if load is None:
            continue
        at, index, start = load
        places: dict[int, set[int]] = {}
        for number, word in enumerate(words):
            places.setdefault(word, set()).add(4 * number - start)
        if all(goal in places for goal in goals):
            found[place] = {g // _WORD: Choice(index, at, frozenset(places[g])) for g in goals}
    return found


def _load_of(section: Sequence[Instruction], place: int) -> tuple[int, Reg, int] | None:
    """(instruction that loads the target of a branch, register that is the index, byte that it is counted from)."""
    branch = section[place]
    displaced = branch.distance == -_WORD * (place + 1) or f"-{_WORD * (place + 1):#x}" in branch.operands
    if branch.base not in ("BRX", "BRXU") or not branch.operands or not displaced:
        return None
    wanted = register(branch.operands[0])
    for at in range(place - 1, max(-1, place - _LOOK_BACK), -1):
        before = section[at]
        if before.base in CONTROL:
            return None
        if wanted not in definitions(before):
            continue
        source = constant_reference(before.operands[1]) if len(before.operands) > 1 else None
        if before.base not in ("LDC", "LDCU", "ULDC") or before.guard is not None or source is None:
            return None
        bank, start, name = source
        return (at, register(name), start) if bank == _BANK and name else None
    return None
