"""Matrix fragments of a warp: `mma.sync`, `movmatrix`, and which bytes `ldmatrix` and `stmatrix` move.

A register of lane l = 4·g + t holds neighbouring elements of one row: of A and of the result rows g and g + 8, of B
column g. The ISA leaves the order of a product's additions open: f16, bf16 and tf32 are added into f32 as an H200 does,
the others are summed in binary64 and rounded once.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import ml_dtypes
import numpy as np

from validator.emulate.isa.model import Array, Kernel, RegType, WarpOp
from validator.emulate.isa.numbers import F16, F32, F64, Format, rounded
from validator.emulate.isa.tensor_core import cut_sum
from validator.emulate.isa.warp import WarpBuilder
from validator.emulate.isa.words import Unsupported, Words

__all__ = ["FAMILY", "MatrixCopy", "matrix_copy"]

_LANE = np.arange(32)
_GROUP, _THREAD = _LANE >> 2, _LANE & 3


# --- elements --------------------------------------------------------------------------------------------------------


def _nibbles(is_signed: bool) -> Kernel:
    def decode(registers: Array) -> Array:
        fields = (registers[..., None] >> (np.arange(8, dtype=np.uint32) * np.uint32(4))).astype(np.int64) & 15
        return ((fields ^ 8) - 8 if is_signed else fields).astype(np.float64)

    return decode


def _elements(dtype: np.dtype[np.generic] | type) -> Kernel:
    """Registers [...] to their elements [..., n] in binary64."""
    return lambda registers: registers[..., None].view(dtype).astype(np.float64)


_ELEMENTS: Mapping[str, tuple[int, Kernel]] = {
    "f16": (16, _elements(np.float16)),
    "bf16": (16, _elements(ml_dtypes.bfloat16)),
    "tf32": (32, lambda r: (r & np.uint32(0xFFFFE000))[..., None].view(np.float32).astype(np.float64)),
    "e4m3": (8, _elements(ml_dtypes.float8_e4m3fn)),
    "e5m2": (8, _elements(ml_dtypes.float8_e5m2)),
    "s8": (8, _elements(np.int8)),
    "u8": (8, _elements(np.uint8)),
    "s4": (4, _nibbles(True)),
    "u4": (4, _nibbles(False)),
    "f64": (64, _elements(np.float64)),
}
"""Bits of an element, and how a register becomes numbers."""

_SHAPES: Mapping[str, frozenset[str]] = {
    "f16": frozenset({"m16n8k8", "m16n8k16"}),
    "bf16": frozenset({"m16n8k8", "m16n8k16"}),
    "tf32": frozenset({"m16n8k4", "m16n8k8"}),
    "e4m3": frozenset({"m16n8k16", "m16n8k32"}),
    "e5m2": frozenset({"m16n8k16", "m16n8k32"}),
    "s8": frozenset({"m8n8k16", "m16n8k16", "m16n8k32"}),
    "u8": frozenset({"m8n8k16", "m16n8k16", "m16n8k32"}),
    "s4": frozenset({"m8n8k32", "m16n8k32", "m16n8k64"}),
    "u4": frozenset({"m8n8k32", "m16n8k32", "m16n8k64"}),
    "f64": frozenset({"m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"}),
}


# --- fragments -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fragment:
    """Where the elements of a warp's registers stand in their matrix."""

    shape: tuple[int, int]
    rows: Array
    """[32, registers, elements of a register]."""
    columns: Array

    def gather(self, elements: Array) -> Array:
        """Elements [warps, 32, registers, n] as matrices [warps, *shape]."""
        matrix = np.empty((len(elements), *self.shape), elements.dtype)
        matrix[:, self.rows, self.columns] = elements
        return matrix

    def scatter(self, matrix: Array) -> Array:
        """The inverse of `gather`."""
        return matrix[:, self.rows, self.columns]


def _left(rows: int, depth: int, count: int) -> Fragment:
    """A, `count` elements a register."""
    blocks = rows // 8
    register, element = np.arange(blocks * depth // (4 * count))[:, None], np.arange(count)
    row = _GROUP[:, None, None] + 8 * (register % blocks)
    column = _THREAD[:, None, None] * count + element + 4 * count * (register // blocks)
    return Fragment((rows, depth), *np.broadcast_arrays(row, column))


def _right(depth: int, count: int) -> Fragment:
    """B, `count` elements a register."""
    register, element = np.arange(depth // (4 * count))[:, None], np.arange(count)
    row = _THREAD[:, None, None] * count + element + 4 * count * register
    return Fragment((depth, 8), *np.broadcast_arrays(row, _GROUP[:, None, None]))


def _result(rows: int, count: int) -> Fragment:
    """C and D, one or two elements a register."""
    register, element = np.arange(rows // 4 // count)[:, None], np.arange(count)
    index = register * count + element
    row = _GROUP[:, None, None] + 8 * (index // 2)
    return Fragment((rows, 8), *np.broadcast_arrays(row, _THREAD[:, None, None] * 2 + index % 2))


# --- products --------------------------------------------------------------------------------------------------------

_RESULTS: Mapping[str, Format] = {"f32": F32, "f16": F16, "f64": F64}


@lru_cache(maxsize=64)
def _fragments(shape: str, bits: int, packed_result: bool) -> tuple[Fragment, Fragment, Fragment]:
    rows, depth = int(shape[1 : shape.index("n")]), int(shape[shape.index("k") + 1 :])
    count = max(32 // bits, 1)
    return _left(rows, depth, count), _right(depth, count), _result(rows, 2 if packed_result else 1)


def mma(words: Words) -> WarpOp:
    """Inputs: the registers of A, B and C in order; outputs those of D."""
    for word in ("sync", "aligned"):
        words.take(word)
    shape = words.take(*frozenset().union(*_SHAPES.values()))
    words.take("row")
    words.take("col")
    saturate = words.flag("satfinite")
    words.flag("kind::f8f6f4")
    integer = words.maybe("s32")
    out = integer or words.take(*_RESULTS)
    left, right = words.take(*_ELEMENTS), words.take(*_ELEMENTS)
    words.take(out)
    words.end()
    if shape not in _SHAPES[left] & _SHAPES[right] or _ELEMENTS[left][0] != _ELEMENTS[right][0]:
        raise Unsupported
    if (integer is not None) != (left[0] in "su") or (left == "f64") != (out == "f64") or (saturate and not integer):
        raise Unsupported
    a, b, c = _fragments(shape, _ELEMENTS[left][0], out == "f16")
    reg = RegType.B64 if left == "f64" else RegType.B32
    counts = a.rows.shape[1], b.rows.shape[1], c.rows.shape[1]
    starts = 0, counts[0], counts[0] + counts[1], sum(counts)
    add = _whole_sum(saturate) if integer else _float_sum(_RESULTS[out], left)
    element = np.uint16 if out == "f16" else reg.dtype

    def run(active: Array, *registers: Array) -> tuple[Array, ...]:
        full = [np.broadcast_to(r, active.shape) for r in registers]
        parts = [np.stack(full[i:j], axis=-1) for i, j in itertools.pairwise(starts)]
        x, y = a.gather(_ELEMENTS[left][1](parts[0])), b.gather(_ELEMENTS[right][1](parts[1]))
        total = add(x, y, c.gather(parts[2][..., None].view(element)))
        packed = np.ascontiguousarray(c.scatter(total)).view(reg.dtype)[..., 0]
        return tuple(packed[..., i] for i in range(counts[2]))

    return WarpOp((reg,) * starts[3], (reg,) * counts[2], run)


def _whole_sum(saturate: bool) -> Kernel:
    """left @ right + addend in 32 bits, wrapped or clamped. The product is exact in binary64."""
    info = np.iinfo(np.int32)

    def add(left: Array, right: Array, addend: Array) -> Array:
        total = (left @ right).astype(np.int64) + addend.view(np.int32)
        return (np.clip(total, info.min, info.max) if saturate else total).astype(np.int32)

    return add


def _float_sum(form: Format, factor: str) -> Kernel:
    """Bits of left @ right + addend."""
    if form is F32 and factor in ("f16", "bf16", "tf32"):
        return lambda left, right, addend: cut_sum(left, right, addend.view(np.float32).astype(np.float64))
    return lambda left, right, addend: rounded(form, left @ right + form.decode(addend), "rn")


# --- moves -----------------------------------------------------------------------------------------------------------


def movmatrix(words: Words) -> WarpOp:
    """An 8 by 8 matrix of 16-bit elements, transposed."""
    for word in ("sync", "aligned", "m8n8", "trans", "b16"):
        words.take(word)
    words.end()
    rows, columns = _GROUP[:, None], _THREAD[:, None] * 2 + np.arange(2)

    def run(active: Array, a: Array) -> tuple[Array]:
        matrix = np.empty((len(active), 8, 8), np.uint16)
        matrix[:, rows, columns] = np.ascontiguousarray(np.broadcast_to(a, active.shape))[..., None].view(np.uint16)
        return (np.ascontiguousarray(matrix[:, columns, rows]).view(np.uint32)[..., 0],)

    return WarpOp((RegType.B32,), (RegType.B32,), run)


@dataclass(frozen=True, slots=True)
class MatrixCopy:
    """Which bytes a warp's `ldmatrix` or `stmatrix` moves."""

    registers: int
    """32-bit registers of each thread: 1, 2 or 4, one a matrix."""
    transposed: bool

    @property
    def lanes(self) -> int:
        """Threads, from lane 0, whose address counts: one a row, of 16 bytes aligned to 16."""
        return 8 * self.registers

    @property
    def piece_bytes(self) -> int:
        """Bytes of a piece; a register is its pieces, low first."""
        return 2 if self.transposed else 4

    def pieces(self, addresses: Array) -> Array:
        """Addresses [warps, 32] of rows to addresses [registers, pieces of a register, warps, 32] of pieces."""
        matrix = 8 * np.arange(self.registers)[:, None, None]
        if self.transposed:
            row, column = _THREAD * 2 + np.arange(2)[:, None], np.broadcast_to(_GROUP, (2, 32))
        else:
            row, column = _GROUP[None], _THREAD[None] * 2
        bytes_in = (2 * column).astype(addresses.dtype)
        found = addresses[:, matrix + row] + bytes_in
        return np.moveaxis(found, 0, 2)


@lru_cache(maxsize=64)
def matrix_copy(opcode: str, modifiers: tuple[str, ...]) -> MatrixCopy | None:
    """What `ldmatrix.…` or `stmatrix.…` moves; None for a form that is not known here."""
    if opcode not in ("ldmatrix", "stmatrix"):
        return None
    words = Words(modifiers)
    try:
        for word in ("sync", "aligned", "m8n8", "b16"):
            words.take(word)
        count = words.take("x1", "x2", "x4")
        transposed = words.flag("trans")
        words.take("shared", "shared::cta")
        words.end()
    except Unsupported:
        return None
    return MatrixCopy(int(count[1:]), transposed)


FAMILY: Mapping[str, WarpBuilder] = {"mma": mma, "movmatrix": movmatrix}
