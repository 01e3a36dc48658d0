"""Operands as releases of nvdisasm print them."""

from __future__ import annotations

import pytest

from validator.ordering.sass.disassemble import _instruction


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[UR4][UR6],UR8", "[UR4],[UR6],UR8"),
        ("[UR8],desc[UR6][R2.64]", "[UR8],desc[UR6][R2.64]"),
        ("R4,desc[UR6][R2.64]", "R4,desc[UR6][R2.64]"),
        ("R1,c[0x0][0x28]", "R1,c[0x0][0x28]"),
    ],
)
def test_an_address_behind_an_address_is_an_operand_of_its_own(old: str, new: str):
    """As 13.0 prints them, and as 13.5 does."""
    found = [_instruction({"opcode": "X", "operands": text}, bytes(16), 0).operands for text in (old, new)]
    assert found == [tuple(new.split(","))] * 2
