"""What was drawn and is told as a number is made smaller, stays within the contract, and is replayed from the text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from validator.differential.cases import Case, build, case_text, load_case, nameable
from validator.differential.corpus import fits
from validator.differential.engine import shrink
from validator.differential.errors import DifferentialError
from validator.differential.pinned import allowed, simpler
from validator.differential.processes import Trees, runner_for
from validator.differential.running import run_case
from validator.differential.simpler import _sized
from validator.manifest.contract import KernelContract
from validator.run.sandbox import Limits


def contract(args: list[dict[str, Any]], dims: list[str], **more: Any) -> KernelContract:
    names = {"match": "k", "candidate": "ops:fast", "reference": "ops:stock"}
    return KernelContract.model_validate({**names, "dims": dims, "args": args, **more})


def number(name: str, dtype: str = "int32", **domain: Any) -> dict[str, Any]:
    return {"name": name, "role": "scalar", "dtype": dtype, "domain": domain}


def whole(name: str, *shape: str, dtype: str = "int32", **domain: Any) -> dict[str, Any]:
    return {"name": name, "role": "index", "dtype": dtype, "shape": list(shape), "domain": domain}


X = {"name": "x", "role": "activation", "dtype": "float32", "shape": ["B", "T"]}
OUT = {"name": "out", "role": "output", "dtype": "float32", "shape": ["B"]}
SIZES = {"B": 3, "T": 7}
KINDS = {
    "w": number("w", low=1, high=9),
    "below": number("below", low=-20, high=-3),
    "eps": number("eps", "float32", low=1e-6, high=0.5),
    "any": number("any", "int64"),
    "flag": number("flag", "bool"),
    "mode": number("mode", values=[4, 0, 7]),
    "lens": whole("lens", "B", lengths="x.1"),
    "at": whole("at", "B", index="x.1", sentinel=-1),
    "rows": whole("rows", "B", index="x.1", unique=True),
    "cu": whole("cu", "B + 1", offsets="x.1"),
    "ends": whole("ends", "B", ends="x.1", low=1),
    "parts": whole("parts", "B", sum="T"),
    "up": whole("up", "B", low=2, high=30, sorted=True),
    "mask": whole("mask", "B", dtype="bool"),
}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_becomes_simpler_within_its_domain(name: str) -> None:
    """Taking the boldest step always ends, at something that the contract allows, and builds as it says."""
    kernel = contract([X, KINDS[name], OUT], ["B in 1..5", "T in 1..40"])
    for seed in range(6):
        case = Case("k", tuple(SIZES.items()), seed)
        fill = nameable(kernel, case)[name]
        drawn = np.asarray(build(kernel, case)[name]).reshape(-1)
        values: tuple[Any, ...] = tuple(drawn.tolist() if fill.floating else map(int, drawn))
        assert allowed(fill, values)
        for _ in range(200):
            following = next(simpler(fill, values), None)
            if following is None:
                break
            values = following
        else:
            raise AssertionError("never ends")
        assert fits(kernel, named := Case("k", tuple(SIZES.items()), seed, pinned=((name, values),)))
        assert np.allclose(np.asarray(build(kernel, named)[name]).reshape(-1).astype(float), values)
        assert load_case(case_text(named), "") == named


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("w", (0,)), ("w", (1, 1)), ("w", (1.5,)), ("mode", (3,)), ("lens", (0, 0, 8)), ("lens", (0, 0)),
        ("at", (0, 7, 0)), ("any", (1 << 70,)),
        ("rows", (1, 1, 2)), ("cu", (1, 2, 3, 7)), ("cu", (0, 2, 3, 6)), ("cu", (0, 4, 3, 7)), ("ends", (1, 1, 7)),
        ("parts", (1, 2, 3)), ("up", (3, 2, 4)), ("mask", (0, 2, 1)), ("x", (0,)),
    ],
)  # fmt: skip
def test_values_outside_the_contract_are_refused(name: str, values: tuple[Any, ...]) -> None:
    args = [X, *([KINDS[name]] if name in KINDS else []), OUT]
    case = Case("k", tuple(SIZES.items()), 1, pinned=((name, values),))
    assert not fits(contract(args, ["B in 1..5", "T in 1..40"]), case)


def test_a_stored_case_of_endless_or_odd_values_is_none() -> None:
    text = json.loads(case_text(Case("k", (("T", 3),), 1)))
    for odd in ([["w", list(range(9))]], [["w", []]], [["w", ["1"]]]):
        with pytest.raises(DifferentialError, match="not a case"):
            load_case(json.dumps({**text, "pinned": odd}), "CASE")


def test_cases_that_name_nothing_are_stored_as_they_always_were() -> None:
    case = Case("k", (("T", 3),), 1)
    assert "pinned" not in case_text(case)
    assert case.id == "b2b0bc0244d3"
    assert case.id != Case("k", (("T", 3),), 1, pinned=(("w", (1,)),)).id


OPS = """
import numpy as np

def sums(x, lens, w, out):
    for row, n in enumerate(lens):
        out[row] = x[row, max(0, n - w):n].sum()

def stock(x, lens, w, out):
    sums(x, lens, w, out)

def fast(x, lens, w, out, tile):
    sums(x, lens, w, out)
    if w >= 3 and lens.max(initial=0) > w:
        out[lens.argmax()] += 1
"""


def test_a_failure_reads_like_a_sentence_and_is_replayed(tmp_path: Path) -> None:
    (tmp_path / "ops.py").write_text(OPS)
    window = number("w", low=1, high=64)
    lengths = whole("lens", "B", lengths="x.1")
    kernel = contract([X, lengths, window, OUT], ["B in 1..6", "T in 1..40"], configurations={"tile": [16, 32, 64]})
    case = Case("k", (("B", 5), ("T", 38)), 4, variants=(("w", "lowest"),), configuration=(("tile", 64),))
    assert not fits(kernel, Case("k", case.dims, 4, configuration=(("tile", 48),)))
    with runner_for(kernel, Trees(tmp_path, tmp_path), Limits(wall=30)) as runner:
        failed = next(
            result
            for seed in range(20)
            if (result := run_case(runner, Case("k", case.dims, seed, configuration=case.configuration)).result).faults
        )
        small = shrink(runner, failed)
        told = "B = 1, T = 4; candidate configured with tile = 16; lens = [4]; w = 3; plan repeat"
        assert small.words() == told
        again = load_case(case_text(small.case), "CASE")
        assert fits(kernel, again)
        assert run_case(runner, again).result.words() == told


@pytest.mark.parametrize(("places", "kept"), [(40, True), (2, False)])
def test_what_needs_more_room_than_smaller_sizes_have_is_dropped(places: int, kept: bool) -> None:
    at = whole("at", "B", index="x.1", sentinel=-1, unique=True)
    kernel = contract([X, at, OUT], ["B in 1..5", f"T in 1..{places}"])
    case = Case("k", (("B", 3), ("T", 40)), 1, variants=(("at", "holes-inside"),))
    (found,) = _sized(kernel, case, {"B": 2, "T": places})
    assert dict(found.variants) == ({"at": "holes-inside"} if kept else {})
    build(kernel, found)
