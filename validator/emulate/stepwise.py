"""What the steps of a contract say of early accesses: the ordering audit's own judgement, by buffer."""

from __future__ import annotations

from collections.abc import Sequence

from validator.manifest.contract import KernelContract, Step
from validator.ordering.artifacts import Artifact, audit_artifacts
from validator.ordering.ptx import PtxProgram

__all__ = ["settled_by_steps"]


def settled_by_steps(
    data: bytes, name: str, program: PtxProgram, contracts: Sequence[KernelContract], steps: Sequence[Step]
) -> frozenset[str]:
    """Arguments that the kernel touches early and may: no launch that can still be running writes (or uses) them."""
    if not steps:
        return frozenset()
    result = audit_artifacts([Artifact(name, data=data)], tuple(contracts), tuple(steps), jobs=1)
    rows = [row for kernel in result.kernels if kernel.name == program.name for row in kernel.early]
    named = [(ref.name.rpartition(".")[2], row.allowed) for row in rows for ref in row.params if ref.name]
    return frozenset(n for n, _ in named) - {n for n, allowed in named if not allowed}
