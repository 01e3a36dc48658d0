"""Cases by construction: production shapes, every edge, every way of filling an argument, and fillings that hang
together: what one argument holds means something only beside what another holds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from validator.differential.cases import (
    CONFIGURATIONS,
    LAYOUT_CLASS,
    MOST,
    Case,
    alias_of,
    configurations_of,
    is_written,
    layouts_of,
    variants_of,
)
from validator.differential.inputs import BETWEEN, EXACTLY, LIMITS, SCALED, VARIANTS
from validator.differential.padding import has_padding
from validator.differential.shapes import Dims, Space
from validator.manifest.contract import KernelContract
from validator.manifest.dims import parse_expression
from validator.manifest.roles import FILLED

__all__ = ["constructed_cases", "left_out"]

_TOGETHER = (
    ("large",), ("integers",), ("tiny",), ("rows",), ("peaked",), ("zeros",), ("tied", "quarters"),
    ("masked-rows",), ("infinite-rows",), ("extremes",), ("highest",), ("lowest",),
)  # fmt: skip
"""Variants that every argument takes together once, each the first of these that it can: products of large values,
exact arithmetic throughout, ties of what is compared, nothing in the same rows."""
_FINGERPRINTED = "integers"
"""The variant of which all sums are exact."""
_TERMS = range(256, 1025)
"""How many products that cancel are added up, where the contract has so many."""

_FOURS = (36, 8, 4)
"""Sizes that are multiples of four, beyond a usual tile where there can be so many."""
_TILES = range(8, 1025)
"""Numbers among a candidate's choices that may be sizes of tiles."""

_OF_TYPE = ("huge", "large", "tiny", "far")
"""Variants that show something else where a type's range or its steps are others."""
_MANY_CALLS = 3
"""Configurations that are called very many times, and of which sums are exact, the first ones."""
_SWALLOWED = 3
"""Arguments of 16 bits that are filled so, the first ones."""

_OF_VECTORS = (16, 8, 4, 32, 64, 128, 2)
"""Sizes at which kernels that look at alignment take their vector paths."""
Filling = tuple[str, str, Dims, dict[str, str]]
"""(origin, input class, sizes, argument → variant)."""


def constructed_cases(contract: KernelContract, space: Space) -> Iterator[Case]:
    """In the order in which they are run; their plans and seeds come later."""

    def case(dims: Dims | Iterable[tuple[str, int]], origin: str, input_class: str, **more: Any) -> Case:
        return Case(contract.match, tuple(dict(dims).items()), 0, origin=origin, input_class=input_class, **more)

    for shape, of in itertools.zip_longest(contract.production, contract.production_of, fillvalue=None):
        ordered = {name: (shape or {})[name] for name in space.names}
        yield case(ordered, f"production shape, {of}" if of else "production shape", "production")
    typical, beyond = space.complete({}) or {}, space.beyond_a_tile()
    yield case(typical, "ordinary values", "plain")
    for choice in configurations_of(contract)[: CONFIGURATIONS if contract.configurations else 0]:
        told = ", ".join(f"{name} = {value}" for name, value in choice)
        # What tiles and splits do shows where there are several.
        for dims in contract.production[:1] or (space.beyond_a_tile(_tile_in(choice)),):
            yield case(dims, f"configured with {told}", "I18", configuration=choice)
        # Less than a tile, and less than there are parts.
        yield case(space.smallest(), f"configured with {told}, the smallest sizes", "I18", configuration=choice)
    for edge in space.edges():
        yield case(edge.dims, edge.reason, edge.input_class)
    # Small sizes, no two the same, and some that go beyond a tile, in turn: each of them hides what the other shows.
    unlike = space.unlike()
    sizes = itertools.cycle([unlike, beyond])
    vectors = (
        space.complete({}, {name: [v for v in _OF_VECTORS if v in space.values[name]] for name in space.names}) or {}
    )
    for name, (_, values) in contract.values.items():
        for dtype in values.choices[1:]:
            as_dtype: dict[str, Any] = {"dtypes": ((name, dtype),)}
            yield case(typical, f"{name} as {dtype}", "I19", **as_dtype)
            for variant in (VARIANTS[v] for v in _OF_TYPE):
                if variant.name in variants_of(contract, case(beyond, "", "", **as_dtype), name):
                    told = f"{name} as {dtype} {variant.words}"
                    yield case(beyond, told, variant.input_class, variants=((name, variant.name),), **as_dtype)
        able = dict.fromkeys([*_able(contract, name, unlike), *_able(contract, name, beyond)])
        # What positions and lengths mean shows where there are many of them.
        pointing = values.domain.speaks_of or values.domain.sum is not None
        turns = itertools.repeat(beyond) if pointing else sizes
        for dims, variant_name in zip(turns, able, strict=False):
            variant = VARIANTS[variant_name]
            suited = next(d for d in (dims, unlike, beyond) if variant_name in _able(contract, name, d))
            yield case(suited, f"{name} {variant.words}", variant.input_class, variants=((name, variant_name),))
        for layout in layouts_of(values):
            input_class = LAYOUT_CLASS.get(layout, "I11")
            for dims in (typical, vectors) if vectors != typical else (typical,):
                yield case(dims, f"{name} lies {layout}", input_class, layouts=((name, layout),))
        if getattr(values, "alias_of", None):
            yield case(typical, f"{name} shares memory with {alias_of(contract, name)}", "I13", aliased=(name,))
    if has_padding(contract):
        for dims in (typical, beyond, *_with_a_rest(contract, space, beyond)):
            yield case(dims, "unused parts hold NaN", "I7", padding=True)
        for name in (n for n in contract.values if "holes-inside" in _able(contract, n, beyond)):
            origin = f"{name} has entries that mean nothing, and unused parts hold NaN"
            yield case(beyond, origin, "I7", padding=True, variants=((name, "holes-inside"),))
    for origin, input_class, dims, filling in _fillings(contract, space, sizes):
        # Sums of whole numbers are the same in any order: the same elements elsewhere have the same fingerprint.
        plan = "flip" if _FINGERPRINTED in filling.values() else "repeat"
        yield case(dims, origin, input_class, variants=tuple(filling.items()), plan=plan)
    for choice, (origin, dims, filling) in itertools.product(
        configurations_of(contract)[:_MANY_CALLS], _exact_sums(contract, space)
    ):
        yield case(dims, origin, "cancel", variants=tuple(filling.items()), configuration=choice)
    for choice in configurations_of(contract)[:_MANY_CALLS]:
        origin = "very many calls in one process"
        yield case(space.smallest(), origin, "I15", plan="many-calls", configuration=choice)


def _tile_in(choice: tuple[tuple[str, int], ...]) -> int:
    """The largest number of a choice that may be the size of a tile; 0 where there is none."""
    return max((value for _, value in choice if value in _TILES), default=0)


def _with_a_rest(contract: KernelContract, space: Space, dims: Dims) -> Iterator[Dims]:
    """The same sizes, but with less cut into segments than there is: behind the last one something is unused."""
    cut = [v.domain.sum for _, v in contract.values.values() if v.domain.cuts and v.domain.sum is not None]
    for name in sorted({name for total in cut for name in parse_expression(total).names}):
        others = {other: size for other, size in dims.items() if other != name}
        fewer = space.complete(others, {name: [dims[name] * 3 // 4, dims[name] - 1]})
        if fewer is not None and fewer[name] < dims[name]:
            yield fewer


def _fillings(contract: KernelContract, space: Space, sizes: Iterator[Dims]) -> Iterator[Filling]:
    """Arguments filled so that they mean something together."""
    for wanted in _TOGETHER:
        dims = next(sizes)
        filling = _all_at_once(contract, wanted, dims)
        if len(filling) > 1:
            yield f"all at once: {wanted[0]}", VARIANTS[wanted[0]].input_class, dims, filling
    yield from _beside_sizes(contract, space)
    yield from _at_the_largest(contract, space)
    dims = space.beyond_a_tile()
    words = [name for name in contract.values if LIMITS in _able(contract, name, dims, alone=False)]
    if words:
        yield f"all at once: {LIMITS}", VARIANTS[LIMITS].input_class, dims, dict.fromkeys(words, LIMITS)
    ones = _ones(contract, dims)
    ties = [name for name in contract.values if "halfway" in _able(contract, name, dims, alone=False)]
    if ties and _rounds(contract):
        origin = f"{ties[0]} lies half way between whole numbers, nothing scales it"
        yield origin, VARIANTS["halfway"].input_class, dims, {**ones, ties[0]: "halfway"}
    for dtype, name in itertools.product(_narrowed(contract), _read_floats(contract)):
        if (between := BETWEEN[dtype]) in _able(contract, name, dims, alone=False):
            origin = f"{name} {VARIANTS[between].words}, nothing scales it"
            yield origin, VARIANTS[between].input_class, dims, {**ones, name: between}
    for dtype, name in itertools.product(_small(contract), _read_floats(contract)):
        if (scaled := SCALED[dtype]) in _able(contract, name, dims, alone=False):
            yield f"{name} {VARIANTS[scaled].words}", VARIANTS[scaled].input_class, dims, {**ones, name: scaled}
    yield from _swallowed(contract, space)
    yield from _cancelling(contract, space)


def _swallowed(contract: KernelContract, space: Space) -> Iterator[Filling]:
    """Sums of ones and of what an accumulator of the arguments' own type could add no one to, of few and many terms."""
    beyond = space.beyond_a_tile()
    names = [name for name in contract.values if "swallowing" in _able(contract, name, beyond, alone=False)]
    for name in names[:_SWALLOWED] if contract.compute_dtype in ("float32", "float64") else ():
        last = str((contract.values[name][1].shape or ("",))[-1])
        for dims in (beyond, *([_of_many_terms(space, last)] if last in space.names else [])):
            origin = f"{name} {VARIANTS['swallowing'].words}, nothing scales it"
            yield origin, VARIANTS["swallowing"].input_class, dims, {**_ones(contract, dims), name: "swallowing"}
        many = space.complete({}, {last: [v for v in _SQUARES if v in space.values.get(last, ())]}) or beyond
        if "root-first" in _able(contract, name, many, alone=False):
            origin = f"{name} {VARIANTS['root-first'].words}, nothing scales it"
            yield origin, VARIANTS["root-first"].input_class, many, {**_ones(contract, many), name: "root-first"}


_SQUARES = (256, 128, 64, 48, 32)
"""How many squares are added up where each that is lost is a little."""


def _exact_sums(contract: KernelContract, space: Space) -> Iterator[tuple[str, Dims, dict[str, str]]]:
    """Sums, of few terms too, that are small whole numbers in the promised precision, and not in the arguments' own."""
    # Nothing large is left over where sizes are multiples of four.
    dims = space.complete({}, {name: [v for v in _FOURS if v in space.values[name]] for name in space.names}) or {}
    names = [name for name in contract.values if EXACTLY in _able(contract, name, dims, alone=False)]
    ways = [_all_at_once(contract, (way, "full", "one-segment"), dims) for way in ("in-turn", "one-place")]
    for name in names[:_SWALLOWED] if contract.compute_dtype in ("float32", "float64") else ():
        origin = f"{name} {VARIANTS[EXACTLY].words}, nothing scales it"
        # What is gathered has to be all that cancels; what is scattered, to come together.
        for steering in ways if ways[0] != ways[1] else ways[:1]:
            yield origin, dims, {**_ones(contract, dims), **steering, name: EXACTLY}


def _of_many_terms(space: Space, dimension: str) -> Dims:
    """Sizes at which a sum along a dimension is long."""
    dims = space.complete({}, {dimension: [v for v in _TERMS if v in space.values[dimension]][-1:]}) or {}
    return max(dims, space.beyond_a_tile(), key=lambda d: d.get(dimension, 0))


def _all_at_once(contract: KernelContract, wanted: tuple[str, ...], dims: Dims) -> dict[str, str]:
    """Every argument that can take one of these variants."""
    able = {name: _able(contract, name, dims, alone=False) for name in contract.values}
    return {name: next(v for v in wanted if v in some) for name, some in able.items() if {*wanted} & {*some}}


def _beside_sizes(contract: KernelContract, space: Space) -> Iterator[Filling]:
    """Numbers passed by value as large as something is long, and one more and less, where everything is as long."""
    dims = space.complete({}) or {}
    for wanted in ("one-fewer", "as-many", "one-more"):
        if filling := _all_at_once(contract, (wanted,), dims):
            origin = f"{' and '.join(filling)} {VARIANTS[wanted].words}"
            counted = {**_all_at_once(contract, ("full",), dims), **_all_at_once(contract, ("around",), dims)}
            yield origin, "I2", dims, {**counted, **filling}


_COUNTED = (("one-place",), ("full",), ("extremes",), ("highest",), ("lowest",))
"""What fills counters and accumulators, where there is much of it."""


def _at_the_largest(contract: KernelContract, space: Space) -> Iterator[Filling]:
    """Whole numbers that are counted or added up, along each dimension at its largest."""
    beyond = space.beyond_a_tile()
    for dimension in space.names:
        along = [
            n for n, (_, v) in contract.values.items() if dimension in v.size_names or _counts(contract, n, dimension)
        ]
        dims = space.largest(dimension) if any(_is_whole(contract, name) for name in along) else None
        if dims is not None and dims[dimension] > beyond.get(dimension, 0):
            for wanted in _COUNTED:
                filling = {n: v for n, v in _all_at_once(contract, wanted, dims).items() if n in along}
                if filling:
                    origin = f"{' and '.join(filling)} {VARIANTS[wanted[0]].words}, {dimension} at its largest"
                    yield origin, VARIANTS[wanted[0]].input_class, dims, filling


def _is_whole(contract: KernelContract, name: str) -> bool:
    role, values = contract.values[name]
    return role not in FILLED and any("int" in dtype for dtype in values.dtype)


def _counts(contract: KernelContract, name: str, dimension: str) -> bool:
    """Whether lengths count positions along an axis of this size."""
    domain = contract.values[name][1].domain
    counted = contract.extent_of(domain) if domain.lengths is not None else None
    return counted is not None and dimension in parse_expression(counted).names


def _rounds(contract: KernelContract) -> bool:
    """Whether something that may be an integer comes of floats."""
    written = (values for role, values in contract.values.values() if is_written(role, values))
    return any("int" in dtype for values in written for dtype in values.dtype)


def _narrowed(contract: KernelContract) -> list[str]:
    """Types of one byte that results have."""
    written = (values for role, values in contract.values.values() if is_written(role, values))
    return list(dict.fromkeys(dtype for values in written for dtype in values.dtype if dtype in BETWEEN))


def _small(contract: KernelContract) -> list[str]:
    """Types of which results may be that a scale was computed for; what is in the bytes of one nobody says."""
    written = (dtype for role, values in contract.values.values() if is_written(role, values) for dtype in values.dtype)
    found = (name for dtype in written for name in ((dtype,) if dtype != "uint8" else _PACKED) if name in SCALED)
    return list(dict.fromkeys(found))


_PACKED = ("float4_e2m1fn", "int4")
"""What bytes may hold two of."""


def _read_floats(contract: KernelContract) -> list[str]:
    """Arrays of floats of which such results may be, the first ones."""
    able = (n for n, (role, v) in contract.values.items() if role not in FILLED and v.shape)
    return [n for n in able if any("float" in dtype for dtype in contract.values[n][1].dtype)][:_SWALLOWED]


def _cancelling(contract: KernelContract, space: Space) -> Iterator[Filling]:
    """Products that are large and cancel half way, along each dimension that two arguments share."""
    for dimension in space.names:
        dims = _of_many_terms(space, dimension)
        filling: dict[str, str] = {}
        for name, (_, values) in contract.values.items():
            shape = values.shape or ()
            last, first = shape[-1:] == (dimension,), shape[:1] == (dimension,)
            wanted = ("alike" if filling else "opposed") if last else "alike-first" if first and filling else ""
            if wanted in _able(contract, name, dims, alone=False):
                filling[name] = wanted
        if len(filling) > 1:
            origin = f"products along {dimension} are large and cancel half way"
            yield origin, VARIANTS["opposed"].input_class, dims, {**_ones(contract, dims), **filling}


def _ones(contract: KernelContract, dims: Dims) -> dict[str, str]:
    """Every argument that can be one throughout."""
    return {name: "one" for name in contract.values if "one" in _able(contract, name, dims, alone=False)}


def _able(contract: KernelContract, name: str, dims: Dims, *, alone: bool = True) -> list[str]:
    """Variants of an argument at these sizes."""
    return variants_of(contract, Case(contract.match, tuple(dims.items()), 0), name, alone=alone)


def left_out(contract: KernelContract) -> int:
    """Cases by construction beyond those that are run."""
    return max(sum(1 for _ in constructed_cases(contract, Space(contract))) - MOST, 0)
