"""How far a result is from the exact one, as one number a case: shown as a distribution, never judged.

Of a large result some stretches are looked at, spread evenly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from validator.differential.expected import Expected
from validator.differential.lying import There, as_it_is
from validator.differential.numbers import Array, energy, sampled, starts_of

__all__ = ["baseline_error", "error_of"]

_CHUNKS = 4
"""Stretches that are looked at."""


def error_of(expected: Mapping[str, Expected], got: Mapping[str, Array]) -> float | None:
    """RMS error over RMS yardstick, of the worst output; None where no output can be compared so."""
    return _worst({n: found for n in expected if (found := as_it_is(got, n)) is not None}, expected)


def baseline_error(expected: Mapping[str, Expected]) -> float | None:
    """The same of the trusted implementation."""
    return _worst({name: want.native for name, want in expected.items()}, expected)


@np.errstate(all="ignore")
def _worst(outputs: Mapping[str, Array | There], expected: Mapping[str, Expected]) -> float | None:
    ratios = [
        _ratio(array, expected[name]) for name, array in outputs.items() if array.shape == expected[name].exact.shape
    ]
    known = [r for r in ratios if r is not None and np.isfinite(r)]
    return float(f"{max(known):.4g}") if known else None


def _ratio(array: Array | There, want: Expected) -> float | None:
    count, error, due = 0, 0.0, 0.0
    for have, exact, yard, free in _sampled(array, want):
        away: NDArray[np.float64] = have.astype(np.float64) - exact
        if not free.any() and np.isfinite(off := energy(away)) and np.isfinite(own := energy(yard)):
            count, error, due = count + away.size, error + off, due + own
            continue
        seen = np.isfinite(away) & np.isfinite(yard) & ~free
        count += int(np.count_nonzero(seen))
        error += float(np.square(away[seen]).sum())
        due += float(np.square(yard[seen]).sum())
    return float(np.sqrt(error / max(due, np.finfo(float).tiny))) if count else None


def _sampled(array: Array | There, want: Expected) -> Iterator[tuple[Array, ...]]:
    """Stretches of a result and of what is right; of one that lies elsewhere no more is brought here."""
    due = want.exact, want.yardstick, want.unspecified
    if not isinstance(array, There):
        yield from sampled(array, *due, chunks=_CHUNKS)
        return
    for start, parts in zip(starts_of(want.exact.size, _CHUNKS), sampled(*due, chunks=_CHUNKS), strict=True):
        yield array.part(start, start + parts[0].size), *parts
