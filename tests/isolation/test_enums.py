"""Modes as members of an enumeration: which of them tell the fast path apart, and what only looks like it."""

from __future__ import annotations

import pytest

from tests.isolation.test_offpath import _prove, _proven

BASE = """
import enum
from settings import Config

class Layer:
    def __init__(self, config: Config):
        self.config = config

    def forward(self, x):
        return x
"""
ENUM = "class Mode(enum.Enum):\n    STOCK = 0\n    FUSED = 1\n"
SET = "        self.mode = Mode.FUSED if config.fused == 'on' else Mode.STOCK\n"
TEST = "self.mode is Mode.FUSED"


def _head(enum: str = ENUM, test: str = TEST, stored: str = SET, more: str = "") -> str:
    head = BASE.replace("\nclass Layer", f"\n{enum}\nclass Layer").replace("        return x\n", "        TEST")
    head = head.replace("self.config = config\n", f"self.config = config\n{stored}")
    return head.replace("        TEST", f"{more}        if {test}:\n            return 0\n        return x\n")


TWICE = """\
        self.mode = Mode.STOCK
        if config.fused == 'on':
            self.mode = Mode.FUSED
"""
AUTO = ENUM.replace("0", "enum.auto()").replace("1", "enum.auto()")


@pytest.mark.parametrize(
    "head",
    [
        _head(),
        _head(test="self.mode == Mode.FUSED"),
        _head(test="self.mode is not Mode.STOCK"),
        _head(test="self.mode != Mode.STOCK"),
        _head(test="self.mode in (Mode.FUSED,)"),
        _head(test="self.mode not in (Mode.STOCK,)"),
        _head(AUTO),
        _head(AUTO.replace("enum.Enum", "enum.IntEnum"), "self.mode == Mode.FUSED"),
        _head(ENUM + "    def describe(self):\n        return self.name\n"),
        _head(stored=TWICE),
    ],
)
def test_a_mode_that_is_stock_when_off(head: str) -> None:
    proof = _prove(BASE, head)
    assert _proven(proof), [(s.difference, s.head_text) for s in proof.differences]


KEPT = ENUM.replace("0", "'off'").replace("1", "'on'")
GIVEN = "self.config.fused"


@pytest.mark.parametrize(
    ("bases", "test", "proven"),
    [
        ("enum.Enum", f"{GIVEN} == Mode.FUSED", True),
        ("enum.Enum", f"{GIVEN} is Mode.FUSED", True),
        ("enum.Enum", f"{GIVEN} != Mode.STOCK", False),
        ("str, enum.Enum", f"{GIVEN} == Mode.FUSED", True),
        ("enum.StrEnum", f"Mode.FUSED == {GIVEN}", True),
        ("enum.StrEnum", f"{GIVEN} in (Mode.FUSED, 'auto')", True),
        ("enum.StrEnum", f"({GIVEN} or 'on') == Mode.FUSED", False),
        ("str, enum.Enum", f"({GIVEN} or 'off') == Mode.STOCK", False),
        ("str, enum.Enum", f"({GIVEN} or 'off') == Mode.FUSED", True),
        ("enum.Enum", f"({GIVEN} or 'off') == Mode.STOCK", True),  # a string is no member of a plain enumeration
        ("Text, enum.Enum", f"({GIVEN} or 'off') == Mode.FUSED", False),
    ],
)
def test_a_switch_that_is_compared_with_a_member(bases: str, test: str, proven: bool) -> None:
    head = _head(KEPT.replace("enum.Enum", bases), test, stored="")
    assert _proven(_prove(BASE, head)) is proven


@pytest.mark.parametrize(
    "head",
    [
        _head(test="self.mode is Mode.STOCK"),
        _head(test="self.mode is not Mode.FUSED"),
        _head(test="self.mode in (Mode.FUSED, Mode.STOCK)"),
        _head(test="self.mode != 0"),  # a member of a plain enumeration is no number
        _head(ENUM.replace("FUSED = 1", "FUSED = 0")),  # another name for the same member
        _head(ENUM.replace("FUSED = 1", "FUSED = False")),
        _head(ENUM + "    def __eq__(self, other):\n        return True\n", "self.mode == Mode.FUSED"),
        _head(ENUM.replace("enum.Enum", "enum.Enum, metaclass=make()")),
        _head(ENUM.replace("enum.Enum", "Base").replace("class Mode", "class Base(enum.Enum): pass\nclass Mode")),
        _head("@rename\n" + ENUM),
        _head(stored=SET.replace("Mode.FUSED if", "Mode.STOCK if").replace("else Mode.STOCK", "else Mode.FUSED")),
        _head(stored=SET + "        self.mode = pick(config)\n"),
        _head(more="        Mode = other(x)\n"),
        _head() + "\ndef elsewhere(layer):\n    layer.mode = Mode.FUSED\n",
        _head() + "\nMode = make()\n",
    ],
)
def test_a_mode_that_only_looks_like_it(head: str) -> None:
    assert not _proven(_prove(BASE, head))
