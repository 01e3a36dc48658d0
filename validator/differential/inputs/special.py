"""Floating-point values that stand for something: nothing at all, no number, certainty; rows of probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from validator.differential.inputs.fill import Fill, filled, in_domain
from validator.differential.inputs.variant import Make, Variant
from validator.differential.numbers import Array, Source

__all__ = ["SPECIAL"]


def _may_hold(fill: Fill, name: str) -> bool:
    return fill.floating and name in fill.values.domain.special


def _maskable(fill: Fill) -> bool:
    return _may_hold(fill, "-inf") and len(fill.shape) >= 1


def _probabilities(fill: Fill) -> bool:
    return fill.floating and fill.values.domain.probability and len(fill.shape) >= 1


def _one(value: float) -> Make:
    """At one place."""

    def make(fill: Fill, source: Source) -> Array:
        data = filled(fill, source).astype(np.float64)
        if data.size:
            data.reshape(-1)[int(source.below(data.size, (1,))[0])] = value
        return data.astype(fill.dtype)

    return make


def _throughout(value: float, *, every_other: bool = False) -> Make:
    """Throughout one row; or every other one, of a single row every other place: in every argument in the same ones."""

    def make(fill: Fill, source: Source) -> Array:
        data = filled(fill, source).astype(np.float64)
        if data.size:
            rows = data.reshape(-1, 1 if every_other and data.ndim == 1 else data.shape[-1])
            rows[slice(None, None, 2) if every_other else int(source.below(len(rows), (1,))[0])] = value
        return data.astype(fill.dtype)

    return make


def _hidden(hides: Callable[[Array], Array]) -> Make:
    """Minus infinity where the position along the last axis is hidden."""

    def make(fill: Fill, source: Source) -> Array:
        data = filled(fill, source).astype(np.float64)
        return np.where(hides(np.arange(fill.shape[-1])), -np.inf, data).astype(fill.dtype)

    return make


def _some_hidden(fill: Fill, source: Source) -> Array:
    """Any places; in every other row both ends of each eight: who looks at the ends of a block sees nothing there."""
    data, at = filled(fill, source), np.arange(fill.shape[-1])
    hidden = (source.below(2, fill.shape) == 0).reshape(math.prod(fill.shape[:-1]), fill.shape[-1])
    hidden[1::2] = (at % 8 == 0) | (at % 8 == 7)
    data[hidden.reshape(fill.shape)] = -np.inf
    return data


def _certain(fill: Fill, source: Source) -> Array:
    last = fill.shape[-1]
    places = np.eye(last)[source.below(last, fill.shape[:-1])] if last else np.zeros(fill.shape)
    return in_domain(fill, places)


def _quarters(fill: Fill, source: Source) -> Array:
    """Sums of them are exact, and equal to a half or to one."""
    last = fill.shape[-1]
    rank = np.argsort(source.raw(int(np.prod(fill.shape, dtype=np.int64))).reshape(fill.shape), axis=-1, kind="stable")
    return in_domain(fill, (rank < min(last, 4)).astype(np.float64))


SPECIAL: tuple[Variant, ...] = (
    Variant("masked-row", "I6", "has a row of minus infinity",
            lambda f: _maskable(f) and f.values.domain.some is None, _throughout(-np.inf)),
    Variant("masked-start", "I6", "has minus infinity in the first half of each row", _maskable,
            _hidden(lambda at: at < len(at) // 2)),
    Variant("masked-end", "I6", "has minus infinity in the second half of each row", _maskable,
            _hidden(lambda at: at >= (len(at) + 1) // 2)),
    Variant("all-but-last", "I6", "has minus infinity in all places of each row but the last", _maskable,
            _hidden(lambda at: at < len(at) - 1)),
    Variant("masked-places", "I6", "has minus infinity in about half of all places", _maskable, _some_hidden),
    Variant("masked-rows", "I6", "has minus infinity in every other row",
            lambda f: _maskable(f) and f.values.domain.some is None, _throughout(-np.inf, every_other=True),
            alone=False),
    Variant("infinite-rows", "special", "has infinity in every other row",
            lambda f: _may_hold(f, "inf") and len(f.shape) >= 1, _throughout(np.inf, every_other=True), alone=False),
    Variant("nan", "special", "has a NaN", lambda f: _may_hold(f, "nan"), _one(np.nan)),
    Variant("inf", "special", "has an infinity", lambda f: _may_hold(f, "inf"), _one(np.inf)),
    Variant("uniform-rows", "I8", "has equal probabilities", _probabilities,
            lambda f, s: in_domain(f, np.ones(f.shape))),
    Variant("quarters", "I8", "has equal probabilities in four places", _probabilities, _quarters),
    Variant("certain-rows", "I10", "has all probability in one place", _probabilities, _certain),
)  # fmt: skip
"""In the order in which they are tried."""
