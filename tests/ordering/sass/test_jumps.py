"""Tables of indirect branches, by instructions written by hand."""

from __future__ import annotations

import struct

import pytest

from validator.ordering.program import Choice, Guard, Reg
from validator.ordering.sass.disassemble import Instruction
from validator.ordering.sass.jumps import jump_tables

BANK = struct.pack("<4I", 0x50, 0x40, 0x60, 0x50)


def tables(load=("LDC", None, "R2", "c[0x2][R6+0x4]"), between=("SHF", None, "R3", "R2"), displaced="-0x40"):
    """Of a branch at 0x30 that may go to 0x40, 0x50 and 0x60."""
    lines = [load, between, ("NOP", None), ("BRX", None, "R2", displaced), *(("EXIT", None),) * 3]
    section = [Instruction(opcode, tuple(operands), guard, False, None, 0) for opcode, guard, *operands in lines]
    return jump_tables(section, {0x30: (0x40, 0x50, 0x60)}, BANK)


def test_each_target_has_its_places():
    assert tables() == {
        3: {
            4: Choice(Reg("R6"), 0, frozenset({0})),
            5: Choice(Reg("R6"), 0, frozenset({-4, 8})),
            6: Choice(Reg("R6"), 0, frozenset({4})),
        }
    }


@pytest.mark.parametrize(
    "changed",
    [
        {"load": ("LDG.E", None, "R2", "desc[UR4][R6.64]")},
        {"load": ("LDC", None, "R2", "c[0x3][R6+0x4]")},
        {"load": ("LDC", None, "R2", "c[0x2][0x4]")},
        {"load": ("LDC", Guard(Reg("P0"), negated=False), "R2", "c[0x2][R6+0x4]")},
        {"between": ("IADD3", None, "R2", "R2", "R9", "RZ")},
        {"between": ("BSYNC", None, "B0")},
        {"displaced": "-0x50"},
    ],
    ids=["from-memory", "another-bank", "no-index", "under-a-guard", "changed-since", "branch-between", "displaced"],
)
def test_what_is_not_that_pattern_is_left_open(changed):
    assert not tables(**changed)


def test_a_target_that_the_table_lacks_leaves_it_open():
    section = [Instruction("NOP", (), None, False, None, 0)] * 3
    section += [Instruction("BRX", ("R2", "-0x40"), None, False, None, 0)]
    section[0] = Instruction("LDC", ("R2", "c[0x2][R6]"), None, False, None, 0)
    assert jump_tables(section, {0x30: (0x40, 0x70)}, BANK) == {}
    assert jump_tables(section, {0x30: (0x40,)}, b"") == {}
