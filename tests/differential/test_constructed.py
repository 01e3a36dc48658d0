"""What is found by construction, whatever the seed, and what honest kernels that look alike may do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from validator.differential.cases import Case, build, cases, copied
from validator.differential.changes import rearranged, single_changes
from validator.differential.overflow import flushed, only_moves, overflown
from validator.differential.processes import Trees, runner_for
from validator.differential.results import CaseResult
from validator.differential.running import run_case
from validator.manifest.contract import KernelContract

STOCK = """
import numpy as np

def wide(a):
    return a.astype(np.float32) if a.dtype.itemsize < 4 else a

def mean_square(x, out):
    out[...] = (x * x).mean(-1)

def pooled(x, out):
    out[...] = x.mean((1, 2))

def grouped(x, out):
    away = x - x.mean((1, 2), keepdims=True)
    out[...] = away / np.sqrt((away * away).mean((1, 2), keepdims=True) + 1e-5)

def product(a, b, out):
    out[...] = a @ b

def tripled(x, out):
    out[...] = x * x.dtype.type(3)

def scaled_product(a, sa, b, sb, out):
    a, b = (wide(v) * np.repeat(s, 32, 1)[:, : v.shape[1]] for v, s in ((a, sa), (b, sb)))
    out[...] = (a @ b.T).astype(out.dtype)

def quantised(x, s, out):
    out[...] = np.clip(np.rint(x / s[:, None]), -127, 127).astype(np.int8)

def running_max(x, out):
    out[...] = x.max(-1)
"""
FAST = """
import ml_dtypes, numpy as np
f32, bf16 = np.float32, ml_dtypes.bfloat16

def _one_accumulator(x, kind):
    total = np.zeros(x.shape[0], kind)
    for column in range(x.shape[1]):
        total = (total.astype(f32) + x[:, column] * x[:, column]).astype(kind)
    return total.astype(f32) / f32(x.shape[1])

def one_accumulator(x, out):
    out[...] = _one_accumulator(x, f32)

def narrow_accumulator(x, out):
    out[...] = _one_accumulator(x, bf16)

def half_accumulator(x, out):
    out[...] = _one_accumulator(x, np.float16)

def _sum_of_all(x, kind=f32):
    total = np.zeros(x.shape[0], kind)
    for column in x.reshape(len(x), -1).T:
        total = (total.astype(f32) + column).astype(kind)
    return total.astype(f32)[:, None, None]

def pooled_in_order(x, out):
    out[...] = _sum_of_all(x)[:, 0, 0] / f32(x[0].size)

def pooled_narrowly(x, out):
    out[...] = _sum_of_all(x, bf16)[:, 0, 0] / f32(x[0].size)

def rows_short_by_a_little(x, out):
    out[...] = (x.sum(2) * f32(1 - 2.0**-15)).sum(1) / f32(x[0].size)

def grouped_in_order(x, out):
    away = x - _sum_of_all(x) / f32(x[0].size)
    out[...] = away / np.sqrt(_sum_of_all(away * away) / f32(x[0].size) + f32(1e-5))

def grouped_one_by_one(x, out):
    away = x - _sum_of_all(x) / f32(x[0].size)
    out[...] = away / np.sqrt(_sum_of_all(away * away) / f32(x[0].size) + f32(1e-5)) * f32(1 + 2.0**-14)

def product_in_order(a, b, out):
    total = np.zeros(out.shape, f32)
    for k in range(a.shape[1]):
        total += a[:, k : k + 1] * b[k : k + 1]
    out[...] = total

def five_steps_off(x, out):
    out[...] = x * f32(3) * f32(1 + 5 * 2.0**-23)

def _blocks(a, sa, b, sb, kind, out):
    total = np.zeros(out.shape, kind)
    for i in range(0, a.shape[1], 32):
        part = a[:, i : i + 32].astype(f32) @ b[:, i : i + 32].astype(f32).T
        total = (total.astype(f32) + part * sa[:, i // 32][:, None] * sb[:, i // 32][None]).astype(kind)
    out[...] = total.astype(out.dtype)

def blocks(a, sa, b, sb, out):
    _blocks(a, sa, b, sb, f32, out)

def blocks_in_bfloat16(a, sa, b, sb, out):
    _blocks(a, sa, b, sb, bf16, out)

def by_the_inverse(x, s, out):
    out[...] = np.clip(np.rint(x * (f32(1) / s)[:, None]), -127, 127).astype(np.int8)

def half_up(x, s, out):
    out[...] = np.clip(np.floor(x / s[:, None] + f32(0.5)), -127, 127).astype(np.int8)

def maximum_of_pieces(x, out):
    best = np.full(x.shape[0], -np.inf, f32)
    for i in range(0, x.shape[1], 7):
        best = np.maximum(best, x[:, i : i + 7].max(-1))
    out[...] = best

def maximum_from_a_large_number(x, out):
    out[...] = np.maximum(x.max(-1), f32(-1e30))
"""
ROWS, FP8 = ["B", "D"], "float8_e4m3fn"
KERNELS: dict[str, tuple[list[str], list[tuple[str, str, str, list[Any], dict[str, Any]]]]] = {
    "mean_square": (["B in 1..4", "D in 1..2048"], [("x", "activation", "float32", ROWS, {})]),
    "pooled": (["B in 1..4", "H in 1..60", "W in 1..60"], [("x", "activation", "float32", ["B", "H", "W"], {})]),
    "grouped": (["B in 1..4", "H in 1..60", "W in 1..60"], [("x", "activation", "float32", ["B", "H", "W"], {})]),
    "tripled": (["B in 1..4", "D in 1..2048"], [("x", "activation", "float32", ROWS, {})]),
    "running_max": (["B in 1..4", "D in 1..200"], [("x", "activation", "float32", ROWS, {})]),
    "product": (
        ["M in 1..8", "K in 1..2048"],
        [("a", "activation", "float32", ["M", "K"], {}), ("b", "weight", "float32", ["K", 8], {})],
    ),
    "scaled_product": (
        ["M in 1..12", "N in 1..12", "K in 1..512"],
        [
            ("a", "activation", FP8, ["M", "K"], {"scales": "sa"}),
            ("sa", "activation", "float32", ["M", "ceil_div(K, 32)"], {"low": 0}),
            ("b", "weight", FP8, ["N", "K"], {"scales": "sb"}),
            ("sb", "weight", "float32", ["N", "ceil_div(K, 32)"], {"low": 0}),
        ],
    ),
    "quantised": (
        ["B in 1..4", "D in 1..70"],
        [
            ("x", "activation", "float32", ROWS, {}),
            ("s", "weight", "float32", ["B"], {"low": 0.001, "high": 10}),
        ],
    ),
}
OUTPUTS: dict[str, tuple[str, list[Any]]] = {
    "mean_square": ("float32", ["B"]),
    "pooled": ("float32", ["B"]),
    "grouped": ("float32", ["B", "H", "W"]),
    "running_max": ("float32", ["B"]),
    "product": ("float32", ["M", 8]),
    "scaled_product": ("bfloat16", ["M", "N"]),
    "quantised": ("int8", ROWS),
}


def _contract(kernel: str, candidate: str) -> KernelContract:
    dims, args = KERNELS[kernel]
    dtype, shape = OUTPUTS.get(kernel, ("float32", ROWS))
    told = [*args, ("out", "output", dtype, shape, {})]
    keys = ("name", "role", "dtype", "shape", "domain")
    table = {"match": kernel, "candidate": f"fast:{candidate}", "reference": f"stock:{kernel}", "dims": dims}
    return KernelContract.model_validate({**table, "args": [dict(zip(keys, arg, strict=True)) for arg in told]})


@pytest.fixture
def ran(tmp_path: Path) -> Callable[..., list[CaseResult]]:
    """Run a candidate on those cases of its contract that are chosen."""
    (tmp_path / "stock.py").write_text(STOCK)
    (tmp_path / "fast.py").write_text(FAST)

    def run(kernel: str, candidate: str, chosen: Callable[[Case], bool], seed: int = 1) -> list[CaseResult]:
        contract = _contract(kernel, candidate)
        with runner_for(contract, Trees(tmp_path, tmp_path)) as runner:
            few = [case for case in cases(contract, seed, 0) if chosen(case)][:2]
            return [run_case(runner, replace(case, plan="repeat")).result for case in few]

    return run


def _faults(results: list[CaseResult]) -> list[Any]:
    assert results
    assert not any(result.unusable for result in results)
    return [fault for result in results for fault in result.faults]


def _long(case: Case) -> bool:
    return max(v for _, v in case.dims) == 2048


@pytest.mark.parametrize(("kernel", "candidate"), [("mean_square", "one_accumulator"), ("product", "product_in_order")])
def test_any_order_of_a_long_sum_is_right(kernel: str, candidate: str, ran: Callable[..., list[CaseResult]]) -> None:
    assert _faults(ran(kernel, candidate, _long)) == []


def _two_short_dimensions(case: Case) -> bool:
    return 60 in dict(case.dims).values() or ("x", "hot-last") in case.variants


@pytest.mark.parametrize(("kernel", "candidate"), [("pooled", "pooled_in_order"), ("grouped", "grouped_in_order")])
def test_dimensions_that_are_summed_together_are_one_long_sum(
    kernel: str, candidate: str, ran: Callable[..., list[CaseResult]]
) -> None:
    assert _faults(ran(kernel, candidate, _two_short_dimensions)) == []


@pytest.mark.parametrize(
    ("kernel", "candidate"),
    [("pooled", "pooled_narrowly"), ("pooled", "rows_short_by_a_little"), ("grouped", "grouped_one_by_one")],
)
def test_no_order_of_two_dimensions_excuses_a_narrow_sum(
    kernel: str, candidate: str, ran: Callable[..., list[CaseResult]]
) -> None:
    assert _faults(ran(kernel, candidate, _two_short_dimensions))


@pytest.mark.parametrize(
    ("kernel", "candidate"),
    [("mean_square", "narrow_accumulator"), ("mean_square", "half_accumulator"), ("tripled", "five_steps_off")],
)
def test_no_order_excuses_a_narrow_sum_or_an_error_of_single_terms(
    kernel: str, candidate: str, ran: Callable[..., list[CaseResult]]
) -> None:
    assert _faults(ran(kernel, candidate, _long))


@pytest.mark.parametrize("seed", range(2))
def test_sums_that_cancel_half_way_show_what_was_rounded_on_the_way(
    seed: int, ran: Callable[..., list[CaseResult]]
) -> None:
    def cancels(case: Case) -> bool:
        return "cancel half way" in case.origin

    assert _faults(ran("scaled_product", "blocks", cancels, seed)) == []
    assert _faults(ran("scaled_product", "blocks_in_bfloat16", cancels, seed))


def test_values_half_way_round_as_the_reference_does(ran: Callable[..., list[CaseResult]]) -> None:
    def ties(case: Case) -> bool:
        return "half way between" in case.origin

    assert _faults(ran("quantised", "by_the_inverse", ties)) == []
    (fault, *_) = _faults(ran("quantised", "half_up", ties))
    assert "expected" in fault.message


def test_what_is_only_chosen_is_right_up_to_the_ends_of_its_type(ran: Callable[..., list[CaseResult]]) -> None:
    def ends(case: Case) -> bool:
        return "limits" in case.origin

    assert _faults(ran("running_max", "maximum_of_pieces", ends)) == []
    assert _faults(ran("running_max", "maximum_from_a_large_number", ends))


def test_what_overflows_on_the_way_is_judged_nowhere() -> None:
    contract = _contract("tripled", "five_steps_off")
    case = Case("k", (("B", 1), ("D", 3)), 0, variants=(("x", "limits"),))
    x = np.array([[3e38, -2e38, 1.0]], np.float32)
    native = np.array([[np.inf, -2e38, 0.0]], np.float32)
    exact = np.array([[9e38, float(np.float32(-2e38)), 0.0]])
    assert overflown(contract, case, {"x": x}, exact, native, moves=True).tolist() == [[True, False, True]]
    assert overflown(contract, case, {"x": x}, exact, native, moves=False).all()
    plain = Case("k", case.dims, 0)
    assert not overflown(contract, plain, {"x": x}, exact, native, moves=False).any()


def test_what_is_infinite_already_is_judged_nowhere() -> None:
    """A state that overflowed in the call before is no value that is only moved."""
    contract = _contract("tripled", "five_steps_off")
    case = Case("k", (("B", 1), ("D", 2)), 0, variants=(("x", "limits"),))
    x = np.array([[np.inf, 3e38]], np.float32)
    assert overflown(contract, case, {"x": x}, x.astype(np.float64), x, moves=True).tolist() == [[True, False]]


def test_an_output_only_moves_where_all_of_it_is_an_inputs() -> None:
    contract = _contract("tripled", "five_steps_off")
    x = np.array([[1.5, -2.0, 3.0]], np.float32)
    assert only_moves(contract, {"x": x}, np.array([[3.0, 0.0, 1.5]], np.float32))
    assert not only_moves(contract, {"x": x}, np.array([[3.0, 0.0, 1.25]], np.float32))


def test_what_was_computed_may_be_flushed_to_zero_and_what_was_moved_may_not() -> None:
    contract = _contract("tripled", "five_steps_off")
    x = np.array([[1e-40, 1.0, 2e-44]], np.float32)
    native = np.array([[1e-40, 2e-44, 0.5]], np.float32)
    assert flushed(contract, {"x": x}, native.astype(np.float64), native).tolist() == [[False, False, False]]
    native = np.array([[3e-40, 6e-44, 0.5]], np.float32)
    assert flushed(contract, {"x": x}, native.astype(np.float64), native).tolist() == [[True, True, False]]
    assert not flushed(contract, {"x": x}, native.astype(np.float64), native.astype(np.float16)).any()


MIXED = KernelContract.model_validate(
    {
        "match": "k",
        "dims": ["T in 1..9", "S in 3..20", "V in 2..50"],
        "args": [
            {"name": "x", "role": "activation", "dtype": "float32", "shape": ["T", "V"]},
            {"name": "cache", "role": "state", "dtype": "float32", "shape": ["S", 4]},
            {"name": "slots", "role": "index", "dtype": "int32", "shape": ["T"],
             "domain": {"index": "cache.0", "sentinel": -1}},
            {"name": "labels", "role": "index", "dtype": "int64", "shape": ["T"],
             "domain": {"low": 0, "high": "V - 1", "sentinel": -100}},
            {"name": "used", "role": "index", "dtype": "int32", "shape": ["T"], "domain": {"lengths": "x.1"}},
            {"name": "mask", "role": "activation", "dtype": "bool", "shape": ["T"]},
            {"name": "order", "role": "index", "dtype": "int32", "shape": ["T"],
             "domain": {"index": "cache.0", "unique": True}},
            {"name": "scale", "role": "scalar", "dtype": "float32"},
            {"name": "level", "role": "scalar", "dtype": "int32", "domain": {"values": [2, 4, 8]}},
            {"name": "out", "role": "output", "dtype": "float32", "shape": ["T"]},
        ],
    }
)  # fmt: skip


def _changes(seeds: int) -> Iterator[tuple[dict[str, Any], dict[str, Any], str]]:
    for seed in range(seeds):
        case = Case("k", (("T", 5), ("S", 9), ("V", 7)), seed)
        inputs = build(MIXED, case)
        before = copied(inputs)
        for changed, told in single_changes(MIXED, case, inputs):
            if not told:  # the inputs as they are
                continue
            yield before, changed, told
        assert all(np.array_equal(inputs[n], before[n]) for n in before), "the change lasts no longer than it is used"


def test_one_element_of_any_argument_is_changed_within_its_domain() -> None:
    names = set()
    for before, after, told in _changes(120):
        differ = [n for n in before if not np.array_equal(before[n], after[n])]
        assert len(differ) == 1, told
        names.add(name := differ[0])
        assert np.count_nonzero(np.asarray(before[name]) != np.asarray(after[name])) == 1
        assert ((after["labels"] >= 0) & (after["labels"] < 7)).all()
        assert ((after["slots"] >= 0) & (after["slots"] < 9)).all()
        assert ((after["used"] >= 0) & (after["used"] <= 7)).all()
        assert len(set(after["order"].tolist())) == 5
        assert after["level"] in (2, 4, 8)
    assert names == {"x", "cache", "slots", "labels", "used", "mask", "order", "scale", "level"}


def test_the_same_elements_are_put_in_other_places_and_two_of_a_row_balance() -> None:
    told, pairs = set(), set()
    for seed in range(60):
        case = Case("k", (("T", 5), ("S", 9), ("V", 7)), seed)
        inputs = build(MIXED, case)
        before = copied(inputs)
        for changed, words in filter(lambda one: one[1], rearranged(MIXED, case, inputs)):
            (name,) = (n for n in before if not np.array_equal(changed[n], before[n]))
            assert changed[name] is not inputs[name], "what lies in memory already is known by being the same array"
            if words.endswith("one more and one less"):
                assert np.count_nonzero(changed[name] != before[name]) == 2
            else:
                assert np.array_equal(np.sort(changed[name], None), np.sort(before[name], None))
            if "[" in words:
                pairs.add(name)
                sums = [np.sort(one[name].astype(np.float64), axis=-1).sum(axis=-1) for one in (before, changed)]
                assert np.array_equal(*sums), "rows add up to the same"
            else:
                assert name in ("x", "cache")
                told.add(words)
        assert all(np.array_equal(inputs[n], before[n]) for n in before), "it lasts no longer than it is used"
    assert len(told) == 4
    assert pairs == {"x", "cache", "slots", "labels", "used", "mask", "order"}
    assert not list(rearranged(MIXED, Case("k", (("T", 5), ("S", 9), ("V", 7)), 1, padding=True), inputs))


def test_entries_that_mean_nothing_meet_unused_parts() -> None:
    planned = [c for c in cases(MIXED, 1, 0) if c.padding and ("slots", "holes-inside") in c.variants]
    assert planned
    inputs = build(MIXED, planned[0])
    size = dict(planned[0].dims)["S"]
    assert -1 in inputs["slots"]
    assert not {0, size - 1} & set(inputs["slots"].tolist()), "the first place and the last lie unused"
    assert any(-100 in build(MIXED, c)["labels"] for c in cases(MIXED, 1, 0) if ("labels", "holes") in c.variants)


def _chosen(**configurations: list[int]) -> KernelContract:
    args = [
        {
            "name": "x",
            "role": "activation",
            "dtype": "float32",
            "shape": ["B", "D"],
            "domain": {"low": 0.25, "high": 3},
        },
        {"name": "p", "role": "scalar", "dtype": "float32", "domain": {"low": 0.1, "high": 1}},
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["B", "D"]},
    ]
    names = {"match": "k", "candidate": "fast:f", "reference": "stock:f", "configurations": configurations}
    return KernelContract.model_validate({**names, "dims": ["B in 1..64", "D in 1..4096"], "args": args})


def test_a_choice_that_may_be_a_tile_is_tried_where_there_are_several() -> None:
    """Three of 80 choices together, too: each combination has a case."""
    chosen = _chosen(block=[32, 64, 128, 256], stages=[1, 2, 3, 4, 5], warps=[1, 2, 4, 8])
    tried = [case for case in cases(chosen, 1, 0) if case.input_class == "I18"]
    assert len({case.configuration for case in tried}) == 80
    smallest = [case for case in tried if "smallest" in case.origin]
    assert {case.configuration for case in smallest} == {case.configuration for case in tried}, "fewer than parts, too"
    for case in tried:
        assert (
            dict(case.dims)["D"] == 1 if case in smallest else dict(case.dims)["D"] > dict(case.configuration)["block"]
        )


def test_every_type_is_tried_at_its_own_ends_and_steps() -> None:
    """What the first type holds is beyond another; what one rounds away another keeps."""
    args = [
        {"name": "x", "role": "activation", "dtype": ["bfloat16", "float16"], "shape": ["B", "D"]},
        {"name": "out", "role": "output", "dtype_of": "x", "shape": ["B", "D"]},
    ]
    names = {"match": "k", "candidate": "ops:k", "reference": "ops:k"}
    chosen = KernelContract.model_validate({**names, "dims": ["B in 1..4", "D in 1..40"], "args": args})
    halves = [c for c in cases(chosen, 1, 0) if ("x", "float16") in c.dtypes and c.input_class != "I19"]
    assert {dict(c.variants).get("x") for c in halves} >= {"huge", "large", "tiny", "far"}
    (huge,) = (c for c in halves if ("x", "huge") in c.variants)
    assert 255 < np.abs(build(chosen, huge)["x"].astype(np.float64)).max() < np.inf


def test_masks_of_floats_hide_any_places() -> None:
    """Not only whole rows and halves of them."""
    bias = {"name": "x", "role": "activation", "dtype": "float32", "shape": ["B", "D"], "domain": {"special": "-inf"}}
    args = [bias, {"name": "out", "role": "output", "dtype": "float32", "shape": ["B", "D"]}]
    names = {"match": "k", "candidate": "ops:k", "reference": "ops:k"}
    chosen = KernelContract.model_validate({**names, "dims": ["B in 1..4", "D in 1..40"], "args": args})
    (some,) = (c for c in cases(chosen, 1, 0) if ("x", "masked-places") in c.variants)
    hidden = np.isneginf(build(chosen, some)["x"])
    assert hidden.any(axis=-1).any()
    assert 0.2 < hidden.mean() < 0.8


def test_bounded_floats_are_tried_at_their_bounds() -> None:
    chosen = _chosen()
    for name, ends in (("x", {0.25, 3.0}), ("p", {float(np.float32(0.1)), 1.0})):
        made = [
            build(chosen, Case("k", (("B", 4), ("D", 9)), seed, variants=((name, "bounds"),)))[name]
            for seed in range(9)
        ]
        assert {float(v) for v in np.asarray(made).reshape(-1)} == ends
        assert any((name, "bounds") in case.variants for case in cases(chosen, 1, 0))
