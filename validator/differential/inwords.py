"""What was drawn for a case and a reader wants to see: numbers passed by value, a few positions, lengths or flags."""

from __future__ import annotations

import numpy as np

from validator.differential.cases import FILLED, Inputs, is_drawn
from validator.differential.numbers import is_float
from validator.differential.pinned import FEW
from validator.manifest.contract import KernelContract

__all__ = ["in_words"]


def in_words(contract: KernelContract, inputs: Inputs) -> str:
    """`w = 1; lens = [2, 5]`; empty where nothing of the kind was drawn."""
    told = []
    for name, (role, values) in contract.values.items():
        value = inputs.get(name)
        if role in FILLED or not is_drawn(values) or value is None:
            continue
        if not isinstance(value, np.ndarray):
            told.append(f"{name} = {value:.6g}" if isinstance(value, float) else f"{name} = {value}")
        elif not is_float(value.dtype) and 0 < value.size <= FEW:
            told.append(f"{name} = {value.astype(object).tolist()}")
    return "; ".join(told)
