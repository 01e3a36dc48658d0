"""Where `__syncwarp` stands in machine code.

All that is left of a warp barrier is a `NOP`, as of some other things. `BRA.DIV` goes on only where all lanes of its
mask are there together (for a warp barrier, or for a shuffle, a vote or an election, which order no memory), and else
to code that brings them together with `WARPSYNC`. On the straight line behind it the lanes are together still, so that
a `NOP` there is a barrier. Where the compiler sees that the lanes are together without it, nothing shows.

Seen in the code of ptxas 13.0 for sm_90a and sm_100a.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from validator.ordering.sass.disassemble import Instruction
from validator.ordering.sass.opcodes import CONTROL

__all__ = ["warp_barriers"]

_WORD = 16


def warp_barriers(section: Sequence[Instruction]) -> frozenset[int]:
    """Numbers of the instructions at which the lanes of a warp are together at a barrier of their own."""
    branches = [k for k, i in enumerate(section) if i.base == "BRA" and "DIV" in i.modifiers and i.guard is None]
    if not branches:
        return frozenset()
    targets = {k + i.distance // _WORD for k, i in enumerate(section) if i.distance is not None}
    return frozenset(
        k
        for branch in branches
        for k in _line(section, branch + 1, targets)
        if section[k].base == "NOP" and section[k].guard is None
    )


def _line(section: Sequence[Instruction], start: int, targets: set[int]) -> Iterator[int]:
    """Instructions that nothing but the one before each of them leads to."""
    for index in range(start, len(section)):
        if index in targets or section[index].base in CONTROL:
            return
        yield index
