"""Operands as releases of nvdisasm print them."""

from __future__ import annotations

import pytest

from validator.ordering.sass.disassemble import _instruction


@pytest.mark.parametrize(
    ("opcode", "old", "new"),
    [
        ("UBLKCP.G.S", "[UR10][UR12],UR7", "[UR10],[UR12],UR7"),
        ("UTMALDG.1D", "[UR4][UR8]", "[UR4],[UR8]"),
        ("LDGSTS.E.BYPASS.128", "desc[UR12][R2.64+-0x800][R5+0x800]", "[R5+0x800],desc[UR12][R2.64+-0x800]"),
        ("LDGSTS.E.BYPASS.128", "desc[UR12][R14.64][R5],P0", "[R5],desc[UR12][R14.64],P0"),
        ("LDGSTS.E", "[R2.64][R9]", "[R9],[R2.64]"),
        ("LDS", "R10[R4+0x1a00]", "R10,[R4+0x1a00]"),
        ("LDS", "RZ[RZ]", "RZ,[RZ]"),
        ("SYNCS.ARRIVE.TRANS64", "RZ[R11+UR5],R10", "RZ,[R11+UR5],R10"),
        ("SYNCS.EXCH.64", "URZ[UR10+0x800],UR6", "URZ,[UR10+0x800],UR6"),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT", "PT[UR4],R0", "PT,[UR4],R0"),
        ("LDG.E", "R4,desc[UR6][R2.64]", "R4,desc[UR6][R2.64]"),
        ("ATOMG.E.ADD", "PT,RZ,desc[UR4][R2.64],R5", "PT,RZ,desc[UR4][R2.64],R5"),
        ("MOV", "R1,c[0x0][0x28]", "R1,c[0x0][0x28]"),
        ("LDC", "R1,c[0x0][R3+0x28]", "R1,c[0x0][R3+0x28]"),
    ],
)
def test_an_address_behind_another_operand_is_one_of_its_own(opcode: str, old: str, new: str):
    """As 13.0 prints them, and as 13.5 does."""
    found = [_instruction({"opcode": opcode, "operands": text}, bytes(16), 0).operands for text in (old, new)]
    assert found == [tuple(new.split(","))] * 2
