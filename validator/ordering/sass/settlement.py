"""What a scan of opcodes found, and why nothing in a kernel can be early. Words only: a kept audit needs no more."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Scan", "Settlement", "Surveyed"]


class Settlement(StrEnum):
    """Why nothing in a kernel can be early."""

    NO_PDL = "no-pdl"
    """The architecture has no programmatic dependent launch."""
    NO_PART = "no-part"
    """Neither waits nor triggers: nothing is early unless its launch asks for programmatic dependent launch."""
    NO_GLOBAL = "no-global"
    """Touches no global memory and never triggers."""
    WAITS_FIRST = "waits-first"
    """Every path passes an unconditional wait before the first branch or global access."""


@dataclass(frozen=True, slots=True)
class Scan:
    """Counts of static instructions by class, over the kernel's whole section."""

    instructions: int
    waits: int
    triggers: int
    accesses: int
    """That may touch global memory."""
    unknown: int
    """Whose number the table does not have."""
    always_waits: bool
    """Shown by the first straight run alone; False is no proof of the contrary."""
    triggers_early: bool
    """A trigger stands before the wait in that run."""
    settlement: Settlement | None
    reason: str
    """In words, empty when not settled."""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """One kernel of a binary as its scan saw it."""

    artifact: str
    """Path as given, `!`-separated inside archives and libraries."""
    name: str
    """Mangled."""
    demangled: str
    arch: str
    digest: str
    """sha256 of the machine code."""
    scan: Scan
