"""Which hardware a compiled artifact serves: PTX forward, machine code within its generation (CUDA C++ guide)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from validator.ordering.program import Isa

__all__ = ["Architecture", "serves"]

_NAME = re.compile(r"(?:sm|compute)_(\d+)(\d)([af]?)")


@dataclass(frozen=True, slots=True)
class Architecture:
    """`sm_100a` taken apart."""

    major: int
    minor: int
    kind: str
    """`a`: this architecture only; `f`: its family; empty: portable."""

    @classmethod
    def parse(cls, name: str) -> Architecture | None:
        """None for a name that is none."""
        match = _NAME.fullmatch(name.strip())
        return cls(int(match[1]), int(match[2]), match[3]) if match else None


def serves(isa: Isa, built: str, wanted: str) -> bool:
    """Whether code of `isa` built for one architecture is what hardware of the wanted one would run."""
    one, other = Architecture.parse(built), Architecture.parse(wanted)
    if one is None or other is None:
        return built == wanted
    if (one.major, one.minor) == (other.major, other.minor):
        return True
    if one.kind == "a" or (one.major, one.minor) > (other.major, other.minor):
        return False
    return one.major == other.major or (isa is Isa.PTX and one.kind == "")
