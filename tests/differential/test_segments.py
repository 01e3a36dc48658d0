"""Offsets (`cu_seqlens`, `indptr`), ends, lengths that add up: whole cuts of an axis, at their edges too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from validator.differential.cases import Case, build, cases, variants_of
from validator.differential.changes import single_changes
from validator.differential.coverage import coverage
from validator.differential.engine import run_kernel
from validator.differential.padding import unused_parts
from validator.differential.processes import Trees, runner_for
from validator.differential.running import run_case
from validator.differential.shapes import Space
from validator.manifest.contract import KernelContract
from validator.run.sandbox import Limits

STOCK = """
def sums(x, at, out):
    for row in range(len(out)):
        out[row] = x[at[row] : at[row + 1]].sum(axis=0)
"""
FAST = """
import numpy as np

def honest(x, at, out):
    added = np.cumsum(x[: at[-1]], axis=0, dtype=np.float64)
    ends = np.concatenate([np.zeros((1, x.shape[1])), added])[at]
    out[...] = ends[1:] - ends[:-1]

def empty_ones_repeat(x, at, out):
    honest(x, at, out)
    for row in range(1, len(out)):
        if at[row] == at[row + 1]:
            out[row] = out[row - 1]

def adds_the_rest(x, at, out):
    honest(x, at, out)
    out[-1] += 0 * x[at[-1] :].sum(axis=0)
"""


def contract(function: str = "honest", key: str = "offsets", **domain: Any) -> KernelContract:
    size = "B + 1" if key == "offsets" else "B"
    args = [
        {"name": "x", "role": "activation", "dtype": "float32", "shape": ["T", "D"]},
        {"name": "at", "role": "index", "dtype": "int32", "shape": [size], "domain": {key: "x.0", **domain}},
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["B", "D"]},
    ]
    dims = ["B in 1..6", "T in 0..80", "N in 0..80", "N <= T", "D in 1..4"]
    names = {"candidate": f"fast:{function}", "reference": "stock:sums"}
    return KernelContract.model_validate({"match": "k", "dims": dims, "args": args, **names})


def lengths_in(chosen: KernelContract, case: Case) -> list[int]:
    at = build(chosen, case)["at"].astype(int)
    return list(np.diff(at) if chosen.values["at"][1].domain.offsets else np.diff(at, prepend=0))


SIZES = (("B", 5), ("T", 40), ("N", 30), ("D", 2))
HOLDS: dict[str, Callable[[list[int]], bool]] = {
    "first-empty": lambda n: n[0] == 0,
    "second-empty": lambda n: n[1] == 0,
    "last-empty": lambda n: n[-1] == 0,
    "one-segment": lambda n: sum(one > 0 for one in n) == 1,
    "ones": lambda n: n[:-1] == [1] * (len(n) - 1),
    "whole-tiles": lambda n: n[0] & (n[0] - 1) == 0 and 2 * n[0] > sum(n),
    "beside-powers": lambda n: any(one > 2 and ((one - 1) & (one - 2) == 0 or (one + 1) & one == 0) for one in n),
}


@pytest.mark.parametrize("key", ["offsets", "ends"])
@pytest.mark.parametrize(
    ("domain", "total", "low", "high"),
    [({}, 40, 0, 40), ({"sum": "N"}, 30, 0, 30), ({"low": 2, "high": 12}, 40, 2, 12), ({"high": "T - 30"}, 40, 0, 10)],
)
def test_every_filling_cuts_all_of_the_axis_within_the_bounds(
    key: str, domain: dict[str, Any], total: int, low: int, high: int
) -> None:
    chosen = contract(key=key, **domain)
    ways = [(), *((("at", way),) for way in variants_of(chosen, Case("k", SIZES, 1), "at"))]
    for variants in ways:
        for seed in range(6):
            lengths = lengths_in(chosen, Case("k", SIZES, seed, variants=variants))
            assert len(lengths) == 5
            assert sum(lengths) == total
            assert low <= min(lengths) <= max(lengths) <= high, variants


def test_every_filling_holds_what_its_words_say() -> None:
    ways = variants_of(contract(), Case("k", SIZES, 1), "at")
    assert set(ways) == HOLDS.keys()
    for way, holds in HOLDS.items():
        for seed in range(6):
            assert holds(lengths_in(contract(), Case("k", SIZES, seed, variants=(("at", way),)))), way
    tight = contract(low=1, high=8)  # 5 times 8 is all there is: none is empty, none has everything
    assert set(variants_of(tight, Case("k", SIZES, 1), "at")) == {"beside-powers"}
    assert {way for case in cases(contract(), 1, 0) for _, way in case.variants} >= HOLDS.keys()


def test_lengths_that_add_up_are_filled_in_the_same_ways() -> None:
    plain = {"name": "n", "role": "index", "dtype": "int32", "shape": ["E"], "domain": {"sum": "T"}}
    chosen = KernelContract.model_validate({"match": "k", "dims": ["E in 3..6", "T in 1..9"], "args": [plain]})
    case = Case("k", (("E", 4), ("T", 9)), 3)
    for way in variants_of(chosen, case, "n"):
        lengths = build(chosen, Case("k", case.dims, 3, variants=(("n", way),)))["n"].tolist()
        assert sum(lengths) == 9
        assert HOLDS[way](lengths)


def test_rows_that_use_nothing_come_before_rows_that_do() -> None:
    args = [
        {"name": "k", "role": "state", "dtype": "float32", "shape": ["B", "T"]},
        {"name": "n", "role": "index", "dtype": "int32", "shape": ["B"], "domain": {"lengths": "k.1"}},
    ]
    chosen = KernelContract.model_validate({"match": "k", "dims": ["B in 1..9", "T in 1..70"], "args": args})
    for way, unused in (("first-unused", [0]), ("every-other-unused", [0, 2, 4])):
        made = build(chosen, Case("k", (("B", 5), ("T", 7)), 1, variants=(("n", way),)))["n"]
        assert np.flatnonzero(made == 0).tolist() == unused
        assert way in {variant for case in cases(chosen, 1, 0) for _, variant in case.variants}
    assert "first-unused" not in variants_of(chosen, Case("k", (("B", 1), ("T", 7)), 1), "n")


def test_lengths_end_at_powers_of_two_and_beside_them() -> None:
    args = [
        {"name": "k", "role": "state", "dtype": "float32", "shape": ["B", "T"]},
        {"name": "n", "role": "index", "dtype": "int32", "shape": ["B"], "domain": {"lengths": "k.1", "low": 2}},
    ]
    chosen = KernelContract.model_validate({"match": "k", "dims": ["B in 1..40", "T in 4..99"], "args": args})
    case = Case("k", (("B", 40), ("T", 70)), 1, variants=(("n", "at-powers"),))
    lengths = build(chosen, case)["n"].tolist()
    assert {2, 15, 16, 17, 63, 64, 65} <= {*lengths}
    assert 2 <= min(lengths) <= max(lengths) <= 70
    assert any(("n", "at-powers") in made.variants for made in cases(chosen, 1, 0))


def test_rows_of_offsets_are_cut_one_by_one() -> None:
    args = [
        {"name": "x", "role": "activation", "dtype": "float32", "shape": ["G", "T"]},
        {"name": "at", "role": "index", "dtype": "int64", "shape": ["G", "B + 1"], "domain": {"offsets": "x.1"}},
    ]
    table = {"match": "k", "dims": ["G in 1..3", "B in 0..4", "T in 0..9"], "args": args}
    chosen = KernelContract.model_validate(table)
    rows = build(chosen, Case("k", (("G", 3), ("B", 4), ("T", 9)), 1))["at"]
    assert np.all(np.diff(rows, axis=1) >= 0)
    assert [(row[0], row[-1]) for row in rows.tolist()] == [(0, 9)] * 3
    assert len({tuple(row) for row in rows.tolist()}) > 1
    assert build(chosen, Case("k", (("G", 2), ("B", 0), ("T", 9)), 1))["at"].tolist() == [[0], [0]]


def test_sizes_are_such_that_the_segments_can_add_up() -> None:
    space = Space(contract(low=3, high="D * 4"))
    for case in cases(contract(low=3, high="D * 4"), 5, 20):
        sizes = dict(case.dims)
        assert space.holds(sizes)
        assert 3 * sizes["B"] <= sizes["T"] <= 4 * sizes["D"] * sizes["B"]
    with pytest.raises(ValidationError, match=r"production\[0\]: breaks `\(3\) \* max\(\(B \+ 1\) - 1, 0\) <= T`"):
        KernelContract.model_validate(
            {**contract(low=3).model_dump(), "production": [{"B": 6, "T": 17, "N": 1, "D": 1}]}
        )


def test_what_no_segment_covers_is_unused_and_there_are_cases_of_it() -> None:
    chosen = contract(sum="N")
    inputs = build(chosen, Case("k", SIZES, 1, padding=True))
    np.testing.assert_array_equal(np.isnan(inputs["x"]).all(axis=1), np.arange(40) >= 30)
    run = [case for case in cases(chosen, 1, 0) if case.padding]
    assert any(np.isnan(build(chosen, case)["x"]).any() for case in run)
    assert not any(case.padding for case in cases(contract(), 1, 20))
    (row,) = (r for r in coverage(contract(), cases(contract(), 1, 20)) if r.input_class == "I7")
    assert not row.applies


def test_a_cut_that_is_changed_alone_stays_between_its_neighbours() -> None:
    seen = set()
    for low, high in ((0, 40), (4, 12)):
        chosen = contract(low=low, high=high)
        for seed in range(40):
            case = Case("k", SIZES, seed, plan="flip")
            before = build(chosen, case)
            for changed, told in single_changes(chosen, case, before):
                if not told:  # the inputs as they are
                    continue
                if told.startswith("at["):
                    lengths = np.diff(changed["at"])
                    seen.add(told)
                    assert sum(lengths) == 40
                    assert low <= min(lengths) <= max(lengths) <= high
    assert seen
    assert seen <= {f"at[{n}] (flat)" for n in range(1, 5)}


@pytest.mark.parametrize(
    ("domain", "most"), [({"offsets": "x.0"}, 40), ({"ends": "x.0", "high": 20}, 20), ({"lengths": "y.1"}, 7)]
)
@pytest.mark.parametrize("variant", [None, "no-more", "far-more"])
def test_a_number_that_has_to_hold_the_longest_does(domain: dict[str, Any], most: int, variant: str | None) -> None:
    """`max_seqlen` comes before the lengths or after them."""
    size = "B + 1" if "offsets" in domain else "B"
    args: list[dict[str, Any]] = [
        {"name": "limit", "role": "scalar", "dtype": "int32", "domain": {"longest": "at"}},
        {"name": "x", "role": "activation", "dtype": "float32", "shape": ["T"]},
        {"name": "y", "role": "activation", "dtype": "float32", "shape": ["B", 7]},
        {"name": "at", "role": "index", "dtype": "int32", "shape": [size], "domain": domain},
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["B"]},
    ]
    chosen = KernelContract.model_validate({"match": "k", "dims": ["B in 1..6", "T in 0..80"], "args": args})
    ways = () if variant is None else (("limit", variant),)
    seen = set()
    for seed in range(20):
        case = Case("k", (("B", 5), ("T", 40)), seed, variants=ways)
        inputs = build(chosen, case)
        assert list(inputs) == [arg["name"] for arg in args]
        at = inputs["at"].tolist()
        lengths = at if "lengths" in domain else np.diff(at, **({} if "offsets" in domain else {"prepend": 0})).tolist()
        assert max(lengths) <= inputs["limit"] <= most
        assert isinstance(inputs["limit"], int)
        seen.add((inputs["limit"] == max(lengths), inputs["limit"] == most))
        assert all(told.startswith(("x[", "y[")) for _, told in single_changes(chosen, case, inputs) if told)
    assert variant == "no-more" or not all(exact for exact, _ in seen)
    assert variant != "no-more" or all(exact for exact, _ in seen)
    assert variant != "far-more" or all(full for _, full in seen)


def trees(tmp_path: Path) -> Trees:
    for side, name, text in (("head", "fast", FAST), ("base", "stock", STOCK)):
        (tmp_path / side).mkdir()
        (tmp_path / side / f"{name}.py").write_text(text)
    return Trees(tmp_path / "head", tmp_path / "base")


def test_an_empty_segment_that_is_wrong_is_found_and_shrunk(tmp_path: Path) -> None:
    with runner_for(contract("empty_ones_repeat"), trees(tmp_path), Limits(wall=30)) as runner:
        result = run_kernel(runner, 3, 0, enough=lambda one: bool(one.faults))
    (small,) = result.shrunk.values()
    assert dict(small.case.dims) | {"D": 1, "N": 0} == {"B": 2, "T": 1, "N": 0, "D": 1}


@pytest.mark.parametrize(("function", "status"), [("honest", "passed"), ("adds_the_rest", "failed")])
def test_what_lies_behind_the_last_segment_does_not_leak(tmp_path: Path, function: str, status: str) -> None:
    with runner_for(contract(function, sum="N"), trees(tmp_path), Limits(wall=30)) as runner:
        picked = [
            Case("k", SIZES, seed, plan=plan, padding=True) for seed, plan in enumerate(("repeat", "same-buffer"))
        ]
        assert {run_case(runner, case).result.status for case in picked} == {status}


def test_what_several_arguments_speak_of_is_unused_where_none_of_them_uses_it() -> None:
    args = [
        {"name": "k", "role": "state", "dtype": "float32", "shape": ["N", 2]},
        {"name": "v", "role": "state", "dtype": "float32", "shape": ["N", 2]},
        {"name": "i", "role": "index", "dtype": "int32", "shape": [2], "domain": {"index": "k.0"}},
        {"name": "j", "role": "index", "dtype": "int32", "shape": [2], "domain": {"index": "v.0"}},
    ]
    chosen = KernelContract.model_validate({"match": "k", "dims": "N in 4..9", "args": args})
    inputs = build(chosen, Case("k", (("N", 9),), 2, padding=True))
    either = np.union1d(inputs["i"], inputs["j"])
    for name, unused in unused_parts(chosen, inputs).items():
        assert np.flatnonzero(~unused[:, 0]).tolist() == either.tolist(), name


@pytest.mark.parametrize(
    ("domain", "told"),
    [
        ({"offsets": "y.0"}, "domain.offsets names 'y'"),
        ({"ends": "x.2"}, "domain.ends is 'x.2', but 'x' has no axis 2"),
        ({"offsets": "x"}, "expected `argument.axis`"),
        ({"offsets": "x.0", "index": "x.0"}, "`index` and `offsets` exclude one another"),
        ({"offsets": "x.0", "unique": True}, "with `low = 1` no segment is empty"),
        ({"offsets": "x.0", "slots": "x.1"}, "`slots` needs `lengths`"),
        ({"lengths": "x.0", "slots": "x.1"}, "'x' has no domain.index, such as x.0"),
        ({"longest": "y"}, "domain.longest names 'y'"),
        ({"longest": "x"}, "'x', which has no lengths, offsets or ends"),
    ],
)
def test_what_cannot_be_cut_is_told(domain: dict[str, Any], told: str) -> None:
    args = [
        {"name": "x", "role": "activation", "dtype": "float32", "shape": ["T", "D"]},
        {"name": "at", "role": "index", "dtype": "int32", "shape": ["B"], "domain": domain},
    ]
    with pytest.raises(ValidationError, match=told):
        KernelContract.model_validate({"match": "k", "dims": ["B in 1..6", "T in 0..8", "D in 1..4"], "args": args})


def test_offsets_without_a_shape_are_told() -> None:
    args = [
        {"name": "x", "role": "activation", "dtype": "float32", "shape": ["T"]},
        {"name": "at", "role": "scalar", "dtype": "int32", "domain": {"offsets": "x.0"}},
    ]
    with pytest.raises(ValidationError, match=r"domain\.offsets needs a `shape`"):
        KernelContract.model_validate({"match": "k", "dims": ["T in 0..8"], "args": args})
