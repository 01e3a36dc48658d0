"""Cases that bring values together: every pair that the contract allows meets in one of them."""

from __future__ import annotations

from itertools import combinations as pairs_of
from itertools import product

import pytest

from validator.differential import cells
from validator.differential.cases import build, configurations_of
from validator.differential.combined import combinations, combined_cases
from validator.differential.corpus import fits
from validator.differential.engine import planned_cases
from validator.manifest.contract import KernelContract
from validator.scale.store import Store

KERNEL = {
    "match": "k",
    "candidate": "fast:k",
    "reference": "stock:k",
    "dims": ["H in 1..16", "G in 1..8", "H % G == 0", "D in 8..64", "D % 8 == 0"],
    "tiles": {"D": 32},
    "args": [
        {"name": "x", "role": "activation", "dtype": ["float32", "bfloat16"], "shape": ["H", "D"],
         "layouts": ["contiguous", "strided", "offset"]},
        {"name": "w", "role": "weight", "dtype": ["float32", "float16"], "shape": ["G", "D"]},
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["H", "D"]},
    ],
}  # fmt: skip


@pytest.fixture
def contract() -> KernelContract:
    return KernelContract.model_validate(KERNEL)


def test_all_pairs_that_the_contract_allows_meet(contract):
    cover = combinations(contract)
    assert cover is not None
    rows = list(cover)
    assert len(rows) < cover.raw / 8
    assert all(row["size", "H"] % row["size", "G"] == 0 for row in rows)
    met = {(a, row[a], b, row[b]) for row in rows for a, b in pairs_of(sorted(row), 2)}
    assert len(met) == cover.combinations
    cases = combined_cases(contract, 7, 1000)
    assert len(cases) == len(rows)
    assert {dict(c.dtypes)["x"] for c in cases} == {"float32", "bfloat16"}
    assert any(dict(c.dtypes)["w"] == "float16" and dict(c.dims)["H"] == 16 for c in cases)
    assert any(c.layouts and dict(c.dims)["H"] == 16 for c in cases)


def test_every_case_fits_its_contract_and_the_same_seed_gives_the_same(contract):
    cases = combined_cases(contract, 7, 1000)
    assert all(fits(contract, case) for case in cases)
    assert cases == combined_cases(contract, 7, 1000)
    assert len({case.id for case in cases}) == len(cases)
    assert cases != combined_cases(contract, 8, 1000)


def test_few_are_the_first_of_many_and_take_the_place_of_random_ones(contract):
    assert combined_cases(contract, 7, 5) == combined_cases(contract, 7, 1000)[:5]
    planned = planned_cases(contract, 7, 20)
    together = [c for c in planned if "brought together" in c.origin]
    drawn = [c for c in planned if c.origin.startswith("random")]
    assert len(together) == 10
    assert 0 < len(drawn) <= 10
    assert [c.input_class == "random" for c in planned] == sorted(c.input_class == "random" for c in planned)
    assert planned_cases(contract, 7, 0) == tuple(c for c in planned_cases(contract, 7, 0) if c.input_class != "random")


def test_one_factor_alone_is_nothing_to_combine():
    alone = {**KERNEL, "dims": ["D in {8}"], "tiles": {}, "args": [
        {"name": "x", "role": "activation", "dtype": "float32", "shape": ["D"]},
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["D"]},
    ]}  # fmt: skip
    assert combinations(KernelContract.model_validate(alone)) is None
    assert combined_cases(KernelContract.model_validate(alone), 1, 10) == []


CHOOSING = {
    "match": "k",
    "candidate": "fast:k",
    "reference": "stock:k",
    "dims": ["B in 1..8", "D in 1..200"],
    "configurations": {"split": [1, 2, 4]},
    "args": [
        {"name": "x", "role": "activation", "dtype": "float32", "shape": ["B", "D"], "domain": {"special": ["-inf"]}},
        {"name": "act", "role": "scalar", "dtype": "int32", "domain": {"values": [0, 3]}},
        {"name": "level", "role": "scalar", "dtype": "int32", "domain": {"low": 0, "high": 1_000}},
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["B", "D"]},
    ],
}  # fmt: skip


def test_what_is_chosen_and_how_arguments_are_filled_meet():
    contract = KernelContract.model_validate(CHOOSING)
    cases = combined_cases(contract, 1, 50)
    assert 20 < len(cases) <= 50
    built = {(c.configuration, build(contract, c)["act"], dict(c.variants).get("x")) for c in cases}
    choices = product((1, 2, 4), (0, 3), ("masked-rows", "masked-start", "large", "zeros", "tied"))
    assert built >= {((("split", split),), act, filling) for split, act, filling in choices}
    assert any(("level", "extremes") in c.variants for c in cases)
    assert not any(v[0] == "x" for c in combined_cases(contract, 1, 50, 3) for v in c.variants), "three at a time"


def test_many_choices_meet_in_pairs():
    many = {**CHOOSING, "configurations": {"split": [1, 2, 4], "warps": [1, 4, 8]}}
    cases = combined_cases(KernelContract.model_validate(many), 1, 1000)
    pairs = {(dict(c.configuration)["warps"], dict(c.variants).get("act")) for c in cases}
    assert pairs == set(product((1, 4, 8), ("listed-0", "listed-1")))


def test_what_was_planned_once_is_the_same_from_a_store(contract, tmp_path, monkeypatch):
    with Store(tmp_path) as store:
        drawn = cells.planned(contract, 7, 20, (), store)
        assert drawn == planned_cases(contract, 7, 20)
        monkeypatch.setattr(cells, "planned_cases", lambda *asked: pytest.fail("drawn again"))
        assert cells.planned(contract, 7, 20, (), store) == drawn
        monkeypatch.setattr(cells, "planned_cases", lambda *asked: ())
        assert cells.planned(contract, 8, 20, (), store) == ()
        assert cells.planned(contract, 7, 21, (), store) == ()
        assert cells.planned(contract, 7, 20, drawn[:1], store) == ()


@pytest.mark.parametrize("batch", [{}, {"batch": "B"}])
@pytest.mark.parametrize("count", range(2, 9))
def test_every_plan_meets_every_configuration(count: int, batch: dict[str, str]) -> None:
    args = [
        {"name": "x", "role": "activation", "dtype": "float32", "shape": ["B", "D"]},
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["B", "D"]},
    ]
    named = {"match": "k", "dims": ["B in 1..64", "D in 1..300"], "args": args, **batch}
    contract = KernelContract.model_validate({**named, "configurations": {"split": list(range(count))}})
    met = {(case.plan, case.configuration) for case in planned_cases(contract, 1, 20)}
    ordinary = {plan for plan, _ in met} - {"fresh", "many-calls"}
    assert len(ordinary) >= 6
    assert met >= {(plan, choice) for plan in ordinary for choice in configurations_of(contract)}
