"""Rows times a weight: a kernel whose candidates a test writes itself."""

from __future__ import annotations

from pathlib import Path

from validator.differential.processes import Trees
from validator.manifest.contract import KernelContract

__all__ = ["contract", "written"]


def contract(candidate: str) -> KernelContract:
    """`out[B, D] = x[B, D] * w[D]` in float32; the candidate is a function of `model.py`."""
    args = [("x", "activation", ["B", "D"]), ("w", "weight", ["D"]), ("out", "output", ["B", "D"])]
    return KernelContract.model_validate(
        {
            "match": "scale",
            "candidate": f"model:{candidate}",
            "reference": "stock:scale",
            "dims": ["B in 2..6", "D in 8..40"],
            "args": [{"name": n, "role": role, "dtype": "float32", "shape": shape} for n, role, shape in args],
        }
    )


def written(folder: Path, source: str) -> Trees:
    """The source as both modules: it has the stock function `scale`, too."""
    for name in ("model", "stock"):
        (folder / f"{name}.py").write_text(source)
    return Trees(folder, folder)
