"""Memory on a device that belongs to an object of this process, and ends with it."""

from __future__ import annotations

import weakref
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from validator.gpu.memory import Memory

__all__ = ["Owned", "Piece"]

_T = TypeVar("_T")
Piece: TypeAlias = tuple[int, int]
"""(address, bytes) from a memory."""


@dataclass(frozen=True, slots=True)
class _Entry(Generic[_T]):
    what: _T
    pieces: tuple[Piece, ...]
    owner: weakref.ref[Any]
    sent: Future[None] | None
    """It is on its way until then."""


class Owned(Generic[_T]):
    """Pieces of memory, and what is told of each, by the identity of what they belong to."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._entries: dict[int, _Entry[_T]] = {}
        self._dead: list[_Entry[_T]] = []
        """Of what is no more: collected where a device may be asked."""

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, owner: Any, what: _T, *pieces: Piece, sent: Future[None] | None = None) -> None:
        """In place of what the owner had."""

        def gone(_: object) -> None:
            # Wherever the interpreter happens to be: the device is asked later. Another may have its identity by now.
            if self._entries.get(key) is entry:
                del self._entries[key]
                self._dead.append(entry)

        key = id(owner)
        self.drop(owner)
        self._entries[key] = entry = _Entry(what, pieces, weakref.ref(owner, gone), sent)

    def drop(self, owner: Any) -> None:
        """It has none any more."""
        if (entry := self._entries.pop(id(owner), None)) is not None:
            self._dead.append(entry)

    def has(self, owner: Any) -> _T | None:
        """What was told of it, which may be on its way."""
        entry = self._entry(owner)
        return None if entry is None else entry.what

    def there(self, owner: Any) -> _T | None:
        """The same, as soon as it is there."""
        entry = self._entry(owner)
        if entry is not None and entry.sent is not None:
            entry.sent.result()
        return None if entry is None else entry.what

    def pass_on(self, owner: Any, to: Any) -> None:
        """From now on it belongs to another."""
        entry = self._entries.pop(id(owner))
        self.put(to, entry.what, *entry.pieces, sent=entry.sent)

    def release(self, owner: Any) -> tuple[Piece, ...]:
        """It has none any more, and whoever asks has the memory now."""
        return self._entries.pop(id(owner)).pieces

    def arrived(self) -> None:
        """Wait until everything that was on its way is there."""
        for entry in list(self._entries.values()):
            if entry.sent is not None:
                entry.sent.result()

    def collect(self) -> None:
        """What belonged to objects that are no more serves others."""
        while self._dead:
            gone = self._dead.pop()
            if gone.sent is not None:
                gone.sent.result()
            for piece in gone.pieces:
                self._memory.give_back(*piece)

    def close(self) -> None:
        """There are none any more."""
        self._dead += self._entries.values()
        self._entries = {}
        self.collect()

    def _entry(self, owner: Any) -> _Entry[_T] | None:
        found = self._entries.get(id(owner)) if owner is not None else None
        return found if found is not None and found.owner() is owner else None
