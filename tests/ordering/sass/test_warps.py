"""Warp barriers in machine code, by instructions written by hand."""

from __future__ import annotations

import pytest

from validator.ordering.program import Guard, Reg
from validator.ordering.sass.disassemble import Instruction
from validator.ordering.sass.warps import warp_barriers

P0 = Guard(Reg("P0"), negated=False)
DIVERGENT = ("BRA.DIV", None, 40)


def barriers(*lines):
    """In `(opcode, guard, instructions to the target)`, each but the first optional."""
    found = []
    for line in lines:
        opcode, guard, steps = (*line, *(None, None)[len(line) - 1 :])
        found.append(Instruction(opcode, (), guard, False, None if steps is None else 16 * steps, 0))
    return sorted(warp_barriers(found))


def test_lanes_that_are_together_stay_together_on_a_straight_line():
    assert barriers(DIVERGENT, ("S2R",), ("NOP",), ("SHFL.IDX",), ("LDS",), ("NOP",), ("EXIT",)) == [2, 5]


@pytest.mark.parametrize(
    "lines",
    [
        [("NOP",), ("EXIT",)],
        [("BRA", None, 1), ("NOP",), ("EXIT",)],
        [("BRA.DIV", P0, 40), ("NOP",), ("EXIT",)],
        [DIVERGENT, ("SHFL.IDX",), ("LDS",), ("EXIT",)],
        [DIVERGENT, ("BRA", P0, 2), ("NOP",), ("EXIT",)],
        [DIVERGENT, ("NOP", P0), ("EXIT",)],
        [DIVERGENT, ("S2R",), ("NOP",), ("BRA", P0, -1), ("EXIT",)],
    ],
    ids=[
        "alone",
        "plain-branch",
        "under-a-guard",
        "shuffle",
        "behind-a-branch",
        "nop-under-a-guard",
        "come-to-from-elsewhere",
    ],
)
def test_elsewhere_it_may_be_anything(lines):
    assert not barriers(*lines)
