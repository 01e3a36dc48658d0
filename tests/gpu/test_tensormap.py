"""Geometry of tensor maps, held against what the driver API's documentation asks for."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from validator.gpu.launch import Launchable, NotLaunchable, Recipe, pack, plan_launch
from validator.gpu.tensormap import Geometry, encode, geometry
from validator.manifest.contract import Argument, KernelContract


@dataclass(frozen=True)
class At:
    offset: int
    size: int = 8


def test_axes_are_turned_round_and_strides_are_bytes():
    said = geometry("bfloat16", (3, 40, 64), (1, 8, 32), 64)
    assert said == Geometry("BFLOAT16", (64, 40, 3), (128, 5120), (32, 8, 1), "64B")
    assert geometry("float8_e4m3fn", (16,), (16,)) == Geometry("UINT8", (16,), (), (16,), "NONE")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("float4_e2m1fn", (16,), (16,)), "float4_e2m1fn has no tensor map"),
        (("float32", (), ()), "1 to 5 axes, not 0"),
        (("float32", (1,) * 6, (1,) * 6), "1 to 5 axes, not 6"),
        (("float32", (8, 8), (8,)), "`box` has 1 sizes, `shape` has 2"),
        (("float32", (8, 512), (8, 512)), "sizes \\[512\\]"),
        (("float32", (0, 8), (8, 8)), "sizes \\[0\\]"),
        (("float32", (8, 5), (8, 4)), "strides of \\[20\\] bytes"),
        (("bfloat16", (8, 8), (8, 4)), "innermost box of 8 bytes"),
        (("bfloat16", (8, 64), (8, 64), 64), "128 bytes is wider than the swizzle of 64"),
    ],
)
def test_what_no_tensor_map_can_be(arguments: tuple[Any, ...], why: str):
    with pytest.raises(ValueError, match=why):
        geometry(*arguments)


def planned(**keys: Any) -> Launchable | NotLaunchable:
    x = Argument(name="x", role="activation", via="tensormap", **keys)
    args = (x, Argument(name="out", role="output"))
    contract = KernelContract(match="k", args=args, dims=("T in {32}",))
    return plan_launch(contract, [At(0, 128), At(128)], Recipe(size=256, window=64))


def test_a_descriptor_gets_a_buffer_and_its_place_in_the_block():
    plan = planned(shape=("T", 64), dtype="bfloat16", box=(8, 64), swizzle=128)
    assert isinstance(plan, Launchable)
    assert [b.name for b in plan.buffers] == ["out", "x"]
    assert next(b for b in plan.buffers if b.name == "x").size == 32 * 64 * 2
    said: list[tuple[int, Geometry]] = []

    def made(address: int, how: Geometry) -> bytes:
        said.append((address, how))
        return b"\xab" * 128

    block = pack(plan, {"x": 0x1000, "out": 0x2000}, made).block
    assert said == [(0x1000, Geometry("BFLOAT16", (64, 32), (128,), (64, 8), "128B"))]
    assert block == b"\xab" * 128 + (0x2000).to_bytes(8, "little")


def test_a_descriptor_without_geometry_says_what_is_missing():
    assert "declares no `shape`, `dtype` and `box`" in str(planned())


def test_the_encoder_is_told_what_the_geometry_says():
    """Order and types of the arguments as cuTensorMapEncodeTiled takes them."""
    told: list[Any] = []

    class Types:
        def __getattr__(self, name: str) -> Any:
            return int if name.startswith("cuuint") else Names(name)

    class Names(str):
        def __getattr__(self, name: str) -> str:
            return name

    def call(name: str, *args: Any) -> Any:
        told.extend((name, *args))
        return SimpleNamespace(opaque=range(16))

    device: Any = SimpleNamespace(types=Types(), call=call)
    raw = encode(device, 0x1000, geometry("float16", (4, 64), (4, 64), 128))
    assert len(raw) == 128
    assert raw[8] == 1
    assert told == [
        "cuTensorMapEncodeTiled", "CU_TENSOR_MAP_DATA_TYPE_FLOAT16", 2, 0x1000, [64, 4], [128], [64, 4], [1, 1],
        "CU_TENSOR_MAP_INTERLEAVE_NONE", "CU_TENSOR_MAP_SWIZZLE_128B", "CU_TENSOR_MAP_L2_PROMOTION_NONE",
        "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE",
    ]  # fmt: skip


def test_one_axis_has_a_stride_for_the_driver_all_the_same():
    """A driver on a device refused an empty list."""
    told: list[Any] = []
    types = SimpleNamespace(cuuint64_t=int, cuuint32_t=int)
    for name in ("DataType", "Interleave", "Swizzle", "L2promotion", "FloatOOBfill"):
        setattr(types, f"CUtensorMap{name}", SimpleNamespace())
    names = {
        "DataType": "CU_TENSOR_MAP_DATA_TYPE_FLOAT32", "Interleave": "CU_TENSOR_MAP_INTERLEAVE_NONE",
        "Swizzle": "CU_TENSOR_MAP_SWIZZLE_NONE", "L2promotion": "CU_TENSOR_MAP_L2_PROMOTION_NONE",
        "FloatOOBfill": "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE",
    }  # fmt: skip
    for kind, name in names.items():
        setattr(getattr(types, f"CUtensorMap{kind}"), name, name)

    def call(name: str, *args: Any) -> Any:
        told.extend(args)
        return SimpleNamespace(opaque=range(16))

    encode(SimpleNamespace(types=types, call=call), 0x1000, geometry("float32", (512,), (128,)))  # type: ignore[arg-type]
    assert (told[1], told[3], len(told[4])) == (1, [512], 1)
