"""Checkers of the base revision: where no element has one right value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from validator.differential.engine import run_kernel
from validator.differential.processes import Trees, runner_for
from validator.differential.results import KernelResult
from validator.manifest.contract import KernelContract
from validator.run.sandbox import Limits

STOCK = '''
import numpy as np

def top(x, out):
    out[...] = np.argsort(-x, axis=-1, kind="stable")[:, : out.shape[1]]

def is_top(x, chosen):
    """Any order among equals; the values must be the largest, and no place may occur twice."""
    best = -np.sort(-x, axis=-1)[:, : chosen.shape[1]]
    inside = np.all((chosen >= 0) & (chosen < x.shape[1]))
    if not inside:
        return np.bool_(False)
    got = -np.sort(-np.take_along_axis(x, chosen.astype(np.int64), axis=-1), axis=-1)
    distinct = all(len(set(row)) == len(row) for row in chosen.tolist())
    return np.bool_(np.array_equal(got, best) and distinct)
'''
FAST = """
import numpy as np

def from_behind(x, out):
    order = x.shape[1] - 1 - np.argsort(-x[:, ::-1], axis=-1, kind="stable")
    out[...] = order[:, : out.shape[1]]

def repeats_the_best(x, out):
    out[...] = np.argmax(x, axis=-1)[:, None]

def second_best(x, out):
    out[...] = np.argsort(-x, axis=-1, kind="stable")[:, 1 : out.shape[1] + 1]
"""


def judged(tmp_path: Path, function: str, **changes: Any) -> KernelResult:
    for side, name, text in (("head", "fast", FAST), ("base", "stock", STOCK)):
        (tmp_path / side).mkdir()
        (tmp_path / side / f"{name}.py").write_text(text)
    contract = KernelContract.model_validate(
        {
            "match": "top",
            "candidate": f"fast:{function}",
            "reference": "stock:top",
            "dims": ["B in 1..4", "K in 1..4", "D in 5..20"],
            "tolerance": {"policy": "property", "checker": "stock:is_top"},
            "args": [
                {"name": "x", "role": "activation", "dtype": "float32", "shape": ["B", "D"]},
                {"name": "out", "role": "output", "dtype": "int32", "shape": ["B", "K"]},
            ],
            **changes,
        }
    )
    trees = Trees(tmp_path / "head", tmp_path / "base")
    with runner_for(contract, trees, Limits(wall=30)) as runner:
        return run_kernel(runner, 3, 5)


def test_another_order_of_ties_passes_where_the_checker_allows_it(tmp_path: Path) -> None:
    result = judged(tmp_path, "from_behind")
    assert [r.faults for r in result.of("failed")] == []
    assert result.of("unusable") == []
    assert result.of("passed")
    assert result.sound


def test_another_order_of_ties_fails_where_the_reference_decides(tmp_path: Path) -> None:
    result = judged(tmp_path, "from_behind", tolerance={"policy": "exact"})
    assert any(v == "tied" for r in result.of("failed") for _, v in r.case.variants)


@pytest.mark.parametrize("function", ["repeats_the_best", "second_best"])
def test_what_breaks_the_property_is_refused(tmp_path: Path, function: str) -> None:
    result = judged(tmp_path, function)
    assert len(result.of("failed")) > len(result.planned) // 2
    assert any("is_top" in f.message for r in result.of("failed") for f in r.faults)
