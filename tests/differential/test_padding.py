"""What no length covers holds NaN: it may not reach a result, and nobody is held to NaN that a launch only found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from validator.differential.cases import Case, build, cases
from validator.differential.combined import combined_cases
from validator.differential.padding import unused_parts
from validator.differential.processes import Trees, runner_for
from validator.differential.results import CaseResult
from validator.differential.running import run_case
from validator.manifest.contract import KernelContract
from validator.run.sandbox import Limits

STOCK = """
import numpy as np

def total(x, lengths, out):
    for row, length in enumerate(lengths):
        out[row] = x[row, :length].sum(axis=0)

def total_of_all(x, lengths, out):
    used = np.arange(x.shape[1])[None, :] < lengths[:, None]
    out[...] = (x * used[..., None]).sum(axis=1)
"""
FAST = """
import numpy as np

def masked(x, lengths, out):
    used = np.arange(x.shape[1])[None, :] < lengths[:, None]
    out[...] = np.where(used[..., None], np.nan_to_num(x), 0).sum(axis=1)

def multiplied(x, lengths, out):
    used = np.arange(x.shape[1])[None, :] < lengths[:, None]
    out[...] = (x * used[..., None]).sum(axis=1)
"""
SIZES = (("B", 4), ("T", 16), ("D", 8))
SEEDS = range(12)
Judge = Callable[..., list[CaseResult]]


def contract(candidate: str = "masked", reference: str = "total", dtype: str = "float32") -> KernelContract:
    args: list[dict[str, Any]] = [
        {"name": "x", "role": "state", "dtype": dtype, "shape": ["B", "T", "D"]},
        {"name": "lengths", "role": "index", "dtype": "int32", "shape": ["B"], "domain": {"lengths": "x.1"}},
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["B", "D"]},
    ]
    dims = ["B in 1..4", "T in 1..16", "D in 1..8"]
    names = {"candidate": f"fast:{candidate}", "reference": f"stock:{reference}"}
    return KernelContract.model_validate({"match": "k", "dims": dims, "batch": "B", "args": args, **names})


@pytest.fixture
def judged(tmp_path: Path) -> Judge:
    """Cases with padding, of these plans and seeds."""

    def run(chosen: KernelContract, plans: tuple[str, ...]) -> list[CaseResult]:
        for side, name, text in (("head", "fast", FAST), ("base", "stock", STOCK)):
            (tmp_path / side).mkdir(exist_ok=True)
            (tmp_path / side / f"{name}.py").write_text(text)
        with runner_for(chosen, Trees(tmp_path / "head", tmp_path / "base"), Limits(wall=30)) as runner:
            made = [Case("k", SIZES, seed, plan=plan, padding=True) for plan in plans for seed in SEEDS]
            return [run_case(runner, case).result for case in made]

    return run


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_padding_that_a_state_carries_on_is_nobodys_result(judged: Judge, dtype: str) -> None:
    """Lengths grow from call to call: what lay beyond the old ones was never written by a launch."""
    results = judged(contract(dtype=dtype), ("carried-on", "same-buffer"))
    assert [r.faults for r in results if r.faults] == []
    assert [r.unusable for r in results if r.unusable] == []


@pytest.mark.parametrize("plan", ["repeat", "carried-on"])
def test_a_candidate_that_reads_padding_is_found(judged: Judge, plan: str) -> None:
    assert any(r.faults for r in judged(contract("multiplied"), (plan,)))


def test_a_reference_that_reads_padding_accuses_nobody(judged: Judge) -> None:
    results = judged(contract("masked", "total_of_all"), ("repeat", "carried-on", "batch-mates"))
    assert [r.faults for r in results if r.faults] == []
    told = [r.unusable for r in results if r.unusable]
    assert told
    assert all("stock:total_of_all reads what no index points to" in text for text in told)


def test_unused_parts_are_what_padding_fills() -> None:
    chosen = contract()
    case = next(c for c in cases(chosen, 1, 5) if c.padding)
    padded, plain = build(chosen, case), build(chosen, replace(case, padding=False))
    unused = unused_parts(chosen, padded)["x"]
    assert unused.any()
    np.testing.assert_array_equal(np.isnan(padded["x"]), unused)
    np.testing.assert_array_equal(padded["x"][~unused], plain["x"][~unused])


def paged(cache: list[Any], slots: str, **more: Any) -> KernelContract:
    args: list[dict[str, Any]] = [
        {"name": "k", "role": "state", "dtype": "float32", "shape": cache},
        {"name": "v", "role": "state", "dtype": "bfloat16", "shape": cache},
        {"name": "scales", "role": "activation", "dtype": "float32", "shape": cache[:1]},
        {"name": "table", "role": "index", "dtype": "int32", "shape": ["B", "M"], "domain": {"index": "k.0"} | more},
        {"name": "lens", "role": "index", "dtype": "int32", "shape": ["B"],
         "domain": {"lengths": "table.1", "slots": slots}},
    ]  # fmt: skip
    dims = ["B in 1..3", "M in 1..4", "N in 1..40", "S in {4, 8}"]
    return KernelContract.model_validate({"match": "k", "dims": dims, "args": args})


PAGES = (("B", 3), ("M", 4), ("N", 20), ("S", 4))


@pytest.mark.parametrize(("cache", "slots"), [(["N", "S", 2], "k.1"), (["N", 2, "S"], "k.2")])
def test_slots_beyond_a_length_and_pages_of_no_entry_in_use_hold_nan(cache: list[Any], slots: str) -> None:
    chosen, axis = paged(cache, slots), int(slots[-1])
    for variants in ((), (("lens", "whole-pages"),), (("lens", "empty"),), (("lens", "full"),)):
        inputs = build(chosen, Case("k", PAGES, 2, variants=variants, padding=True))
        used = np.zeros((20, 4), bool)
        for row, length in zip(inputs["table"], inputs["lens"], strict=True):
            assert 0 <= length <= 16
            for at in range(int(length)):
                used[row[at // 4], at % 4] = True
        for name in ("k", "v"):
            nan = np.isnan(np.moveaxis(inputs[name].astype(np.float64), axis, 1))
            np.testing.assert_array_equal(nan, np.broadcast_to(~used[:, :, None], nan.shape))
        np.testing.assert_array_equal(np.isnan(inputs["scales"]), ~used.any(axis=1))


def test_entries_behind_a_length_point_to_pages_that_hold_nan() -> None:
    chosen = paged(["N", "S", 2], "k.1")
    case = Case("k", PAGES, 5, variants=(("lens", "single"),))
    padded = build(chosen, replace(case, padding=True))
    assert not np.isnan(padded["k"][padded["table"][:, 0], 0]).any()
    behind = padded["table"][:, 1:]
    assert np.all((behind >= 0) & (behind < 20))
    assert np.isnan(padded["k"][behind]).all()
    unique = paged(["N", "S", 2], "k.1", unique=True)
    kept = build(unique, replace(case, padding=True))["table"]
    assert len(np.unique(kept)) == kept.size


def test_lengths_of_pages_are_tried_where_a_page_ends() -> None:
    chosen = paged(["N", "S", 2], "k.1")
    seen = {
        int(length) % 4
        for seed in range(6)
        for length in build(chosen, Case("k", PAGES, seed, variants=(("lens", "whole-pages"),)))["lens"]
    }
    assert seen == {0, 1, 3}
    assert any(("lens", "whole-pages") in case.variants for case in cases(chosen, 1, 0))


@pytest.mark.parametrize(
    ("index", "slots", "told"),
    [
        ("k.0", "k.0", "expected another axis of 'k', into which 'table' points"),
        ("k.0", "v.1", "expected another axis of 'k', into which 'table' points"),
        ("k.0", "k.7", "'k' has no axis 7"),
        (None, "k.1", "'table' has no domain.index, such as k.0"),
    ],
)
def test_slots_that_are_none_are_told(index: str | None, slots: str, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        paged(["N", "S", 2], slots, index=index)


def test_what_leaves_nothing_unused_is_no_case_of_padding() -> None:
    """An index into an output, or one that names every row once."""
    x = {"name": "x", "role": "activation", "dtype": "float32", "shape": ["N", 2]}
    out = {"name": "out", "role": "output", "dtype": "float32", "shape": ["N", 2]}
    for into, unique in (("out.0", False), ("x.0", True)):
        domain = {"index": into, "unique": unique}
        at = {"name": "at", "role": "index", "dtype": "int32", "shape": ["N"], "domain": domain}
        chosen = KernelContract.model_validate({"match": "k", "dims": ["N in 2..40"], "args": [x, at, out]})
        assert not any(case.padding for case in cases(chosen, 1, 20) + combined_cases(chosen, 1, 20))


def test_an_index_leaves_something_unused_however_long_it_is() -> None:
    x = {"name": "x", "role": "activation", "dtype": "float32", "shape": ["N", 2]}
    at = {"name": "at", "role": "index", "dtype": "int32", "shape": ["T"], "domain": {"index": "x.0"}}
    chosen = KernelContract.model_validate({"match": "k", "dims": ["N in 2..8", "T in 90..99"], "args": [x, at]})
    padded = [case for case in cases(chosen, 1, 20) if case.padding]
    assert padded
    assert all(np.isnan(build(chosen, case)["x"]).any() for case in padded)
    plain = build(chosen, replace(padded[0], padding=False))
    assert len(np.unique(plain["at"])) > len(np.unique(build(chosen, padded[0])["at"]))
