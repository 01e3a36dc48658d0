"""Inputs that hold equal values: they stay equal while others are moved, so that what hangs on them keeps its place.

Where equal values are moved apart, however little, a choice between them jumps, and nothing could be said of what is
chosen. An honest kernel finds them equal too: it is asked for the choice that the reference makes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from validator.differential.cases import Case
from validator.differential.inputs import VARIANTS
from validator.differential.numbers import bell_of
from validator.manifest.contract import KernelContract

__all__ = ["Tied", "holds_ties", "step_of"]

_OF_TIES = ("I8", "exact")
"""Input classes whose values are few."""


def holds_ties(contract: KernelContract, case: Case, name: str) -> bool:
    """Whether an argument holds few values, by what it was filled with or by what it may hold."""
    variant = dict(case.variants).get(name)
    few = variant is not None and VARIANTS[variant].input_class in _OF_TIES
    return few or bool(contract.values[name][1].domain.values)


@dataclass(frozen=True, slots=True)
class Tied:
    """Moves that are the same for equal values of any argument, and for halves, doubles and negatives of them."""

    seed: int
    signed: bool = False
    """Negatives are moved otherwise: what lies half way between two that are opposite no longer does."""

    def bell(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Whole numbers from -7 to 7, by a hash of each significand (the finalizer of splitmix64)."""
        with np.errstate(over="ignore"):
            bits = np.asarray(np.frexp(values if self.signed else np.abs(values))[0]).view(np.uint64)
            bits = bits + np.uint64(self.seed)
            for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
                bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
        return np.rint(2.0 * bell_of(bits ^ (bits >> np.uint64(31))))


def step_of(promised: float) -> float:
    """How far such a move goes, relative, where `promised` is a rounding error: so few digits that sums stay exact."""
    return float(2.0 ** np.ceil(np.log2(promised) / 2))
