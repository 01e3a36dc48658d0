"""Shared memory between the gate and one worker: buffers are written once and read where they lie.

One anonymous file of fixed size, sealed so that nobody can shrink it under the other's hands. It fills as it is
touched. The gate alone decides what lies where; the worker maps each region between two pages that nobody may touch.
What a worker can reach of it is what it was sent, and what it writes there is only ever bytes.

A pool that is `given` is the gate's to write alone: the system refuses the worker every writable mapping of it. One
that is `spilled` is an unlinked file on disk: it needs no memory that the system cannot take back.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile

from validator.errors import Problem, ValidatorError
from validator.run.pages import LARGE, Mapping

__all__ = ["Pool", "PoolFull"]

_ADD_SEALS = 1033  # F_ADD_SEALS
_SEALS = 0x0002 | 0x0004 | 0x0001  # F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL
_NO_WRITERS = 0x0010  # F_SEAL_FUTURE_WRITE, of Linux 5.1
_ALIGNED = 256
"""Bytes that every region is aligned to."""
_HOLLOW = 1 << 30
"""Bytes of a region that may be mostly holes: rows that lie as far apart as an index of 32 bits reaches."""
_WORTH_GIVING_BACK = 1 << 20
"""Bytes of a region whose pages are given back when its contents are done with."""


class PoolFull(ValidatorError):
    """The buffers of one call are larger than a worker may use."""


class Pool:
    """Regions by slot. A slot keeps its place as long as its length stays the same."""

    def __init__(self, size: int, *, given: bool = False, spilled: bool = False, gathered: bool = True) -> None:
        """`size`: bytes that all regions together may take; a multiple of a page. `gathered`: in large pages, but then
        all of a region takes memory at once, and not as it is touched; never of one that is spilled."""
        self.size = size
        self.descriptor = _on_disk(size) if spilled else -1
        sealed = self.descriptor < 0
        if sealed:
            self.descriptor = os.memfd_create("buffers", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(self.descriptor, size)
        self._memory, self._gathers = Mapping(self.descriptor, size), gathered and not spilled
        self.protected = given and _sealed(self.descriptor, _NO_WRITERS)
        """Nobody but the gate can write here."""
        if sealed:
            fcntl.fcntl(self.descriptor, _ADD_SEALS, _SEALS)
        self._view = self._memory.view
        self._slots: dict[int, tuple[int, int]] = {}
        self._borrowed: set[int] = set()
        """Slots that lie over another's memory."""
        self._free = [(0, size)]

    def lend(self, slot: int, length: int, over: int | None = None) -> memoryview:
        """The slot's region; whatever it held last stands in it still. Raises `PoolFull`.

        `over`: another slot, whose memory this one shares when it is of the same length: another address, there, for
        the same bytes.
        """
        shared = self._slots.get(over) if over is not None else None
        known = self._slots.get(slot) if slot not in self._borrowed else None
        if shared is not None and shared[1] == length:
            self.drop(slot)
            self._slots[slot] = known = shared
            self._borrowed.add(slot)
        elif known is None or known[1] != length:
            self.drop(slot)
            self._slots[slot] = known = (self._new(length), length)
            if self._gathers and length <= _HOLLOW:
                self._memory.gather(*self._pages(*known))
        return self._view[known[0] : known[0] + length]

    def drop(self, slot: int) -> None:
        """Nobody asks for the slot any more."""
        known = self._slots.pop(slot, None)
        if known is not None and slot not in self._borrowed:
            self._give_back(*self._pages(*known))
        self._borrowed.discard(slot)

    def where(self, slot: int) -> tuple[int, int]:
        """(offset in bytes, length) of a slot's region."""
        return self._slots[slot]

    def empty(self, slot: int) -> None:
        """Give a large region's memory back to the system; the slot keeps its place, and reads as zeros."""
        offset, length = self._slots[slot]
        if length >= _WORTH_GIVING_BACK:
            self._memory.give_back(*self._pages(offset, length))

    def close(self) -> None:
        """Let go of the memory, as soon as nobody looks at it any more."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
            self._view.release()

    def _new(self, length: int) -> int:
        page = mmap.PAGESIZE
        body = -(-max(length, 1) // page) * page
        begins = LARGE if body >= 2 * LARGE else page
        for at, (start, free) in enumerate(self._free):
            first = -(-start // begins) * begins
            rest = start + free - (first + body)
            if rest >= 0:
                gaps = [(start, first - start), (first + body, rest)]
                self._free[at : at + 1] = [gap for gap in gaps if gap[1]]
                # The end lies against the page behind it, as closely as alignment allows.
                return first + (body - max(length, 1)) // _ALIGNED * _ALIGNED
        raise PoolFull(Problem(f"buffers of {length} bytes and those beside them exceed the {self.size} of a worker"))

    def _pages(self, offset: int, length: int) -> tuple[int, int]:
        page = mmap.PAGESIZE
        start = offset // page * page
        return start, -(-max(offset + length - start, 1) // page) * page

    def _give_back(self, start: int, body: int) -> None:
        """Neighbouring gaps become one."""
        self._free = sorted([*self._free, (start, body)])
        joined: list[tuple[int, int]] = []
        for at, size in self._free:
            if joined and joined[-1][0] + joined[-1][1] == at:
                joined[-1] = (joined[-1][0], joined[-1][1] + size)
            else:
                joined.append((at, size))
        self._free = joined


def _sealed(descriptor: int, seal: int) -> bool:
    """Whether this system knows the seal and has put it on."""
    try:
        fcntl.fcntl(descriptor, _ADD_SEALS, seal)
    except OSError:
        return False
    return True


def _on_disk(size: int) -> int:
    """A file without a name that has room to fill up; -1 where there is no such room."""
    with tempfile.TemporaryFile() as file:
        status = os.fstatvfs(file.fileno())
        if status.f_bavail * status.f_frsize < 2 * size:
            return -1
        os.ftruncate(file.fileno(), size)
        return fcntl.fcntl(file.fileno(), fcntl.F_DUPFD_CLOEXEC, 0)
