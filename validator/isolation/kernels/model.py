"""What is known of one compiled kernel, and of all that a file holds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Contents", "Kernel", "plain"]

_HASH = re.compile(rb"(_INTERNAL_|_intern_|_GLOBAL__N__|__nv_static_\d+__)[0-9a-f]{8}(?=_)")


def plain(name: bytes) -> bytes:
    """A name without the hash of the source's path that nvcc puts into it."""
    return _HASH.sub(rb"\g<1>00000000", name)


@dataclass(frozen=True, slots=True)
class Kernel:
    """One compiled kernel or device function, a variable that kernels share, or a file that cannot be taken apart."""

    name: str
    """Without hashes of paths; empty: the file as a whole."""
    target: str
    """As `sm_90a` for machine code and `PTX sm_90a` for text; empty: unknown."""
    fingerprint: str
    """Digest of all that runs, whatever the names, source lines and debugging sections beside it."""
    resources: Mapping[str, int] = field(default_factory=dict)
    """What it takes of the device: `register count`, and bytes of anything else."""
    kind: str = "kernel"
    """`kernel`, `function`, `variable` or `file`."""

    def __str__(self) -> str:
        if self.kind == "file":
            return "the file"
        what = "the variable" if self.kind == "variable" else self.kind
        return f"{what} {self.name}" + (f" ({self.target})" if self.target else "")


@dataclass(frozen=True, slots=True)
class Contents:
    """What a compiled file holds."""

    kernels: tuple[Kernel, ...] = ()
    unread: tuple[str, ...] = ()
    """What could not be opened, and why: nothing is known of it."""
    host: Mapping[str, str] | None = None
    """Parts of what it holds besides device code (`host.parts_of`): host code, or the other files of an archive; None:
    nothing."""
