"""Mistakes that a tolerance cannot see are named: here those of rounding, where the contract says where it happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from validator.differential.adequacy import ROUNDED_LATE
from validator.differential.engine import run_kernel
from validator.differential.processes import Trees, runner_for
from validator.differential.results import KernelResult
from validator.manifest.contract import KernelContract

MODEL = """
import numpy as np

def chain(x, w, out):
    out[...] = x * w + x * x

def chain_again(x, w, out):
    out[...] = x * w + x * x
"""


def run(folder: Path, dtype: str, **keys: Any) -> KernelResult:
    (folder / "model.py").write_text(MODEL)
    args = [("x", "activation", ["B", "D"]), ("w", "weight", ["D"]), ("out", "output", ["B", "D"])]
    contract = KernelContract.model_validate(
        {
            "match": "chain",
            "candidate": "model:chain_again",
            "reference": "model:chain",
            "dims": ["B in 2..8", "D in 16..48"],
            "args": [
                {"name": n, "role": role, "dtype": dtype, "shape": shape, "domain": {"low": 1, "high": 2}}
                for n, role, shape in args
            ],
            **keys,
        }
    )
    with runner_for(contract, Trees(folder, folder)) as runner:
        return run_kernel(runner, 3, 4)


@pytest.mark.parametrize(
    ("keys", "blind"),
    [
        ({"rounding": "as-baseline"}, False),
        ({"tolerance": {"policy": "exact"}}, False),
        ({"tolerance": {"policy": "ulp", "ulp": 4}}, True),
    ],
)
def test_a_moved_rounding_point_is_tried_where_the_contract_fixes_them(
    tmp_path: Path, keys: dict[str, Any], blind: bool
) -> None:
    result = run(tmp_path, "bfloat16", **keys)
    assert ROUNDED_LATE in result.tried
    assert (ROUNDED_LATE in result.blind) is blind


def test_free_rounding_points_may_move(tmp_path: Path) -> None:
    assert ROUNDED_LATE not in run(tmp_path, "bfloat16").tried


@pytest.mark.parametrize(("promised", "tried"), [("float32", True), ("bfloat16", False)])
def test_rounding_beforehand_is_a_mistake_unless_so_little_is_promised(
    tmp_path: Path, promised: str, tried: bool
) -> None:
    result = run(tmp_path, "float32", compute_dtype=promised)
    early = "x rounded to bfloat16 beforehand"
    assert (early in result.tried) is tried
    assert early not in result.blind


BIASED = """
import numpy as np

def biased(x, w, sx, sw, bias, out):
    acc = x.astype(np.int64) @ w.astype(np.int64)
    out[...] = acc * sx[:, None] * sw + bias

def biased_again(x, w, sx, sw, bias, out):
    out[...] = (x.astype(np.float32) @ w.astype(np.float32)) * sw * sx[:, None] + bias
"""


def test_a_mistake_that_few_fillings_show_is_tried_on_them(tmp_path: Path) -> None:
    """Where a product is as large as this one, its bias shows only beside scales that are zero; mistakes that nothing
    shows (a gain of 1 %, of what is rounded to 8 bits) were tried on every case before those, until none was left."""
    (tmp_path / "model.py").write_text(BIASED)
    args = [
        ("x", "activation", "int8", ["M", "K"]),
        ("w", "weight", "int8", ["K", "N"]),
        ("sx", "activation", "float32", ["M"]),
        ("sw", "weight", "float32", ["N"]),
        ("bias", "weight", "float32", ["N"]),
        ("out", "output", "bfloat16", ["M", "N"]),
    ]
    contract = KernelContract.model_validate(
        {
            "match": "biased",
            "candidate": "model:biased_again",
            "reference": "model:biased",
            "dims": ["M in 1..48", "N in 1..64", "K in 1..256"],
            "args": [{"name": n, "role": role, "dtype": dtype, "shape": shape} for n, role, dtype, shape in args],
        }
    )
    with runner_for(contract, Trees(tmp_path, tmp_path)) as runner:
        result = run_kernel(runner, 3, 0)
    assert result.of("failed") == []
    assert {"tail of bias dropped", "bias cut to 3 mantissa bits"} <= set(result.tried)
    assert not {"tail of bias dropped", "bias cut to 3 mantissa bits"} & set(result.blind)
    assert "bias scaled by 1.01" in result.blind
