"""Generators of the base revision: arguments whose values hang together. What is filled otherwise stays so, what they
overwrite is not claimed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from validator.differential.cases import Case, build, cases, variants_of
from validator.differential.coverage import coverage, from_generator
from validator.differential.processes import Trees, runner_for
from validator.differential.results import CaseResult
from validator.differential.running import run_case
from validator.manifest.contract import KernelContract
from validator.run.sandbox import Limits

STOCK = """
import numpy as np

def means(x, at, out):
    for row in range(len(out)):
        out[row] = x[at[row] : at[row + 1]].sum(axis=0)

def makes_all(seed, b, t, d):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((t, d)).astype(np.float32), makes_cuts(seed, b, t, d)

def makes_cuts(seed, b, t, d):
    return np.sort(np.concatenate([[0, t], np.random.default_rng(seed).integers(0, t + 1, b - 1)])).astype(np.int32)

def makes_the_wrong_shape(seed, b, t, d):
    return np.zeros((t + 1, d), np.float32), makes_cuts(seed, b, t, d)
"""
FAST = """
import numpy as np

def honest(x, at, out):
    for row in range(len(out)):
        out[row] = x[at[row] : at[row + 1]].sum(axis=0)

def cut_off(x, at, out):
    for row in range(len(out)):
        out[row] = np.clip(x[at[row] : at[row + 1]], -60, 60).sum(axis=0)

def drops_the_last(x, at, out):
    for row in range(len(out)):
        out[row] = x[at[row] : max(at[row + 1] - (row + 1 == len(out)), at[row])].sum(axis=0)
"""


def contract(function: str = "honest", **changes: Any) -> KernelContract:
    cuts = {"low": 0, "high": "T", "sorted": True}
    args = [
        {"name": "x", "role": "activation", "dtype": ["float32", "bfloat16"], "shape": ["T", "D"]},
        {"name": "at", "role": "index", "dtype": ["int32", "int64"], "shape": ["B + 1"], "domain": cuts},
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["B", "D"]},
    ]
    plain = {"match": "k", "dims": ["B in 1..3", "T in 1..12", "D in 1..5"], "args": args}
    names = {"candidate": f"fast:{function}", "reference": "stock:means", "generator": "stock:makes_all"}
    return KernelContract.model_validate({**plain, **names, **changes})


def judged(tmp_path: Path, chosen: KernelContract, *picked: Case) -> list[CaseResult]:
    """These cases of it, at sizes where every cut differs."""
    for side, name, text in (("head", "fast", FAST), ("base", "stock", STOCK)):
        (tmp_path / side).mkdir()
        (tmp_path / side / f"{name}.py").write_text(text)
    with runner_for(chosen, Trees(tmp_path / "head", tmp_path / "base"), Limits(wall=30)) as runner:
        return [run_case(runner, case).result for case in picked]


SIZES = (("B", 3), ("T", 12), ("D", 4))
PLAIN = Case("k", SIZES, 1)
LARGE = Case("k", SIZES, 1, variants=(("x", "large"),))
TYPES = (Case("k", SIZES, 1, dtypes=(("x", "bfloat16"),)), Case("k", SIZES, 1, dtypes=(("at", "int64"),)))


def test_what_is_filled_on_purpose_is_not_lost_to_a_generator(tmp_path: Path) -> None:
    assert LARGE.variants[0] in {v for case in cases(contract(), 1, 0) for v in case.variants}
    plain, large = judged(tmp_path, contract("cut_off"), PLAIN, LARGE)
    assert (plain.status, large.status) == ("passed", "failed")


def test_every_type_of_a_generated_array_is_tried_and_an_honest_kernel_passes(tmp_path: Path) -> None:
    assert [r.status for r in judged(tmp_path, contract(), PLAIN, LARGE, *TYPES)] == ["passed"] * 4


def test_some_arrays_only_may_come_from_a_generator(tmp_path: Path) -> None:
    cuts = {"generates": "at", "generator": "stock:makes_cuts"}
    assert judged(tmp_path, contract("drops_the_last", **cuts), PLAIN)[0].status == "failed"


def test_a_generator_that_breaks_the_contract_leaves_every_case_unjudged(tmp_path: Path) -> None:
    (result,) = judged(tmp_path, contract(generator="stock:makes_the_wrong_shape"), PLAIN)
    assert "x must be float32[12, 4]" in result.unusable


def test_a_given_array_stands_where_nothing_else_is_asked_for() -> None:
    given = {"x": np.full((4, 2), 7.0, np.float32), "at": np.array([0, 1, 4], np.int32)}
    sizes = (("B", 2), ("T", 4), ("D", 2))
    plain = build(contract(), Case("k", sizes, 1), given=given)
    np.testing.assert_array_equal(plain["x"], given["x"])
    np.testing.assert_array_equal(plain["at"], given["at"])
    zero = build(contract(), Case("k", sizes, 1, variants=(("x", "zeros"),)), given=given)
    assert not zero["x"].any()
    np.testing.assert_array_equal(zero["at"], given["at"])


def test_nothing_is_claimed_of_what_a_generator_overwrites() -> None:
    for chosen, varied, told in (
        (contract(), {"x"}, "at held only what stock:makes_all gives, no values that were made on purpose"),
        (contract(generates=["x", "at"]), set(), "x, at held only what stock:makes_all gives"),
        (contract(generator=None), {"x", "at"}, ""),
    ):
        run = cases(chosen, 1, 20)
        assert {name for case in run for name, _ in case.variants} == varied
        (sentence,) = from_generator(chosen, run) or ("",)
        assert sentence.startswith(told)
        large = next(row for row in coverage(chosen, run) if row.input_class == "I10")
        assert bool(large.cases) == ("x" in varied)
    origins = {case.origin for case in cases(contract(), 1, 0)}
    assert "ordinary values (x, at from stock:makes_all)" in origins
    assert "x is all zero (at from stock:makes_all)" in origins


def test_floats_that_more_than_bounds_restrict_stay_as_generated() -> None:
    args = [{"name": "p", "role": "state", "dtype": "float32", "shape": [8], "domain": {"probability": True}}]
    chosen = contract(args=args, dims=[])
    assert variants_of(chosen, Case("k", (), 1), "p") == []
    assert variants_of(contract(args=args, dims=[], generator=None), Case("k", (), 1), "p") != []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"generates": "ax"}, "generates: no argument 'ax'; did you mean 'x'?"),
        ({"generates": "out"}, "argument 'out' is no array that the kernel reads"),
        ({"generates": ["at", "at"]}, "'at' is named twice"),
        ({"generates": "at", "generator": None}, "there is no `generator`; name the function"),
    ],
)
def test_what_a_generator_cannot_give_is_told(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told.replace("?", r"\?")):
        contract(**changes)
