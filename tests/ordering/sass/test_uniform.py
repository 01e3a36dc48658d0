"""When a move under a lane's predicate sets a uniform register, by instructions written by hand."""

from __future__ import annotations

import pytest

from validator.ordering.program import Guard, Reg
from validator.ordering.sass.disassemble import Instruction
from validator.ordering.sass.uniform import uniform_moves

P0, NOT_P0 = Guard(Reg("P0"), negated=False), Guard(Reg("P0"), negated=True)
UP0 = Guard(Reg("UP0"), negated=False, uniform=True)
ELECT = ("ELECT", None, "P0", "URZ", "PT")
VOTE = ("VOTEU.ANY", None, "UP0", "P0")
MOVE = ("R2UR", P0, "UR4", "R2")


def moves(*lines):
    """In `(opcode, guard, *operands)`; an operand that is a number is the distance to a target, in instructions."""
    found = []
    for opcode, guard, *operands in lines:
        names = tuple(o for o in operands if isinstance(o, str))
        steps = next((o for o in operands if isinstance(o, int)), None)
        found.append(Instruction(opcode, names, guard, False, None if steps is None else 16 * steps, 0))
    return dict(uniform_moves(found))


def test_behind_an_election_it_always_does():
    assert moves(ELECT, ("VIADD", P0, "R2", "R7", "0x1e000"), MOVE, MOVE) == {2: None, 3: None}


def test_beside_a_vote_it_does_where_some_lane_says_so():
    assert moves(VOTE, MOVE) == {1: UP0}
    assert moves(ELECT, VOTE, MOVE) == {2: None}


@pytest.mark.parametrize(
    "lines",
    [
        [MOVE],
        [ELECT, ("R2UR", NOT_P0, "UR4", "R2")],
        [ELECT, ("ISETP.NE.AND", None, "P0", "PT", "R1", "R2", "PT"), MOVE],
        [("ELECT", Guard(Reg("P1"), negated=False), "P0", "URZ", "PT"), MOVE],
        [ELECT, ("BRA", Guard(Reg("P1"), negated=False), 3), MOVE, ("EXIT", None)],
        [ELECT, MOVE, ("BRA", None, -1)],
        [("VOTEU.ALL", None, "UP0", "P0"), MOVE],
        [VOTE, ("UISETP.NE.AND", None, "UP0", "UPT", "UR1", "UR2", "UPT"), MOVE],
    ],
    ids=[
        "nobody-elected",
        "those-not-elected",
        "predicate-set-anew",
        "elected-at-times",
        "behind-a-branch",
        "come-to-from-elsewhere",
        "all-lanes",
        "vote-overwritten",
    ],
)
def test_elsewhere_the_old_value_may_stay(lines):
    assert not moves(*lines)
