"""One call of a candidate: where and how it is made, what is known of it on its way, and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from validator.differential.buffers import Placed
from validator.differential.cases import Case, Inputs
from validator.differential.faults import Fault, FaultKind
from validator.differential.numbers import Array
from validator.differential.reference import Outputs
from validator.run.sandbox import Begun, Outcome, Reply

__all__ = ["FIRST", "SECOND", "Played", "Turn", "Underway", "no_result"]

_NOT_ALLOWED = "PermissionError: "
_CONFINED = "; its process is confined: no files but its own, no other processes, no network"
_STEPS = 12
"""Steps of a story that are kept."""


@dataclass(frozen=True, slots=True)
class Played:
    """One call of the candidate, judged."""

    faults: tuple[Fault, ...]
    outputs: Outputs | None
    """None: no result. Of a fleeting call they are of use to nobody."""
    nonce: int
    placed: Placed


@dataclass(frozen=True, slots=True)
class Turn:
    """Where and how one call of a series is made."""

    slot: int = 0
    """First of the buffers."""
    over: int | None = None
    """First of those whose contents these may replace, at other addresses."""
    which: int = 0
    """First or second poison and guard pattern."""
    keep: bool = False
    """The worker keeps the call for a later look."""
    fleeting: bool = False
    """Nobody asks for its results once they are judged."""
    order: Sequence[int] = ()
    """Of its launches."""

    def is_laid_as(self, other: Turn) -> bool:
        """Whether its arguments lie where the other's do, in the same surroundings."""
        return (self.slot, self.over, self.which) == (other.slot, other.over, other.which)


FIRST, SECOND = Turn(), Turn(500, 0, 1)
"""The same values at other addresses, in other surroundings."""


@dataclass
class Underway:
    """One call on its way."""

    case: Case
    turn: Turn
    inputs: Inputs
    passed: Inputs
    """What was laid out: outputs poisoned."""
    placed: Placed
    nonce: int
    begun: Begun | None = None
    reply: Reply | None = None
    """None: not answered yet, or the process ended before it came to this call."""
    seen: dict[str, Array] = field(default_factory=dict)
    """A little of its large results, as it was answered."""


def no_result(reply: Reply) -> Fault:
    """What is said of a call that gave none."""
    # What follows the first line of a fault of compiled PTX is its story.
    said, *story = reply.detail.split("\n") if reply.detail.startswith("Fault: ") else (reply.detail,)
    if reply.outcome is Outcome.DEVICE:
        said = said.partition(": ")[2]
    detail = (f": {said[:500]}" if said else "") + (_CONFINED if said.startswith(_NOT_ALLOWED) else "")
    told = {
        Outcome.ERROR: "the candidate raised",
        Outcome.UNLOADABLE: "the candidate cannot be imported",
        Outcome.DEVICE: "the candidate failed on the device",
        Outcome.MISSING: "the candidate's process ended without an answer",
    }.get(reply.outcome, f"the candidate's process ended in {reply.outcome}")
    steps = tuple(step[:400] for step in story[:_STEPS])
    return Fault(FaultKind.WORKER, "", told + detail, {"outcome": str(reply.outcome)}, steps)
