"""Masks: arrays of true and false (or of 0 and 1) as attention, routing and padding have them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from validator.differential.inputs.fill import Fill, filled
from validator.differential.inputs.variant import Make, Variant
from validator.differential.numbers import Array, Source
from validator.manifest.contract import Role

__all__ = ["MASKS"]

_WORDS = (Role.FLAG, Role.MAILBOX)
"""What kernels tell each other."""


def _mask(fill: Fill, axes: int = 1) -> bool:
    if fill.floating or fill.role in _WORDS or not fill.free or len(fill.shape) < axes:
        return False
    return fill.dtype.kind == "b" or fill.integers == (0, 1)


def _hides(fill: Fill, axes: int = 1) -> bool:
    """A mask of which whole rows may be false."""
    return _mask(fill, axes) and fill.values.domain.some is None


def _all(value: bool) -> Make:
    return lambda fill, source: np.full(fill.shape, value, fill.dtype)


def _where(shown: Callable[[Array], Array]) -> Make:
    """True where the position along the last axis is."""

    def make(fill: Fill, source: Source) -> Array:
        return np.broadcast_to(shown(np.arange(fill.shape[-1])), fill.shape).astype(fill.dtype)

    return make


def _false_row(fill: Fill, source: Source) -> Array:
    data = filled(fill, source)
    rows = data.reshape(math.prod(fill.shape[:-1]), fill.shape[-1])
    if len(rows):
        rows[int(source.below(len(rows), (1,))[0])] = 0
    return rows.reshape(fill.shape)


def _false_rows(fill: Fill, source: Source) -> Array:
    data = filled(fill, source)
    data.reshape(math.prod(fill.shape[:-1]), fill.shape[-1])[::2] = 0
    return data


def _causal(fill: Fill, source: Source) -> Array:
    rows, columns = fill.shape[-2:]
    return np.broadcast_to(np.tri(rows, columns), fill.shape).astype(fill.dtype)


MASKS: tuple[Variant, ...] = (
    Variant("all-true", "mask", "is true throughout", _mask, _all(True)),
    Variant("all-false", "I6", "is false throughout", _hides, _all(False)),
    Variant("false-row", "I6", "has a row that is false throughout", lambda f: _hides(f, 2), _false_row),
    Variant("false-rows", "I6", "has every other row false throughout, from the first on", lambda f: _hides(f, 2),
            _false_rows),
    Variant("false-start", "I6", "is false in the first half of each row", _mask,
            _where(lambda at: at >= (len(at) + 1) // 2)),
    Variant("last-true", "I6", "is true in the last place of each row only", _mask,
            _where(lambda at: at == len(at) - 1)),
    Variant("causal", "mask", "is true up to the diagonal", lambda f: _mask(f, 2), _causal),
)  # fmt: skip
"""In the order in which they are tried."""
