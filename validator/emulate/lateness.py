"""Which buffers may hold the previous step's values at first, and which events show a thread the true ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from validator.manifest.contract import Role

__all__ = ["COMPLETION", "NEVER", "PEERS", "Lateness", "StepSays", "lateness_of"]

COMPLETION = 1
"""The event that the launches before are complete; further bits are flags seen set."""
NEVER = 1 << 63
"""No event shows it: a launch that the wait does not cover may still write."""
PEERS = 1 << 62
"""The event that all CTAs of the thread's cluster have begun."""
_MOST_FLAGS = 61


@dataclass(frozen=True, slots=True)
class StepSays:
    """What the step a kernel is launched in says of its buffers, beyond their roles."""

    settled: frozenset[str] = frozenset()
    """Nothing writes (or uses) them late after all."""
    exposed: frozenset[str] = frozenset()
    """A launch that can still run before the wait writes them, whatever their role."""
    uncovered: frozenset[str] = frozenset()
    """A launch that can still run behind the wait writes them."""


_SILENT = StepSays()


@dataclass(frozen=True, slots=True)
class Lateness:
    flags: dict[str, int]
    """Flags that other launches set → the event that seeing one set is."""
    events: dict[str, int]
    """Buffer → events any of which shows its true contents; 0: they are always there."""

    @property
    def late(self) -> tuple[str, ...]:
        """Buffers whose true contents may come late."""
        return tuple(name for name, events in self.events.items() if events)


def lateness_of(
    arguments: Iterable[tuple[str, Role | None, str | None]], pdl: bool, step: StepSays = _SILENT
) -> Lateness:
    """`arguments`: name, role, the flag that publishes it.

    An output that a flag guards is published by this kernel, for others.
    """
    said = list(arguments)
    guards = {guard for _, role, guard in said if role is not Role.OUTPUT}
    names = [name for name, role, _ in said if role is Role.FLAG and name in guards]
    flags = {name: COMPLETION << (number + 1) for number, name in enumerate(names[:_MOST_FLAGS])}
    events = {}
    for name, role, guard in said:
        produced = role is None or (role.memory and not role.static and role not in (Role.FLAG, Role.MAILBOX))
        waits = (produced and name not in step.settled) or name in step.exposed
        waited = NEVER if name in step.uncovered else COMPLETION if pdl and waits else 0
        events[name] = waited | (0 if role is Role.OUTPUT or guard is None else flags.get(guard, 0))
    return Lateness(flags, events)
