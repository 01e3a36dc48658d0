"""What a case's arguments hold: made from the contract and the case's seed, filled on purpose, or named by the case."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from statistics import mode
from types import MappingProxyType
from typing import Any

import numpy as np

from validator.differential.arena import apart
from validator.differential.case import Case
from validator.differential.errors import DifferentialError
from validator.differential.inputs import VARIANTS, Fill, Room, filled, is_bounded, shown
from validator.differential.numbers import Array, Source, derived, dtype_of, is_float
from validator.differential.padding import point_elsewhere, unused_parts
from validator.differential.pinned import few, pinned
from validator.differential.shapes import shape_of
from validator.manifest.contract import FILLED, KernelContract, Role, Values
from validator.manifest.dims import parse_expression
from validator.manifest.values import SHARED_LAYOUTS

__all__ = [
    "LARGEST",
    "SPOKEN",
    "CaseTooLarge",
    "Inputs",
    "alias_of",
    "aliases_of",
    "build",
    "copied",
    "fill_of",
    "float_arguments",
    "is_drawn",
    "is_written",
    "judged_arguments",
    "nameable",
    "shares",
    "size_of",
    "values_of",
    "with_padding_told",
]

Inputs = dict[str, Any]
"""Argument → numpy array, or a Python number for one passed by value; in the callable's order."""

LARGEST = 2 << 30
"""Bytes of all arguments of one case. A manifest says the sizes; the gate holds several copies of them at once."""

SPOKEN = frozenset({*FILLED, Role.FLAG, Role.MAILBOX})
"""Roles whose elements are poisoned, or a word between kernels: another word is another story."""
_WRITTEN = frozenset({Role.OUTPUT, Role.STATE, Role.WORKSPACE})


class CaseTooLarge(DifferentialError):
    """A case whose arguments are larger than the gate makes."""


def is_written(role: Role | None, values: Values) -> bool:
    """Whether the kernel may change the argument."""
    return role in _WRITTEN or values.inplace


def is_drawn(values: Values) -> bool:
    """Whether a case chooses the argument's values, rather than the sizes or the layouts."""
    return values.value is None and values.stride is None


def judged_arguments(contract: KernelContract) -> tuple[str, ...]:
    """Arguments whose contents after the call are the result."""
    return tuple(n for n, (r, v) in contract.values.items() if is_written(r, v) and r is not Role.WORKSPACE)


def fill_of(contract: KernelContract, case: Case, name: str) -> Fill:
    """What a variant is told about one argument of one case."""
    dims = dict(case.dims)
    role, values = contract.values[name]
    d = values.domain
    positions = contract.extent_of(d)
    extent = parse_expression(positions).value(dims) if positions is not None else 0
    dtype = dict(case.dtypes).get(values.dtype_of or name) or (values.dtype[0] if values.dtype else "float64")
    total = parse_expression(d.sum).value(dims) if d.sum is not None else extent if d.cuts else None
    values = (
        values.model_copy(update={"domain": d.at(dims)})
        if isinstance(d.low, str) or isinstance(d.high, str)
        else values
    )
    pages, axis = d.pages or ("", 0)
    page = shape_of(contract.values[pages][1].shape or (), dims)[axis] if pages else 1
    if d.last is not None:
        low, high = values.domain.fixed
        ends = {"low": max(low or 1, 1), "high": max(page if high is None else min(high, page), 1)}
        values = values.model_copy(update={"domain": values.domain.model_copy(update=ends)})
    beside = _counted_to(contract, dims) if d.hangs_on is None else 0
    fill = Fill(name, role, values, dtype_of(dtype), shape_of(values.shape or (), dims), extent, page, total, beside)
    return replace(fill, between=_range_of(contract, case, fill)) if is_bounded(fill) else fill


def _range_of(contract: KernelContract, case: Case, fill: Fill) -> tuple[int, int] | None:
    """Where numbers passed by value say that a range begins, and its last number; None where none do.

    Who passes no end lets the range be as long as something else is: the rows of a part of a vocabulary.
    """
    name = next((name for name, (_, v) in contract.values.items() if v.domain.after is not None), None)
    if name is not None:
        start = contract.values[name][1].domain.after or ""
        return int(values_of(contract, case, start)), int(values_of(contract, case, name)) - 1
    starts = [other for other in contract.values if _begins(contract, case, other, fill)]
    if not starts:
        return None
    own = fill.values.size_names
    sizes = sorted({size for dim, size in case.dims if size and dim not in own}) or [1]
    which = derived(case.seed, "range", fill.name)
    start = starts[which % len(starts)]
    first = int(values_of(contract, case, start))
    return first, first + sizes[which // len(starts) % len(sizes)] - 1


def _begins(contract: KernelContract, case: Case, name: str, fill: Fill) -> bool:
    """Whether an argument is a whole number passed by value with which elements of another may be compared."""
    role, values = contract.values[name]
    d = values.domain
    if role is not Role.SCALAR or values.shape or not is_drawn(values) or d.low is None or d.high is None:
        return False
    number = fill_of(contract, case, name)
    (low, high), (least, most) = number.integers, fill.integers
    return not number.floating and number.free and least <= low and high <= most and high - low >= _RANGES


_RANGES = 8
"""Numbers that one passed by value may be, from which it is no choice among a few."""


def _counted_to(contract: KernelContract, dims: Mapping[str, int]) -> int:
    """What the first lengths count to, or else the size that most dimensions have."""
    counted = (contract.extent_of(v.domain) for _, v in contract.values.values() if v.domain.lengths)
    first = next((text for text in counted if text is not None), None)
    return parse_expression(first).value(dims) if first is not None else mode(dims.values() or [0])


def build(
    contract: KernelContract,
    case: Case,
    rooms: Mapping[str, Room] = MappingProxyType({}),
    given: Mapping[str, Array] = MappingProxyType({}),
) -> Inputs:
    """The case's data. Arguments that hold nothing before the call are there too, as zeros that take no memory.

    `rooms`: where an argument's ordinary values are drawn, if not anywhere. `given`: ordinary values that a generator
    made; what the case fills on purpose is filled so all the same.
    Raises `CaseTooLarge`.
    """
    if (size := size_of(contract, case)) > LARGEST:
        told = f"{case.words()}: {size / 2**30:.1f} GiB of arguments, at most {LARGEST >> 30} GiB are made"
        raise CaseTooLarge(told)
    inputs: Inputs = {}
    variants = dict(case.variants)
    for name, (role, values) in contract.values.items():
        if values.stride is not None or values.domain.hangs_on is not None:
            inputs[name] = 0  # known once the arrays lie in memory, or what it hangs on
            continue
        if values.value is not None:
            inputs[name] = _told(values, case)
            continue
        if name in given and name not in variants:
            inputs[name] = given[name]
            continue
        fill = replace(fill_of(contract, case, name), spare=case.padding)
        if name in rooms:
            fill = replace(fill, room=rooms[name])
        if role in FILLED:
            inputs[name] = np.broadcast_to(np.zeros((), fill.dtype), fill.shape)
            continue
        inputs[name] = _made(fill, case)
    for name, (_, values) in contract.values.items():
        if values.domain.hangs_on is not None:
            inputs[name] = _made(_holding(contract, case, name, inputs), case)
    for name, layout in case.layouts:
        if layout in SHARED_LAYOUTS and isinstance(inputs[name], np.ndarray):
            inputs[name] = _shared(inputs[name], layout)
    for name in case.aliased:
        inputs[name] = inputs[alias_of(contract, name)]
    if case.padding:
        point_elsewhere(contract, inputs)
        for name, unused in unused_parts(contract, inputs).items():
            inputs[name][unused] = np.nan
    return inputs


def _shared(array: Array, layout: str) -> Array:
    """The values of an array of which some elements are others, too."""
    if not array.ndim or not array.size:
        return array
    count, row = array.shape[0], array.size // array.shape[0]
    at = apart(array.shape, layout) * np.arange(count)[:, None] + np.arange(row)
    return array.reshape(-1)[at].reshape(array.shape)


def _made(fill: Fill, case: Case) -> Any:
    """An argument's values, on purpose where the case says so."""
    source, variants, named = Source(derived(case.seed, fill.name)), dict(case.variants), dict(case.pinned)
    if fill.name in named:
        array = pinned(fill, named[fill.name])
    else:
        array = VARIANTS[variants[fill.name]].make(fill, source) if fill.name in variants else filled(fill, source)
    array = shown(fill, array, source)
    return array.item() if fill.role is Role.SCALAR and array.ndim == 0 else array


def _told(values: Values, case: Case) -> float:
    """The value that the contract gives a number."""
    known, number = {**dict(case.dims), **dict(case.configuration)}, values.value
    return parse_expression(number).value(known) if isinstance(number, str) else number or 0


def values_of(contract: KernelContract, case: Case, name: str) -> Any:
    """The values of one argument, and of none that it does not hang on."""
    values = contract.values[name][1]
    if values.value is not None:
        return _told(values, case)
    other = values.domain.hangs_on
    if other is not None:
        return _made(_holding(contract, case, name, {other: values_of(contract, case, other)}), case)
    return _made(replace(fill_of(contract, case, name), spare=case.padding), case)


def nameable(contract: KernelContract, case: Case) -> dict[str, Fill]:
    """Arguments of which a case may name the values itself, and what is told of each."""
    named = {n for n, (role, v) in contract.values.items() if role not in SPOKEN and is_drawn(v)}
    able = named.difference(contract.generated, case.aliased)
    fills = ((name, fill_of(contract, case, name)) for name in contract.values if name in able)
    return {name: fill for name, fill in fills if few(fill)}


def _holding(contract: KernelContract, case: Case, name: str, inputs: Inputs) -> Fill:
    """What is told of a number that is at least the longest of some lengths, or so much more than another."""
    fill = fill_of(contract, case, name)
    if (start := fill.values.domain.after) is not None:
        more, most = (int(end or 0) for end in fill.values.domain.fixed)
        ends = {"low": int(inputs[start]) + more, "high": int(inputs[start]) + max(more, most)}
        return replace(
            fill, values=fill.values.model_copy(update={"domain": fill.values.domain.model_copy(update=ends)})
        )
    of = fill_of(contract, case, fill.values.domain.longest or "")
    lengths = np.asarray(inputs[of.name]).astype(np.int64)
    if of.values.domain.offsets is not None:
        lengths = np.diff(lengths, axis=-1)
    elif of.values.domain.cuts:
        lengths = np.diff(lengths, axis=-1, prepend=0)
    low, (_, high) = int(lengths.max(initial=0)), fill.values.domain.fixed
    most = max(low, of.lengths[1] if high is None else int(high))
    domain = fill.values.domain.model_copy(update={"low": low, "high": most})
    return replace(fill, values=fill.values.model_copy(update={"domain": domain}))


def with_padding_told(contract: KernelContract, case: Case) -> Case:
    """The case, without padding where nothing is unused. What a generator gives is not looked at."""
    if shares(case):  # what is unused in one row may be used in another
        return replace(case, padding=False, aliased=(), plan="same-buffer" if case.plan in _BY_ELEMENT else case.plan)
    domains = {name: values.domain for name, (_, values) in contract.values.items()}
    speaking = [name for name, d in domains.items() if d.speaks_of is not None or d.last is not None]
    if not case.padding or set(speaking) & set(contract.generated) or size_of(contract, case) > LARGEST:
        return case
    inputs: Inputs = {}
    for name, (_, values) in contract.values.items():
        fill = replace(fill_of(contract, case, name), spare=True)
        is_number = values.value is not None or values.stride is not None
        made = _made(fill, case) if name in speaking else np.broadcast_to(np.zeros((), fill.dtype), fill.shape)
        inputs[name] = 0 if is_number else made
    unused = unused_parts(contract, inputs).values()
    return case if any(where.any() for where in unused) else replace(case, padding=False)


_BY_ELEMENT = ("flip", "batch-mates")
"""Plans that change some elements and no others."""


def shares(case: Case) -> bool:
    """Whether some elements of an argument are others, too."""
    return any(layout in SHARED_LAYOUTS for _, layout in case.layouts)


def size_of(contract: KernelContract, case: Case) -> int:
    """Bytes that the arguments will take, counted before any of them is made."""
    fills = (fill_of(contract, case, name) for name, (_, v) in contract.values.items() if v.value is None)
    return sum(math.prod(fill.shape) * fill.dtype.itemsize for fill in fills)


def alias_of(contract: KernelContract, name: str) -> str:
    alias = getattr(contract.values[name][1], "alias_of", None)
    assert isinstance(alias, str)
    return alias


def aliases_of(contract: KernelContract, case: Case) -> dict[str, str]:
    """Argument → argument whose memory it shares in this case."""
    return {name: alias_of(contract, name) for name in case.aliased}


def float_arguments(inputs: Inputs) -> list[str]:
    """Arrays of floating-point type."""
    return [n for n, a in inputs.items() if isinstance(a, np.ndarray) and is_float(a.dtype)]


def copied(inputs: Inputs) -> Inputs:
    """The same values in arrays of their own."""
    return {n: a.copy() if isinstance(a, np.ndarray) else a for n, a in inputs.items()}
