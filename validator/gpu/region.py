"""One slot's buffer on a device that a worker sees too, and what stands in it."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from validator.gpu.digested import Digest
from validator.gpu.looking import Digested, Noted, Row
from validator.gpu.sending import up
from validator.gpu.stretches import QUAD, Stretch
from validator.gpu.twins import Twin

if TYPE_CHECKING:
    from validator.gpu.shelf import Shelf

__all__ = ["Region", "Taken"]

Weight = tuple[float, float, float, int]
"""See `validator.run.elsewhere.Weight`."""
Body = tuple[int, int]
"""(offset, bytes) of elements in a row."""
_ALIGNED = 256
"""Bytes: what every allocator gives."""


class Taken:
    """See `validator.run.elsewhere.Taken`."""

    def __init__(self, shelf: Shelf, place: Body | None = None) -> None:
        self._shelf = shelf
        self.weighed: tuple[Any, Weight | None] = (None, None)
        """(by what, its weight)."""
        self.place = place
        """(address, bytes) where it still lies: it is taken as it is weighed."""

    def fetch(self, into: Any, start: int = 0) -> None:
        self._shelf.enter()
        self._shelf.device.fetch(self.twin.address + start, into)

    def weight(self, right: Any) -> Weight | None:
        if self.weighed[0] is not right:
            self._shelf.look((), [(self, right)])
        return self.weighed[1]

    @property
    def twin(self) -> Twin:
        twin = self._shelf.twins.has(self)
        assert twin is not None, "it lives as long as this does"
        return twin


@dataclass
class Standing:
    """Memory, and what is known of what stands in it. Slots that are never asked for different values share it."""

    address: int
    handle: Any
    slots: int = 0
    value: weakref.ref[Any] | None = None
    """The array whose elements stand there."""
    body: Body | None = None
    """Where."""
    coming: Future[Digest] | None = None
    ring: tuple[Body, int] | None = None
    """What stands around the elements: (they, the pattern)."""
    intact: bool = False
    """Nobody has had it since it was last seen to hold what it should."""
    handed: int = 0
    """How often it was."""
    doubtful: bool = False
    """A process that had it has ended: what it did there is no fault of the next one's."""
    noted: tuple[int, list[Noted]] | None = None
    """(pattern that stood around it before, what of that was not as it should be, when another was put there)."""
    whole: Body | None = None
    """The gate's copy of all of it, where that is what should stand there."""


class Region:
    """See `validator.run.elsewhere.Region`."""

    def __init__(self, shelf: Shelf, slot: int, length: int, owner: Region | None = None) -> None:
        """`owner`: another slot's, whose memory it is too. Raises `DeviceError` where the device has no room."""
        self._shelf, self.slot, self.length = shelf, slot, length
        self.size, self.used = up(length, shelf.page), 0
        self.device, self.borrows = shelf.identifier, owner is not None
        self._there: Standing = owner._there if owner is not None else Standing(*shelf.shared(self.size))
        self._there.slots += 1
        self.start = self.size - up(length, _ALIGNED)
        self.address = self._there.address + self.start
        self._handed = 0

    def export(self) -> int:
        types = self._shelf.device.types
        kind = types.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        return int(self._shelf.device.call("cuMemExportToShareableHandle", self._there.handle, kind, 0))

    def poison(self, body: Body, element: bytes, pattern: int) -> None:
        self._other_contents()
        (offset, size), throughout = body, element * (QUAD // len(element))
        elements = Stretch(self.address + offset, size, pattern=throughout)
        self._shelf.looking.lay([elements, *self.around(body, pattern)])

    def coming(self, value: Any, body: Body, source: memoryview) -> None:
        there = self._there
        if there.body == body and there.value is not None and there.value() is value and not there.doubtful:
            return
        self._other_contents()
        offset, size = body
        data = np.frombuffer(source, np.uint8)[offset : offset + size]
        self._shelf.looking.laid()
        self._shelf.device.synchronize()  # what is sent goes by another way
        there.coming = self._shelf.digests.send(value, data, self.address + offset)
        there.value, there.body = weakref.ref(value), body

    def hold(self, value: Any, body: Body, source: memoryview, pattern: int) -> None:
        self._shelf.enter()
        self.coming(value, body, source)
        there = self._there
        if there.coming is not None:
            there.coming.result()
            there.coming = None
        if not there.intact or there.ring != (body, pattern):
            if there.ring is not None and not there.intact:  # another slot's call may not have been looked at
                there.noted = there.ring[1], self._shelf.looking.note(self.around(*there.ring))
            self._shelf.looking.lay(self.around(body, pattern))
        there.ring, there.intact = (body, pattern), False
        there.handed += 1
        self._handed = there.handed

    def load(self, source: memoryview, *, keep: bool = False) -> None:
        self._other_contents()
        self._shelf.looking.laid()
        self._shelf.device.upload(self.address, np.frombuffer(source, np.uint8))
        if keep:
            self._there.whole = (self._shelf.memory.get(self.length), self.length)
            self._shelf.device.copy(self._there.whole[0], self.address, self.length)

    def fetch(self, into: memoryview) -> None:
        self._shelf.enter()
        self._shelf.looking.laid()
        self._shelf.device.fetch(self.address, np.frombuffer(into, np.uint8))

    def around(self, body: Body, pattern: int) -> list[Stretch]:
        end = sum(body)
        sides = ((self.address, body[0]), (self.address + end, self.length - end))
        return [Stretch(at, size, pattern=bytes([pattern]) * QUAD) for at, size in sides]

    def held(self, body: Body, pattern: int) -> Sequence[Row]:
        there = self._there
        if there.whole is not None:
            return [Stretch(self.address, self.length, there.whole[0])]
        due = self._shelf.digests.of(there.value() if there.value is not None else None)
        assert due is not None, "an array that lies here is alive as long as its call is"
        if there.ring == (body, pattern):
            around: Sequence[Row] = self.around(body, pattern)
        else:
            assert there.noted is not None, "it was counted before another pattern was put there"
            assert there.noted[0] == pattern, "one call alone is looked at while another one runs"
            around = there.noted[1]
        return [Digested(self.address + body[0], due, self), *around]

    def confirm(self) -> None:
        there = self._there
        there.intact = there.value is not None and self._handed == there.handed

    def doubt(self) -> None:
        """Whatever stands there is laid again before the next call."""
        self._there.doubtful = True

    def differing(self, due: Digested) -> int:
        """Bytes of the elements that are not the array's; then they are again."""
        value = self._there.value() if self._there.value is not None else None
        assert value is not None, "an array that lies here is alive as long as its call is"
        data = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        piece = (self._shelf.memory.get(len(data) + QUAD), len(data) + QUAD)
        same = piece[0] + due.at % QUAD
        self._shelf.device.upload(same, data)
        self._shelf.device.synchronize()
        row = Stretch(due.at, len(data), same)
        (count,), _ = self._shelf.looking.look([row])
        self._shelf.looking.lay([row])
        self._shelf.looking.laid()
        self._shelf.device.synchronize()
        self._shelf.memory.give_back(*piece)
        return count

    def as_known(self, body: Body, known: Any) -> Row | None:
        due = self._shelf.digests.of(known)
        if due is not None and due.size == body[1]:
            return Digested(self.address + body[0], due)
        twin = self._shelf.twins.known(known, body)
        return None if twin is None else Stretch(self.address + body[0], body[1], twin.address)

    def take(self, body: Body, right: Any = None) -> Taken:
        self._shelf.enter()
        self._shelf.looking.laid()
        place = (self.address + body[0], body[1])
        if self._shelf.weighs_once(right, *place):
            return Taken(self._shelf, place)
        taken = Taken(self._shelf)
        self._shelf.twins.take(place[0], body, taken)
        return taken

    def close(self) -> None:
        """Its memory is gone, as soon as no worker maps it either, and no other slot has it."""
        if self.size:
            self._there.slots -= 1
            if not self._there.slots:
                self._other_contents()
                self._shelf.looking.laid()
                self._shelf.unshared(self._there.address, self._there.handle, self.size)
        self.size = 0

    def _other_contents(self) -> None:
        """What stood there does no longer."""
        self._shelf.enter()
        there = self._there
        if there.coming is not None:
            there.coming.exception()
        if there.whole is not None:
            self._shelf.memory.give_back(*there.whole)
        there.value = there.coming = there.ring = there.whole = None
        there.intact = there.doubtful = False
