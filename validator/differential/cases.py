"""Cases: what is run, in an order that depends on the contract and one seed alone.

First the production shapes, then every edge and every input variant by construction, then what hypothesis draws from
the contract. What a case is, and what its arguments hold, is at hand here too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

from validator.differential.arguments import (
    LARGEST,
    CaseTooLarge,
    Inputs,
    alias_of,
    aliases_of,
    build,
    copied,
    fill_of,
    float_arguments,
    is_drawn,
    is_written,
    judged_arguments,
    nameable,
    size_of,
    values_of,
    with_padding_told,
)
from validator.differential.case import CASE_SCHEMA, PLANS, Case, case_text, load_case
from validator.differential.inputs import applicable
from validator.differential.numbers import derived
from validator.differential.padding import has_padding
from validator.differential.shapes import Space
from validator.manifest.contract import FILLED, KernelContract, Role, Values
from validator.scale.covering import cover

__all__ = [
    "CASE_SCHEMA",
    "CONFIGURATIONS",
    "FILLED",
    "LARGEST",
    "LAYOUT_CLASS",
    "MOST",
    "PLANS",
    "Case",
    "CaseTooLarge",
    "Inputs",
    "alias_of",
    "aliases_of",
    "build",
    "case_text",
    "cases",
    "configurations_of",
    "copied",
    "fill_of",
    "float_arguments",
    "has_padding",
    "has_state",
    "is_drawn",
    "is_written",
    "judged_arguments",
    "layouts_of",
    "load_case",
    "nameable",
    "size_of",
    "values_of",
    "variants_of",
    "with_padding_told",
]

_DEAR = ("many-calls", "fresh")
"""Plans that cases have for a reason of their own, or seldom."""

MOST = 5000
"""Cases by construction. A manifest says how many arguments, types, layouts and choices there are to try."""


def cases(contract: KernelContract, seed: int, count: int) -> list[Case]:
    """Every case of a run: those by construction, then `count` random ones; plans in turn. Same seed, same cases."""
    from validator.differential.constructed import constructed_cases
    from validator.differential.drawn import drawn_cases

    space = Space(contract)
    plans = [p for p in PLANS if _PLAN_APPLIES.get(p, _always)(contract)]
    choices = configurations_of(contract)
    ordinary = [p for p in plans if p not in _DEAR]
    constructed = itertools.islice(constructed_cases(contract, space), MOST)
    made = [*_with_every_plan(space, list(constructed), len(ordinary) + 1), *drawn_cases(contract, space, seed, count)]
    out: dict[str, Case] = {}
    for index, case in enumerate(made):
        # A process of its own is dear: the first case has one, and one in 40 after it.
        usual = "fresh" if index % 40 == 0 else ordinary[index % len(ordinary)]
        plan = case.plan if case.plan != "repeat" else usual
        choice = case.configuration or choices[index // len(ordinary) % len(choices)]  # each meets every plan
        origin = case.origin + _from_generator(contract, case)
        case = replace(case, plan=plan, seed=derived(seed, contract.match, index), configuration=choice, origin=origin)
        if not _is_made(contract, space, case):
            continue
        case = with_padding_told(contract, case)
        if case.padding or case.input_class != "I7" or case.variants:
            out.setdefault(case.id, case)
    return list(out.values())


def _with_every_plan(space: Space, made: list[Case], plans: int) -> list[Case]:
    """The cases, production shapes as often as it takes for each plan to have one: nothing else is as large, and some
    candidates do something else there. Those that take long have one plan each."""
    first = [case for case in made if case.input_class == "production"]
    again = [case for case in first if space.elements(dict(case.dims)) <= _PLAINLY]
    more = itertools.islice(itertools.cycle(again), max(0, plans - len(first)))
    return [*first, *more, *(case for case in made if case.input_class != "production")]


_PLAINLY = 1 << 24
"""Elements of the largest argument at which no case is too large."""


def _is_made(contract: KernelContract, space: Space, case: Case) -> bool:
    """Whether its arguments are not too large; what a manifest asks for by name is told where it is."""
    small = space.elements(dict(case.dims)) * len(contract.values) <= _PLAINLY
    return small or case.input_class == "production" or size_of(contract, case) <= LARGEST


def _from_generator(contract: KernelContract, case: Case) -> str:
    """What of a case the generator makes, for its origin."""
    names = [name for name in contract.generated if name not in dict(case.variants)]
    return f" ({', '.join(names)} from {contract.generator})" if names else ""


def _always(contract: KernelContract) -> bool:
    return True


def has_state(contract: KernelContract) -> bool:
    """Whether a launch leaves something for the next one."""
    return any(role is Role.STATE for role, _ in contract.values.values())


_PLAN_APPLIES: dict[str, Callable[[KernelContract], bool]] = {
    "batch-mates": lambda c: c.batch is not None,
    "any-order": lambda c: c.launches is not None,
    "carried-on": has_state,
}

CONFIGURATIONS = 96
"""Combinations of choices that are all tried; of more, each value with each of every other choice."""
_PAIRS = 1024
"""Pairs of values of which each is tried; of more, every single value is."""


def configurations_of(contract: KernelContract) -> list[tuple[tuple[str, int], ...]]:
    """Everything that the candidate can be told to choose, the first values first; one empty choice if nothing."""
    options = contract.configurations
    if math.prod(map(len, options.values())) <= CONFIGURATIONS:
        return [tuple(zip(options, chosen, strict=True)) for chosen in itertools.product(*options.values())]
    pairs = sum(len(one) * len(other) for one, other in itertools.combinations(options.values(), 2))
    if pairs <= _PAIRS:
        found = [dict(row) for row in cover(options, 2, (), exhaustive=CONFIGURATIONS)]
    else:
        first = {name: values[0] for name, values in options.items()}
        found = [{**first, name: value} for name, values in options.items() for value in values]
    return list(dict.fromkeys(tuple((name, row[name]) for name in options) for row in found))


LAYOUT_CLASS = {"offset": "I12", "distant": "I1"}
"""Class of a layout; `I11` where it is not listed."""


def variants_of(contract: KernelContract, case: Case, name: str, *, alone: bool = True) -> list[str]:
    """Variants that make sense for an argument in a case; none where no case chooses the values."""
    role, values = contract.values[name]
    if role in FILLED or not is_drawn(values):
        return []
    fill = fill_of(contract, case, name)
    if name in contract.generated and (contract.generates or not (fill.floating and fill.free)):
        return []  # a generator makes it, and only the generator knows what else it may hold
    return [v.name for v in applicable(fill) if v.alone or not alone]


def layouts_of(values: Values) -> tuple[str, ...]:
    """Layouts that callers may pass, besides the ordinary one."""
    return tuple(layout for layout in values.layouts if layout != "contiguous")
