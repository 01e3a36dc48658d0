"""Inputs of which some elements are others, too: a stride of 0, and rows that overlap as windows do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from validator.differential.buffers import place
from validator.differential.cases import Case, build, cases
from validator.differential.changes import rearranged, single_changes
from validator.manifest.contract import KernelContract
from validator.run.sandbox import Worker

SIZES = (("B", 4), ("D", 6))


def contract(**more: Any) -> KernelContract:
    args = [
        {"name": "x", "role": "activation", "dtype": "float32", "shape": ["B", "D"],
         "layouts": ["contiguous", "expanded", "overlapping"], **more},
        {"name": "s", "role": "weight", "dtype": "float32", "shape": ["B"], "layouts": ["contiguous", "expanded"]},
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["B", "D"]},
    ]  # fmt: skip
    return KernelContract.model_validate({"match": "k", "dims": ["B in 1..9", "D in 1..9"], "args": args})


@pytest.mark.parametrize(
    ("name", "layout", "stride"), [("x", "expanded", 0), ("x", "overlapping", 12), ("s", "expanded", 0)]
)
def test_one_element_stands_for_several(name: str, layout: str, stride: int, tmp_path: Path) -> None:
    case = Case("k", SIZES, 1, layouts=((name, layout),))
    array = build(contract(), case)[name]
    assert len(np.unique(array)) == {"s": 1, "expanded": 6, "overlapping": 15}["s" if name == "s" else layout]
    with Worker("nothing:run", tmp_path) as worker:
        placed = place(worker, {name: array}, {name: layout})
        assert placed.view(name).strides[0] == stride
        np.testing.assert_array_equal(placed.view(name), array)
        assert placed.disturbed({name: array}, []) == []
        placed.view(name)[-1] = 7
        assert placed.disturbed({name: array}, []) != []
        del placed


def test_no_plan_changes_one_element_alone() -> None:
    made = cases(contract(), 1, 40)
    shared = [case for case in made if case.layouts and case.layouts[0][1] in ("expanded", "overlapping")]
    assert {case.layouts[0] for case in shared} >= {("x", "expanded"), ("x", "overlapping"), ("s", "expanded")}
    assert not {case.plan for case in shared} & {"flip", "batch-mates"}
    inputs = build(contract(), shared[0])
    assert not [*single_changes(contract(), shared[0], inputs), *rearranged(contract(), shared[0], inputs)]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"role": "state"}, "'x': lies expanded, and the kernel writes it"),
        ({"inplace": True}, "'x': lies expanded, and the kernel writes it"),
        ({"domain": {"probability": True}}, "'x': lies expanded, and its domain says more"),
    ],
)
def test_where_each_element_has_to_be_its_own_it_is_refused(more: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        contract(**more)
