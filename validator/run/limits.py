"""What a worker may use of the machine."""

from __future__ import annotations

from dataclasses import dataclass

from validator.run.adapters import Adapter

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one worker may use."""

    memory: int = 4 << 30
    """Bytes of address space."""
    cpu: int = 600
    """Seconds of processor time, over the worker's life."""
    wall: float = 20.0
    """Seconds for one call."""
    start: float = 60.0
    """Seconds until the callable is imported."""
    file: int = 16 << 20
    """Bytes of the largest file it may write."""
    output: int = 1 << 20
    """Bytes on its standard streams, over its life."""
    returned: int = 1 << 30
    """Bytes of one answer."""

    def arguments(self, adapter: Adapter) -> list[str]:
        """As the worker takes them. Processes are limited too: where it binds, a fork storm ends early."""
        memory = [] if adapter.gpu else [f"as={self.memory + adapter.reserve}"]
        return [*memory, f"cpu={self.cpu}", f"fsize={self.file}", "core=0", "nofile=256", "nproc=512"]
