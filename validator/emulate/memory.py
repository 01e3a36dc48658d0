"""Memories: a region for each buffer and each variable of the module, one for each other state space.

A region's addresses are its own: 64 GiB apart, so that an address that leaves its buffer by any distance a 32-bit
index can make still tells whose it was. Shared and local space have the windows that generic addresses need.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from validator.emulate.lanes import Array
from validator.emulate.shadow import Shadow
from validator.manifest.contract import Role
from validator.ordering.program import Space

__all__ = [
    "CONST_WINDOW",
    "LOCAL_WINDOW",
    "PARAM_WINDOW",
    "SHARED_NAME",
    "SHARED_WINDOW",
    "WINDOW_BITS",
    "Region",
    "Touch",
    "Unreachable",
]

WINDOW_BITS = 36
LOCAL_WINDOW, SHARED_WINDOW, PARAM_WINDOW, CONST_WINDOW = (n << WINDOW_BITS for n in (0x701, 0x702, 0x703, 0x704))
SHARED_NAME = "shared memory"
RANK_SHIFT = 24
"""A shared::cluster address: CTA rank plus one, then the offset; 0 there is the CTA's own."""
POISON = 0xFF
"""Every byte of memory that nobody wrote: NaN in every floating type, -1 in every integer type."""
OTHER_POISON = 0x5A
"""The same in runs whose results are compared with the friendly run's."""

_VIEWS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True, slots=True)
class Touch:
    """What an instruction does to memory, all that is known before it runs."""

    index: int
    """Program index."""
    space: Space
    width: int
    """Bytes of one element: 1, 2, 4, 8 or 16."""
    count: int = 1
    """Elements of a vector."""
    reads: bool = True
    writes: bool = False
    order: str = "weak"
    """weak, volatile, relaxed, acquire, release, acq_rel or sc."""
    scope: str = "sys"
    noncoherent: bool = False
    hoisted: bool = False
    """The machine code executes it before the wait."""
    copy: bool = False
    """The source of an asynchronous copy."""

    @property
    def size(self) -> int:
        return self.width * self.count

    @property
    def strong(self) -> bool:
        return self.order != "weak"

    @property
    def atomic(self) -> bool:
        return self.reads and self.writes

    @property
    def acquires(self) -> bool:
        return self.order in ("acquire", "acq_rel", "sc")

    @property
    def releases(self) -> bool:
        return self.order in ("release", "acq_rel", "sc")


class Unreachable(Exception):
    """No region lies at an address."""


@dataclass
class Region:
    """Contiguous memory with one owner."""

    name: str
    size: int
    """Bytes; accesses beyond are out of bounds."""
    space: Space = Space.GLOBAL
    base: int = 0
    """Address of byte 0."""
    role: Role | None = None
    declared: bool = True
    """False: an argument that the contract gives no role."""
    late: int = 0
    """Events that make the true contents visible to a thread, as bits; 0: always visible."""
    stale: Array | None = None
    """What is there before: the previous step's bytes. None: nothing is late."""
    initialised: bool = True
    tracked: bool = False
    """Whether accesses are recorded, to find races."""
    stores: int = 0
    """Store instructions executed into it."""
    begin: int = 0
    """First byte that may be used (of each CTA's part, in shared space)."""
    limit: int = 0
    """One behind the last byte that may be used, of each part."""
    stride: int = 0
    """Bytes of one CTA's (thread's) part; 0: not partitioned."""
    step: int = 0
    """Bytes of address space from row to row, where rows lie far apart; 0: it is one piece."""
    row: int = 0
    """Bytes of such a row in `data`."""
    before: Array | None = None
    """Each byte before its last store."""
    shadow: Shadow | None = None
    data: Array = field(init=False)
    views: dict[int, Array] = field(init=False)
    guards: str | None = None
    """The flag that publishes it."""
    variables: list[tuple[int, int, str]] = field(default_factory=list)
    """Parts with a name: first byte, bytes, name."""

    def __post_init__(self) -> None:
        self.allocate(np.full(max(self.size + -self.size % 16, 16), POISON, np.uint8))

    def allocate(self, data: Array) -> None:
        """Use `data` (uint8, a multiple of 16 bytes) as the contents."""
        self.data = data
        self.views = views_of(data)

    def fill(self, raw: bytes) -> None:
        self.data[: len(raw)] = np.frombuffer(raw, np.uint8)

    def records(self) -> Shadow:
        if self.shadow is None:
            self.shadow = Shadow(len(self.data))
        return self.shadow

    def earlier(self) -> Array:
        """Contents before the last store to each byte; kept from the first call on."""
        if self.before is None:
            self.before = self.data.copy()
        return self.before

    def gathered(self, offsets: Array) -> Array:
        """Bytes of `data` for offsets in address space; -1 between rows. Rows begin at `begin`."""
        if not self.step:
            return offsets
        offsets = offsets - self.begin
        row = offsets // self.step
        inside = offsets - row * self.step
        found: Array = self.begin + row * self.row + inside
        found[(row < 0) | (inside >= self.row) | (found >= self.size)] = -1
        return found

    def name_at(self, offset: int) -> tuple[str, int]:
        """Name and offset of the variable at a byte of a partitioned region, else of the region."""
        inside = offset % self.stride if self.stride else offset
        for start, size, name in self.variables:
            if start <= inside < start + size:
                return name, inside - start
        return self.name, inside


def views_of(data: Array) -> dict[int, Array]:
    """The same bytes as elements of each width; 16 is rows of two 64-bit words."""
    views = {width: data.view(dtype) for width, dtype in _VIEWS.items()}
    views[16] = views[8].reshape(-1, 2)
    return views


def gather(views: dict[int, Array], offsets: Array, width: int, count: int) -> list[Array]:
    """`count` elements from each offset (aligned to the whole access)."""
    view = views[width]
    first = offsets >> (width.bit_length() - 1)
    return [view[first if k == 0 else first + k] for k in range(count)]


def scatter(views: dict[int, Array], offsets: Array, width: int, values: list[Array]) -> None:
    view = views[width]
    first = offsets >> (width.bit_length() - 1)
    for k, value in enumerate(values):
        view[first if k == 0 else first + k] = value
