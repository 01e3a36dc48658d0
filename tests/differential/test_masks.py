"""Masks and values that stand for something: made in the places where kernels go wrong, in all arguments alike."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from validator.differential.cases import Case, build, cases, configurations_of, fill_of
from validator.differential.changes import single_changes
from validator.differential.pinned import allowed
from validator.manifest.contract import KernelContract

MASKED: dict[str, Any] = {
    "match": "k",
    "dims": ["T in 2..9", "S in 2..40"],
    "args": [
        {"name": "a", "role": "activation", "dtype": "float32", "shape": ["T", "S"], "domain": {"special": ["-inf"]}},
        {"name": "b", "role": "activation", "dtype": "bfloat16", "shape": ["T", "S"], "domain": {"special": ["-inf"]}},
        {"name": "m", "role": "activation", "dtype": "bool", "shape": ["T", "S"]},
        {"name": "n", "role": "activation", "dtype": "int8", "shape": ["T", "S"], "domain": {"low": 0, "high": 1}},
        {"name": "p", "role": "activation", "dtype": "float32", "shape": ["T", "S"], "domain": {"probability": True}},
        {"name": "f", "role": "flag", "dtype": "bool", "shape": ["T"]},
        {"name": "x", "role": "activation", "dtype": "float32", "shape": ["T", "S"]},
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["T", "S"]},
    ],
}


@pytest.fixture(scope="module")
def contract() -> KernelContract:
    return KernelContract.model_validate(MASKED)


def _made(contract: KernelContract, name: str, variant: str) -> np.ndarray[Any, Any]:
    (case, *_) = [c for c in cases(contract, 1, 0) if c.variants == ((name, variant),)]
    array = build(contract, case)[name]
    assert isinstance(array, np.ndarray)
    return array


@pytest.mark.parametrize("name", ["m", "n"])
def test_masks_are_tried_where_nothing_or_everything_is_masked(contract: KernelContract, name: str) -> None:
    assert _made(contract, name, "all-true").all()
    assert not _made(contract, name, "all-false").any()
    assert (~_made(contract, name, "false-row").any(-1)).any()
    rows = _made(contract, name, "false-rows")
    assert not rows[::2].any()
    assert rows[1::2].any()
    start = _made(contract, name, "false-start")
    assert not start[:, : start.shape[1] // 2].any()
    assert start[:, -1].all()
    last = _made(contract, name, "last-true")
    assert last[:, -1].all()
    assert last.sum() == len(last)
    causal = _made(contract, name, "causal")
    assert np.array_equal(causal, np.tril(np.ones_like(causal)))


def test_a_flag_is_no_mask(contract: KernelContract) -> None:
    assert not [v for c in cases(contract, 1, 0) for n, v in c.variants if n == "f" and v == "all-true"]


def test_minus_infinity_meets_itself_in_every_argument(contract: KernelContract) -> None:
    (case,) = [c for c in cases(contract, 1, 0) if c.origin == "all at once: masked-rows"]
    made = build(contract, case)
    assert np.isneginf(made["a"][::2].astype(np.float64)).all()
    assert np.array_equal(np.isneginf(made["a"]), np.isneginf(made["b"].astype(np.float32)))
    assert np.isfinite(made["a"][1::2]).all()


def test_minus_infinity_stands_where_masks_are_false(contract: KernelContract) -> None:
    start, end, last = (
        np.isneginf(_made(contract, "a", name)) for name in ("masked-start", "masked-end", "all-but-last")
    )
    assert start[:, : start.shape[1] // 2].all()
    assert not start[:, start.shape[1] // 2 :].any()
    assert end[:, (end.shape[1] + 1) // 2 :].all()
    assert not end[:, : (end.shape[1] + 1) // 2].any()
    assert last[:, :-1].all()
    assert not last[:, -1].any()


def test_zeros_of_both_signs_meet_and_rows_lie_low_throughout(contract: KernelContract) -> None:
    zeros = _made(contract, "x", "minus-zero")
    assert {*np.signbit(zeros[zeros == 0]).tolist()} == {True, False}
    assert _made(contract, "x", "low").max() < -88.8


def test_choices_meet_in_pairs_where_all_of_them_are_too_many() -> None:
    options = {"block": [64, 128, 256, 512], "stages": [1, 2, 3, 4, 5, 6, 7], "warps": [1, 2, 4, 8]}
    found = [
        dict(c) for c in configurations_of(KernelContract.model_validate({"match": "k", "configurations": options}))
    ]
    assert len(found) < 50
    for one, other in combinations(options, 2):
        assert {(f[one], f[other]) for f in found} == {*product(options[one], options[other])}
    many = {f"o{n}": list(range(60)) for n in range(30)}
    assert len(configurations_of(KernelContract.model_validate({"match": "k", "configurations": many}))) < 2000


def test_rows_of_one_value_and_exact_quarters(contract: KernelContract) -> None:
    rows = _made(contract, "x", "constant-rows")
    assert (rows == rows[:, :1]).all()
    assert len(set(rows[:, 0].tolist())) == len(rows)
    quarters = _made(contract, "p", "quarters")
    assert quarters.shape[1] >= 4
    assert {*quarters.ravel().tolist()} == {0.0, 0.25}


def test_sizes_meet_beyond_their_tiles_and_are_unlike_each_other() -> None:
    shape = {"role": "activation", "dtype": "float32"}
    args = [{"name": "a", "shape": ["M", "K"], **shape}, {"name": "b", "shape": ["K", "N"], **shape}]
    table = {"match": "k", "dims": ["M in 1..256", "N in 1..256", "K in 1..512"], "args": args}
    made = cases(KernelContract.model_validate({**table, "tiles": {"M": 32, "N": 32, "K": 32}}), 1, 0)
    sizes = [dict(c.dims) for c in made]
    assert {"M": 33, "N": 33, "K": 33} in sizes
    assert {"M": 31, "N": 31, "K": 31} in sizes
    assert any(s["M"] == 159 and s["N"] > 32 and s["K"] > 32 for s in sizes)
    assert any(s["K"] == 95 and s["M"] > 32 for s in sizes)
    assert any(s["M"] == 1 and s["N"] > 32 and s["K"] > 32 for s in sizes)
    assert {2, 4} <= {s["K"] for s in sizes}
    assert any(len({*dict(c.dims).values()}) == 3 for c in made if ("a", "zeros") in c.variants)


COUNTED: dict[str, Any] = {
    "match": "k",
    "dims": ["T in 1..100000", "B in 1..4", "V in 2..50", "U in 9..50", "S in 4..9"],
    "args": [
        {"name": "ids", "role": "index", "dtype": "int32", "shape": ["T"], "domain": {"index": "x.0"}},
        {"name": "used", "role": "index", "dtype": "int32", "shape": ["B"], "domain": {"lengths": "y.1"}},
        {"name": "q", "role": "weight", "dtype": "int8", "shape": ["T"]},
        {"name": "x", "role": "activation", "dtype": "float32", "shape": ["V"]},
        {"name": "y", "role": "activation", "dtype": "float32", "shape": ["B", "T"]},
        {"name": "slots", "role": "index", "dtype": "int32", "shape": ["S"],
         "domain": {"index": "z.0", "unique": True, "sentinel": -1}},
        {"name": "z", "role": "activation", "dtype": "float32", "shape": ["U"]},
        {"name": "window", "role": "scalar", "dtype": "int32", "domain": {"low": 1}},
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["B"]},
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def counted() -> KernelContract:
    return KernelContract.model_validate(COUNTED)


@pytest.mark.parametrize(
    ("name", "variant"), [("ids", "one-place"), ("q", "highest"), ("q", "lowest"), ("used", "full")]
)
def test_counters_and_accumulators_are_filled_at_the_largest_size(
    counted: KernelContract, name: str, variant: str
) -> None:
    (case, *_) = [c for c in cases(counted, 1, 0) if "at its largest" in c.origin and (name, variant) in c.variants]
    size = dict(case.dims)["T"]
    assert size >= 50_000
    values = {*build(counted, case)[name].tolist()}
    assert len(values) == 1
    assert name == "ids" or values <= {127, -128, size}


def test_a_number_is_as_large_as_what_lengths_count_to(counted: KernelContract) -> None:
    told = [c for c in cases(counted, 1, 0) if c.origin.startswith("window is ")]
    found = {build(counted, c)["window"] - dict(c.dims)["T"] for c in told}
    assert found == {-1, 0, 1}
    assert all({*build(counted, c)["used"].tolist()} == {dict(c.dims)["T"]} for c in told)


def test_places_that_are_taken_once_leave_the_ends_unused(counted: KernelContract) -> None:
    case = next(c for c in cases(counted, 1, 0) if c.padding and ("slots", "holes-inside") in c.variants)
    made = build(counted, case)
    used = made["slots"][made["slots"] >= 0].tolist()
    assert -1 in made["slots"]
    assert used
    assert len(set(used)) == len(used)
    assert not {0, len(made["z"]) - 1} & set(used)
    assert np.isnan(made["z"][[0, -1]]).all()


def _partly(**domain: Any) -> KernelContract:
    """Two masks of which the contract says more."""
    special = {"special": ["-inf"], **domain}
    domain = {key: value for key, value in domain.items() if key != "special"}
    args = [
        {"name": "a", "role": "activation", "dtype": "float32", "shape": ["T", "S"], "domain": special},
        {"name": "m", "role": "activation", "dtype": "bool", "shape": ["T", "S"], "domain": domain},
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["T", "S"]},
    ]
    names = {"match": "k", "candidate": "ops:k", "reference": "ops:k"}
    return KernelContract.model_validate({**names, "dims": ["T in 1..5", "S in 1..9"], "args": args})


@pytest.mark.parametrize("domain", [{}, {"some": "rows"}])
def test_a_row_is_hidden_as_a_whole_unless_the_contract_says_that_none_is(domain: dict[str, str]) -> None:
    chosen = _partly(**domain)
    hidden = {"a": 0, "m": 0}
    for case in cases(chosen, 3, 60):
        made = build(chosen, case)
        hidden["a"] += int(np.isneginf(made["a"]).all(axis=-1).any())
        hidden["m"] += int((~made["m"]).all(axis=-1).any())
        for changed, _ in single_changes(chosen, case, made):
            hidden["m"] += int((~changed["m"]).all(axis=-1).any())
    assert bool(hidden["a"]) == bool(hidden["m"]) == (not domain), hidden


def test_a_case_names_no_mask_that_hides_a_row() -> None:
    chosen = _partly(some="rows")
    fill = fill_of(chosen, Case("k", (("T", 2), ("S", 2)), 1), "m")
    assert allowed(fill, (1, 0, 0, 1))
    assert not allowed(fill, (1, 1, 0, 0))


def test_what_cannot_be_hidden_needs_not_be_shown() -> None:
    with pytest.raises(ValueError, match="`some` needs"):
        _partly(some="rows", special=[])


def test_places_are_hidden_where_there_are_none() -> None:
    chosen = KernelContract.model_validate({**MASKED, "dims": ["T in 0..9", "S in 0..40"]})
    for sizes in ((0, 3), (3, 0), (0, 0)):
        case = Case("k", (("T", sizes[0]), ("S", sizes[1])), 1, variants=(("a", "masked-places"),))
        assert build(chosen, case)["a"].shape == sizes
