"""How an exchange with a worker ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from validator.errors import ValidatorError
from validator.run.channel import Result

__all__ = ["Outcome", "Reply", "RunError"]


class RunError(ValidatorError):
    """A worker cannot be set up on this machine."""


class Outcome(StrEnum):
    """How one exchange with a worker ended."""

    OK = "ok"
    ERROR = "error"
    """The callable raised."""
    MEMORY = "memory-exhausted"
    HANG = "hang"
    """No answer within the deadline, or the processor time was used up."""
    SIGNAL = "signal"
    """Ended by a signal: a crash."""
    DEVICE = "device-error"
    """A kernel failed on the device (illegal address, trap, failed assertion): all later calls of the process would."""
    FORBIDDEN = "forbidden-system-call"
    """Tried to start a process or to look into another."""
    FLOOD = "output-flood"
    """Wrote more to its standard streams than is allowed."""
    PROTOCOL = "protocol-violation"
    """Sent something else than what was asked for."""
    MISSING = "missing"
    """Ended without an answer."""
    UNLOADABLE = "unloadable"
    """The module or the function cannot be imported."""
    ABSENT = "not-run-here"
    """This machine or the adapter cannot run it; says nothing about the callable."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The end of one exchange."""

    outcome: Outcome
    result: Result | None = None
    detail: str = ""
    """Untrusted text: what the callable raised, or what ended it."""
    payload: bytes | bytearray = b""
