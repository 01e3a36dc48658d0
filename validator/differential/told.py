"""What is wrong with a result, in words: the worst element, and where the wrong ones are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validator.differential.faults import Fault, FaultKind
from validator.differential.numbers import Array, in_chunks

__all__ = ["Wrong", "fault_of", "short", "where"]


@dataclass(frozen=True, slots=True)
class Wrong:
    """Elements of an output that are wrong in one way."""

    kind: FaultKind
    where: NDArray[np.bool_]
    due: Array
    figures: dict[str, int | float | str]


def fault_of(wrong: Wrong, name: str, got: Array) -> Fault:
    """The worst bad element, and where the bad ones are."""
    bad = wrong.where
    at = np.unravel_index(_worst(bad, got, wrong.due), got.shape) if got.ndim else ()
    place = f"{name}[{', '.join(map(str, at))}]" if at else name
    due, have = (float(np.asarray(array[at], np.float64)) for array in (wrong.due, got))
    expected, found = short(due), short(have)
    if wrong.due.dtype.kind in "iu" and got.dtype.kind in "iu":
        expected, found = str(int(wrong.due[at])), str(int(got[at]))
    elif expected == found:  # they differ further behind
        expected, found = f"{due:.17g}", f"{have:.17g}"
    message = f"{place}: expected {expected}, got {found}; {where(bad)}"
    if np.isnan(due) and np.isnan(wrong.due).all():
        message += "; the reference gives NaN throughout"
    return Fault(wrong.kind, name, message, {"bad elements": int(bad.sum()), "of": int(bad.size), **wrong.figures})


@np.errstate(all="ignore")
def _worst(bad: NDArray[np.bool_], got: Array, due: Array) -> int:
    """Flat position of the bad element that is furthest off; NaN is further than anything."""
    most, at, start = -1.0, 0, 0
    for wrong, have, right in in_chunks(bad, got, due):
        away = np.abs(have.astype(np.float64) - right.astype(np.float64))
        distance = np.where(wrong, np.nan_to_num(away, nan=np.inf), -1.0)
        if distance.size and distance.max() > most:
            most, at = float(distance.max()), start + int(np.argmax(distance))
        start += distance.size
    return at


def short(value: Any) -> str:
    return f"{float(value):.6g}"


def where(bad: NDArray[np.bool_]) -> str:
    """Where the bad elements are, in words: the axes along which they are few or at an end."""
    count = f"{int(bad.sum())} of {bad.size} elements are wrong"
    parts = []
    for axis, size in enumerate(bad.shape):
        hit = np.flatnonzero(bad.any(axis=tuple(a for a in range(bad.ndim) if a != axis)))
        if len(hit) in (0, size) or size < 2:
            continue
        if len(hit) > 1 and hit[-1] == size - 1 and len(hit) == size - hit[0]:
            parts.append(f"only the last {len(hit)} of the {size} along axis {axis}")
        elif len(hit) == 1 + hit[-1] - hit[0] or len(hit) <= 4:
            parts.append(f"only {_indices(hit.tolist())} of the {size} along axis {axis}")
        else:
            parts.append(f"{len(hit)} of the {size} indices along axis {axis}")
    return ", ".join([count, *parts])


def _indices(hit: list[int]) -> str:
    """Ascending indices in words: `index 0`, `indices 0 to 2`, `indices 0, 5 and 7`."""
    if len(hit) == 1:
        return f"index {hit[0]}"
    if len(hit) > 2 and len(hit) == 1 + hit[-1] - hit[0]:
        return f"indices {hit[0]} to {hit[-1]}"
    return f"indices {', '.join(map(str, hit[:-1]))} and {hit[-1]}"
