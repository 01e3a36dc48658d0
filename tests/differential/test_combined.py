"""Cases that bring values together: every pair that the contract allows meets in one of them."""

from __future__ import annotations

from itertools import combinations as pairs_of

import pytest

from validator.differential import cells
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
    alone = {**KERNEL, "dims": ["D in 8..64"], "tiles": {}, "args": [
        {"name": "x", "role": "activation", "dtype": "float32", "shape": ["D"]},
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["D"]},
    ]}  # fmt: skip
    assert combinations(KernelContract.model_validate(alone)) is None
    assert combined_cases(KernelContract.model_validate(alone), 1, 10) == []


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
