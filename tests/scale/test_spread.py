"""What is planned over parallelism, seeds and values that meet several at a time."""

from __future__ import annotations

from itertools import combinations as choose
from itertools import product

import pytest

from tests.scale.small import MANIFEST
from validator.differential.cells import cells_of, seeded
from validator.differential.combined import combinations, combined_cases
from validator.differential.device import Device
from validator.differential.engine import planned_cases
from validator.differential.errors import DifferentialError
from validator.differential.processes import Trees
from validator.manifest.contract import KernelContract
from validator.manifest.load import ManifestError, load_contract, load_manifest
from validator.manifest.parallel import degrees, left_whole, spread
from validator.scale.cell import InPlace

KERNEL = {
    "match": "attend",
    "candidate": "fast:attend",
    "reference": "stock:attend",
    "dims": ["B in 1..4", "H in 1..64", "K in 1..16", "E in 1..256"],
    "split": {"H": "tp", "K": "tp", "E": ["tp", "ep"]},
    "production": [{"B": 1, "H": 64, "K": 8, "E": 256}],
    "args": [
        {"name": n, "role": "activation", "dtype": ["float32", "bfloat16"], "shape": shape}
        for n, shape in (("x", ["B", "H"]), ("k", ["B", "K"]), ("e", ["E"]))
    ]
    + [{"name": "out", "role": "output", "dtype": "float32", "shape": ["B", "H"]}],
}


def contract(ways: tuple[str, ...] = ("none",), **more: object) -> KernelContract:
    return spread(KernelContract.model_validate(KERNEL | more), ways)[0]


@pytest.mark.parametrize(
    ("way", "found"),
    [
        ("none", {}),
        ("tp8", {"tp": 8}),
        ("tp4-ep2", {"tp": 4, "ep": 2}),
        ("tp4ep2", {"tp": 4, "ep": 2}),
        ("pp2_tp4", {"pp": 2, "tp": 4}),
        ("tp0", None),
        ("tp2tp4", None),
        ("dp-attention", None),
        ("tp", None),
    ],
)
def test_what_a_way_means(way, found):
    assert degrees(way) == found


def test_each_way_brings_about_its_own_production_shape():
    made = contract(("none", "tp8", "tp16", "tp4-ep2"))
    assert dict(zip(made.production_of, made.production, strict=True)) == {
        "none": {"B": 1, "H": 64, "K": 8, "E": 256},
        "tp8": {"B": 1, "H": 8, "K": 1, "E": 32},
        "tp16": {"B": 1, "H": 4, "K": 1, "E": 16},  # fewer heads of keys than devices: each has a copy of one
        "tp4-ep2": {"B": 1, "H": 16, "K": 2, "E": 32},
    }
    origins = [c.origin for c in planned_cases(made, 1, 10) if c.input_class == "production"]
    assert list(dict.fromkeys(origins)) == [f"production shape, {way}" for way in ("none", "tp8", "tp16", "tp4-ep2")]
    assert list(left_whole(made)) == []


def test_shapes_that_two_ways_share_are_run_once():
    made = contract(("none", "pp2", "tp2"))
    assert made.production_of == ("none, pp2", "tp2")


def test_what_parallelism_makes_of_a_size_meets_everything_else():
    made = contract(("tp2", "tp16"))
    rows = list(combinations(made))
    for heads, dtype in product((32, 4), ("float32", "bfloat16")):
        assert any(row["size", "H"] == heads and row["type", "x"] == dtype for row in rows)


def test_what_is_not_known_of_a_way_is_said():
    whole = contract(("tp8", "dp2", "cp4", "dp-attention"), split={}, production=[])
    assert list(left_whole(whole)) == [
        "tp8: the contract does not say what tp divides (`split`): shapes are as written",
        "cp4: the contract does not say what cp divides (`split`): shapes are as written",
        "dp-attention: it is not known what it divides: no shapes were made of it",
    ]
    uneven = contract(("tp8", "tp2"), production=[{"B": 1, "H": 12, "K": 4, "E": 16}])
    assert uneven.production == ({"B": 1, "H": 6, "K": 2, "E": 8},)
    assert list(left_whole(uneven)) == ["tp8: no production shape can be divided so: none was run"]


def manifest(kernel: str, parallelism: str = '["none", "tp8"]') -> bytes:
    head = MANIFEST.partition("\n[[kernels]]")[0].replace("batch = {", f"parallelism = {parallelism}\nbatch = {{")
    table = '\n[[kernels]]\nmatch = "attend"\ndims = ["H in 4..64"]\nsplit = { H = "tp" }\nproduction = [{ H = 64 }]\n'
    argument = '[[kernels.args]]\nname = "x"\nrole = "activation"\ndtype = "float32"\nshape = ["H"]\n'
    return f"{head}{table}{kernel}{argument}".encode()


def test_a_manifest_spreads_its_kernels_over_its_scope():
    (loaded,) = load_manifest(manifest(""), "rfcs/small.toml").kernels
    assert [shape["H"] for shape in loaded.production] == [64, 8]
    assert load_contract(manifest(""), "rfcs/small.toml")[0] == (loaded,)
    (narrow,) = load_manifest(manifest('parallelism = "tp8"\n'), "rfcs/small.toml").kernels
    assert narrow.production == ({"H": 8},)
    assert KernelContract.model_validate_json(narrow.model_dump_json()) == narrow  # as a cell carries it


def test_a_shape_that_the_kernel_does_not_take_is_an_error_at_its_line():
    with pytest.raises(ManifestError, match=r"production\[0\] under tp32: H = 2 breaks `H in 4..64`") as error:
        load_manifest(manifest("", '["tp32"]'), "rfcs/small.toml")
    assert "rfcs/small.toml:" in str(error.value)
    with pytest.raises(ManifestError, match="`parallelism` names 'tp2', which the scope does not"):
        load_manifest(manifest('parallelism = ["tp2", "tp8"]\n'), "rfcs/small.toml")
    with pytest.raises(ManifestError, match="split: dimension 'G' has no range"):
        load_manifest(manifest("").replace(b'{ H = "tp" }', b'{ G = "tp" }'), "rfcs/small.toml")


# -- seeds -------------------------------------------------------------------------------------------------------------


def test_several_seeds_are_several_sets_of_cases_and_no_cell_holds_two(tmp_path):
    made = contract()
    one, three = seeded(made, 7, 1, 20, (), None), seeded(made, 7, 3, 20, (), None)
    assert three[: len(one)] == one == planned_cases(made, 7, 20)
    assert len({c.id for c in three}) == len(three) > 2.5 * len(one)
    shapes = [{c.seed for c in some if c.origin.startswith("production shape")} for some in (one, three)]
    assert len(shapes[1]) == len(shapes[0]) + 2 > 3, "each plan once, and one more for each further seed"
    (tmp_path / "tree").mkdir()
    trees = Trees(tmp_path / "tree", tmp_path / "tree")
    cells = list(cells_of(made, Device.CPU, three, trees, InPlace()))
    assert [c.id for c in cells] == sorted({c.id for c in cells})
    seeds = [{"; seed 2" in text, "; seed 3" in text} for text in (c.payload.decode() for c in cells)]
    assert {True, False} in seeds
    assert all("; seed 2" not in c.payload.decode() or "; seed 3" not in c.payload.decode() for c in cells)
    assert any("seed 3 of 3" in c.what for c in cells)


def test_a_cell_with_large_cases_says_what_memory_it_takes(tmp_path):
    (tmp_path / "tree").mkdir()
    trees = Trees(tmp_path / "tree", tmp_path / "tree")
    large = {"dims": ["B in 1..4", "H in 1..16777216", "K in 1..16", "E in 1..256"], "split": {}}
    made = contract(**large, production=[{"B": 4, "H": 16777216, "K": 8, "E": 256}])
    cases = planned_cases(made, 1, 0)
    needs = [c.needs.memory for c in cells_of(made, Device.CPU, cases, trees, InPlace())]
    assert needs[0] == 5 << 30  # two arguments of 2**26 float32 and two small ones, eight times over
    assert needs[-1] == 0


# -- strength ----------------------------------------------------------------------------------------------------------


def test_all_triples_meet_where_a_policy_asks_for_three():
    made = contract(("tp8",))
    found = combinations(made, 3)
    assert found.strength == 3
    rows = [tuple(row.items()) for row in found]
    held = {frozenset(triple) for row in rows for triple in choose(row, 3)}
    assert len(held) >= found.combinations
    cases = planned_cases(made, 1, 4, (), 3)  # more than were asked for: all of them are run
    together = [c for c in cases if "brought together" in c.origin]
    assert len(together) == len(found) == len(combined_cases(made, 1, 0, 3))
    assert len(combinations(made)) < len(found)


@pytest.mark.parametrize(
    ("more", "holds"),
    [
        (["G in 4..4", "H % G == 0"], lambda heads: heads % 4 == 0),
        (["Z in 0..1", "H % 5 == Z"], lambda heads: heads % 5 in (0, 1)),  # Z is not combined: it is 1 or nothing
    ],
)
def test_sizes_that_nothing_completes_cost_no_other_pair(more, holds):
    made = contract(dims=["B in 1..4", "H in 4..64", *more], split={}, production=[], args=[
        {"name": "x", "role": "activation", "dtype": ["float32", "bfloat16"], "shape": ["B", "H"]},
        {"name": "out", "role": "output", "dtype": ["float32", "float16"], "shape": ["B", "H"]},
    ])  # fmt: skip
    found = combinations(made, 3)
    assert all(holds(row["size", "H"]) for row in found)
    assert len(combined_cases(made, 1, 10_000, 3)) == len(found)
    heads = {row["size", "H"] for row in found}
    pairs = {(row["size", "H"], row["type", "x"], row["type", "out"]) for row in found}
    assert len(heads) > 2
    assert pairs == set(product(heads, ("float32", "bfloat16"), ("float32", "float16")))


def test_what_cannot_be_had_is_said_and_not_dropped(monkeypatch):
    monkeypatch.setattr("validator.scale.covering._OPEN", 100)
    assert combinations(contract()) is None
    with pytest.raises(DifferentialError, match="cannot be combined 3 at a time"):
        combinations(contract(), 3)
