"""Sums of few terms that are exact in the promised precision: an accumulator of the arguments' type shows in them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from validator.differential.cases import Case, build, cases
from validator.differential.engine import run_cases
from validator.differential.inputs import EXACTLY, cancels
from validator.differential.processes import Trees, runner_for
from validator.manifest.contract import KernelContract
from validator.run.sandbox import Limits

OPS = """
import ml_dtypes, numpy as np

def up(x):
    return x.astype(np.float32) if x.itemsize < 4 else x

def dot(x, w, out):
    out[...] = (up(x) * up(w)).sum(-1)

def in_blocks(x, w, out, split=1):
    out[...] = 0
    for at in range(0, x.shape[1], 7):
        out[...] += (up(x[:, at:at + 7]) * up(w[at:at + 7]))[:, ::-1].sum(-1, dtype=np.float32)

def narrow_pairs(x, w, out, split=1):
    terms = (x * w).astype(x.dtype)
    while split == 4 and terms.shape[1] > 1:
        odd = terms[:, terms.shape[1] // 2 * 2:]
        terms = np.concatenate([(terms[:, 0:-1:2] + terms[:, 1::2]).astype(x.dtype), odd], 1)
    out[...] = terms.astype(np.float32).sum(-1)

def reduce(x, w, out):
    out[...] = np.einsum("tkd,tk->td", up(x), w)

def reduce_by_rows(x, w, out, split=1):
    total = np.zeros(out.shape, np.float32)
    for k in range(x.shape[1])[::-1]:
        total += up(x[:, k]) * w[:, k, None]
    out[...] = total.astype(out.dtype)

def rounds_each(x, w, out, split=1):
    total = np.zeros(out.shape, out.dtype)
    for k in range(x.shape[1]):
        total = (up(total) + up(x[:, k]) * w[:, k, None]).astype(out.dtype)
    out[...] = total

def low_rank(x, w, out):
    out[...] = (up(x) @ up(w)).sum(-1, keepdims=True)

def rounds_in_between(x, w, out, split=1):
    middle = (up(x) @ up(w)).astype(x.dtype)
    out[...] = up(middle).sum(-1, keepdims=True, dtype=np.float32)
"""
SHAPES: dict[str, tuple[list[Any], list[Any], list[Any]]] = {
    "dot": (["B", "D"], ["D"], ["B"]),
    "reduce": (["T", "K", "D"], ["T", "K"], ["T", "D"]),
    "low_rank": (["B", "D"], ["D", "R"], ["B", 1]),
}
DIMS = {"B": "B in 1..9", "D": "D in 1..64", "T": "T in 1..9", "K": "K in 1..8", "R": "R in 1..8"}


def contract(stock: str, candidate: str, dtype: str) -> KernelContract:
    x, w, out = SHAPES[stock]
    args = [
        {"name": "x", "role": "activation", "dtype": dtype, "shape": x},
        {"name": "w", "role": "weight", "dtype": "float32" if stock == "reduce" else dtype, "shape": w},
        {"name": "out", "role": "output", "dtype": dtype if stock == "reduce" else "float32", "shape": out},
    ]
    dims = [DIMS[name] for name in dict.fromkeys(size for size in (*x, *w) if size in DIMS)]
    names = {"match": "k", "candidate": f"ops:{candidate}", "reference": f"ops:{stock}"}
    return KernelContract.model_validate({**names, "dims": dims, "args": args, "configurations": {"split": [1, 4]}})


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("stock", "candidate", "right"),
    [
        ("dot", "in_blocks", True),
        ("dot", "narrow_pairs", False),
        ("reduce", "reduce_by_rows", True),
        ("reduce", "rounds_each", False),
        ("low_rank", "rounds_in_between", True),
    ],
)
def test_an_accumulator_of_the_inputs_type_is_found(
    dtype: str, stock: str, candidate: str, right: bool, tmp_path: Path
) -> None:
    """In one configuration only, too; what is rounded once in between passes."""
    (tmp_path / "ops.py").write_text(OPS)
    chosen = contract(stock, candidate, dtype)
    planned = tuple(case for case in cases(chosen, 1, 0) if EXACTLY in dict(case.variants).values())
    assert {dict(case.configuration)["split"] for case in planned} == {1, 4}
    with runner_for(chosen, Trees(tmp_path, tmp_path), Limits(wall=30)) as runner:
        result = run_cases(runner, planned)
    assert bool(result.of("failed")) != right
    assert not result.of("unusable")
    assert len(result.of("void")) < len(planned)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_is_rounded_once_in_between_passes_where_an_element_is_another(dtype: str, tmp_path: Path) -> None:
    """Two elements in each other's place: sums on the way are no longer what 16 bits hold."""
    (tmp_path / "ops.py").write_text(OPS)
    chosen = contract("low_rank", "rounds_in_between", dtype)
    planned = [case for case in cases(chosen, 1, 0) if EXACTLY in dict(case.variants).values()]
    with runner_for(chosen, Trees(tmp_path, tmp_path), Limits(wall=30)) as runner:
        flipped = tuple(replace(case, plan="flip", seed=seed) for case in planned[:2] for seed in range(6))
        assert not run_cases(runner, flipped).of("failed")


def test_what_is_exact_is_neither_cut_nor_changed() -> None:
    chosen = contract("reduce", "reduce_by_rows", "bfloat16")
    x = build(chosen, Case("k", (("T", 5), ("K", 8), ("D", 4)), 1, variants=(("x", EXACTLY),)))["x"]
    assert cancels(x)
    assert cancels(np.ones((3, 2), np.float32))
    assert not cancels(x[:, :6]), "two are left over"
    changed = x.copy()
    changed[0, 0, 0], changed[0, 0, 1] = x[0, 0, 1], x[0, 0, 0]
    assert not cancels(changed)


def test_four_in_turn_cancel_along_any_axis() -> None:
    chosen = contract("reduce", "reduce_by_rows", "bfloat16")
    sizes = (("T", 5), ("K", 8), ("D", 6))
    for seed in range(4):
        x = build(chosen, Case("k", sizes, seed, variants=(("x", EXACTLY),)))["x"].astype(np.float64)
        assert set(x.flat) == {1.0, 256.0, -256.0}
        np.testing.assert_array_equal(x.sum(axis=1), 4)


ONE_BY_ONE = """
import numpy as np

def stock(x, out):
    e = np.exp(x - x.max(-1, keepdims=True))
    out[...] = e / e.sum(-1, keepdims=True)

def one_by_one(x, out):
    top, total = np.full(x.shape[0], -np.inf, np.float32), np.zeros(x.shape[0], np.float32)
    for column in range(x.shape[1]):
        new = np.maximum(top, x[:, column])
        total = total * np.exp(top - new) + np.exp(x[:, column] - new)
        top = new
    out[...] = np.exp(x - top[:, None]) / total[:, None]
"""


def test_terms_that_one_outweighs_may_all_be_lost(tmp_path: Path) -> None:
    """Each of 59 is less than half a step of the largest; added up before it they are several."""
    (tmp_path / "ops.py").write_text(ONE_BY_ONE)
    args = [
        {
            "name": "x",
            "role": "activation",
            "dtype": "float32",
            "shape": ["B", "D"],
            "domain": {"low": -0.5, "high": 17.4},
        },
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["B", "D"]},
    ]
    names = {"match": "k", "candidate": "ops:one_by_one", "reference": "ops:stock"}
    kernel = KernelContract.model_validate({**names, "dims": ["B in 1..16", "D in 1..64"], "args": args})
    planned = tuple(Case("k", (("B", 16), ("D", 60)), seed, variants=(("x", "hot-last"),)) for seed in range(24))
    with runner_for(kernel, Trees(tmp_path, tmp_path), Limits(wall=30)) as runner:
        assert run_cases(runner, planned).of("failed") == []
