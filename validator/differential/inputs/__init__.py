"""Input classes: what an argument may be filled with, and which classes apply to it.

`VARIANTS` is the registry. A variant belongs to a class (`I1`…`I23`, see `validator.differential.coverage`) and makes
the values of one argument; sizes, layouts, padding and call plans are classes of a whole case
(`validator.differential.cases`).
"""

from validator.differential.inputs.fill import Fill, Room, filled, in_domain, is_bounded, shown
from validator.differential.inputs.floats import EXACTLY, FLOATS, HUGE, LIMITS, OUTWEIGHED, cancels
from validator.differential.inputs.integers import INTEGERS
from validator.differential.inputs.listed import LISTED
from validator.differential.inputs.masks import MASKS
from validator.differential.inputs.narrow import BETWEEN, NARROW, SCALED, TOPS
from validator.differential.inputs.special import SPECIAL
from validator.differential.inputs.variant import Variant

__all__ = [
    "BETWEEN",
    "EXACTLY",
    "HUGE",
    "LIMITS",
    "LISTED",
    "OUTWEIGHED",
    "SCALED",
    "TOPS",
    "VARIANTS",
    "Fill",
    "Room",
    "Variant",
    "applicable",
    "cancels",
    "filled",
    "in_domain",
    "is_bounded",
    "shown",
]

VARIANTS: dict[str, Variant] = {v.name: v for v in (*FLOATS, *NARROW, *SPECIAL, *INTEGERS, *MASKS, *LISTED)}


def applicable(fill: Fill) -> list[Variant]:
    """Variants that make sense for this argument, in a fixed order."""
    return [v for v in VARIANTS.values() if v.applies(fill)]
