"""Zero points: integers that a kernel adds to every element of a row, or of a group in it, and gives as a result too.

A zero point that lies half way between two integers may be either, and with it all that it was added to: no element of
the row needs to lie on an edge of its own, and what moves its scale moves both roundings against each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validator.differential.elements import allowed_steps, too_many_steps
from validator.differential.expected import Expected
from validator.differential.numbers import Array, is_float
from validator.manifest.contract import Tolerance

__all__ = ["beside_their_zero_points"]

Bools = NDArray[np.bool_]


def beside_their_zero_points(
    tolerance: Tolerance, expected: Mapping[str, Expected], got: Mapping[str, Array], name: str, bad: Bools
) -> Bools:
    """Of the elements of an integer result that are wrong by themselves, those that are wrong as well where every row
    is as far off as its zero point, another result which is right, is."""
    want, have = expected[name], got[name]
    if have.dtype.kind not in "iu":
        return bad
    info, allowed = np.iinfo(have.dtype), allowed_steps(tolerance, want.yardstick)
    for step in _steps(tolerance, expected, got, name):
        own = want.native.astype(np.int64)
        for due in (own + step, own - step):
            away = np.abs(have.astype(np.int64) - np.clip(due, info.min, info.max))
            still: Bools = np.asarray(bad & (away > allowed))
            if not still.any():
                return still
    return bad


def _steps(
    tolerance: Tolerance, expected: Mapping[str, Expected], got: Mapping[str, Array], name: str
) -> Iterator[NDArray[np.int64]]:
    """How far each element's row, or group, is moved by another result that is an integer for each, and right."""
    shape = expected[name].native.shape
    for other, want in expected.items():
        native, have = want.native, got.get(other)
        if other == name or len(shape) < 2 or have is None or not _is_alike(have, native):
            continue
        groups = native.shape[-1] if native.ndim == len(shape) else 1
        if native.shape not in (shape[:-1], (*shape[:-1], groups)) or not groups or shape[-1] % groups:
            continue
        if (
            groups == shape[-1]
            or too_many_steps(tolerance, have, native, want.exact, want.yardstick, want.unspecified).any()
        ):
            continue
        step = np.where(want.unspecified, 0, have.astype(np.int64) - native.astype(np.int64))
        if step.any():
            yield np.repeat(step.reshape(*shape[:-1], groups), shape[-1] // groups, axis=-1)


def _is_alike(have: Array, native: np.ndarray[Any, Any]) -> bool:
    """Whether both are integers of one type and shape."""
    return have.dtype == native.dtype and have.shape == native.shape and not is_float(native.dtype)
