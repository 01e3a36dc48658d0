"""How a returned result may lie: without gaps, in rows, or with its axes in the order of an argument of its shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from validator.differential.cases import Case
from validator.differential.processes import Trees, runner_for
from validator.differential.returned import _dense
from validator.differential.running import run_case
from validator.manifest.contract import KernelContract

OPS = """
import numpy as np

def double(x):
    return x + x

def in_rows(x):
    return np.ascontiguousarray(x + x)

def in_columns(x):
    return np.asfortranarray(x + x)

def with_gaps(x):
    wide = np.empty((x.shape[0], 2 * x.shape[1]), x.dtype)
    wide[:, ::2] = x + x
    return wide[:, ::2]
"""


def told(candidate: str, lies: str, folder: Path, **out: Any) -> list[str]:
    (folder / "ops.py").write_text(OPS)
    args = [
        {"name": "x", "role": "activation", "dtype": "float32", "shape": ["B", "D"], "layouts": ["contiguous", lies]},
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["B", "D"], **out},
    ]
    names = {"match": "k", "reference": "ops:double", "candidate": f"ops:{candidate}", "returns": "out"}
    contract = KernelContract.model_validate({**names, "dims": ["B in 2..9", "D in 2..9"], "args": args})
    case = Case("k", (("B", 3), ("D", 4)), 1, layouts=() if lies == "contiguous" else (("x", lies),))
    with runner_for(contract, Trees(folder, folder)) as runner:
        return [fault.message for fault in run_case(runner, case).result.faults]


@pytest.mark.parametrize(
    ("candidate", "lies", "right"),
    [
        ("double", "transposed", True),
        ("in_rows", "transposed", True),
        ("in_columns", "transposed", True),
        ("double", "strided", True),
        ("in_columns", "contiguous", False),
        ("in_columns", "strided", False),
        ("with_gaps", "transposed", False),
        ("with_gaps", "strided", False),
    ],
)
def test_a_result_lies_in_rows_or_as_an_argument_does(candidate: str, lies: str, right: bool, tmp_path: Path) -> None:
    assert (told(candidate, lies, tmp_path) == []) == right


def test_a_layout_that_the_contract_names_is_the_only_one(tmp_path: Path) -> None:
    (fault, *_) = told("double", "transposed", tmp_path, layouts="contiguous")
    assert "out has strides [4, 12], contiguous are [16, 4]" in fault
    assert told("in_rows", "transposed", tmp_path, layouts="contiguous") == []


def test_what_else_would_do_is_told(tmp_path: Path) -> None:
    (fault, *_) = told("with_gaps", "transposed", tmp_path)
    assert "out has strides [32, 8], contiguous are [16, 4], as an argument of its shape lies [4, 12]" in fault


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1)])
def test_without_gaps_in_the_order_of_another(axes: tuple[int, ...]) -> None:
    other = np.zeros((4, 6, 10), np.float32).transpose(axes)[:, ::2]
    assert _dense(other.shape, other.dtype, other.strides) == np.empty_like(other).strides
