"""What the machine saw go wrong: a named hazard with the places and threads of its first occurrence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["Hazard", "HazardKind", "Hazards", "Place"]


class HazardKind(StrEnum):
    EARLY_READ = "early-read"
    """Memory that an earlier launch may still write, read before the wait."""
    EARLY_WRITE = "early-write"
    EARLY_ATOMIC = "early-atomic"
    EARLY_COPY = "early-async-copy"
    MOVABLE_READ = "movable-read"
    """A non-coherent load of memory that changes during the kernel's life: the compiler may move it above the wait."""
    UNDECLARED = "undeclared-early-access"
    """Early, to an argument without a role: nothing is known of who writes it."""
    LEAVES_WITHOUT_WAIT = "exit-without-wait"
    """A grid that triggers dependants and ends without any thread having waited."""
    NOT_ACQUIRED = "read-without-acquire"
    """What a flag publishes, read by a thread that did not acquire it."""
    NOT_RELEASED = "publish-without-release"
    """A flag set with nothing that makes what it publishes visible first."""
    NONCOHERENT = "noncoherent-read-of-written-memory"
    COPY_NOT_WAITED = "async-copy-not-waited"
    COPY_SOURCE_CHANGED = "async-copy-source-changed"
    PROXY = "missing-proxy-fence"
    RACE = "race"
    OUT_OF_BOUNDS = "out-of-bounds"
    MISALIGNED = "misaligned"
    UNINITIALISED = "uninitialised-read"
    OVERFLOW = "address-overflow"
    BARRIER_DIVERGENCE = "barrier-divergence"
    DEADLOCK = "deadlock"
    LIVELOCK = "livelock"
    ENDLESS = "endless"
    TRAP = "trap"
    UNSTEADY = "result-depends-on-order"
    """Another result than the friendly run's, with no other hazard that would explain it."""


UNSETTLED = frozenset((HazardKind.UNDECLARED, HazardKind.UNINITIALISED, HazardKind.ENDLESS))
"""Seen, but no proof of a fault: who wrote the bytes, whether they matter, or what comes later is not known."""


@dataclass(frozen=True, slots=True)
class Place:
    """A thread at an instruction."""

    index: int
    """Program index of the instruction."""
    cta: int
    thread: int
    """Within its CTA, linear."""


@dataclass(slots=True)
class Hazard:
    kind: HazardKind
    place: Place
    """First occurrence."""
    memory: str = ""
    """Buffer, variable or space that was touched; empty where none is."""
    offset: int | None = None
    """Byte in it."""
    other: Place | None = None
    """The second place of a race, the writer of what was read."""
    detail: str = ""
    count: int = 1
    """Occurrences: threads times executions."""
    assumed: str = ""
    """What the contract leaves open and was assumed for the run, where another choice might show no fault."""

    @property
    def unsettled(self) -> bool:
        return self.kind in UNSETTLED or bool(self.assumed)


@dataclass(slots=True)
class Hazards:
    """Every distinct hazard of a run: one per kind, instruction and memory."""

    found: dict[tuple[HazardKind, int, str], Hazard] = field(default_factory=dict)

    def add(self, hazard: Hazard) -> None:
        key = hazard.kind, hazard.place.index, hazard.memory
        known = self.found.get(key)
        if known is None:
            self.found[key] = hazard
        else:
            known.count += hazard.count

    def __iter__(self) -> Iterator[Hazard]:
        return iter(self.found.values())

    def __len__(self) -> int:
        return len(self.found)
