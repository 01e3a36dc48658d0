"""What the ordering audit says of the kernel that is run: of its PTX, and of the machine code made from it if given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from validator.emulate.errors import EmulateError
from validator.emulate.lateness import StepSays
from validator.errors import Problem
from validator.ordering.artifacts import Artifact, audit_artifacts
from validator.ordering.program import Isa

if TYPE_CHECKING:
    from validator.manifest.contract import KernelContract, Step
    from validator.ordering.result import KernelAudit

__all__ = ["Audited", "audited"]


@dataclass(frozen=True, slots=True)
class Audited:
    source: KernelAudit | None
    """None: the PTX could not be audited."""
    built: KernelAudit | None = None
    """None: no machine code was given."""
    stepped: bool = False
    """The contract has steps."""

    @property
    def all(self) -> tuple[KernelAudit, ...]:
        return tuple(k for k in (self.source, self.built) if k is not None)

    @property
    def step(self) -> StepSays:
        """What the steps of the contract say of the kernel's arguments; nothing where it has none."""
        if self.source is None or not self.stepped:
            return StepSays()
        named = [(ref.name.rpartition(".")[2], row) for row in self.source.early for ref in row.params if ref.name]
        wrong = {name for name, row in named if not row.allowed}
        static = {name for name, row in named if row.role is not None and row.role.static}
        behind = {f.identity[5] for f in self.source.findings if f.identity[3:4] == ("behind",)}
        return StepSays(frozenset(n for n, _ in named) - wrong, frozenset(wrong & static), frozenset(behind))

    @property
    def counters(self) -> frozenset[str]:
        """Arguments that are changed by atomics alone: tickets, counters, semaphores."""
        rows = [] if self.source is None else self.source.accesses
        changed: dict[str, set[str]] = {}
        for row in rows:
            for ref in row.params:
                changed.setdefault(ref.name.rpartition(".")[2], set()).add(row.access)
        return frozenset(n for n, how in changed.items() if "atomic" in how and "write" not in how)


def audited(
    data: bytes,
    file: str,
    kernel: str,
    contracts: Sequence[KernelContract] = (),
    steps: Sequence[Step] = (),
    cubin: Path | None = None,
) -> Audited:
    """Audit `kernel` of the PTX `data`; with `steps`, every kernel of the file takes part in them.

    Raises:
        EmulateError: `cubin` holds no machine code of it that can be audited.
    """
    artifacts = [Artifact(file, data=data)] + ([] if cubin is None else [Artifact(cubin.name, path=cubin)])
    glob = ("*",) if steps else (kernel,)
    result = audit_artifacts(artifacts, tuple(contracts), tuple(steps), kernel_glob=glob, jobs=1)
    kernels = [k for k in result.kernels if k.name == kernel]
    source, built = (next((k for k in kernels if k.isa is isa), None) for isa in (Isa.PTX, Isa.SASS))
    if cubin is not None and built is None:
        why = next((s.reason for s in result.skipped if s.artifact == cubin.name), f"no kernel {kernel} is in it")
        raise EmulateError(Problem(f"was not audited: {why}", str(cubin), "name the machine code made of this PTX"))
    return Audited(source, built, bool(steps))
