"""Symbolic dimensions of one contract: which sizes are possible, which are worth trying, a strategy for the rest."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from validator.differential.errors import DifferentialError
from validator.manifest.contract import KernelContract
from validator.manifest.dims import Membership, parse_expression

if TYPE_CHECKING:  # hypothesis is loaded by who draws, not by who looks up what was kept
    from hypothesis import strategies as st

__all__ = ["USUAL_TILES", "Dims", "Edge", "Space"]

Dims = dict[str, int]

USUAL_TILES = (8, 16, 32, 64, 128)
"""Where a contract names none."""
_ODD = (3, 5, 7, 12, 96)
"""Head, group and expert counts that are no power of two, as real models have them."""
_VECTORS = (1, 2, 4, 8, 16)
"""Elements that a thread loads at once: a size has to end between two such widths to show what becomes of the rest."""
_LEAST = ((0, "nothing at all", "I3"), (1, "a single one", "I4"))
_TILES = (3, 5)
"""Tiles that are worked through in turn by fewer."""
_LISTED = 16
"""Sizes of which each has its turn, where a contract lists no more."""
_ENUMERATED = 1 << 16
_SEARCH = 20_000
"""Assignments tried before a combination of sizes counts as impossible."""
_RAGGED = 1 << 17
"""Elements of the largest argument where a larger one would tell no more."""
_MODEST = 1 << 15
"""The same, where there is a case for each of many choices."""
_CHEAP = 1 << 18
"""Elements of the largest argument where one size is as large as can be, in several cases."""
_ELEMENTS = 1 << 20
"""Elements of the largest argument in a generated case; production shapes may be larger."""


@dataclass(frozen=True, slots=True)
class Edge:
    """Sizes that are tried for a reason."""

    dims: tuple[tuple[str, int], ...]
    reason: str
    """In words: "D = 33, one above the tile of 32"."""
    input_class: str
    """`I2`…`I5`."""


class Space:
    """All dimensions of a contract and what binds them."""

    def __init__(self, contract: KernelContract) -> None:
        self._constraints = contract.constraints
        self._bound = [(c, c.names) for c in contract.constraints]
        self._tiles = contract.tiles
        self._production = [{name: shape[name] for name in sorted(shape)} for shape in contract.production]
        self._shapes = tuple(dict.fromkeys(v.shape for _, v in contract.values.values() if v.shape is not None))
        memberships = [c for c in self._constraints if isinstance(c, Membership)]
        self.names = tuple(dict.fromkeys(c.name for c in memberships))
        self.values = {name: self._possible(name) for name in self.names}
        self.values = {name: self._beside_constants(name) for name in self.names}
        self._typical = {name: _typical(values) for name, values in self.values.items()}
        empty = [name for name, values in self.values.items() if not values]
        if empty or (self.names and self.complete({}) is None):
            raise DifferentialError(f"no sizes satisfy `dims` ({', '.join(empty) or 'the constraints together'})")

    def holds(self, dims: Mapping[str, int]) -> bool:
        """Whether these sizes are within the contract."""
        return all(c.holds(dims) for c in self._constraints)

    def complete(self, fixed: Mapping[str, int], prefer: Mapping[str, Sequence[int]] | None = None) -> Dims | None:
        """Sizes with these fixed, the others typical unless something better is preferred; None: there are none."""
        return self._search(fixed, prefer or {}, _ELEMENTS) or self._search(fixed, prefer or {}, None)

    def _search(
        self, fixed: Mapping[str, int], prefer: Mapping[str, Sequence[int]], largest: int | None
    ) -> Dims | None:
        order = [n for n in self.names if n in fixed] + [n for n in self.names if n not in fixed]
        budget = [_SEARCH]

        def search(at: int, dims: Dims) -> Dims | None:
            if at == len(order):
                return dict(dims) if largest is None or self.elements(dims) <= largest else None
            name = order[at]
            options = [fixed[name]] if name in fixed else [*prefer.get(name, ()), *self._typical[name]]
            for value in options:
                budget[0] -= 1
                if budget[0] < 0 or value not in self.values[name]:
                    continue
                dims[name] = value
                known = dims.keys()
                if all(c.holds(dims) for c, names in self._bound if names <= known):
                    found = search(at + 1, dims)
                    if found is not None:
                        return found
                del dims[name]
            return None

        found = search(0, {})
        return None if found is None else {name: found[name] for name in self.names}

    def elements(self, dims: Mapping[str, int]) -> int:
        """Elements of the largest argument."""
        sizes = [shape_of(shape, dims) for shape in self._shapes]
        return max((_product(size) for size in sizes), default=0)

    def smallest(self) -> Dims:
        """The least sizes that are not empty, where there are such."""
        small = {name: [v for v in _few(values) if v > 0] or [0] for name, values in self.values.items()}
        return self.complete({}, small) or self.complete({}) or {}

    def unlike(self) -> Dims:
        """Small sizes no two of which are the same, as far as there are such: axes that are mixed up show."""
        wanted: dict[str, list[int]] = {}
        for name in self.names:
            taken = {values[0] for values in wanted.values()}
            wanted[name] = [v for v in self._typical[name] if v > 1 and v not in taken][:8] or self._typical[name]
        return self.complete({}, wanted) or {}

    def largest(self, name: str) -> Dims | None:
        """The largest size of one dimension that is still cheap beside small ones of the others, or half of it, …"""
        values, end = self.values[name], len(self.values[name])
        while end:
            if (dims := self._search({name: values[end - 1]}, {}, _CHEAP)) is not None:
                return dims
            end //= 2
        return None

    def beyond_a_tile(self, least: int = 0) -> Dims:
        """Sizes that fill more than one tile of each dimension and not all of the last, as far as there are such.

        `least`: how large a tile is at least.
        """
        wanted = {name: self._ragged(name, least) for name in self.names}
        small = self._search({}, wanted, _MODEST) if least else None
        return small or self._search({}, wanted, _RAGGED) or self.complete({}) or {}

    def _ragged(self, name: str, least: int = 0) -> list[int]:
        """The best first: 3 more than the tile, then between one and two tiles, then whatever is near."""
        tile = max(*self._tiles.get(name, (32,)), least)
        near = [v for v in self._typical[name] if v > tile // 2]
        return [tile + 3, tile + 1, *sorted(near, key=lambda v: (abs(v - tile * 3 // 2), v))[:8]]

    def edges(self) -> Iterator[Edge]:
        """Each dimension at its interesting sizes, the others typical."""
        seen = set()
        for name in self.names:
            for value, reason, input_class in self._interesting(name):
                dims = self.complete({name: value}) if value in self.values[name] else None
                key = tuple(dims.items()) if dims is not None else None
                if key is not None and (key, input_class) not in seen:
                    seen.add((key, input_class))
                    yield Edge(key, f"{name} = {value}, {reason}", input_class)
        yield from (edge for edge in self._beyond_together() if (edge.dims, edge.input_class) not in seen)

    def _beyond_together(self) -> Iterator[Edge]:
        """Sizes at tile edges and beyond some tiles where others are, too: corners, and what takes several in turn."""
        wanted = {name: self._ragged(name) for name in self.names}
        for name, (value, word, input_class) in itertools.product(self.names, _LEAST):
            dims = self._search({name: value}, wanted, _RAGGED) if value in self.values[name] else None
            if dims is not None and len(self.names) > 1:
                yield Edge(tuple(dims.items()), f"{name} = {value}, {word}, the others beyond a tile", input_class)
        for name in (n for n in self.names if n in self._tiles):
            for count in _TILES:
                value = max(self._tiles[name]) * count - 1
                dims = self._search({name: value}, wanted, _RAGGED) if value in self.values[name] else None
                if dims is not None:
                    yield Edge(tuple(dims.items()), f"{name} = {value}, {count} tiles, the last not full", "I2")
        if len(self.names) > 1:
            for by in (-1, 0, 1):
                at = {name: [max(self._tiles.get(name, (32,))) + by, *wanted[name]] for name in self.names}
                dims = self._search({}, at, _RAGGED)
                if dims is not None:
                    yield Edge(tuple(dims.items()), f"all sizes {_beside(by, 'their tiles', 1)}", "I2")

    def strategy(self) -> st.SearchStrategy[Dims]:
        """Any sizes within the contract; small ones when shrunk."""
        from hypothesis import strategies as st

        if not self.names:
            return st.just({})
        drawn = st.fixed_dictionaries({n: self._of(n) for n in self.names}).map(lambda d: self._repaired(d))
        small = [dict(shape) for shape in self._production if self.elements(shape) <= _RAGGED]
        return st.one_of(drawn, drawn, drawn, st.sampled_from(small)) if small else drawn

    def _of(self, name: str) -> st.SearchStrategy[int]:
        """Sizes of one dimension: any, or one at an edge, half and half."""
        from hypothesis import strategies as st

        edges = [v for v in dict.fromkeys(v for v, _, _ in self._interesting(name)) if v in self.values[name]]
        anything = _anything(self.values[name])
        return st.one_of(anything, st.sampled_from(sorted(edges))) if edges else anything

    def _repaired(self, wanted: Dims) -> Dims:
        """The sizes asked for where the constraints allow, near ones where they do not."""
        found = self.complete({}, {name: [value] for name, value in wanted.items()})
        assert found is not None
        return found

    def _possible(self, name: str) -> Sequence[int]:
        """What the constraints on this dimension alone leave of its ranges."""
        alone = [c for c in self._constraints if c.names == {name}]
        ranges = [c.values for c in alone if isinstance(c, Membership)]
        first = min(ranges, key=len)
        if len(alone) == 1:
            return first
        pool: Sequence[int] = first if len(first) <= _ENUMERATED else _sampled(first)
        return tuple(v for v in pool if all(c.holds({name: v}) for c in alone))

    def _beside_constants(self, name: str) -> Sequence[int]:
        """What the constraints with dimensions of one value leave of this one's: a search would try them for long."""
        fixed = {n: values[0] for n, values in self.values.items() if len(values) == 1 and n != name}
        bound = [
            c for c in self._constraints if name in c.names and c.names <= fixed.keys() | {name} and len(c.names) > 1
        ]
        values = self.values[name]
        pool = values if len(values) <= _ENUMERATED or not bound else _sampled(values)
        return tuple(v for v in pool if all(c.holds({**fixed, name: v}) for c in bound)) if bound else values

    def _interesting(self, name: str) -> Iterator[tuple[int, str, str]]:
        values = self.values[name]
        yield from _LEAST
        yield 2, "two", "I2"
        yield 4, "four", "I2"
        tiles = self._tiles.get(name) or tuple(t for t in USUAL_TILES if 2 * t <= values[-1])
        word = "the tile" if name in self._tiles else "the usual tile"
        for tile in tiles:
            for multiple in (1, 2):
                for by in (-2, -1, 0, 1, 2):
                    yield tile * multiple + by, _beside(by, f"{word} of {tile}", multiple), "I2"
        beyond = (2 * max(tiles, default=8) // 32 + 1) * 32
        for width in _VECTORS:
            yield beyond + width, f"beyond two tiles, in steps of {width} at most", "I2"
        for value in values if isinstance(values, tuple) and len(values) <= _LISTED else ():
            yield value, "one of the sizes listed", "I2"
        for value in _ODD:
            yield value, "no power of two", "I5"
        yield values[0], "the least", "I2"
        yield values[-1], "the most", "I2"


def shape_of(shape: Sequence[int | str], dims: Mapping[str, int]) -> tuple[int, ...]:
    """Concrete sizes of a symbolic shape. Raises `DifferentialError` on a negative size."""
    sizes = tuple(s if isinstance(s, int) else parse_expression(s).value(dims) for s in shape)
    if any(s < 0 for s in sizes):
        raise DifferentialError(f"shape {list(shape)} becomes {list(sizes)} with {dict(dims)}")
    return sizes


def _beside(by: int, tile: str, multiple: int) -> str:
    where = tile if multiple == 1 else f"{multiple} times {tile}"
    return where if by == 0 else f"{abs(by)} {'above' if by > 0 else 'below'} {where}"


def _product(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def _anything(values: Sequence[int]) -> st.SearchStrategy[int]:
    """Every one of them; as many below the middle of the range's logarithm as above: a large size is dear."""
    from hypothesis import strategies as st

    if len(values) <= _LISTED:
        return st.sampled_from(list(values))
    first = st.integers(0, (len(values) - 1).bit_length())
    return first.flatmap(lambda bits: st.integers(0, min(len(values), 1 << bits) - 1)).map(values.__getitem__)


def _sampled(values: Sequence[int]) -> list[int]:
    """A large range by its ends, powers of two and their neighbours, multiples of 128 and every residue of a vector."""
    low, high = values[0], values[-1]
    near = {low, low + 1, high - 1, high}
    near |= {(1 << k) + by for k in range(high.bit_length() + 1) for by in (-2, -1, 0, 1, 2)}
    near |= {k * 128 for k in range(low // 128, low // 128 + 512)}
    near |= {low + k * (len(values) // 512 // 16 * 16 + 3) for k in range(512)}
    return sorted(v for v in near if v in values)


def _few(values: Sequence[int]) -> list[int]:
    """Up to 64 values: the small ones all, then ever farther apart."""
    values = values if len(values) <= _ENUMERATED else _sampled(values)
    if len(values) <= 64:
        return list(values)
    step = max(1, len(values) // 31)
    return sorted({*values[:32], *values[32::step], values[-1]})


def _typical(values: Sequence[int]) -> list[int]:
    """Values by how much they tell for their cost: five (enough rows for an outlier) and near it first, empty last."""
    return sorted(_few(values), key=lambda v: (v == 0, v == 1, v == 2, abs(v - 5), v))
