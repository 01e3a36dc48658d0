"""A way to fill an argument on purpose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from validator.differential.inputs.fill import Fill
from validator.differential.numbers import Array, Source

__all__ = ["Make", "Variant"]

Make = Callable[[Fill, Source], Array]


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to fill one argument."""

    name: str
    input_class: str
    words: str
    """After the argument's name, as in a sentence: "is all zero"."""
    applies: Callable[[Fill], bool]
    make: Make
    alone: bool = True
    """False: it means nothing but beside what other arguments hold."""
