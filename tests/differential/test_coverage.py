"""The coverage table claims what the cases truly hold, by their bytes; what cannot be built has a reason."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from validator.differential.cases import Case, Inputs, aliases_of, build, cases
from validator.differential.coverage import CLASSES, Row, coverage
from validator.differential.numbers import is_float
from validator.manifest.contract import FILLED, KernelContract

CONTRACTS = Path(__file__).parents[2] / "fixtures" / "differential" / "contracts.toml"
KERNELS: list[dict[str, Any]] = tomllib.loads(CONTRACTS.read_text())["kernels"]
X = {"name": "x", "role": "activation", "dtype": "float32", "shape": ["B", "D"]}
OUT = {"name": "out", "role": "output", "dtype": "float32", "shape": ["B"]}
PLAIN: dict[str, Any] = {"match": "k", "dims": ["B in {2}", "D in {64}"], "args": [X, OUT]}


def _rows(table: dict[str, Any]) -> tuple[KernelContract, list[Case], dict[str, Row]]:
    contract = KernelContract.model_validate({**table, "candidate": "m:f"} if "reference" in table else table)
    planned = cases(contract, 3, 4)
    return contract, planned, {row.input_class: row for row in coverage(contract, planned)}


def _of_floats(inputs: Inputs, contract: KernelContract) -> list[np.ndarray[Any, Any]]:
    read = (inputs[name] for name, (role, _) in contract.values.items() if role not in FILLED)
    return [v.astype(np.float64) for v in read if isinstance(v, np.ndarray) and v.size and is_float(v.dtype)]


def _repeats(inputs: Inputs, contract: KernelContract) -> bool:
    arrays = [v for n, v in inputs.items() if isinstance(v, np.ndarray) and contract.values[n][0] not in FILLED]
    return any(v.size > len(np.unique(v.astype(np.float64))) for v in arrays)


def _tiny(inputs: Inputs, contract: KernelContract) -> bool:
    return any(np.abs(v).min() < 1e-5 for v in _of_floats(inputs, contract))


def _masked(inputs: Inputs, contract: KernelContract) -> bool:
    floats = any(np.isneginf(v).all(-1).any() for v in _of_floats(inputs, contract) if v.ndim)
    return floats or any(isinstance(v, np.ndarray) and v.dtype == bool and not v.all() for v in inputs.values())


def _rows_apart(inputs: Inputs, contract: KernelContract) -> bool:
    tops = [np.abs(v).reshape(-1, v.shape[-1]).max(-1) for v in _of_floats(inputs, contract) if v.ndim]
    return any(top.max() > 30 * top.min() for top in tops)


HOLDS: dict[str, Callable[[Inputs, KernelContract], bool]] = {
    "I6": _masked,
    "I7": lambda i, c: any(np.isnan(v).any() for v in _of_floats(i, c)),
    "I8": _repeats,
    "I9": _tiny,
    "I21": _rows_apart,
}
"""Classes that show in the values."""


@pytest.mark.parametrize("table", KERNELS, ids=[t["match"] for t in KERNELS])
def test_what_is_claimed_is_held_by_some_case(table: dict[str, Any]) -> None:
    contract, planned, rows = _rows(table)
    assert rows.keys() == CLASSES.keys()
    assert all(row.cases or row.reason for row in rows.values())
    sizes = [v for case in planned for v in dict(case.dims).values()]
    assert (rows["I3"].cases > 0) == (0 in sizes)
    assert (rows["I4"].cases > 0) == (1 in sizes)
    for input_class, holds in HOLDS.items():
        if rows[input_class].cases:
            made = [c for c in planned if input_class in (c.input_class, "I7" if c.padding else "")]
            assert any(holds(build(contract, case), contract) for case in made), input_class
    for case in planned:
        inputs = build(contract, case) if case.aliased else {}
        assert all(inputs[name] is inputs[other] for name, other in aliases_of(contract, case).items())


@pytest.mark.parametrize(
    ("unbuilt", "change"),
    [
        ("I2", {}),
        ("I3", {}),
        ("I4", {}),
        ("I5", {}),
        ("I6", {}),
        ("I7", {"args": [{**X, "name": "i", "dtype": "int32", "shape": ["B"], "domain": {"index": "q.0"}},
                         {**X, "name": "q", "dtype": "float4_e2m1fn"}, OUT]}),
        ("I8", {"args": [{**X, "domain": {"probability": True}, "shape": []}, OUT]}),
        ("I11", {}),
        ("I12", {}),
        ("I13", {}),
        ("I14", {"returns": "out"}),
        ("I16", {"batch": "B", "args": [{**X, "dtype": "int32"}, {**OUT, "dtype": "int32"}]}),
        ("I16", {"batch": "B", "dims": ["B in {1}", "D in {64}"]}),
        ("I18", {}),
        ("I19", {}),
        ("I21", {"args": [{**X, "shape": ["D"]}, OUT]}),
        ("I22", {"rounding": "as-baseline"}),
        ("I23", {}),
        ("I23", {"launches": {"argument": "n", "count": 1}, "args": [X, {"name": "n", "role": "scalar", "dtype":
                                                                          "int32"}, OUT]}),
    ],
)  # fmt: skip
def test_what_cannot_be_built_is_not_claimed_and_has_a_reason(unbuilt: str, change: dict[str, Any]) -> None:
    _, _, rows = _rows({**PLAIN, **change})
    assert rows[unbuilt].cases == 0, rows[unbuilt]
    assert rows[unbuilt].reason
