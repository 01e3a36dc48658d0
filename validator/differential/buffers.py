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
    changed,
    code_of,
    dtype_at,
    fill,
    is_contiguous,
    layout_of,
    ring,
    view_of,
)
from validator.differential.book import Book, number_of_poison
from validator.differential.numbers import Array
from validator.run.channel import EDGE, GIVEN, Call
from validator.run.channel import Array as Descriptor
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
        return view_of(self.arenas[arena], array)

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

    def disturbed(self, inputs: Mapping[str, Any], written: Iterable[str]) -> list[tuple[str, int]]:
        """(argument, bytes that changed) outside the elements that may change: guard zones, gaps and whole inputs.

        `inputs`: what was placed; `written`: arguments whose elements may change.
        """
        allowed, found = set(written), []
        for index, arena in enumerate(self.arenas):
            if self.slots[index] & GIVEN:
                continue
            names = [n for n, (at, _) in self.views.items() if at == index]
            source = None if allowed.intersection(names) else inputs[names[0]]
            count = changed(arena, self.views[names[0]][1], source, self.pattern)
            if count:
                found.append((names[0], count))
        return found


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
    book, poisons = Book() if book is None else book, Book() if poisons is None else poisons
    arenas: list[memoryview] = []
    slots: list[int] = []
    numbers: dict[int, int] = {}
    views: dict[str, tuple[int, Descriptor]] = {}
    args = []
    for name, value in inputs.items():
        if not isinstance(value, np.ndarray | Written):
            args.append(_scalar(value))
            continue
        if name in aliases:
            views[name] = views[aliases[name]]
            args.append(views[name][1])
            continue
        strides, offset, span = layout_of(value.shape, value.dtype.itemsize, layouts.get(name, "contiguous"))
        array = Descriptor(code_of(value.dtype), value.shape, strides, len(arenas), GUARD + offset)
        kind = GIVEN if name in given else 0
        slot = first_slot + len(arenas) | kind
        home = book.home_of(value, array) if kind and isinstance(value, np.ndarray) else None
        below = None if over is None or (apart and not kind) else over + len(arenas) | kind
        arena = worker.lend(slot, GUARD + span + GUARD, below if home is None else home)
        if home is not None and isinstance(value, np.ndarray):
            book.lies(worker.arena(slot)[1:], value, array)
        elif isinstance(value, Written):
            fill(arena, array, value, pattern)
        elif not kind:
            if not poisons.ready(worker.arena(slot)[1:], value, array, pattern, arena):
                poisons.forget(worker.arena(slot)[1:])
                fill(arena, array, value, pattern)
            numbers[len(arenas)] = number_of_poison(array, value, pattern, len(arena))
        elif not book.holds(where := worker.arena(slot)[1:], value, array):
            fill(arena, array, value, pattern)
            book.put(where, value, array, pattern)
        views[name] = (len(arenas), array)
        arenas.append(arena)
        slots.append(slot)
        args.append(array)
    for at, name in enumerate(inputs):
        if name in steps:
            owner, axis = steps[name]
            seen = views[owner][1]
            args[at] = _scalar(seen.strides[axis] // dtype_at(seen.dtype).itemsize)
    returned = None
    if room:
        slots.append(first_slot + len(arenas))
        returned = worker.lend(slots[-1], room)
    lasting = {name: inputs[name] for name in views if name in given and name not in aliases}
    return Placed(worker, tuple(slots), pattern, tuple(arenas), views, tuple(args), returned, lasting, book, numbers)


def _scalar(value: Any) -> Descriptor:
    if isinstance(value, bool):
        return Descriptor(0, (), (), form=3, value=struct.pack("<q", value))
    if isinstance(value, int):
        return Descriptor(0, (), (), form=1, value=struct.pack("<q", value))
    return Descriptor(0, (), (), form=2, value=struct.pack("<d", float(value)))
