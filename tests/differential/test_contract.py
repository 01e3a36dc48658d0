"""What a contract may say of shapes, types and values, and what is wrong with one that says it badly."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from validator.differential.cases import build, cases
from validator.differential.device import Device, launch_of
from validator.manifest.contract import KernelContract
from validator.manifest.dims import Constraint, Membership, parse_constraint, parse_expression
from validator.manifest.load import load_contract


def contract(**changes: Any) -> KernelContract:
    plain: dict[str, Any] = {
        "match": "k",
        "dims": ["B in 1..4", "D in {8, 16}"],
        "candidate": "new.model:run",
        "reference": "stock.ops:run",
        "args": [
            {"name": "x", "role": "activation", "dtype": "float32", "shape": ["B", "D"]},
            {"name": "out", "role": "output", "dtype": "float32", "shape": ["B", "D"]},
        ],
    }
    return KernelContract.model_validate({**plain, **changes})


def test_a_good_contract_reads_back() -> None:
    c = contract(production=[{"B": 4, "D": 16}], tiles={"D": 8}, batch="B")
    assert list(c.values) == ["x", "out"]
    assert c.tiles == {"D": (8,)}
    assert c.values["x"][1].dtype == ("float32",)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"dims": ["B in 4..1", "D in {8}"]}, "ascending"),
        ({"dims": ["B in 1..4", "D in {8}", "D % 8"]}, "neither"),
        ({"dims": ["B in 1..4", "D in {8}", "__import__('os').system('x') == 1"]}, "not integer arithmetic"),
        ({"dims": ["B in 1..4", "D in {8}", "D ** 9 == 1"]}, "not integer arithmetic"),
        ({"dims": ["B in 1..4", "E in {8}"]}, "dimension 'D' has no range"),
        ({"dims": ["B in 1..4", "D in {8}", "(" * 150 + "B" + ")" * 150 + "== 1"]}, "characters"),
        ({"production": [{"B": 4, "D": 9}]}, "breaks `D in {8, 16}`"),
        ({"production": [{"B": 4}]}, "must give exactly"),
        ({"candidate": "new/model.py"}, "module:function"),
        ({"reference": None}, "needs a `reference`"),
        ({"import_root": "../elsewhere"}, "not a folder inside the tree"),
        ({"returns": "oot"}, "did you mean 'out'"),
        ({"returns": "x"}, "not an output"),
        ({"batch": "b"}, "dimension 'b' has no range"),
        ({"tiles": {"K": 32}}, "dimension 'K' has no range"),
        ({"tolerance": {"policy": "property"}}, "needs `checker`"),
        ({"tolerance": {"policy": "absolute"}}, "needs `atol` or `rtol`"),
        ({"args": [{"name": "x", "role": "activation", "dtype": "float33", "shape": ["B", "D"]}]}, "Input should"),
        ({"args": [{"name": "x", "role": "activation"}]}, "needs `dtype` and `shape`"),
        ({"args": [{"name": "i", "dtype": "int32", "shape": ["B"], "domain": {"index": "y.0"}}]}, "'y'"),
        ({"args": [{"name": "i", "dtype": "int32", "shape": ["B"], "domain": {"index": "y"}}]}, "axis"),
        ({"args": [{"name": "x", "dtype": "float32", "shape": ["B"], "domain": {"low": 2, "high": 1}}]}, "above"),
        ({"args": [{"name": "x", "role": "activation", "dtype": "int8", "shape": ["B"]}]}, "gives no result: no arg"),
        ({"args": [{"name": "x", "role": "output", "dtype": "int8", "shape": ["B"]}] * 2}, "'x' stands twice in"),
        ({"args": [{"name": "x", "role": "output", "dtype_of": "y", "shape": ["B"]}]}, "dtype_of names 'y'"),
    ],
)  # fmt: skip
def test_a_bad_contract_says_what_is_wrong(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        contract(**changes)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        contract(returns="oot", batch="b", dims=["B in 1..4"])
    text = str(caught.value)
    assert all(part in text for part in ("'oot'", "'b'", "'D'"))


def test_element_types_that_go_together_change_together() -> None:
    x = {"name": "x", "role": "activation", "dtype": ["float16", "bfloat16"], "shape": ["B", "D"]}
    out = {"name": "out", "role": "output", "dtype_of": "x", "shape": ["B", "D"]}
    one = contract(args=[x, out])
    made = cases(one, 1, 20)
    assert {name for case in made for name, _ in case.dtypes} == {"x"}
    types = {(build(one, case)["x"].dtype.name, build(one, case)["out"].dtype.name) for case in made}
    assert types == {("float16", "float16"), ("bfloat16", "bfloat16")}
    assert KernelContract.model_validate(one.model_dump()) == one


@pytest.mark.parametrize(
    ("named", "told"),
    [({"dtype": "float64"}, "leave one of them out"), ({"dtype_of": "out"}, "which has a `dtype_of` itself")],
)
def test_an_element_type_that_is_said_twice_or_nowhere_is_told(named: dict[str, str], told: str) -> None:
    x = {"name": "x", "role": "activation", "dtype": "float16", "shape": ["B"]}
    out = {"name": "out", "role": "output", "dtype_of": "x", "shape": ["B"]}
    with pytest.raises(ValidationError, match=told):
        contract(args=[x, out, {"dtype_of": "x", **out, "name": "more", **named}])


def test_constraints_are_interpreted_not_evaluated() -> None:
    assert isinstance(parse_constraint("T in 0..512"), Membership)
    relation = parse_constraint("1 <= ceil_div(T, 4) * min(H, 3) <= 6")
    assert isinstance(relation, Constraint)
    assert relation.names == {"T", "H"}
    assert relation.holds({"T": 8, "H": 9})
    assert not relation.holds({"T": 12, "H": 9})
    assert not parse_constraint("T % H == 0").holds({"T": 1, "H": 0})
    assert not parse_constraint("T * T * T * T > 0").holds({"T": 1 << 40})
    assert parse_expression("2 * T - 1").value({"T": 5}) == 9


def test_the_contracts_in_the_documentation_are_ones() -> None:
    text = (Path(__file__).parents[2] / "docs" / "differential.md").read_text()
    blocks = re.findall(r"```toml\n(.*?)```", text, re.S)
    (kernel,), (varlen,) = (load_contract(block.encode(), "docs/differential.md")[0] for block in blocks)
    assert {way for case in cases(varlen, 1, 0) for _, way in case.variants} >= {
        "no-more",
        "whole-pages",
        "one-segment",
    }
    assert {Device(name) for name in kernel.devices} == {Device.CPU, Device.PTX}
    assert launch_of(kernel.as_compiled, {"B": 7, "D": 4096})[:4] == (7, 1, 1, 128)
    assert all(f"`{device.value}`" in text for device in Device)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"compiled": {"artifact": "../k.ptx", "kernel": "k"}}, "not a path inside the tree"),
        ({"compiled": {"artifact": "k.ptx", "kernel": "k;x"}}, "not a name of a compiled kernel"),
        ({"compiled": {"artifact": "k.ptx", "kernel": "k"}, "launch": {"grid": ["Q"]}}, "'Q' has no range"),
        ({"configurations": {"x": [1, 2]}}, "'x' is an argument already"),
        ({"configurations": {"block": []}}, "at least 1"),
        ({"launches": {"argument": "rank", "count": 2}}, "no by-value argument 'rank'"),
        ({"candidate": None, "torch": "m:f", "reference": None}, "`torch` needs a `reference`"),
    ],
)  # fmt: skip
def test_ways_of_running_are_checked(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        contract(**changes)
