"""Cases that bring together what cases by construction try one at a time: sizes, types, layouts, choices, values.

Each value of a factor meets each value of every other in some case, as far as the contract's constraints allow
(`validator.scale.covering`); a policy may ask that values meet three or more at a time. Few factors with few values are
combined in full. What parallelism makes of a size is among the sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from validator.differential.cases import Case, layouts_of, variants_of, with_padding_told
from validator.differential.errors import DifferentialError
from validator.differential.inputs import LISTED
from validator.differential.numbers import derived
from validator.differential.padding import has_padding
from validator.differential.shapes import Space
from validator.manifest.contract import KernelContract, Values
from validator.manifest.values import SHARED_LAYOUTS
from validator.scale.covering import Constraint, Cover, CoverError, cover

__all__ = ["combinations", "combined_cases"]

_VALUES = 5
"""Sizes of one dimension that are combined with the others'."""
_LARGEST = 1 << 20
"""Elements of the largest argument."""
_EXHAUSTIVE = 16
"""Rows up to which everything is combined with everything."""
_STRENGTH = 2
"""Values at a time, where no policy says."""
_CHOSEN = 8
"""Combinations of what is chosen, for the candidate and by flags, up to which each of them meets everything else."""
_FILLINGS = (
    "masked-rows", "masked-start", "quarters", "certain-rows", "large", "zeros", "tied", "low",
    "all-holes", "one-place", "holes", "one-segment", "last-empty", "full", "empty",
    "false-row", "false-start", "all-true", "row-by-row", "extremes", "as-many",
)  # fmt: skip
"""What an argument is filled with, the first of these that it can take."""
_WAYS = 5
"""Of them, for one argument, besides ordinary values."""
_FILLED = 12
"""Arguments that are filled on purpose."""
_ROUNDS = 64
"""How often sizes that nothing completes are taken out."""
_PLANS = ("repeat", "same-buffer", "other-buffer", "flip")
"""What is done around the calls, in turn; each of them fits every contract."""


def combinations(contract: KernelContract, strength: int | None = None) -> Cover | None:
    """What is combined, and in which rows; None where there is nothing to combine.

    Args:
        strength: so many values at a time; None: pairs, or nothing where that cannot be. Where it is more, arguments
            are filled with ordinary values.

    Raises:
        DifferentialError: what was asked for cannot be had.
    """
    space = Space(contract)
    factors = {name: values for name, values in _factors(contract, space, strength).items() if len(values) > 1}
    if len(factors) < 2:
        return None
    bound = _constraints(contract, space, factors)
    try:
        for _ in range(_ROUNDS):
            found = cover(factors, strength or _STRENGTH, bound, exhaustive=_EXHAUSTIVE)
            never = {sizes for row in found if space.complete(dict(sizes := _sizes_of(row))) is None}
            if not never:
                break
            names = tuple(name for name in factors if name[0] == "size")
            bound.append(Constraint(names, partial(_is_none_of, never)))
    except CoverError as error:  # no size is within the bound with all others, or too much is bound together
        if strength is not None:
            told = "; ".join(map(str, error.problems))
            raise DifferentialError(f"values cannot be combined {strength} at a time (`strength`): {told}") from None
        return None
    return found


def combined_cases(contract: KernelContract, seed: int, most: int, strength: int | None = None) -> list[Case]:
    """The rows as cases: all of them where a strength is asked for, else the first, at most so many."""
    found = combinations(contract, strength) if most > 0 or strength is not None else None
    if found is None:
        return []
    space, cases = Space(contract), []
    for number, row in enumerate(found):
        if number == most and strength is None:
            break
        dims = space.complete(dict(_sizes_of(row)))
        if dims is not None:
            cases.append(with_padding_told(contract, _case(contract, row, dims, number, seed, len(found))))
    return cases


def _sizes_of(row: Mapping[Any, Any]) -> tuple[tuple[str, int], ...]:
    return tuple((name[1], value) for name, value in row.items() if name[0] == "size")


def _is_none_of(never: Collection[tuple[tuple[str, int], ...]], row: Mapping[Any, Any]) -> bool:
    return _sizes_of(row) not in never


def _case(
    contract: KernelContract, row: Mapping[Any, Any], dims: Mapping[str, int], number: int, seed: int, of: int
) -> Case:
    row = {**row, **dict(row.get(_TOGETHER, ()))}

    def chosen(kind: str) -> tuple[tuple[str, str], ...]:
        return tuple((name[1], value) for name, value in row.items() if name[0] == kind and value)

    case = Case(
        contract.match,
        tuple(dims.items()),
        derived(seed, contract.match, "combined", number),
        plan=_PLANS[number % len(_PLANS)],
        dtypes=chosen("type"),
        layouts=chosen("layout"),
        aliased=tuple(name for name, _ in chosen("alias")),
        padding=bool(row.get(("padding", ""))),
        configuration=tuple((n, row.get(("choice", n), v[0])) for n, v in contract.configurations.items()),
        origin=f"sizes, types, layouts, choices and values brought together, {number + 1} of {of}",
        input_class="random",
    )
    fits = ((name, way) for name, way in chosen("filling") if way in variants_of(contract, case, name, alone=False))
    return replace(case, variants=tuple(fits))


def _factors(contract: KernelContract, space: Space, strength: int | None) -> dict[Any, tuple[Any, ...]]:
    """(kind, name) → its values, the ordinary one first."""
    factors: dict[Any, tuple[Any, ...]] = {("size", name): sizes for name, sizes in _sizes(contract, space).items()}
    for name, (_, values) in contract.values.items():
        factors["type", name] = values.choices
        factors["layout", name] = ("", *_layouts(values)) if values.value is None else ()
        factors["alias", name] = ("", "yes") if getattr(values, "alias_of", None) else ()
    factors["padding", ""] = (False, True) if has_padding(contract) else ()
    able = _able(contract, space)
    choices: dict[Any, tuple[Any, ...]] = {("choice", n): values for n, values in contract.configurations.items()}
    choices |= {("filling", name): few for name, ways in able.items() if (few := _listed(ways))}
    if math.prod(map(len, choices.values())) <= _CHOSEN:
        factors[_TOGETHER] = tuple(tuple(zip(choices, chosen, strict=True)) for chosen in product(*choices.values()))
    else:
        factors |= choices
    ways = {name: tuple(way for way in _FILLINGS if way in able[name])[:_WAYS] for name in able}
    filled = [name for name in ways if ways[name] and ("filling", name) not in choices]
    for name in filled[:_FILLED] if strength is None or strength <= _STRENGTH else ():
        factors["filling", name] = ("", *ways[name])
    return factors


_TOGETHER = ("together", "")
"""What is chosen, as one factor."""


def _able(contract: KernelContract, space: Space) -> dict[str, set[str]]:
    """Argument → what it can be filled with, at some of the sizes."""
    sizes = [Case(contract.match, tuple(dims.items()), 0) for dims in (space.unlike(), space.beyond_a_tile())]
    return {
        name: {way for at in sizes for way in variants_of(contract, at, name, alone=False)} for name in contract.values
    }


def _listed(ways: Collection[str]) -> tuple[str, ...]:
    """Of an argument that has few values, one filling for each."""
    return tuple(variant.name for variant in LISTED if variant.name in ways)


def _holds(holds: Callable[[Mapping[str, int]], bool], alone: Mapping[str, int], row: Mapping[Any, Any]) -> bool:
    """`alone`: sizes that are not combined, having one value each."""
    return holds({**alone, **dict(_sizes_of(row))})


def _layouts(values: Values) -> tuple[str, ...]:
    """Rows gigabytes apart are tried by themselves."""
    return tuple(layout for layout in layouts_of(values) if layout not in ("distant", *SHARED_LAYOUTS))


def _sizes(contract: KernelContract, space: Space) -> dict[str, tuple[int, ...]]:
    """Of each dimension: a typical size, what parallelism makes of it, the ends, one above its tile, one well beyond,
    then others."""
    edges, typical, beyond = list(space.edges()), space.complete({}) or {}, space.beyond_a_tile()
    sizes = {}
    for name, values in space.values.items():
        worth = [dict(edge.dims)[name] for edge in edges if edge.reason.startswith(f"{name} = ")]
        parts = dict.fromkeys(shape[name] for shape in contract.production) if name in contract.split else {}
        above = [tile + 1 for tile in contract.tiles.get(name, ()) if tile + 1 in values]
        first = [typical[name]] if typical else []
        ordered = dict.fromkeys([*first, *parts, values[0], values[-1], *above, beyond.get(name, 0), *worth])
        sizes[name] = tuple(v for v in ordered if v > 0)[: _VALUES + len(parts)]
    return sizes


def _constraints(contract: KernelContract, space: Space, factors: Mapping[Any, tuple[Any, ...]]) -> list[Constraint]:
    """The contract's own, over what is combined; and no case larger than others are."""
    sizes = {name for kind, name in factors if kind == "size"}
    alone = {name: values[0] for name, values in space.values.items() if len(values) == 1}
    bound = []
    for constraint in contract.constraints:
        names = sorted(constraint.names & sizes)
        if names and len(constraint.names) > 1 and constraint.names <= sizes | alone.keys():
            bound.append(Constraint(tuple(("size", n) for n in names), partial(_holds, constraint.holds, alone)))
    if sizes == set(space.names) and sizes:
        keys = tuple(("size", n) for n in space.names)
        bound.append(Constraint(keys, lambda row: space.elements({name[1]: v for name, v in row.items()}) <= _LARGEST))
    return bound
