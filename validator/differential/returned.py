"""What came back from a candidate: its outputs, and what is wrong with their form. Nothing it says is believed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from validator.differential.arena import dtype_at
from validator.differential.buffers import Placed
from validator.differential.cases import Case, fill_of, judged_arguments
from validator.differential.faults import Fault, FaultKind
from validator.differential.lying import Lying, as_it_is
from validator.differential.numbers import Array
from validator.manifest.contract import KernelContract
from validator.run.channel import Array as Descriptor
from validator.run.channel import Buffer, Result, in_room_at

__all__ = ["Returned", "returned"]

_NO_ARRAY = 4
"""Form of what is no array."""


@dataclass(frozen=True, slots=True)
class Returned:
    """Outputs, which nobody else can change any more unless they were not copied."""

    outputs: Lying
    faults: tuple[Fault, ...] = ()
    known: bool = False
    """All of them are, byte for byte, results that were looked at before."""


def returned(
    contract: KernelContract,
    case: Case,
    placed: Placed,
    result: Result,
    known: Mapping[str, Array],
    *,
    copied: bool = True,
) -> Returned:
    """Copied out of what came back, except where it is one of the `known` results: then that stands for it."""
    faults, values = [], list(zip(result.returns, result.data, strict=True))
    filled = [n for n in judged_arguments(contract) if n not in contract.returns]
    found = {name: placed.taken(name, as_it_is(known, name), copied=copied) for name in filled}
    if not contract.returns and all(array.arena for array, _ in values):
        values = []  # `return out` beside filling it is no second result
    if len(values) != len(contract.returns):
        told = f"returned {len(values)} values, the contract declares {len(contract.returns)}"
        faults.append(Fault(FaultKind.METADATA, "", told))
    else:
        places = in_room_at([len(data) for _, data in values])
        for name, (array, data), (start, _) in zip(contract.returns, values, places, strict=True):
            value, wrong = _value(contract, case, name, array, data, placed)
            if value is None:
                faults.append(Fault(FaultKind.METADATA, name, f"{name} {wrong}"))
            else:
                far = result.elsewhere
                before = as_it_is(known, name)
                found[name] = placed.returned(name, value, start, before, copied=copied, elsewhere=far)
    all_known = not faults and bool(found) and all(found[name] is as_it_is(known, name) for name in found)
    return Returned(Lying(found), tuple(faults), all_known)


def _value(
    contract: KernelContract, case: Case, name: str, array: Descriptor, data: Buffer, placed: Placed
) -> tuple[Array | None, str]:
    """A returned value where it lies, or what is wrong with it. Its shape is only a claim until it is compared."""
    values = contract.values[name][1]
    if array.form == _NO_ARRAY:
        return None, "is not a plain numpy array of a known element type"
    dtype, due = dtype_at(array.dtype), fill_of(contract, case, name).shape
    if array.shape != due:
        return None, f"has the shape {list(array.shape)}, the contract says {list(due)}"
    count = math.prod(due)
    if count * dtype.itemsize != len(data):
        return None, f"says {list(array.shape)} and holds {len(data)} bytes"
    if array.arena:
        owner = next((n for n, (arena, _) in placed.views.items() if arena == array.arena - 1), None)
        if owner is None or getattr(values, "alias_of", None) != owner:
            return None, f"shares memory with {owner or 'no buffer that was sent'}, which the contract does not say"
    if count and "strided" not in values.layouts and "transposed" not in values.layouts:
        others = [] if "layouts" in values.model_fields_set else _of_that_shape(array.shape, placed)
        ways = list(dict.fromkeys(_dense(array.shape, dtype, strides) for strides in ((), *others)))
        if not any(_alike(array.shape, array.strides, way) for way in ways):
            told = "".join(f", as an argument of its shape lies {list(way)}" for way in ways[1:])
            return None, f"has strides {list(array.strides)}, contiguous are {list(ways[0])}{told}"
    return np.frombuffer(data, dtype).reshape(array.shape), ""


def _of_that_shape(shape: tuple[int, ...], placed: Placed) -> list[tuple[int, ...]]:
    """Strides of the arguments of a shape."""
    return [array.strides for _, array in placed.views.values() if array.shape == shape]


def _dense(shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an array without gaps whose axes follow one another as with these: what elementwise operators make of
    an argument that lies so (numpy's order "K", torch's `preserve_format`); contiguous ones of none."""
    like = sorted(range(len(shape)), key=lambda axis: strides[axis] if strides else 0, reverse=bool(strides))
    found, step = [0] * len(shape), dtype.itemsize
    for axis in reversed(like):
        found[axis], step = step, step * shape[axis]
    return tuple(found)


def _alike(shape: tuple[int, ...], strides: tuple[int, ...], due: tuple[int, ...]) -> bool:
    """Whether nothing lies elsewhere: where there is one position only, how far the next one would be says nothing."""
    return all(size == 1 or have == want for size, have, want in zip(shape, strides, due, strict=True))
