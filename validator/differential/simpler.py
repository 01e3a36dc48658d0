"""Cases one step simpler than one that fails: what a failure is made smaller by.

In this order: everything at its smallest, nothing on purpose, no choice of the candidate's, smaller sizes, then
numbers that a reader is told: lengths, flags and numbers passed by value become small ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from validator.differential.cases import Case, fill_of, nameable, values_of
from validator.differential.inputs import VARIANTS
from validator.differential.pinned import cut, elements, nearer, simpler
from validator.differential.shapes import Space
from validator.manifest.contract import KernelContract

__all__ = ["STEPS", "Step"]

Step = Callable[[KernelContract, Space, Case], Iterator[Case]]
"""Of a contract, its sizes and a case: cases that are simpler in one way, the boldest first."""


def _smallest(contract: KernelContract, space: Space, case: Case) -> Iterator[Case]:
    smallest = space.smallest()
    if dict(case.dims) != smallest:
        yield from _sized(contract, case, smallest)


def _plainer(contract: KernelContract, _space: Space, case: Case) -> Iterator[Case]:
    """Nothing filled, laid or called in a way of its own."""
    for part in ("variants", "layouts", "aliased", "dtypes"):
        items = getattr(case, part)
        if len(items) > 1:
            yield _with(case, part, ())
        for item in items:
            yield _with(case, part, tuple(i for i in items if i != item))
    if case.padding:
        yield replace(case, padding=False)
    if case.plan != "repeat":
        yield replace(case, plan="repeat")


def _with(case: Case, part: str, items: Any) -> Case:
    return replace(case, **{part: items})


def _first_choices(contract: KernelContract, _space: Space, case: Case) -> Iterator[Case]:
    """What the candidate is told to choose is what the contract lists first."""
    first = tuple((name, contract.configurations[name][0]) for name, _value in case.configuration)
    if first != case.configuration:
        yield replace(case, configuration=first)
        for at, one in enumerate(first):
            if one != case.configuration[at] and len(first) > 1:
                yield replace(case, configuration=(*case.configuration[:at], one, *case.configuration[at + 1 :]))


def _smaller(contract: KernelContract, space: Space, case: Case) -> Iterator[Case]:
    """One size less."""
    dims, smallest = dict(case.dims), space.smallest()
    for name, value in case.dims:
        for option in dict.fromkeys(v for v in nearer(smallest.get(name, value), value) if v < value):
            found = dict(dims, **{name: option})
            if option in space.values[name] and space.holds(found):
                yield from _sized(contract, case, found)


def _numbers(contract: KernelContract, _space: Space, case: Case) -> Iterator[Case]:
    """Values that are told as numbers, in place of what was drawn: all of them, then one argument after the other."""
    able = nameable(contract, case)
    told = {name: elements(fill, values_of(contract, case, name)) for name, fill in able.items()}
    ways = {name: list(simpler(able[name], values)) for name, values in told.items()}
    if filled := {name: told[name] for name, _ in case.variants if name in told}:
        yield _naming(case, filled)  # to say the same twice is not simple
    boldest = {name: some[0] for name, some in ways.items() if some}
    if len(boldest) > 1:
        yield _naming(case, boldest)
    for name, some in sorted(ways.items(), key=lambda way: len(told[way[0]])):  # what others are held against first
        yield from (_naming(case, {name: values}) for values in some)


STEPS: tuple[Step, ...] = (_smallest, _plainer, _first_choices, _smaller, _numbers)
"""In the order in which they are taken, each as often as it helps, and all of them again as long as one does."""


def _naming(case: Case, values: Mapping[str, tuple[int | float, ...]]) -> Case:
    """The case with these values; what they were filled with means nothing any more."""
    kept = tuple((name, variant) for name, variant in case.variants if name not in values)
    return replace(case, variants=kept, pinned=tuple({**dict(case.pinned), **values}.items()))


def _sized(contract: KernelContract, case: Case, dims: Mapping[str, int]) -> Iterator[Case]:
    """The case at these sizes, with the first or the last of the values that it names. What arguments are filled with
    on purpose may need more room than that."""
    found = replace(case, dims=tuple(dims.items()), pinned=())
    able = ((name, kind) for name, kind in case.variants if VARIANTS[kind].applies(fill_of(contract, found, name)))
    found = replace(found, variants=tuple(able))
    before, after = nameable(contract, case), nameable(contract, found)
    for last in (False, True) if case.pinned else (False,):
        cuts = ((n, cut(after[n], before[n].shape, v, last=last)) for n, v in case.pinned if n in before and n in after)
        yield replace(found, pinned=tuple((name, values) for name, values in cuts if values is not None))
