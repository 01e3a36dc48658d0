"""What an argument's memory is to the launches around a kernel. Only names: reports of kept audits need no more."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["FILLED", "Role"]


class Role(StrEnum):
    """What an argument's memory is to the launches around this kernel (`validator explain roles`)."""

    WEIGHT = "weight"
    STABLE = "stable"
    ACTIVATION = "activation"
    INDEX = "index"
    STATE = "state"
    OUTPUT = "output"
    WORKSPACE = "workspace"
    FLAG = "flag"
    MAILBOX = "mailbox"
    SCALAR = "scalar"

    @property
    def static(self) -> bool:
        """May be read before the dependency wait: nothing that can still be running writes it."""
        return self in (Role.WEIGHT, Role.STABLE)

    @property
    def memory(self) -> bool:
        """False for arguments passed by value."""
        return self is not Role.SCALAR


FILLED = frozenset({Role.OUTPUT, Role.WORKSPACE})
"""Roles whose contents before a launch mean nothing."""
