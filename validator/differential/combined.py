"""Cases that bring together what cases by construction try one at a time: sizes, types, layouts, choices, in pairs.

Each value of a factor meets each value of every other in some case, as far as the contract's constraints allow
(`validator.scale.covering`). Few factors with few values are combined in full.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from validator.differential.cases import Case, configurations_of, has_padding, layouts_of
from validator.differential.numbers import derived
from validator.differential.shapes import Space
from validator.manifest.contract import KernelContract, Values
from validator.scale.covering import Constraint, Cover, CoverError, cover

__all__ = ["combinations", "combined_cases"]

_VALUES = 5
"""Sizes of one dimension that are combined with the others'."""
_LARGEST = 1 << 20
"""Elements of the largest argument."""
_EXHAUSTIVE = 16
"""Rows up to which everything is combined with everything."""
_STRENGTH = 2
_PLANS = ("repeat", "same-buffer", "flip")
"""What is done around the calls, in turn; each of them fits every contract."""


def combinations(contract: KernelContract) -> Cover | None:
    """What is combined, and in which rows; None where there is nothing to combine."""
    space = Space(contract)
    factors = {name: values for name, values in _factors(contract, space).items() if len(values) > 1}
    if len(factors) < 2:
        return None
    try:
        return cover(factors, _STRENGTH, _constraints(contract, space, factors), exhaustive=_EXHAUSTIVE)
    except CoverError:  # no size is within the bound with all others, or too much is bound together
        return None


def combined_cases(contract: KernelContract, seed: int, most: int) -> list[Case]:
    """The first rows as cases, at most so many: those that bring most together come first."""
    found = combinations(contract) if most > 0 else None
    if found is None:
        return []
    space, cases = Space(contract), []
    for number, row in enumerate(found):
        if number == most:
            break
        fixed = {name[1]: value for name, value in row.items() if name[0] == "size"}
        dims = space.complete(fixed)
        if dims is not None:
            cases.append(_case(contract, row, dims, number, seed, len(found)))
    return cases


def _case(
    contract: KernelContract, row: Mapping[Any, Any], dims: Mapping[str, int], number: int, seed: int, of: int
) -> Case:
    def chosen(kind: str) -> tuple[tuple[str, str], ...]:
        return tuple((name[1], value) for name, value in row.items() if name[0] == kind and value)

    choices = configurations_of(contract)
    return Case(
        contract.match,
        tuple(dims.items()),
        derived(seed, contract.match, "combined", number),
        plan=_PLANS[number % len(_PLANS)],
        dtypes=chosen("type"),
        layouts=chosen("layout"),
        aliased=tuple(name for name, _ in chosen("alias")),
        padding=bool(row.get(("padding", ""))),
        configuration=row.get(("choice", ""), choices[number % len(choices)]),
        origin=f"sizes, types and layouts brought together, {number + 1} of {of}",
        input_class="random",
    )


def _factors(contract: KernelContract, space: Space) -> dict[Any, tuple[Any, ...]]:
    """(kind, name) → its values, the ordinary one first."""
    factors: dict[Any, tuple[Any, ...]] = {("size", name): _sizes(space, name) for name in space.names}
    for name, (_, values) in contract.values.items():
        factors["type", name] = values.dtype if len(values.dtype) > 1 else ()
        factors["layout", name] = ("", *_layouts(values)) if values.value is None else ()
        factors["alias", name] = ("", "yes") if getattr(values, "alias_of", None) else ()
    factors["padding", ""] = (False, True) if has_padding(contract) else ()
    factors["choice", ""] = tuple(configurations_of(contract))
    return factors


def _holds(holds: Callable[[Mapping[str, int]], bool], row: Mapping[Any, Any]) -> bool:
    return holds({name[1]: value for name, value in row.items()})


def _layouts(values: Values) -> tuple[str, ...]:
    """Rows gigabytes apart are tried by themselves."""
    return tuple(layout for layout in layouts_of(values) if layout != "distant")


def _sizes(space: Space, name: str) -> tuple[int, ...]:
    """A typical size, then the ends, then what lies at tiles and is odd."""
    worth = [edge for edge in space.edges() if edge.reason.startswith(f"{name} = ")]
    values = [dict(edge.dims)[name] for edge in worth]
    ends = [space.values[name][0], space.values[name][-1]] if space.values[name] else []
    typical = (space.complete({}) or {}).get(name)
    ordered = dict.fromkeys([*([typical] if typical is not None else []), *ends, *values])
    return tuple(v for v in ordered if v > 0)[:_VALUES]


def _constraints(contract: KernelContract, space: Space, factors: Mapping[Any, tuple[Any, ...]]) -> list[Constraint]:
    """The contract's own, over what is combined; and no case larger than others are."""
    sizes = {name for kind, name in factors if kind == "size"}
    bound = []
    for constraint in contract.constraints:
        names = sorted(constraint.names)
        if len(names) > 1 and set(names) <= sizes:
            bound.append(
                Constraint(
                    tuple(("size", n) for n in names),
                    partial(_holds, constraint.holds),
                )
            )
    if sizes == set(space.names) and sizes:
        keys = tuple(("size", n) for n in space.names)
        bound.append(Constraint(keys, lambda row: space.elements({name[1]: v for name, v in row.items()}) <= _LARGEST))
    return bound
