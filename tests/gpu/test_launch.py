"""A launch from a contract alone: buffers, parameter block, and what can not be launched."""

from __future__ import annotations

import struct
import tomllib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fixtures.gpu.labelled import CORPUS, described
from fixtures.ordering.labels import contract_of
from validator.binary.elf import Cubin
from validator.gpu.launch import Launchable, NotLaunchable, Recipe, pack, plan_launch
from validator.manifest.contract import Argument, KernelContract, Role

RECIPE = Recipe(size=1024, window=256, integer=5, number=0.25)


@dataclass(frozen=True)
class At:
    offset: int
    size: int = 8


def contract(*args: dict[str, Any], **keys: Any) -> KernelContract:
    return KernelContract(match="k", args=tuple(Argument(**arg) for arg in args), **keys)


OUT = {"name": "out", "role": "output"}
ACT = {"name": "act", "role": "activation"}


def planned(*args: dict[str, Any], slots: tuple[At, ...] | None = None, **keys: Any) -> Launchable:
    slots = slots or tuple(At(8 * i) for i in range(len(args)))
    plan = plan_launch(contract(*args, **keys), slots, RECIPE)
    assert isinstance(plan, Launchable), plan
    return plan


def refused(*args: dict[str, Any], slots: tuple[At, ...] | None = None, **keys: Any) -> str:
    slots = slots or tuple(At(8 * i) for i in range(len(args)))
    plan = plan_launch(contract(*args, **keys), slots, RECIPE)
    assert isinstance(plan, NotLaunchable)
    assert str(plan).startswith("not launchable: ")
    return plan.reason


def labelled(name: str) -> Launchable:
    folder = CORPUS / name
    (kernel,) = Cubin((folder / "sm_90a.cubin").read_bytes(), name).kernels()
    case = contract_of(tomllib.loads((folder / "case.toml").read_text()))
    plan = plan_launch(
        described(case, (folder / "sm_90a.ptx").read_text()), kernel.parameters, RECIPE, kernel.block_size
    )
    assert isinstance(plan, Launchable), plan
    return plan


def test_pointers_inside_a_struct_by_value():
    plan = labelled("h24_bad")
    parameters = pack(plan, {"out": 0x1000, "act": 0x2000, "w": 0x3000})
    assert parameters.offsets == (0, 32)
    # struct Params { float* out; int rows; int cols; const float* act; const float* w; }, int n
    assert parameters.block == struct.pack("<QiiQQi", 0x1000, 5, 5, 0x2000, 0x3000, 5)


def test_numbers_of_the_type_that_the_code_declares():
    plan = labelled("ht2_bad")
    addresses = {"x": 1, "y": 2, "global_scratch": 3, "profile_scratch": 4}
    assert pack(plan, addresses).block == struct.pack("<QQifQQ", 1, 2, 5, 0.25, 3, 4)
    assert plan.launch.block == (128, 1, 1)
    assert plan.launch.pdl


@pytest.mark.parametrize("folder", sorted(CORPUS.glob("*/")), ids=lambda f: f.name)
def test_every_labelled_kernel_can_be_launched(folder):
    plan = labelled(folder.name)
    names = [buffer.name for buffer in plan.buffers]
    packed = pack(plan, {name: 0x100 * (i + 1) for i, name in enumerate(names)})
    assert len(set(names)) == len(names)
    for offset, name in plan.pointers:
        assert struct.unpack_from("<Q", packed.block, offset)[0] == 0x100 * (names.index(name) + 1)
    assert any(buffer.written for buffer in plan.buffers)
    assert all(buffer.size % 16 == 0 and buffer.window <= 256 for buffer in plan.buffers)


def test_what_other_launches_may_still_be_writing():
    roles = ("weight", "activation", "index", "state", "output", "workspace", "flag")
    plan = planned(*({"name": role, "role": role} for role in roles), {"name": "undeclared"})
    assert [b.name for b in plan.buffers if not b.produced] == ["weight"]
    assert [b.name for b in plan.buffers if b.written] == ["state", "output", "workspace"]


def test_arguments_that_share_memory():
    plan = planned(OUT, ACT | {"alias_of": "out"})
    assert [b.name for b in plan.buffers] == ["out"]
    assert pack(plan, {"out": 7}).block == struct.pack("<QQ", 7, 7)


def test_a_pointer_table_points_into_memory_of_its_own():
    plan = planned(OUT, {"name": "rows", "role": "index", "points_to": "activation"})
    table, pointed = plan.buffers[1:]
    assert (table.table, pointed.name, pointed.role) == ("rows[]", "rows[]", Role.ACTIVATION)
    for values in table.values:
        offsets = np.frombuffer(values, "<u8")
        assert sorted(offsets) == [16 * i for i in range(64)]
    assert table.values[0] != table.values[1]


def test_sizes_values_and_launch_that_the_contract_declares():
    plan = planned(
        OUT | {"dtype": "bfloat16", "shape": ["T", "2 * H"]},
        {"name": "slots", "role": "index", "dtype": "int64", "shape": ["T"], "domain": {"index": "pool.0"}},
        {"name": "pool", "role": "state", "dtype": "float32", "shape": [3, "H"]},
        {"name": "n", "role": "scalar", "value": "T + 1"},
        {"name": "eps", "role": "scalar", "dtype": "float32", "value": 0.5},
        slots=(At(0), At(8), At(16), At(24, 4), At(28, 4)),
        dims=["T in 1..4096", "H in {8, 16}"],
        production=[{"T": 4, "H": 16}],
        launch={"grid": ["T", "ceil_div(H, 8)"], "block": [64], "shared": 100, "cluster": [2], "pdl": True},
    )
    assert [b.size for b in plan.buffers] == [4 * 32 * 2, 32, 3 * 16 * 4]
    assert set(np.frombuffer(plan.buffers[1].values[0], "<i8")) <= {0, 1, 2}
    assert plan.block[24:] == struct.pack("<if", 5, 0.5)
    assert (plan.launch.grid, plan.launch.block, plan.launch.cluster) == ((4, 2, 1), (64, 1, 1), (2, 1, 1))
    assert plan.launch.shared == 100


def test_small_sizes_inside_the_ranges_where_no_shape_in_use_is_given():
    plan = planned(OUT | {"dtype": "float32", "shape": ["T"]}, dims=["T in 1..4096"])
    assert plan.buffers[0].size == 32 * 4


@pytest.mark.parametrize(
    ("args", "keys", "why"),
    [
        ([OUT, ACT], {"slots": (At(0),)}, "lists 2 arguments, the kernel has 1"),
        ([OUT, {"name": "map", "role": "activation", "via": "tensormap"}], {}, "'map' takes 8 bytes, a tensor map has"),
        ([OUT, {"name": "box", "role": "mailbox"}], {}, "'box' is a mailbox"),
        ([OUT, {"name": "p"}], {"slots": (At(0), At(8, 24))}, "takes 24 bytes and declares no `fields`"),
        ([ACT], {}, "no result to compare"),
        ([OUT, {"name": "n", "role": "scalar"}], {"slots": (At(0), At(8, 3))}, "is no plain number"),
        ([OUT, {"name": "n", "role": "scalar", "value": 300}], {"slots": (At(0), At(8, 1))}, "too large for 1 bytes"),
        ([OUT | {"dtype": "float32", "shape": [1 << 30]}], {}, "would take 4294967296 bytes"),
        ([OUT], {"dims": ["T in 1..9", "T % 2 == 1", "T > 10"]}, "break `T > 10`"),
        (
            [{"name": "p", "fields": [{"name": "out", "offset": 4, "role": "output"}]}],
            {"slots": (At(0, 8),)},
            "'out' at 4 lies outside",
        ),
    ],
)
def test_what_can_not_be_launched_says_why(args: list[dict[str, Any]], keys: dict[str, Any], why: str):
    assert why in refused(*args, **keys)
