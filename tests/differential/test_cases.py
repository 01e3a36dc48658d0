"""Cases: the same for the same seed, inside the contract, and of every class that applies."""

from __future__ import annotations

import hashlib
import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from validator.differential.arena import GUARD, PATTERNS, layout_of, repeated
from validator.differential.buffers import place
from validator.differential.cases import MOST, Case, build, case_text, cases, load_case, variants_of
from validator.differential.constructed import left_out
from validator.differential.coverage import coverage, not_covered
from validator.differential.errors import DifferentialError
from validator.differential.numbers import Source, dtype_of, is_float
from validator.differential.shapes import Space
from validator.manifest.contract import DTYPES, KernelContract
from validator.run.sandbox import Worker

CONTRACT: dict[str, Any] = {
    "match": "k",
    "dims": ["T in 0..512", "H in 1..100", "H % 4 == 0", "G in 1..100", "H % G == 0", "S in 1..64"],
    "tiles": {"T": 64},
    "batch": "T",
    "production": [{"T": 500, "H": 96, "G": 12, "S": 64}],
    "args": [
        {"name": "x", "role": "activation", "dtype": ["float32", "bfloat16"], "shape": ["T", "H"],
         "layouts": ["contiguous", "strided", "transposed", "sliced", "offset"]},
        {"name": "p", "role": "activation", "dtype": "float32", "shape": ["T", "G"], "domain": {"probability": True}},
        {"name": "i", "role": "index", "dtype": "int32", "shape": ["T"],
         "domain": {"index": "pool.0", "sentinel": -1}},
        {"name": "q", "role": "weight", "dtype": "float8_e4m3fn", "shape": ["H", "G"]},
        {"name": "s", "role": "weight", "dtype": "float32", "shape": ["G"], "domain": {"low": 0.5, "high": 2}},
        {"name": "pool", "role": "state", "dtype": "float32", "shape": ["S", "G"]},
        {"name": "n", "role": "scalar", "value": "T * H"},
        {"name": "lengths", "role": "index", "dtype": "int64", "shape": ["G"], "domain": {"sum": "T"}},
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["T", "H"]},
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def contract() -> KernelContract:
    return KernelContract.model_validate(CONTRACT)


def digest(contract: KernelContract, seed: int) -> str:
    total = hashlib.sha256()
    for case in cases(contract, seed, 15):
        total.update(case_text(case).encode())
        if dict(case.dims)["T"] < 16:
            for value in build(contract, case).values():
                total.update(value.tobytes() if isinstance(value, np.ndarray) else str(value).encode())
    return total.hexdigest()


def test_the_same_seed_gives_the_same_cases_in_another_process(contract: KernelContract) -> None:
    source = (
        f"import importlib.util, sys; spec = importlib.util.spec_from_file_location('t', {str(Path(__file__))!r}); "
        "t = importlib.util.module_from_spec(spec); sys.modules['t'] = t; spec.loader.exec_module(t); "
        "print(t.digest(t.KernelContract.model_validate(t.CONTRACT), 7))"
    )
    environment = {**os.environ, "CI": "1", "PYTHONHASHSEED": "77"}
    command = [sys.executable, "-c", source]
    other = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    assert other.stdout.strip() == digest(contract, 7)
    assert digest(contract, 8) != digest(contract, 7)


def test_every_case_is_inside_the_contract(contract: KernelContract) -> None:
    space = Space(contract)
    for case in cases(contract, 3, 60):
        dims = dict(case.dims)
        assert space.holds(dims), case.words()
        inputs = build(contract, case)
        assert inputs["n"] == dims["T"] * dims["H"]
        assert inputs["lengths"].sum() == dims["T"]
        assert np.all((inputs["i"] >= -1) & (inputs["i"] < dims["S"]))
        assert np.all((inputs["s"] >= 0.5) & (inputs["s"] <= 2))
        if inputs["p"].size:
            np.testing.assert_allclose(inputs["p"].sum(axis=-1), 1, rtol=1e-5)
        for name, (_, values) in contract.values.items():
            if values.dtype and isinstance(inputs[name], np.ndarray):
                assert inputs[name].dtype.name in values.dtype


def test_edges_and_production_shapes_are_always_there(contract: KernelContract) -> None:
    made = cases(contract, 1, 0)
    sizes = {dict(c.dims)["T"] for c in made}
    assert {0, 1, 62, 63, 64, 65, 66, 126, 127, 128, 129, 130, 500, 512} <= sizes
    assert made[0].origin == "production shape"
    assert dict(made[0].dims) == {"T": 500, "H": 96, "G": 12, "S": 64}


@pytest.mark.parametrize("shapes", [1, 2, 3, 9])
def test_production_shapes_meet_every_plan(shapes: int) -> None:
    """Nothing else is as large: what is done otherwise there shows in no other case."""
    sizes = [{"T": 500 - n, "H": 96, "G": 12, "S": 64} for n in range(shapes)]
    many = KernelContract.model_validate({**CONTRACT, "production": sizes})
    made = [c for c in cases(many, 1, 0) if c.input_class == "production"]
    assert {c.plan for c in made} >= {"fresh", "repeat", "same-buffer", "other-buffer", "flip", "recheck", "a-b-a"}
    assert {c.dims for c in made} == {tuple(shape.items()) for shape in sizes}
    assert len({c.seed for c in made}) == len(made)


def test_production_shapes_that_take_long_have_one_plan_each() -> None:
    huge = {**CONTRACT, "dims": ["T in 0..1048576", *CONTRACT["dims"][1:]]}
    sizes = [{"T": 1 << 20, "H": 96, "G": 12, "S": 64}]
    made = cases(KernelContract.model_validate({**huge, "production": sizes}), 1, 0)
    assert len([c for c in made if c.input_class == "production"]) == 1


def test_the_coverage_table_names_every_class(contract: KernelContract) -> None:
    rows = {r.input_class: r for r in coverage(contract, cases(contract, 1, 40))}
    assert set(rows) == {f"I{n}" for n in range(1, 24)}
    for held in (f"I{n}" for n in (*range(2, 6), *range(7, 17), 19, 21)):
        assert rows[held].cases > 0, rows[held]
    assert not rows["I6"].applies
    assert any("2^31" in text and "distant" in text for text in not_covered(tuple(rows.values())))


def test_rows_far_apart_are_covered_where_the_contract_allows_them() -> None:
    args = [{**a, "layouts": ["contiguous", "distant"]} if a["name"] == "x" else a for a in CONTRACT["args"]]
    far = KernelContract.model_validate({**CONTRACT, "args": args})
    (row,) = (r for r in coverage(far, cases(far, 1, 0)) if r.input_class == "I1")
    assert row.cases > 0


def test_a_stored_case_reads_back_and_builds_the_same_data(contract: KernelContract) -> None:
    for case in cases(contract, 5, 20)[::7]:
        again = load_case(case_text(case), "here")
        assert again.id == case.id
        first, second = build(contract, case), build(contract, again)
        for name, value in first.items():
            if isinstance(value, np.ndarray):
                assert value.tobytes() == second[name].tobytes()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"schema":"validator/case/1"}', "[" * 100_000,
     '{"schema":"validator/case/1","kernel":"k","dims":[["T",1]],"seed":1,"plan":"__import__"}',
     '{"schema":"validator/case/1","kernel":"k","dims":3,"seed":1}'],
)  # fmt: skip
def test_what_is_no_case_is_refused(text: str) -> None:
    with pytest.raises(DifferentialError):
        load_case(text, "here")


def test_impossible_sizes_are_told() -> None:
    impossible = KernelContract.model_validate({"match": "k", "dims": ["T in 1..9", "T * T == 50"]})
    with pytest.raises(DifferentialError, match="no sizes satisfy"):
        Space(impossible)


@pytest.mark.parametrize("layout", ["contiguous", "strided", "transposed", "sliced", "offset"])
@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 3, 4), (0, 3), (1, 1)])
def test_every_layout_holds_the_values_and_guards_the_rest(layout: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    array = Source(1).bell(shape).astype(np.float32).reshape(shape)
    with Worker("nothing:run", tmp_path) as worker:
        placed = place(worker, {"x": array}, {"x": layout})
        (arena,) = placed.arenas
        np.testing.assert_array_equal(placed.view("x"), array)
        assert layout != "strided" or array.size < 2 or not placed.view("x").flags.c_contiguous
        assert arena[:GUARD] == repeated(PATTERNS[0], GUARD)
        assert placed.disturbed({"x": array}, []) == []
        placed.view("x")[...] = 7
        assert placed.disturbed({"x": array}, ["x"]) == []
        if array.size:
            assert placed.disturbed({"x": array}, []) != []
        arena[-1] ^= 1
        assert placed.disturbed({"x": array}, ["x"]) == [("x", 1)]
        del arena, placed


def test_every_type_is_known() -> None:
    for name in DTYPES:
        contract = KernelContract.model_validate(
            {
                "match": "k",
                "dims": "D in 1..40",
                "args": [{"name": "x", "role": "activation", "dtype": name, "shape": ["D"]}],
            }
        )
        for case in cases(contract, 1, 5):
            array = build(contract, case)["x"]
            assert array.dtype == dtype_of(name)
            assert not is_float(array.dtype) or np.all(np.isfinite(array.astype(np.float64)))


def test_words_read_as_a_sentence() -> None:
    case = Case("k", (("T", 3),), 1, variants=(("x", "zeros"),), layouts=(("x", "strided"),), padding=True)
    assert case.words() == "T = 3; x is all zero; x lies strided in memory; unused parts hold NaN; plan repeat"


def test_cases_come_from_the_seed_alone_and_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """hypothesis would read constants out of every module beside the working folder, and keep them there."""
    contract = KernelContract.model_validate(
        {
            "match": "k",
            "candidate": "m:f",
            "reference": "m:r",
            "dims": ["N in 1..5000"],
            "args": [{"name": "x", "role": "state", "dtype": "float32", "shape": ["N"]}],
        }
    )
    monkeypatch.chdir(tmp_path)
    drawn = cases(contract, 3, 30)
    (tmp_path / "lying_about.py").write_text("SIZES = [" + ", ".join(map(str, range(101, 400))) + "]\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("lying_about")
    assert cases(contract, 3, 30) == drawn
    assert [p.name for p in tmp_path.iterdir() if p.name not in ("lying_about.py", "__pycache__")] == []


def test_a_manifest_cannot_ask_for_cases_without_end() -> None:
    """Seven types and as many layouts of three hundred arguments: what is left out is counted."""
    args = [
        {
            "name": f"x{n}",
            "role": "state",
            "dtype": list(DTYPES)[:7],
            "shape": ["N", 2],
            "layouts": ["contiguous", "offset"],
        }
        for n in range(300)
    ]
    table = {"match": "k", "candidate": "m:f", "reference": "m:r", "dims": ["N in 1..2"], "args": args}
    contract = KernelContract.model_validate(table)
    assert len(cases(contract, 1, 0)) <= MOST
    assert left_out(contract) > 1000


@pytest.mark.parametrize(
    ("sizes", "meant", "shape"),
    [
        (["B"], "k.1", ["B", "T", 4]),
        (["B"], "k.2", ["B", "H", "T", 4]),
        (["B", "H"], "k.2", ["B", "H", "T", 4]),
    ],
)
def test_what_lies_beyond_a_length_is_unused_whatever_axis_it_counts(
    sizes: list[str], meant: str, shape: list[str]
) -> None:
    lengths = {"name": "n", "role": "index", "dtype": "int32", "shape": sizes, "domain": {"lengths": meant}}
    cache = {"name": "k", "role": "state", "dtype": "float32", "shape": shape}
    dims = ["B in 2..4", "H in 2..3", "T in 4..8"]
    table = {"match": "k", "candidate": "m:f", "reference": "m:r", "dims": dims, "args": [cache, lengths]}
    inputs = build(KernelContract.model_validate(table), Case("k", (("B", 3), ("H", 2), ("T", 6)), 5, padding=True))
    unused = (6 - inputs["n"].astype(int)).sum() * inputs["k"].size // (inputs["n"].size * 6)
    assert 0 < np.isnan(inputs["k"]).sum() == unused


def test_lengths_that_say_nothing_of_an_axis_are_not_claimed() -> None:
    lengths = {"name": "n", "role": "index", "dtype": "int32", "shape": [1], "domain": {"lengths": "k.0"}}
    cache = {"name": "k", "role": "state", "dtype": "float32", "shape": ["T", 4]}
    table = {"match": "k", "candidate": "m:f", "reference": "m:r", "dims": ["T in 4..8"], "args": [cache, lengths]}
    contract = KernelContract.model_validate(table)
    assert not any(case.padding for case in cases(contract, 1, 20))
    (row,) = (r for r in coverage(contract, cases(contract, 1, 20)) if r.input_class == "I7")
    assert row.cases == 0


def test_sizes_are_drawn_from_the_whole_range_and_with_every_vector_width_beyond_two_tiles() -> None:
    shape = {"dtype": "float32", "shape": ["D"]}
    args = [{"name": "x", "role": "activation", **shape}, {"name": "out", "role": "output", **shape}]
    row = KernelContract.model_validate({"match": "k", "dims": "D in 1..4096", "tiles": {"D": 128}, "args": args})
    made = [cases(row, seed, 60) for seed in range(3)]
    random = [{dict(c.dims)["D"] for c in some if c.input_class == "random"} for some in made]
    assert len(random[0] | random[1] | random[2]) > 40
    assert random[0] != random[1] != random[2]
    beyond = {dict(c.dims)["D"] for c in cases(row, 0, 0) if dict(c.dims)["D"] > 256}
    assert all(any(d % (2 * width) == width for d in beyond - {257, 258}) for width in (1, 2, 4, 8, 16))


def _filled(dtype: str, role: str, variant: str | None = None, **domain: object) -> list[np.ndarray[Any, Any]]:
    argument = {"name": "x", "role": role, "dtype": dtype, "shape": [64], "domain": domain}
    one = KernelContract.model_validate({"match": "k", "args": [argument]})
    chosen = () if variant is None else (("x", variant),)
    return [build(one, Case("k", (), seed, variants=chosen))["x"] for seed in range(12)]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_integers_without_bounds_are_drawn_from_the_whole_type_and_often_small(dtype: str) -> None:
    top = min(np.iinfo(dtype).max, (1 << 62) - 1)
    drawn = [array.astype(np.float64) for array in _filled(dtype, "weight", low=0)]
    assert max(array.max() for array in drawn) > 0.9 * top
    assert min(array.min() for array in drawn) >= 0
    assert top < 256 or sum(array.max() <= 100 for array in drawn) >= 2
    assert {float(v) for v in _filled(dtype, "weight", "extremes", low=0)[0]} == {0.0, float(top)}
    assert max(array.max() for array in _filled(dtype, "index", low=0)) <= 100  # it may count, or point somewhere


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_large_is_beyond_what_an_exponential_holds_and_huge_is_far_beyond(dtype: str) -> None:
    large, huge = (_filled(dtype, "activation", variant)[0].astype(np.float64) for variant in ("large", "huge"))
    assert 88.8 < np.abs(large).max() <= 100
    assert 4096 <= np.abs(huge).max() < np.inf
    argument = {"name": "x", "role": "activation", "dtype": dtype, "shape": [64], "domain": {"high": 1}}
    one = KernelContract.model_validate({"match": "k", "args": [argument]})
    assert "huge" not in variants_of(one, Case("k", (), 0), "x")


@pytest.mark.parametrize(
    ("unique", "sizes"), [("rows", (("T", 9), ("K", 3), ("E", 4))), (True, (("T", 2), ("K", 2), ("E", 5)))]
)
@pytest.mark.parametrize("ordered", [False, True])
def test_no_element_stands_twice_where_none_may(unique: Any, sizes: tuple[tuple[str, int], ...], ordered: bool) -> None:
    chosen = _routed(unique, ordered)
    assert all(Space(chosen).holds(dict(case.dims)) for case in cases(chosen, 1, 20))
    for variants in [(), *((("ids", way),) for way in variants_of(chosen, Case("k", sizes, 1), "ids"))]:
        for seed in range(4):
            ids = build(chosen, Case("k", sizes, seed, variants=variants))["ids"]
            assert np.all((ids >= 0) & (ids < dict(sizes)["E"]))
            assert all(
                len(set(row)) == len(row) for row in (ids.tolist() if unique == "rows" else [ids.ravel().tolist()])
            )
            assert not ordered or np.all(np.diff(ids, axis=1) >= 0)
    assert (unique == "rows") == any(
        dict(c.dims)["T"] * dict(c.dims)["K"] > dict(c.dims)["E"] for c in cases(chosen, 1, 20)
    )


def _routed(unique: Any, ordered: bool = False, **domain: Any) -> KernelContract:
    ids = {"index": "w.0", "unique": unique, "sorted": ordered, **domain}
    args = [
        {"name": "w", "role": "weight", "dtype": "float32", "shape": ["E", 2]},
        {"name": "ids", "role": "index", "dtype": "int32", "shape": ["T", "K"], "domain": ids},
    ]
    return KernelContract.model_validate({"match": "k", "dims": ["T in 1..9", "K in 1..4", "E in 1..6"], "args": args})


def test_what_no_place_is_left_for_is_no_entry() -> None:
    chosen = _routed(True, sentinel=-1)
    ids = build(chosen, Case("k", (("T", 4), ("K", 2), ("E", 5)), 1))["ids"]
    assert sorted(ids.ravel().tolist()) == [-1, -1, -1, 0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match=r"production\[0\]: breaks `\(T\) \* \(K\) <= E`"):
        KernelContract.model_validate({**_routed(True).model_dump(), "production": [{"T": 4, "K": 2, "E": 5}]})


def test_many_rows_of_many_places_are_drawn_at_once() -> None:
    ids = {
        "name": "ids",
        "role": "index",
        "dtype": "int32",
        "shape": [3000, 2],
        "domain": {"index": "w.0", "unique": "rows"},
    }
    args = [{"name": "w", "role": "weight", "dtype": "int8", "shape": [70000]}, ids]
    drawn = build(KernelContract.model_validate({"match": "k", "args": args}), Case("k", (), 1))["ids"]
    assert np.all(drawn[:, 0] != drawn[:, 1])
    assert len(np.unique(drawn)) > 5000


def test_nothing_but_no_entry_is_a_case() -> None:
    assert all((array == -1).all() for array in _filled("int32", "index", "all-holes", low=0, high=9, sentinel=-1))
    routed = _routed(unique="rows", sentinel=-1)
    assert any(("ids", "all-holes") in case.variants for case in cases(routed, 1, 0))


def test_ascending_numbers_are_tried_with_one_step_with_steps_of_one_and_with_none() -> None:
    bounds = {"low": 0, "high": 70, "sorted": True}
    for way, holds in (
        ("one-step", lambda v: set(v) == {0, 70}),
        ("steps-of-one", lambda v: v == list(range(64))),
        ("never-grows", lambda v: len(set(v)) == 1),
    ):
        drawn = [array.tolist() for array in _filled("int32", "index", way, **bounds)]
        assert all(
            holds(values) and values == sorted(values) and 0 <= values[0] <= values[-1] <= 70 for values in drawn
        )
        assert way == "steps-of-one" or len({tuple(values) for values in drawn}) > 3


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int8"])
def test_rows_lie_apart_as_vector_paths_need_it_and_as_they_do_not(dtype: str) -> None:
    size = dtype_of(dtype).itemsize
    columns = 32 // size
    for rows, vectors in ((4, True), (5, False)):
        for layout in ("strided", "sliced"):
            strides, offset, _ = layout_of((rows, columns), size, layout)
            assert strides[0] > columns * size, "there is a gap"
            assert (strides[0] % 16 == 0 and offset % 16 == 0) is vectors
        assert layout_of((rows, columns), size, "offset")[1] == (max(size, 8) if vectors else size)


def test_layouts_are_tried_at_sizes_that_suit_vectors() -> None:
    args = [{**a, "layouts": ["contiguous", "strided"]} if a["name"] == "x" else a for a in CONTRACT["args"]]
    planned = cases(KernelContract.model_validate({**CONTRACT, "args": args}), 1, 0)
    sizes = [dict(case.dims) for case in planned if ("x", "strided") in case.layouts]
    assert any(all(size % 2 == 0 for size in dims.values()) for dims in sizes)
    assert any(any(size % 2 for size in dims.values()) for dims in sizes)
