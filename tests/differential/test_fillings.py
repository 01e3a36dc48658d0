"""Fillings that mean something beside others: sums that swallow ones, integers of one value, numbers of few values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from validator.differential.cases import Case, build, cases, variants_of
from validator.differential.processes import Trees, runner_for
from validator.differential.running import run_case
from validator.manifest.contract import KernelContract

SOURCE = """
import numpy as np
f32 = np.float32

def combined(y, bias, out):
    out[...] = (y.astype(f32).sum(1) + bias.astype(f32)).astype(out.dtype)

def the_other_way_round(y, bias, out):
    total = bias.astype(f32)
    for k in reversed(range(y.shape[1])):
        total = total + y[:, k].astype(f32)
    out[...] = total.astype(out.dtype)

def rounded_before_the_bias(y, bias, out):
    out[...] = (y.astype(f32).sum(1).astype(out.dtype).astype(f32) + bias.astype(f32)).astype(out.dtype)

def rounded_after_each(y, bias, out):
    total = bias
    for k in range(y.shape[1]):
        total = (total.astype(f32) + y[:, k].astype(f32)).astype(out.dtype)
    out[...] = total
"""
SUM = {
    "match": "combined",
    "reference": "stock:combined",
    "dims": ["T in 1..16", "K in 1..64", "D in {16, 64}"],
    "args": [
        {"name": "y", "role": "activation", "dtype": "bfloat16", "shape": ["T", "K", "D"]},
        {"name": "bias", "role": "weight", "dtype": "bfloat16", "shape": ["D"]},
        {"name": "out", "role": "output", "dtype": "bfloat16", "shape": ["T", "D"]},
    ],
}


@pytest.mark.parametrize(
    ("candidate", "right"),
    [("the_other_way_round", True), ("rounded_before_the_bias", True), ("rounded_after_each", False)],
)
def test_a_sum_in_the_type_of_its_terms_is_seen(candidate: str, right: bool, tmp_path: Path) -> None:
    """One rounding in between is the freedom that the contract leaves; an accumulator of that type is not."""
    (tmp_path / "stock.py").write_text(SOURCE)
    contract = KernelContract.model_validate({**SUM, "candidate": f"stock:{candidate}"})
    swallowing = [c for c in cases(contract, 1, 0) if ("y", "swallowing") in c.variants]
    with runner_for(contract, Trees(tmp_path, tmp_path)) as runner:
        results = [run_case(runner, replace(case, plan="repeat")).result for case in swallowing]
    assert {r.status for r in results} == {"passed" if right else "failed"}


WHOLE = KernelContract.model_validate(
    {
        "match": "k",
        "dims": ["T in 1..40", "V in 2..50"],
        "args": [
            {"name": "q", "role": "weight", "dtype": "int8", "shape": ["T", "V"]},
            {"name": "bits", "role": "weight", "dtype": "uint32", "shape": ["T"]},
            {"name": "ids", "role": "index", "dtype": "int64", "shape": ["T"], "domain": {"low": 0, "high": 63}},
            {"name": "first", "role": "scalar", "dtype": "int32", "domain": {"low": 0, "high": 64}},
            {"name": "flag", "role": "scalar", "dtype": "bool"},
            {"name": "mode", "role": "scalar", "dtype": "float32", "domain": {"values": [0.5, 2]}},
            {"name": "out", "role": "output", "dtype": "float32", "shape": ["T", "V"]},
        ],
    }
)


def test_whole_rows_of_integers_are_nothing_all_bits_and_the_ends_of_their_range() -> None:
    planned = cases(WHOLE, 1, 0)
    (q,) = (build(WHOLE, c)["q"] for c in planned if ("q", "row-by-row") in c.variants)
    assert {tuple(set(row.tolist())) for row in q} >= {(0,), (-128,), (-1,), (127,)}
    (bits,) = (build(WHOLE, c)["bits"] for c in planned if ("bits", "row-by-row") in c.variants)
    assert {*bits.tolist()} in ({0}, {2**32 - 1}), "a single row"


def test_numbers_passed_by_value_are_among_what_arrays_hold() -> None:
    beside = [build(WHOLE, c) for c in cases(WHOLE, 1, 0) if ("ids", "around") in c.variants]
    assert beside
    assert any(np.isin(inputs["first"], inputs["ids"]) for inputs in beside)
    assert all((abs(inputs["ids"] - inputs["first"]) <= 2).all() for inputs in beside)


def test_a_number_may_be_anything_its_type_holds() -> None:
    domain = {"low": -(2**63), "high": 2**63 - 1}
    args = [
        {"name": "seed", "role": "scalar", "dtype": "int64", "domain": domain},
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["N"]},
    ]
    contract = KernelContract.model_validate({"match": "k", "dims": ["N in 1..9"], "args": args})
    seeds = {build(contract, case)["seed"] for case in cases(contract, 1, 8)}
    assert len(seeds) > 8
    assert min(seeds) < -(2**40)
    assert max(seeds) > 2**40


def test_each_value_of_a_number_that_has_few_is_a_filling() -> None:
    def values(name: str, ways: range) -> list[object]:
        return [build(WHOLE, Case("k", (("T", 2), ("V", 2)), 0, variants=((name, f"listed-{n}"),)))[name] for n in ways]

    assert values("flag", range(2)) == [False, True]
    assert values("mode", range(2)) == [0.5, 2.0]


def _of_many_kinds() -> KernelContract:
    def argument(name: str, dtype: Any, shape: list[Any], role: str = "activation", **domain: Any) -> dict[str, Any]:
        return {"name": name, "role": role, "dtype": dtype, "shape": shape, "domain": domain}

    args = [
        argument("x", ["bfloat16", "float16", "float32"], ["B", "D"], special=["-inf", "nan", "inf"]),
        argument("y", "float16", ["T", "B", "D"]),
        argument("m", "bool", ["B", "D"]),
        argument("p", "float32", ["B", "D"], probability=True),
        argument("i", "int32", ["B", "T"], "index", index="y.0", sentinel=-1),
        argument("ids", "int64", ["B"], "index", low=0, high=1000),
        {"name": "s", "role": "scalar", "dtype": "int64", "domain": {"low": 0, "high": 900}},
        argument("o", ["int8", "uint8"], ["B", "D"], "output"),
    ]
    names = {"match": "k", "candidate": "ops:k", "reference": "ops:k"}
    return KernelContract.model_validate({**names, "dims": ["B in 0..5", "D in 0..40", "T in 1..6"], "args": args})


@pytest.mark.parametrize(("rows", "columns"), [(0, 0), (0, 17), (3, 0), (1, 1), (3, 17)])
def test_every_filling_is_made_where_there_is_nothing_to_fill(rows: int, columns: int) -> None:
    chosen, sizes = _of_many_kinds(), (("B", rows), ("D", columns), ("T", 2))
    for name in chosen.values:
        for variant in variants_of(chosen, Case("k", sizes, 1), name, alone=False):
            made = build(chosen, Case("k", sizes, 1, variants=((name, variant),)))[name]
            assert np.shape(made) == {"y": (2, rows, columns), "i": (rows, 2), "ids": (rows,), "s": ()}.get(
                name, (rows, columns)
            ), variant
