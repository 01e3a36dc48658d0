"""Tensor maps (TMA descriptors) from a contract: geometry here, the 128 bytes from the driver's own encoder.

The rules are those of `cuTensorMapEncodeTiled` in the CUDA driver API: sizes and boxes innermost first, strides of all
but the innermost axis in bytes and multiples of 16, the innermost box at most as wide as the swizzle pattern.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from validator.gpu.driver import Device

__all__ = ["BYTES", "Geometry", "encode", "geometry"]

BYTES = 128
_MOST_AXES = 5
_WIDEST_BOX = 256
_STRIDE = 16

_TYPES = {
    "float64": ("FLOAT64", 8), "float32": ("FLOAT32", 4), "float16": ("FLOAT16", 2), "bfloat16": ("BFLOAT16", 2),
    "int64": ("INT64", 8), "int32": ("INT32", 4), "uint64": ("UINT64", 8), "uint32": ("UINT32", 4),
    "uint16": ("UINT16", 2), "int16": ("UINT16", 2), "uint8": ("UINT8", 1), "int8": ("UINT8", 1),
    "bool": ("UINT8", 1), "float8_e4m3fn": ("UINT8", 1), "float8_e5m2": ("UINT8", 1),
}  # fmt: skip
"""Element type → the driver's name for it, bytes. fp8 travels as bytes."""
_SWIZZLES = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}


@dataclass(frozen=True, slots=True)
class Geometry:
    """What the encoder is told, innermost axis first."""

    kind: str
    """Element type as `CU_TENSOR_MAP_DATA_TYPE_…` names it."""
    sizes: tuple[int, ...]
    """Elements."""
    strides: tuple[int, ...]
    """Bytes, one fewer than there are axes."""
    box: tuple[int, ...]
    """Elements."""
    swizzle: str


def geometry(dtype: str, shape: Sequence[int], box: Sequence[int], swizzle: int = 0) -> Geometry:
    """Of a contiguous array; `shape` and `box` outermost first. Raises ValueError for what no tensor map can be."""
    if dtype not in _TYPES:
        raise ValueError(f"{dtype} has no tensor map")
    kind, width = _TYPES[dtype]
    if not 1 <= len(shape) <= _MOST_AXES:
        raise ValueError(f"a tensor map has 1 to {_MOST_AXES} axes, not {len(shape)}")
    if len(box) != len(shape):
        raise ValueError(f"`box` has {len(box)} sizes, `shape` has {len(shape)}")
    wrong = [b for b in box if not 1 <= b <= _WIDEST_BOX] + [n for n in shape if not 1 <= n <= 1 << 32]
    if wrong:
        raise ValueError(f"sizes {wrong} are outside of what a tensor map takes (box 1 to {_WIDEST_BOX})")
    sizes = tuple(reversed(shape))
    strides, step = [], width
    for size in sizes[:-1]:
        step *= size
        strides.append(step)
    odd = [s for s in strides if s % _STRIDE]
    if odd:
        raise ValueError(f"strides of {odd} bytes are no multiples of {_STRIDE}")
    inner = box[-1] * width
    if inner % _STRIDE:
        raise ValueError(f"the innermost box of {inner} bytes is no multiple of {_STRIDE}")
    if swizzle and inner > swizzle:
        raise ValueError(f"the innermost box of {inner} bytes is wider than the swizzle of {swizzle}")
    return Geometry(kind, sizes, tuple(strides), tuple(reversed(box)), _SWIZZLES[swizzle])


def encode(device: Device, address: int, said: Geometry) -> bytes:
    """The descriptor of an array at `address` (a multiple of 16). Raises DeviceError when the driver refuses."""
    types = device.types
    axes = len(said.sizes)
    found = device.call(
        "cuTensorMapEncodeTiled",
        getattr(types.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{said.kind}"),
        axes,
        address,
        [types.cuuint64_t(n) for n in said.sizes],
        # One axis has no stride; the driver wants an address all the same.
        [types.cuuint64_t(n) for n in said.strides or (_STRIDE,)],
        [types.cuuint32_t(n) for n in said.box],
        [types.cuuint32_t(1)] * axes,
        types.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(types.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{said.swizzle}"),
        types.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
        types.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    return b"".join(int(word).to_bytes(8, "little") for word in found.opaque)
