"""Buffers: how a case's arguments lie in memory, what stands around them, and what must not have changed afterwards.

Every array lies in an arena of its own (aliases share one) between two guard zones; gaps of strided layouts are guarded
too. Two patterns and two poisons are used in turn, so a value that comes from outside an array or from an element that
was never written cannot be the same twice. Where the system keeps a worker from writing to its inputs, they are laid
down once for all calls with the same values.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from validator.differential.arena import (
    GUARD,
    PATTERNS,
    Written,
    body_of,
    changed,
    described,
    dtype_at,
    fill,
    glimpse,
    is_contiguous,
    ring,
    view_of,
)
from validator.differential.book import Book, number_of_poison
from validator.differential.expected import Expected
from validator.differential.lying import brought
from validator.differential.numbers import Array
from validator.differential.regions import Found, Look, looked, result
from validator.differential.spill import taken
from validator.run.channel import EDGE, GIVEN, Call
from validator.run.channel import Array as Descriptor
from validator.run.elsewhere import Region
from validator.run.sandbox import Worker

__all__ = ["Placed", "place"]


@dataclass(frozen=True, slots=True)
class Placed:
    """One call's arguments in memory."""

    worker: Worker
    slots: tuple[int, ...]
    pattern: int
    """What stands in guard zones and gaps."""
    arenas: tuple[memoryview, ...]
    """As the worker sees them."""
    views: dict[str, tuple[int, Descriptor]]
    """Array argument → its arena and where in it."""
    args: tuple[Descriptor, ...]
    room: memoryview | None = None
    """Where results that are returned go; the last of the slots then."""
    given: Mapping[str, Array] = field(default_factory=dict)
    """Arguments that lie where only the gate can write."""
    book: Book = field(default_factory=Book)
    poisons: Mapping[int, int] = field(default_factory=dict)
    """Arena of a poison → the number of what stands there."""
    regions: Mapping[int, Region] = field(default_factory=dict)
    """Arena → where it lies on a device: what is here then is what was brought back last."""
    back: Region | None = None
    """Where results that are returned go on a device."""
    look: Look | None = None
    """What was seen of it there; None: not yet."""

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(map(len, self.arenas))

    def call(self, *, keep: bool = False, more: Iterable[int] = ()) -> Call:
        """The call. `more`: numbers after the arguments."""
        arenas = tuple(self.worker.arena(slot) for slot in self.slots)
        args = (*self.args, *(_scalar(number) for number in more))
        numbers = tuple(self._number(at) for at in range(len(self.slots)))
        return Call(arenas, args, keep, self.room is not None, numbers)

    def _number(self, arena: int) -> int:
        """Of what stands in an arena; 0 where anything may."""
        return self.book.number(self.where(arena)) if self.slots[arena] & GIVEN else self.poisons.get(arena, 0)

    def calls(
        self, numbered: tuple[int, Sequence[int]] | None, *, keep: bool = False, more: Iterable[int] = ()
    ) -> list[Call]:
        """The call, or several in turn on the same buffers. `numbered`: (position of a number, its values in turn)."""
        call = self.call(keep=keep, more=more)
        if numbered is None:
            return [call]
        at, values = numbered
        return [replace(call, args=(*call.args[:at], _scalar(v), *call.args[at + 1 :])) for v in values]

    def where(self, arena: int) -> tuple[int, int]:
        """(offset, length) of an arena in its memory."""
        return self.worker.arena(self.slots[arena])[1:]

    def view(self, name: str) -> Array:
        """An argument's elements as they are now."""
        arena, array = self.views[name]
        if (region := self.regions.get(arena)) is not None:
            region.fetch(self.arenas[arena])
        return view_of(self.arenas[arena], array)

    def looked(self, written: Collection[str], known: Mapping[str, Array], expected: Mapping[str, Expected]) -> Placed:
        """The same after its call: what lies on a device was looked at."""
        return replace(self, look=looked(self, written, known, expected)) if self._lies_there else self

    def unlooked(self) -> Placed:
        """The same, and nothing of what was seen is kept."""
        return self if self.look is None else replace(self, look=None)

    @property
    def _lies_there(self) -> bool:
        """Some of it, on a device."""
        return bool(self.regions) or self.back is not None

    def taken(self, name: str, known: Found | None, *, copied: bool = True) -> Found:
        """An argument's elements as they are now, where nobody else can change them, unless they lie here and are not
        `copied`: those of a known result, if they are."""
        if self.look is not None and name in self.look.results:
            return self.look.results[name]
        arena, array = self.views[name]
        region = self.regions.get(arena)
        if region is None or not is_contiguous(array):
            return taken(self.view(name), brought(known), copied=copied)
        return result(self, region, body_of(array), view_of(self.arenas[arena], array), known, name)

    def returned(
        self, name: str, value: Array, start: int, known: Found | None, *, copied: bool, elsewhere: bool
    ) -> Found:
        """Likewise for what was returned, from this byte of the room on; `elsewhere`: of the room on the device."""
        if self.back is None or not elsewhere or not value.size:
            return taken(value, brought(known), copied=copied)
        return result(self, self.back, (start, value.nbytes), value, known, name)

    def guard(self) -> None:
        """Put this call's pattern around what lies there for several calls; none of them may be running."""
        for name, value in self.given.items():
            at, array = self.views[name]
            where = self.where(at)
            if self.book.guarded(where, self.pattern):
                continue
            if is_contiguous(array):
                around = ring(self.arenas[at], array, self.pattern)
                number = self.book.number(where) if max(around) <= EDGE else 0
                self.book.put(where, value, array, self.pattern, number)
            else:
                fill(self.arenas[at], array, value, self.pattern)
                self.book.put(where, value, array, self.pattern)
        self._hold()

    def _hold(self) -> None:
        """What lies here, on the device too."""
        for name, value in self.given.items():
            at, array = self.views[name]
            if (region := self.regions.get(at)) is None:
                continue
            if is_contiguous(array):
                region.hold(value, body_of(array), self.arenas[at], self.pattern)
            else:
                region.load(self.arenas[at], keep=True)
        if self._lies_there and self.worker.elsewhere is not None:
            self.worker.elsewhere.settle()

    def glimpses(self, written: Iterable[str]) -> dict[str, Array]:
        """A little of every large result that lies here, to be held against what stands there later."""
        at = {n: self.views[n][0] for n in written if n in self.views}
        seen = {name: glimpse(self.arenas[arena]) for name, arena in at.items() if arena not in self.regions}
        return {name: few for name, few in seen.items() if few is not None}

    def disturbed(self, inputs: Mapping[str, Any], written: Iterable[str]) -> list[tuple[str, int]]:
        """(argument, bytes that changed) outside the elements that may change: guard zones, gaps and whole inputs.

        `inputs`: what was placed; `written`: arguments whose elements may change.
        """
        allowed = set(written)
        found = dict((self.look or looked(self, allowed, {}, {})).changed) if self._lies_there else {}
        for index, arena in enumerate(self.arenas):
            if index in found or self.slots[index] & GIVEN:
                continue
            names = [n for n, (at, _) in self.views.items() if at == index]
            source, array = None if allowed.intersection(names) else inputs[names[0]], self.views[names[0]][1]
            if (region := self.regions.get(index)) is not None:
                region.fetch(arena)
            found[index] = changed(arena, array, source, self.pattern)
        first = {at: name for name, (at, _) in reversed(self.views.items())}
        return [(first[index], count) for index, count in sorted(found.items()) if count]


def place(
    worker: Worker,
    inputs: Mapping[str, Any],
    layouts: Mapping[str, str] = MappingProxyType({}),
    aliases: Mapping[str, str] = MappingProxyType({}),
    *,
    first_slot: int = 0,
    over: int | None = None,
    pattern: int = PATTERNS[0],
    steps: Mapping[str, tuple[str, int]] = MappingProxyType({}),
    room: int = 0,
    given: Collection[str] = (),
    book: Book | None = None,
    poisons: Book | None = None,
    apart: bool = False,
) -> Placed:
    """Lay out the arguments in a worker's memory, in consecutive slots.

    `over`: first of as many slots whose contents are replaced, at other addresses.
    `aliases`: argument → argument whose memory it shares; `steps`: number → (array, axis), the elements between two
    positions there, whatever the number was; `room`: bytes of what will be returned. `given`: arguments that only the
    gate shall be able to write, by a `book` of its own for each worker; `Placed.guard` comes before the call.
    `poisons`: those that were laid beforehand. `apart`: another call may be running, so that only what it cannot write
    is replaced.
    """
    laid = _Laid(worker, pattern, Book() if book is None else book, Book() if poisons is None else poisons)
    args = []
    for name, value in inputs.items():
        if not isinstance(value, np.ndarray | Written):
            args.append(_scalar(value))
        elif name in aliases:
            laid.views[name] = laid.views[aliases[name]]
            args.append(laid.views[name][1])
        else:
            at, kind = len(laid.arenas), GIVEN if name in given else 0
            below = None if over is None or (apart and not kind) else over + at | kind
            args.append(laid.add(name, value, layouts.get(name, "contiguous"), first_slot + at | kind, below))
    for at, name in enumerate(inputs):
        if name in steps:
            owner, axis = steps[name]
            seen = laid.views[owner][1]
            args[at] = _scalar(seen.strides[axis] // dtype_at(seen.dtype).itemsize)
    returned = back = None
    if room:
        laid.slots.append(first_slot + len(laid.arenas))
        returned = worker.lend(laid.slots[-1], room)
        back = worker.region(laid.slots[-1])
        if back is not None:
            back.poison((0, room), bytes([pattern]), pattern)
    lasting = {name: inputs[name] for name in laid.views if name in given and name not in aliases}
    return Placed(
        worker,
        tuple(laid.slots),
        pattern,
        tuple(laid.arenas),
        laid.views,
        tuple(args),
        returned,
        lasting,
        laid.book,
        laid.numbers,
        laid.regions,
        back,
    )


@dataclass
class _Laid:
    """A call's arrays, one after another."""

    worker: Worker
    pattern: int
    book: Book
    poisons: Book
    slots: list[int] = field(default_factory=list)
    arenas: list[memoryview] = field(default_factory=list)
    views: dict[str, tuple[int, Descriptor]] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    regions: dict[int, Region] = field(default_factory=dict)

    def add(self, name: str, value: Array | Written, layout: str, slot: int, below: int | None) -> Descriptor:
        """One more, in an arena of its own. `below`: slot whose contents it replaces."""
        array, span = described(value.shape, value.dtype, layout, len(self.arenas))
        home = self.book.home_of(value, array) if slot & GIVEN and isinstance(value, np.ndarray) else None
        arena = self.worker.lend(slot, GUARD + span + GUARD, below if home is None else home)
        where = self.worker.arena(slot)[1:]
        region = self.worker.region(slot, below if slot & GIVEN and is_contiguous(array) else None)
        if region is not None:
            self.regions[len(self.arenas)] = region
        if isinstance(value, Written):
            fill(arena, array, value, self.pattern)
        elif home is not None:
            self.book.lies(where, value, array)
        elif slot & GIVEN:
            self._give(where, arena, array, value)
        elif region is not None and _is_poison(value, array):
            region.poison(body_of(array), value[(0,) * value.ndim].tobytes(), self.pattern)
            region = None  # it lies there already
        else:
            self._lay(where, arena, array, value)
        if region is not None and not slot & GIVEN:
            region.load(arena)
        elif region is not None and is_contiguous(array):
            region.coming(value, body_of(array), arena)
        self.views[name] = (len(self.arenas), array)
        self.arenas.append(arena)
        self.slots.append(slot)
        return array

    def _give(self, where: tuple[int, int], arena: memoryview, array: Descriptor, value: Array) -> None:
        """What only the gate can write, once for all calls."""
        if not self.book.holds(where, value, array):
            fill(arena, array, value, self.pattern)
            self.book.put(where, value, array, self.pattern)

    def _lay(self, where: tuple[int, int], arena: memoryview, array: Descriptor, value: Array) -> None:
        """What the candidate may write to, anew for every call; poison may have been laid beforehand."""
        if not self.poisons.ready(where, value, array, self.pattern, arena):
            self.poisons.forget(where)
            fill(arena, array, value, self.pattern)
        self.numbers[len(self.arenas)] = number_of_poison(array, value, self.pattern, len(arena))


def _is_poison(value: Array, array: Descriptor) -> bool:
    """One element throughout, with nothing between."""
    return value.size > 0 and not any(value.strides) and is_contiguous(array)


def _scalar(value: Any) -> Descriptor:
    if isinstance(value, bool):
        return Descriptor(0, (), (), form=3, value=struct.pack("<q", value))
    if isinstance(value, int):
        return Descriptor(0, (), (), form=1, value=struct.pack("<q", value))
    return Descriptor(0, (), (), form=2, value=struct.pack("<d", float(value)))
