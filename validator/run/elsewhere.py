"""Memory on a device that the gate shares with one worker: large buffers lie there, and do not cross to the host.

The gate lays them, and looks at them, where they lie; what it looks for is in memory of its own, which no worker sees.
What a worker is told of a region is its slot, its bytes, and a descriptor to map it by.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

__all__ = ["Elsewhere", "Region", "Stretch", "Taken", "Weight"]

Stretch: TypeAlias = Any
"""Bytes of a region, and what should stand there."""
Weight: TypeAlias = tuple[float, float, float, int]
"""(largest error in yardsticks, sum of squares of errors, neither less than it is; of yardsticks, no more than it is;
elements of other bits than the trusted result)."""


class Region(Protocol):
    """The memory of one slot at one length, at an address of its own in the worker.

    `body`: (offset, bytes) of elements in a row, with nothing but the pattern on both sides.
    """

    slot: int
    length: int
    """Bytes of the buffer."""
    size: int
    """Bytes that are mapped; 0: none any more."""
    start: int
    """Of the buffer in them."""
    device: bytes
    """Identifier of the device, 16 bytes."""

    def export(self) -> int:
        """A descriptor of it, the caller's to close."""

    def poison(self, body: tuple[int, int], element: bytes, pattern: int) -> None:
        """The element throughout, the pattern around it; there once that is settled."""

    def hold(self, value: Any, body: tuple[int, int], source: memoryview, pattern: int) -> None:
        """An array's elements, which stand in `source`, and the pattern around them; sent once for all its calls."""

    def coming(self, value: Any, body: tuple[int, int], source: memoryview) -> None:
        """An array will be held: its elements, which stay in `source` until then, may be sent meanwhile. Where it is
        another than was held, no call on that memory may be running, or still to be looked at."""

    def load(self, source: memoryview, *, keep: bool = False) -> None:
        """All bytes of the buffer. `keep`: they are what should stand there afterwards."""

    def fetch(self, into: memoryview) -> None:
        """All bytes as they are now."""

    def around(self, body: tuple[int, int], pattern: int) -> Sequence[Stretch]:
        """What stands on both sides of the elements."""

    def held(self, body: tuple[int, int], pattern: int) -> Sequence[Stretch]:
        """What `hold` or `load` has put there."""

    def confirm(self) -> None:
        """It still held just that after its last call."""

    def as_known(self, body: tuple[int, int], known: Any) -> Stretch | None:
        """Those bytes, which should be the ones of what was taken, or of an array that is the same; None: nothing is
        known of that."""

    def take(self, body: tuple[int, int], right: Any = None) -> Taken:
        """What stands there, as it is now; queued. `right`: what it is weighed by in the next look, if that is known
        there; it may be taken then."""

    def close(self) -> None:
        """Its memory is gone."""


class Taken(Protocol):
    """Bytes of a region as they were, where nobody else can change them."""

    def fetch(self, into: Any, start: int = 0) -> None:
        """Fill an array of bytes with those from one on."""

    def weight(self, right: Any) -> Weight | None:
        """How far a result is from what was `expect`ed, which `right` stands for; None: nothing is known of that."""


class Elsewhere(Protocol):
    """All regions of one worker."""

    least: int
    """Bytes from which a buffer lies there."""
    usable: bool
    """This machine, and this worker, can share memory of a device."""
    why: str
    """A buffer had to lie on the host, last of all: what the driver said of it, here or there."""

    @property
    def held(self) -> int:
        """Bytes of all memory there that is the gate's, what the worker sees too."""

    def region(self, slot: int, length: int, beside: int | None = None) -> Region | None:
        """The slot's, at the same address as long as it is used; None where the device has no room. `beside`: a slot
        that never has to hold anything else at the same time: both may be one memory."""

    def probe(self) -> Region | None:
        """One to see whether a worker can map it; None where there is no device."""

    def doubt(self) -> None:
        """The worker has ended, whatever it did there: all is laid again before another one's first call."""

    def refuse(self, why: str) -> None:
        """The worker cannot map one, or the device has failed: there are none."""

    def news(self, *, everything: bool) -> Sequence[Region]:
        """Regions that the worker has not been told of, or that are gone; `everything`: it is a new one."""

    def look(self, stretches: Sequence[Stretch], weighed: Sequence[tuple[Taken, Any]] = ()) -> list[int]:
        """Bytes of each that are not what should stand there; of results that are known, whether any is not. `weighed`:
        what will be asked for its `weight`."""

    def expect(self, right: Any, trusted: Any, away: Any, yard: Any, *, once: bool) -> None:
        """Results will be weighed: by a trusted one, by how far from it the exact one is, in a byte, and by the
        yardsticks, cut to the bits of bfloat16 (`validator.differential.packed`). All lie in rows, and are sent
        meanwhile. `right`: what stands for them, as long as it lives; `once`: one result, and what is the same as that
        one is known by its bits."""

    def knows(self, result: Any) -> None:
        """Results will be held against this one, which nobody changes and which lies here."""

    def alike(self, taken: Taken, known: Any) -> None:
        """What was taken is the bytes of an array, by which they are known from now on."""

    def arrived(self) -> None:
        """Wait until all that is sent meanwhile is there."""

    def settle(self) -> None:
        """Wait until everything lies where it should."""

    def close(self) -> None:
        """Let go of all memory."""
