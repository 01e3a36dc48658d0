"""What can be wrong with a candidate's behaviour in one case."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["OF_VALUE", "Fault", "FaultKind"]


class FaultKind(StrEnum):
    """What is wrong with a candidate's behaviour in one case."""

    VALUE = "wrong-value"
    CLASS = "wrong-nan-or-infinity"
    METADATA = "wrong-metadata"
    INPUT = "input-changed"
    GUARD = "guard-zone-written"
    DIRTY = "depends-on-old-contents"
    """Two poisons or two guard patterns give two results: an element not written, a dirty workspace, a stray read."""
    REPEAT = "not-repeatable"
    HIDDEN = "hidden-state"
    """Right in one order of calls and wrong in another."""
    EARLIER = "earlier-result-changed"
    BATCH = "depends-on-batch-mates"
    DECOY = "decoy-kernel"
    """With a function that is said to do the work doing nothing, the result is the same."""
    ORDER = "depends-on-order"
    """The launches that make one result give another in another order."""
    WORKER = "no-result"


OF_VALUE = (FaultKind.VALUE, FaultKind.CLASS)
"""What a wrong number is: another call may say why."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, with what a person needs to see it."""

    kind: FaultKind
    output: str
    """Argument, or empty."""
    message: str
    figures: dict[str, int | float | str] = field(default_factory=dict)
    story: tuple[str, ...] = ()
    """How it came about, step by step, where the device can tell."""
