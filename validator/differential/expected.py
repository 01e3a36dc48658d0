"""What is right for one output, and how far from it is still right."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from validator.differential import passes
from validator.differential.numbers import Array, in_chunks, largest
from validator.differential.spread import F64
from validator.manifest.contract import Tolerance

__all__ = ["ALONE", "Expected", "as_trusted", "narrowest"]


@dataclass(frozen=True, slots=True)
class Expected:
    """What one output should be."""

    exact: F64
    """The reference in float64."""
    native: Array
    """The trusted implementation in the output's own type."""
    yardstick: F64
    """Element by element, what an honest implementation may be off by (one standard deviation)."""
    unspecified: NDArray[np.bool_]
    """Elements that the reference does not write."""
    undecided: NDArray[np.bool_] | None = None
    """Elements whose digits hang on rounding errors of the promised precision; None: nobody asked."""
    least: Array | None = None
    """Of a result of few values: what each element is at least, in its type; None: `yardstick` says it all."""
    most: Array | None = None
    """What it is at most."""
    alone: NDArray[np.bool_] | None = None
    """Elements that may be off by what their own yardstick says, and not by what that of their row does; None: none."""
    beyond: bool = field(init=False)
    """Some element is too large for the output's type."""
    widest: float = field(init=False)
    """The largest finite yardstick of an element that the reference writes."""

    def __post_init__(self) -> None:
        top, inside, widest = largest(self.native.dtype), True, 0.0
        found = passes.ends(self.exact, self.yardstick, self.unspecified, top)
        if found is None:
            for exact, yard, free in in_chunks(self.exact, self.yardstick, self.unspecified):
                inside = inside and bool(np.all((exact <= top) & (exact >= -top)))
                widest = max(widest, float(np.max(yard, where=np.isfinite(yard) & ~free, initial=0.0)))
        else:
            inside, widest = found
        object.__setattr__(self, "beyond", not inside)
        object.__setattr__(self, "widest", widest)


def as_trusted(tolerance: Tolerance) -> bool:
    """Whether what the trusted implementation gives is right by what right means."""
    match tolerance.policy:
        case "relative-to-baseline":
            return narrowest(tolerance) >= 1  # its own error is part of the yardstick
        case policy:
            return policy in ("exact", "ulp")


ALONE = 4.0
"""How much wider the limit is for a single sample of the error than for many: a ratio over a handful is noise.

A slice counts as one sample however long it is: a gate, a norm or a softmax's denominator has one rounding error, and
all elements of its row share it.
"""


def narrowest(tolerance: Tolerance) -> float:
    return min(tolerance.rms_ratio, ALONE * tolerance.max_ratio)
