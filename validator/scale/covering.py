"""Covering arrays: few rows in which every valid combination of `strength` values of different factors occurs.

Rows are built one at a time: from a combination that is still open, each further factor gets the value that closes most
open combinations with what the row holds already, and that some valid row goes on from. Deterministic: ties go to the
value that comes first. Factors that constraints bind together are enumerated, so validity is decided, not guessed.

Own code, as no library does it: allpairspy's triples are not covered, and covertable takes 7 to 16 s for the 10^6 raw
cells (with constraints, three at a time) that take a fraction of a second here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validator.errors import Problem, ValidatorError

__all__ = ["Constraint", "Cover", "CoverError", "cover"]

_BOUND = 1 << 22
"""Combinations of factors that constraints bind together, at most."""
_OPEN = 1 << 27
"""Combinations of `strength` values to keep count of, at most; a byte each."""

Name = Hashable
"""Of a factor."""
Row = dict[Any, Any]


class CoverError(ValidatorError):
    """There is no row at all, or there are too many combinations to keep count of."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """What a row must satisfy."""

    names: tuple[Name, ...]
    """Factors that it speaks of."""
    holds: Callable[[Mapping[Any, Any]], bool]
    """Gets the values of these factors."""


@dataclass(frozen=True, slots=True)
class Cover:
    """The rows and what they cover."""

    factors: Mapping[Any, Sequence[Any]]
    indices: NDArray[np.int32]
    """[rows, factors]: position of each value in its factor."""
    strength: int
    """Every valid combination of so many values is in some row; the number of factors when all rows are there."""
    raw: int
    """Rows that there would be without constraints and with every combination of all factors."""
    combinations: int
    """Valid combinations of `strength` values, all covered."""
    impossible: int
    """Combinations that the constraints exclude."""

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[Row]:
        for row in self.indices.tolist():
            yield {name: values[at] for (name, values), at in zip(self.factors.items(), row, strict=True)}


def cover(
    factors: Mapping[Any, Sequence[Any]],
    strength: int,
    constraints: Iterable[Constraint] = (),
    always: Iterable[Mapping[Any, Any]] = (),
    exhaustive: int = 0,
) -> Cover:
    """Rows that cover every valid combination of `strength` values, `always` first among them.

    Args:
        factors: name → its values, each once.
        always: complete rows that are in whatever happens; they have to satisfy the constraints.
        exhaustive: up to so many valid rows, all of them are given.

    Raises:
        CoverError: no row satisfies the constraints, or there are too many combinations to count.
    """
    names = tuple(factors)
    sizes = tuple(len(factors[n]) for n in names)
    raw = math.prod(sizes)
    groups = _groups(factors, tuple(constraints))
    if not all(sizes) or any(not len(group.rows) for group in groups):
        raise CoverError("no combination of the values satisfies the constraints")
    given = np.array([_indices(factors, row) for row in always], np.int32).reshape(-1, len(names))
    free = [i for i in range(len(names)) if all(i not in g.factors for g in groups)]
    valid = math.prod(len(g.rows) for g in groups) * math.prod(sizes[i] for i in free)
    if valid <= exhaustive or not names:
        return Cover(factors, _merged(given, _all(sizes, groups, free)), len(names), raw, valid, raw - valid)
    strength = min(strength, len(names))
    table = _Open(sizes, strength, groups)
    possible, total = int(table.open.sum()), len(table.open)
    rows = [*given]
    for row in given:
        table.close(row)
    while (seed := table.first()) is not None:
        row = _built(table, sizes, groups, seed)
        table.close(row)
        rows.append(row)
    indices = np.array(rows, np.int32).reshape(-1, len(names))
    return Cover(factors, indices, strength, raw, possible, total - possible)


def _indices(factors: Mapping[Any, Sequence[Any]], row: Mapping[Any, Any]) -> list[int]:
    return [list(values).index(row[name]) for name, values in factors.items()]


def _merged(given: NDArray[np.int32], rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """Both, `given` first, each row once."""
    both = dict.fromkeys(map(tuple, [*given.tolist(), *rows.tolist()]))
    return np.array(list(both), np.int32).reshape(len(both), rows.shape[1])


def _all(sizes: Sequence[int], groups: Sequence[_Group], free: Sequence[int]) -> NDArray[np.int32]:
    rows = []
    for choice in product(*(range(len(g.rows)) for g in groups), *(range(sizes[i]) for i in free)):
        row = [0] * len(sizes)
        for group, at in zip(groups, choice, strict=False):
            for factor, value in zip(group.factors, group.rows[at].tolist(), strict=True):
                row[factor] = value
        for factor, value in zip(free, choice[len(groups) :], strict=True):
            row[factor] = value
        rows.append(row)
    return np.array(sorted(rows), np.int32).reshape(len(rows), len(sizes))


# -- constraints ------------------------------------------------------------------------------------------------------


class _Group:
    """Factors that constraints bind to one another, and every valid combination of their values."""

    def __init__(self, factors: Sequence[int], rows: NDArray[np.int32], sizes: Sequence[int]) -> None:
        self.factors = tuple(factors)
        self.rows = rows
        """[combinations, factors of the group]."""
        self._having = [[np.packbits(rows[:, k] == v) for v in range(sizes[f])] for k, f in enumerate(factors)]
        self._left = np.packbits(np.ones(len(rows), bool))
        self._everything = self._left

    def begin(self) -> None:
        """A new row."""
        self._left = self._everything

    def take(self, factor: int, value: int) -> None:
        """The row holds this value now."""
        if factor in self.factors:
            self._left = self._left & self._having[self.factors.index(factor)][value]

    def allowed(self, factor: int) -> NDArray[np.bool_]:
        """Which values of a factor some valid row goes on from."""
        return np.array([(self._left & having).any() for having in self._having[self.factors.index(factor)]])


def _groups(factors: Mapping[Any, Sequence[Any]], constraints: Sequence[Constraint]) -> list[_Group]:
    names = list(factors)
    bound: list[set[int]] = []
    for constraint in constraints:
        mine = {names.index(n) for n in constraint.names}
        touching = [b for b in bound if b & mine]
        bound = [b for b in bound if not b & mine] + [mine.union(*touching)]
    return [_enumerated(factors, sorted(b), constraints) for b in bound if b]


def _enumerated(factors: Mapping[Any, Sequence[Any]], group: list[int], constraints: Sequence[Constraint]) -> _Group:
    names = list(factors)
    sizes = [len(v) for v in factors.values()]
    shape = [sizes[i] for i in group]
    if math.prod(shape) > _BOUND:
        listed = ", ".join(str(names[i]) for i in group)
        hint = "give them fewer values, or bind fewer of them together"
        raise CoverError(Problem(f"the constraints bind {math.prod(shape):,} combinations together", listed, hint))
    valid = np.ones(shape, bool)
    for constraint in constraints:
        mine = sorted(names.index(n) for n in constraint.names)
        if not set(mine) <= set(group):
            continue
        options = [[(names[i], v) for v in factors[names[i]]] for i in mine]
        held = np.array([constraint.holds(dict(pairs)) for pairs in product(*options)], bool)
        valid &= held.reshape([sizes[i] if i in mine else 1 for i in group])
    return _Group(group, np.argwhere(valid).astype(np.int32), sizes)


# -- what is still open -----------------------------------------------------------------------------------------------


class _Open:
    """Combinations of `strength` values that no row holds yet, one byte each, combination of factors by combination."""

    def __init__(self, sizes: Sequence[int], strength: int, groups: Sequence[_Group]) -> None:
        self.sets = list(combinations(range(len(sizes)), strength))
        spans = [math.prod(sizes[i] for i in chosen) for chosen in self.sets]
        if sum(spans) > _OPEN:
            hint = "lower the strength, or give the factors fewer values"
            raise CoverError(Problem(f"{sum(spans):,} combinations of {strength} values are too many", fix=hint))
        self._starts = np.concatenate([[0], np.cumsum(spans)]).astype(np.int64)
        self._members = np.array(self.sets, np.int64).reshape(len(self.sets), strength)
        strides = [[math.prod(sizes[i] for i in chosen[k + 1 :]) for k in range(strength)] for chosen in self.sets]
        self._strides = np.array(strides, np.int64).reshape(len(self.sets), strength)
        self.open = np.concatenate([self._possible(sizes, chosen, groups) for chosen in self.sets]).astype(np.uint8)
        self._at = 0
        self._with = [self._containing(factor, len(sizes)) for factor in range(len(sizes))]

    @staticmethod
    def _possible(sizes: Sequence[int], chosen: Sequence[int], groups: Sequence[_Group]) -> NDArray[np.bool_]:
        """Which combinations of these factors occur in some valid row."""
        possible = np.ones([sizes[i] for i in chosen], bool)
        for group in groups:
            mine = [i for i in chosen if i in group.factors]
            if mine:
                seen = np.zeros([sizes[i] for i in mine], bool)
                seen[tuple(group.rows[:, group.factors.index(i)] for i in mine)] = True
                possible &= seen.reshape([sizes[i] if i in mine else 1 for i in chosen])
        return possible.reshape(-1)

    def _containing(self, factor: int, count: int) -> tuple[NDArray[Any], ...]:
        """Of the sets with a factor: (starts, the factor's stride, the others, the others' strides)."""
        here = np.argwhere((self._members == factor).any(axis=1))[:, 0]
        own = self._members[here] == factor
        others = self._members[here][~own].reshape(len(here), -1)
        return self._starts[here], self._strides[here][own], others, self._strides[here][~own].reshape(len(here), -1)

    def first(self) -> dict[int, int] | None:
        """An open combination: factor → value; None when there is none."""
        ahead = self.open[self._at :]
        step = int(ahead.argmax()) if len(ahead) else 0
        if not len(ahead) or not ahead[step]:
            return None
        self._at += step
        number = int(np.searchsorted(self._starts, self._at, "right")) - 1
        rest = self._at - int(self._starts[number])
        values = {}
        for factor, stride in zip(self.sets[number], self._strides[number].tolist(), strict=True):
            values[factor], rest = divmod(rest, stride)
        return values

    def gains(self, factor: int, row: NDArray[np.int32], known: NDArray[np.bool_], size: int) -> NDArray[np.int64]:
        """How many open combinations each value of a factor would close with what the row holds."""
        starts, own, others, strides = self._with[factor]
        ready = known[others].all(axis=1)
        base = starts[ready] + (row[others[ready]] * strides[ready]).sum(axis=1)
        return np.asarray(self.open[base[:, None] + own[ready][:, None] * np.arange(size)].sum(axis=0, dtype=np.int64))

    def close(self, row: NDArray[np.int32]) -> None:
        """A row is there."""
        self.open[self._starts[:-1] + (row[self._members] * self._strides).sum(axis=1)] = 0


def _built(table: _Open, sizes: Sequence[int], groups: Sequence[_Group], seed: Mapping[int, int]) -> NDArray[np.int32]:
    """A valid row that holds the seed and closes as much else as can be had by looking one factor ahead."""
    row = np.zeros(len(sizes), np.int32)
    known = np.zeros(len(sizes), bool)
    for group in groups:
        group.begin()

    def put(factor: int, value: int) -> None:
        row[factor], known[factor] = value, True
        for group in groups:
            group.take(factor, value)

    for factor, value in seed.items():
        put(factor, value)
    # Those with many values first: they have the most to close, the others can follow.
    for factor in sorted((f for f in range(len(sizes)) if not known[f]), key=lambda f: -sizes[f]):
        gains = table.gains(factor, row, known, sizes[factor])
        for group in groups:
            if factor in group.factors:
                gains = np.where(group.allowed(factor), gains, -1)
        put(factor, int(gains.argmax()))
    return row
