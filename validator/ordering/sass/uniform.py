"""When a move from a lane's register to a uniform one sets it, though it stands under a lane's predicate.

`@P R2UR UR, R` sets UR if any lane of the warp has P. ptxas writes the operands of bulk copies and of MMA so:

- behind `ELECT P`, which picks one of the lanes that are there: some lane has P, UR is set in every case;
- beside `VOTEU.ANY UP, P`, under which the instruction stands that reads UR: where UP holds UR was set.

Seen in the code of ptxas 12.9 and 13.0 for sm_90a and sm_100a.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from validator.ordering.program import Guard, Reg
from validator.ordering.sass.destinations import definitions
from validator.ordering.sass.disassemble import Instruction
from validator.ordering.sass.opcodes import CONTROL

__all__ = ["uniform_moves"]

_WORD = 16


def uniform_moves(section: Sequence[Instruction]) -> Mapping[int, Guard | None]:
    """Place of an `R2UR` under a lane's predicate → what holds where it sets its register; None: it always does.

    Told where the election or the vote stands before it in straight code.
    """
    targets = {k + i.distance // _WORD for k, i in enumerate(section) if i.distance is not None}
    found: dict[int, Guard | None] = {}
    holds: dict[Reg, Guard | None] = {}
    for place, instruction in enumerate(section):
        if place in targets or instruction.base in CONTROL:
            holds.clear()
        if instruction.base == "R2UR":
            guard = instruction.guard
            if guard is not None and not guard.negated and guard.register in holds:
                found[place] = holds[guard.register]
        elif holds or instruction.base in ("ELECT", "VOTEU"):
            _note(instruction, holds)
    return found


def _note(instruction: Instruction, holds: dict[Reg, Guard | None]) -> None:
    """What an instruction says of predicates, and whose word it takes away."""
    base, operands = instruction.base, instruction.operands
    for register in definitions(instruction):
        holds.pop(register, None)
        for lane in [p for p, g in holds.items() if g is not None and g.register == register]:
            del holds[lane]
    if instruction.guard is not None or not operands:
        return
    if base == "ELECT":
        holds[Reg(operands[0])] = None
    elif base == "VOTEU" and "ANY" in instruction.modifiers and operands[-1] not in ("PT", "!PT"):
        # An election says more than the vote on it.
        holds.setdefault(Reg(operands[-1]), Guard(Reg(operands[-2]), False, uniform=True))
