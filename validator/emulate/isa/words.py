"""The words of a mnemonic after its opcode, taken one by one until none is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from validator.emulate.isa.model import Op, RegType

__all__ = ["Builder", "Family", "Unsupported", "Words", "signed", "width"]


class Unsupported(Exception):
    """No semantics for this form; `lookup` turns it into None."""


class Words:
    """Modifiers still to be understood. Order does not matter except between types, which stand first to last."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self._left = list(words)

    def __contains__(self, word: str) -> bool:
        return word in self._left

    def flag(self, word: str) -> bool:
        """Takes `word` if it is there."""
        if word in self._left:
            self._left.remove(word)
            return True
        return False

    def take(self, *options: str) -> str:
        """The first word that is one of `options`. Raises Unsupported without one."""
        word = self.maybe(*options)
        if word is None:
            raise Unsupported
        return word

    def maybe(self, *options: str) -> str | None:
        """The first word that is one of `options`, taken; None without one."""
        for word in self._left:
            if word in options:
                self._left.remove(word)
                return word
        return None

    def end(self) -> None:
        """Raises Unsupported when a word is left that nothing understood."""
        if self._left:
            raise Unsupported


Builder = Callable[[Words], Op]
Family = Mapping[str, Builder]
"""Opcodes that a module knows."""

_WIDTHS = {"8": RegType.B8, "16": RegType.B16, "32": RegType.B32, "64": RegType.B64, "128": RegType.B128}


def width(kind: str) -> RegType:
    """Register type of `u32`, `f16`, `b64`, `pred`; packed types by their container (`f16x2` is 32 bits)."""
    if kind == "pred":
        return RegType.P
    if kind in ("bf16", "f16"):
        return RegType.B16
    if kind in ("bf16x2", "f16x2", "u16x2", "s16x2", "tf32"):
        return RegType.B32
    if kind == "f32x2":
        return RegType.B64
    return _WIDTHS[kind[1:]]


def signed(kind: str) -> bool:
    return kind.startswith("s")
