"""Contract: what a kernel's arguments are, as its author declares it.

One declaration drives the ordering audit, the input generator, the checks around a run and the summary. A contract is
untrusted (it comes with the change) and is checked wherever something can contradict it.
"""

from __future__ import annotations

import fnmatch
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["Argument", "ContractField", "KernelContract", "Launch", "Role", "Step", "StepLaunch", "match_contract"]


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


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ContractField(_Model):
    """A pointer inside a struct that is passed by value."""

    offset: Annotated[int, Field(ge=0)]
    """Byte offset inside the parameter."""
    name: str
    role: Role
    justification: str | None = None
    points_to: Role | None = None
    guarded_by: str | None = None
    alias_of: str | None = None
    scope: Literal["gpu", "sys"] | None = None


class Argument(_Model):
    """One kernel parameter, in order."""

    name: str
    role: Role | None = None
    """None: undeclared, or a struct whose `fields` carry the roles."""
    fields: tuple[ContractField, ...] = ()
    justification: str | None = None
    """Why a `stable` argument is stable; shown to the reviewer as an assumption."""
    points_to: Role | None = None
    """Role of what the pointers *in* this pointer table point to."""
    guarded_by: str | None = None
    """Name of the flag argument that publishes this one."""
    alias_of: str | None = None
    """Name of the argument whose memory this one shares."""
    via: Literal["tensormap"] | None = None
    """`tensormap`: the parameter is a TMA descriptor (`__grid_constant__`), its memory is what the descriptor maps."""
    scope: Literal["gpu", "sys"] | None = None
    """For a flag: how far away its writer may be."""

    @model_validator(mode="after")
    def _stable_needs_a_reason(self) -> Argument:
        if self.role is Role.STABLE and not self.justification:
            raise ValueError(f"role 'stable' of argument {self.name!r} needs a written `justification`")
        return self


class Launch(_Model):
    """How the kernel is launched, as far as the author says. Absent keys are unknown, not false."""

    pdl: bool | None = None
    """With the programmatic stream serialization attribute."""
    grid: tuple[int | str, ...] | None = None
    block: tuple[int | str, ...] | None = None
    cluster: tuple[int, ...] | None = None
    shared: int | None = None
    """Dynamic shared memory, bytes."""


class KernelContract(_Model):
    """One `[[kernels]]` table."""

    match: str
    """Glob over the mangled or the demangled name."""
    launch: Launch = Launch()
    args: tuple[Argument, ...] = ()

    def matches(self, *names: str) -> bool:
        """Whether any of the names (mangled, demangled) is meant by this table."""
        return any(fnmatch.fnmatchcase(name, self.match) for name in names)


class StepLaunch(_Model):
    """One launch of a step: which kernel, and which buffer each argument is."""

    kernel: str
    """Glob over kernel names."""
    args: dict[str, str] = {}
    """Argument (or `argument.field`) name → buffer name of the step."""
    pdl: bool | None = None
    """Overrides the kernel's `launch.pdl` for this launch."""


class Step(_Model):
    """The order of launches of one step on one stream (`ordering`: which earlier launches may still be running)."""

    name: str
    launches: tuple[StepLaunch, ...]


def match_contract(contracts: tuple[KernelContract, ...], *names: str) -> KernelContract | None:
    """The first contract that means a kernel with any of these names."""
    return next((c for c in contracts if c.matches(*names)), None)
