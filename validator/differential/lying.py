"""Results that lie on a device until somebody asks for their elements: most are judged, and known again, where they
lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from validator.differential.numbers import Array, bits_of
from validator.differential.spill import room
from validator.run.elsewhere import Taken

__all__ = ["Lying", "There", "as_it_is", "brought", "one_and_the_same"]


class There:
    """One result, where nobody else can change it."""

    def __init__(self, taken: Taken, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.taken, self.shape, self.dtype = taken, shape, dtype
        self._here: Array | None = None

    def here(self) -> Array:
        """Its elements; brought once."""
        if self._here is None:
            found = room(self.shape, self.dtype)
            self.taken.fetch(bits_of(found).reshape(-1).view(np.uint8))
            self._here = found
        return self._here

    def part(self, start: int, stop: int) -> Array:
        """A few of them, in a row."""
        found = np.empty(stop - start, self.dtype)
        self.taken.fetch(found.view(np.uint8), start * self.dtype.itemsize)
        return found


class Lying(Mapping[str, Array]):
    """Results by their names."""

    def __init__(self, found: Mapping[str, Array | There]) -> None:
        self._found = dict(found)

    def __getitem__(self, name: str) -> Array:
        found = self._found[name]
        return found.here() if isinstance(found, There) else found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def as_it_is(self, name: str) -> Array | There | None:
        """Not brought here."""
        return self._found.get(name)


def as_it_is(results: Mapping[str, Array], name: str) -> Array | There | None:
    """A result where it lies; None: there is none."""
    return results.as_it_is(name) if isinstance(results, Lying) else results.get(name)


def brought(found: Array | There | None) -> Array | None:
    """Here, in any case."""
    return found.here() if isinstance(found, There) else found


def one_and_the_same(a: Mapping[str, Array], b: Mapping[str, Array], name: str) -> bool:
    """Whether one result stands for both."""
    return as_it_is(a, name) is as_it_is(b, name)
