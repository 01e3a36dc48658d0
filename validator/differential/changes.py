"""A case's inputs changed so little that fingerprints miss it: one element, the places of all of one, or two elements
of a row so that it adds up to the same.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import numpy as np

from validator.differential.arguments import SPOKEN, Inputs, aliases_of, fill_of, is_drawn, shares
from validator.differential.case import Case
from validator.differential.inputs import Fill
from validator.differential.numbers import Array, Source, derived, same_bytes
from validator.manifest.contract import KernelContract

__all__ = ["rearranged", "scattered_changes", "single_changes"]

_PLACES = 64
"""Places in a row that are looked at for two elements."""


def single_changes(contract: KernelContract, case: Case, inputs: Inputs) -> Generator[tuple[Inputs, str]]:
    """(inputs, what was changed of them), for one of the floats, and for one of everything else.

    Each lasts until the next one is asked for, or this is closed.
    """
    if shares(case):
        return
    source = Source(derived(case.seed, "flip"))
    for names in _able(contract, case, inputs):
        if names:
            name = names[int(source.below(len(names), (1,))[0])]
            yield inputs, ""
            yield from _changed(contract, case, inputs, name, source)


def scattered_changes(contract: KernelContract, case: Case, inputs: Inputs) -> Generator[tuple[Inputs, str]]:
    """(inputs, what was changed of them): of each of the largest floats an element at an even place, and one at an odd
    one; before each the inputs as they are, with nothing said. Who looks at every second element sees half of them.

    Each lasts until the next one is asked for, or this is closed.
    """
    if shares(case):
        return
    source = Source(derived(case.seed, "scattered"))
    floats, _ = _able(contract, case, inputs)
    arrays = sorted((n for n in floats if isinstance(inputs[n], np.ndarray)), key=lambda n: -inputs[n].size)
    for name in arrays[:_SCATTERED]:
        for odd in (0, 1):
            at = 2 * int(source.below(max(inputs[name].size // 2, 1), ())) + odd
            yield inputs, ""
            yield from _changed(contract, case, inputs, name, source, min(at, inputs[name].size - 1))


_SCATTERED = 3
"""Arguments of which single elements are changed, the largest."""


def _able(contract: KernelContract, case: Case, inputs: Inputs) -> tuple[list[str], list[str]]:
    """Arguments of which one element may be another: floats, and everything else."""
    able: tuple[list[str], list[str]] = ([], [])
    counted = {values.domain.hangs_on for _, values in contract.values.values()}
    for name, (role, values) in contract.values.items():
        whole = inputs[name].size if isinstance(inputs[name], np.ndarray) else values.value is None
        other = not fill_of(contract, case, name).floating if values.value is None else True
        # A generator knows better than the contract which integers hang together; a number may hang on a length.
        made = name in counted or (name in contract.generated and (other or bool(contract.generates)))
        if whole and role not in SPOKEN and is_drawn(values) and not made:
            able[other].append(name)
    return able


def rearranged(contract: KernelContract, case: Case, inputs: Inputs) -> Generator[tuple[Inputs, str]]:
    """(inputs, what was done to them): of one of the floats the rows, or the elements of each, the other way round;
    of one array two elements of a row, so that the row adds up to the same; between them the inputs as they are, with
    nothing said.

    Each lasts until the next one is asked for, or this is closed. Nothing where it is the same either way.
    """
    if shares(case):
        return
    whole = [
        name
        for name, (role, values) in contract.values.items()
        if isinstance(inputs[name], np.ndarray)
        and role not in SPOKEN
        and is_drawn(values)
        and name not in contract.generated
        and not (case.padding or case.aliased or values.domain.sorted or inputs[name].ndim == 0)
    ]
    able = [name for name in whole if fill_of(contract, case, name).floating]
    if able:
        yield from _other_way_round(inputs, able, Source(derived(case.seed, "rearranged")))
    domains = {name: contract.values[name][1].domain for name in whole}
    whole = [n for n in whole if not (domains[n].cuts or domains[n].last) and inputs[n].size > 1]
    if whole:
        source = Source(derived(case.seed, "balanced"))
        name = whole[int(source.below(len(whole), ()))]
        yield inputs, ""
        yield from _balanced(fill_of(contract, case, name), inputs, source)


def _one_of(inputs: Inputs, names: list[str], source: Source) -> str:
    """The largest, of which nobody likes to look at every element; in one of four cases any."""
    chosen, largest = source.below(len(names), (1,)), max(names, key=lambda name: inputs[name].size)
    return names[int(chosen[0])] if int(source.below(4, ())) == 0 else largest


def _balanced(fill: Fill, inputs: Inputs, source: Source) -> Generator[tuple[Inputs, str]]:
    """Two elements of a row in each other's place; or as much more of one as there is less of the other, where both
    hold that: sums, of rows too, are the same, and so is what is sampled anywhere else."""
    array = inputs[fill.name]
    row = int(source.below(array.size // array.shape[-1], ()))
    # Neighbours are added to each other first, as a rule; who samples every second element sees no two odd ones.
    step = 1 + int(source.below(2, ())) * (array.shape[-1] >= 4)
    first = 2 * int(source.below(-(-array.shape[-1] // 2), ())) + step - 1
    flat = (array if array.flags.writeable and array.flags.c_contiguous else array.copy()).reshape(-1)
    begin = row * array.shape[-1]
    at, other = (begin + (first + k) % array.shape[-1] for k in (0, step))
    old = flat[at].copy(), flat[other].copy()
    for k in range(2, min(array.shape[-1], _PLACES)):
        if not _alike(old):
            break
        other = begin + (first + k * step) % array.shape[-1]
        old = old[0], flat[other].copy()
    more = _apart(fill, old) if int(source.below(2, ())) else None
    new, told = more or (old[1], old[0]), "one more and one less" if more else "in each other's place"
    if at == other or _alike((old[0], new[0])):
        return
    try:
        flat[at], flat[other] = new
        yield {**inputs, fill.name: flat.reshape(array.shape)}, f"{fill.name}[{at}] and [{other}] (flat) {told}"
    finally:
        flat[at], flat[other] = old


def _alike(two: tuple[Any, Any]) -> bool:
    return bool(two[0].tobytes() == two[1].tobytes())


def _apart(fill: Fill, old: tuple[Any, Any]) -> tuple[Any, Any] | None:
    """One more of one float and one less of the other, if both hold it exactly."""
    wide, by = np.asarray(old, np.float64), np.asarray((1.0, -1.0))
    moved, (low, high) = wide + by, fill.bounds
    new = moved.astype(fill.dtype)
    held = np.array_equal(new.astype(np.float64) - wide, by) and bool(np.all((moved >= low) & (moved <= high)))
    return (new[0], new[1]) if fill.floating and fill.free and held else None


def _other_way_round(inputs: Inputs, able: list[str], source: Source) -> Generator[tuple[Inputs, str]]:
    """The rows, or the elements of each."""
    name = _one_of(inputs, able, source)
    array = inputs[name]
    axis = (0, array.ndim - 1)[int(source.below(2, ())) if array.shape[0] > 1 else 1]
    if all(same_bytes(np.ascontiguousarray(one), two.copy()) for one, two in _pairs(array, axis)):
        return
    told = f"the {'elements of each row' if axis == array.ndim - 1 else 'rows'} of {name} the other way round"
    if not array.flags.writeable:
        yield {**inputs, name: np.flip(array, axis).copy()}, told
        return
    try:
        _turn(array, axis)
        yield {**inputs, name: array.view()}, told  # another array: what lies where it was laid is not the same
    finally:
        _turn(array, axis)


def _turn(array: Array, axis: int) -> None:
    """The other way round, where it is, and back: a few rows at a time: nothing as large as the array is made."""
    for one, two in _pairs(array, axis):
        other = two.copy()
        two[...] = one
        one[...] = other


_ROWS = 1 << 17
"""Bytes of the rows, at least one, that change places at a time."""


def _pairs(array: Array, axis: int) -> Iterator[tuple[Array, Array]]:
    """Parts of an array and, seen backwards, those whose places they take; together all of it, once."""
    count = len(array)
    step = max(1, _ROWS * count // max(array.nbytes, 1))
    half = count // 2 if axis == 0 else count
    for start in range(0, half, step):
        stop = min(start + step, half)
        if axis == 0:
            yield array[start:stop], array[count - stop : count - start][::-1]
        else:
            middle = array.shape[-1] // 2
            rows = array[start:stop]
            yield rows[..., :middle], rows[..., array.shape[-1] - middle :][..., ::-1]


def _changed(
    contract: KernelContract, case: Case, inputs: Inputs, name: str, source: Source, place: int | None = None
) -> Generator[tuple[Inputs, str]]:
    """The inputs with another value at one place of this one, a drawn one or `place`; nothing where no other fits in.

    It stands in the very array, as long as it is looked at: one that says where it lies is not laid out again.
    """
    value = inputs[name]
    in_place = isinstance(value, np.ndarray) and value.flags.writeable and value.flags.c_contiguous
    array = value.view() if in_place else np.array(value, fill_of(contract, case, name).dtype)
    flat = array.reshape(-1)
    at = int(source.below(flat.size, (1,))[0]) if place is None else place
    old, other = flat[at], _other(fill_of(contract, case, name), flat, at, padded=case.padding)
    if other is None or other == old:
        return
    changed = {**inputs, name: array if isinstance(value, np.ndarray) else np.asarray(other, array.dtype).item()}
    for alias, owner in aliases_of(contract, case).items():
        changed[alias] = changed[owner] if name == owner else changed[alias]
    try:
        flat[at] = other
        yield changed, f"{name}[{at}] (flat)" if isinstance(value, np.ndarray) else name
    finally:
        flat[at] = old


def _other(fill: Fill, flat: Array, at: int, *, padded: bool) -> Any:
    """Another value for one element; None where others hang on it."""
    d = fill.values.domain
    if d.cuts:
        return _other_cut(fill, flat, at)
    if d.probability or d.sorted or d.sum is not None or d.hangs_on is not None:
        return None
    if d.some is not None and not fill.floating:
        row = flat[at // fill.shape[-1] * fill.shape[-1] :][: fill.shape[-1]]
        if flat[at] and np.count_nonzero(row) == 1:
            return None
    if padded and (d.index or d.lengths or d.last):
        return None
    old = float(flat[at])
    if d.values:
        return d.values[(int(np.argmin(np.abs(np.asarray(d.values) - old))) + 1) % len(d.values)]
    if fill.floating:
        if not np.isfinite(old):
            return None
        low, high = fill.ends(old - 2.0, old + 2.0)
        return high if old - low < high - old else low
    return _other_integer(fill, flat, at)


def _other_cut(fill: Fill, flat: Array, at: int) -> int | None:
    """The same place one further, or one before, as the lengths on both its sides allow; the first and last stay."""
    width = fill.shape[-1]
    inner = at % width - (fill.values.domain.offsets is not None)
    if not 0 <= inner < fill.segments[1] - 1:
        return None
    before = int(flat[at - 1]) if at % width else 0
    old, after, (low, high) = int(flat[at]), int(flat[at + 1]), fill.lengths
    return next((v for v in (old + 1, old - 1) if all(low <= n <= high for n in (v - before, after - v))), None)


def _other_integer(fill: Fill, flat: Array, at: int) -> int | bool | None:
    """The next position, length or number, or the first after the last."""
    d, old = fill.values.domain, int(flat[at])
    if fill.dtype.kind == "b":
        return not old
    if d.unique:
        row = at // fill.distinct[1] * fill.distinct[1]
        taken = set(flat[row : row + fill.distinct[1]].astype(np.int64).tolist())
        return next((v for v in range(fill.extent) if v not in taken), None) if d.index else None
    low, high = fill.integers
    if d.index or d.lengths:
        low, high = int(d.low or 0) if d.lengths else 0, fill.extent - (d.lengths is None)
    return None if low >= high else old + 1 if low <= old < high else low
