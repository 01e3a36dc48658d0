"""What of a case's arguments is unused: where no index points, what lies beyond a length or behind the last segment,
and on pages the slots that no length reaches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from validator.differential.numbers import Array, is_float
from validator.manifest.contract import FILLED, KernelContract, Values

__all__ = ["has_padding", "point_elsewhere", "unused_parts"]


def has_padding(contract: KernelContract) -> bool:
    """Whether some part of some argument of floats can be unused."""
    return any(
        (v.domain.index or _is_length(contract, v) or (v.domain.cuts and v.domain.sum)) and _means_floats(contract, v)
        for _, v in contract.values.values()
    )


def _means_floats(contract: KernelContract, values: Values) -> bool:
    """Whether something that it speaks of could hold NaN and is read; a length of a table speaks of its pages too."""
    target, axis = values.domain.speaks_of or ("", 0)
    alike = [contract.values[name][1].dtype for name in _alike(contract, target, axis)]
    return values.domain.pages is not None or any("float" in dtype for types in alike for dtype in types)


def _is_length(contract: KernelContract, values: Values) -> bool:
    """Whether it says for every position along the first axes of an argument how much of a later one is used."""
    if values.domain.lengths is None or values.domain.speaks_of is None:
        return False
    target, axis = values.domain.speaks_of
    sizes = values.shape or ()
    return axis >= len(sizes) and (contract.values[target][1].shape or ())[: len(sizes)] == sizes


def unused_parts(contract: KernelContract, inputs: Mapping[str, Any]) -> dict[str, Array]:
    """Argument → where it is unused: true there, in the argument's shape.

    Of the floating-point argument that is meant, and of those of its sizes; what several arguments speak of is unused
    where none of them says otherwise.
    """
    found: dict[str, Array] = {}
    for name in contract.values:
        for padded, unused in _left_by(contract, inputs, name):
            found[padded] = found[padded] & unused if padded in found else unused
    return found


def point_elsewhere(contract: KernelContract, inputs: Mapping[str, Any]) -> None:
    """Entries of an index that are unused get places to which no entry in use points, as far as there are such."""
    for name, (_, values) in contract.values.items():
        domain = values.domain
        if domain.index is None or domain.speaks_of is None or domain.unique or domain.sorted:
            continue
        (target, axis), index = domain.speaks_of, inputs[name]
        unused = _unused_entries(contract, inputs, name)
        places = np.setdiff1d(np.arange(inputs[target].shape[axis]), index[~unused])
        if places.size:
            index[unused] = np.resize(places, int(unused.sum()))


def _left_by(contract: KernelContract, inputs: Mapping[str, Any], name: str) -> Iterator[tuple[str, Array]]:
    """(argument of floats, where what this one says leaves it unused)."""
    if (meant := contract.values[name][1].domain.speaks_of) is None:
        return
    target, axis = meant
    paged = _paged(contract, inputs, name)
    slotted = _alike(contract, target, max(axis, paged[0])) if paged is not None else ()
    for padded in _alike(contract, target, axis):
        shape = inputs[padded].shape
        if not is_float(inputs[padded].dtype):
            continue
        if paged is not None and padded in slotted:
            slots, reached = paged
            yield padded, np.broadcast_to(_positions(shape, slots) >= _along(reached, shape, axis), shape)
        else:
            yield padded, _beyond(contract, inputs, name, shape)


def _beyond(contract: KernelContract, inputs: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Array:
    """Where an argument leaves what it speaks of, or what has the same sizes, unused."""
    domain = contract.values[name][1].domain
    _, axis = domain.speaks_of or ("", 0)
    used = np.asarray(inputs[name]).astype(np.int64)
    if domain.index is not None:
        free = ~np.isin(np.arange(shape[axis]), used[~_unused_entries(contract, inputs, name)])
        return np.broadcast_to(_along(free, shape, axis), shape)
    if domain.cuts:
        used = used[..., -1] if used.size else np.zeros(used.shape[:-1], np.int64)
    if domain.pages is not None:
        pages, slots = domain.pages
        used = -(-used // max(inputs[pages].shape[slots], 1))
    if axis < used.ndim or used.shape != shape[: used.ndim]:  # no length for each of the first axes' positions
        return np.broadcast_to(np.False_, shape)
    lengths = used.reshape(*used.shape, *(1,) * (len(shape) - used.ndim))
    return np.broadcast_to(_positions(shape, axis) >= lengths, shape)


def _unused_entries(contract: KernelContract, inputs: Mapping[str, Any], name: str) -> Array:
    """Of an index, the entries that some other argument leaves unused."""
    shape = np.shape(inputs[name])
    unused = np.zeros(shape, bool)
    for speaker in (n for n, (_, v) in contract.values.items() if _of(v) == name):
        unused |= _beyond(contract, inputs, speaker, shape)
    return unused


def _of(values: Values) -> str | None:
    """The argument that it speaks of."""
    return values.domain.speaks_of[0] if values.domain.speaks_of is not None else None


def _paged(contract: KernelContract, inputs: Mapping[str, Any], table: str) -> tuple[int, Array] | None:
    """(axis of the slots, how many slots of each page a length reaches); None where no length counts slots."""
    speaking = [name for name, (_, v) in contract.values.items() if _of(v) == table]
    domains = {n: v.domain for n, (_, v) in contract.values.items() if n in speaking or v.domain.last in speaking}
    counting = [(name, domain.pages) for name, domain in domains.items() if domain.pages is not None]
    if len(counting) != 1:
        return None
    ((name, (pages, slots)),) = counting
    _, axis = contract.values[table][1].domain.speaks_of or ("", 0)
    size, index = inputs[pages].shape[slots], inputs[table].astype(np.int64)
    left = _slots_of_entries(contract, inputs, name, table, size)
    valid = (index >= 0) & (index < inputs[pages].shape[axis])
    reached = np.zeros(inputs[pages].shape[axis], np.int64)
    np.maximum.at(reached, index[valid], left[valid])
    return slots, reached


def _slots_of_entries(contract: KernelContract, inputs: Mapping[str, Any], name: str, table: str, size: int) -> Array:
    """How many slots of the page of each entry of a table are in use, by lengths that count them all, or the last."""
    domain, shape = contract.values[name][1].domain, inputs[table].shape
    said = np.asarray(inputs[name]).astype(np.int64)
    if domain.last is None:
        _, entry = domain.speaks_of or ("", 0)
        total = said.reshape(*said.shape, *(1,) * (len(shape) - said.ndim))
        return np.broadcast_to(np.clip(total - _positions(shape, entry) * size, 0, size), shape)
    found = np.where(_unused_entries(contract, inputs, table), 0, size)
    begin, end = (np.asarray(inputs[domain.last]).astype(np.int64)[part] for part in (slice(-1), slice(1, None)))
    some = np.flatnonzero(end > begin)
    found[end[some] - 1] = said[some]
    return found


def _positions(shape: tuple[int, ...], axis: int) -> Array:
    """Positions along an axis, to be held against an array of this shape."""
    return _along(np.arange(shape[axis]), shape, axis)


def _along(values: Array, shape: tuple[int, ...], axis: int) -> Array:
    return values.reshape(*(1,) * axis, shape[axis], *(1,) * (len(shape) - axis - 1))


def _alike(contract: KernelContract, name: str, axis: int) -> list[str]:
    """An argument, and the inputs whose sizes are written the same up to an axis: keys and values of one cache.

    None where the argument is written only: what is written elsewhere may be read throughout.
    """
    if contract.values[name][0] in FILLED:
        return []
    sizes = (contract.values[name][1].shape or ())[: axis + 1]
    inputs = {n: v for n, (role, v) in contract.values.items() if v.shape is not None and role not in FILLED}
    symbolic = any(isinstance(size, str) for size in sizes)
    return [n for n, v in inputs.items() if n == name or (symbolic and (v.shape or ())[: axis + 1] == sizes)]
