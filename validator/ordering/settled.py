"""Audits of machine code that its opcodes alone settle: most kernels of a library never need to be decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from validator.ordering.program import Isa, Line
from validator.ordering.result import KernelAudit, WaitRow
from validator.ordering.rules import no_wait
from validator.ordering.sass.settlement import Settlement, Surveyed
from validator.verdict.model import Finding, Location, Severity, Status

if TYPE_CHECKING:
    from validator.manifest.contract import KernelContract

__all__ = ["audit_settled"]

_NOT_RUN = "only opcodes were looked at: rules on flags, asynchronous copies and non-coherent loads were not run"


def audit_settled(kernel: Surveyed, contract: KernelContract | None) -> KernelAudit:
    """A kernel that was not lowered; `kernel.scan.settlement` says why it need not be."""
    scan = kernel.scan
    pdl = contract.launch.pdl if contract is not None else None
    findings: tuple[Finding, ...] = ()
    status, reason = Status.PROVEN, scan.reason
    if scan.settlement in (Settlement.NO_PDL, Settlement.NO_GLOBAL):
        status = Status.NOT_APPLICABLE
    elif scan.settlement is Settlement.NO_PART and pdl is not False:
        findings = (_launch_unknown(kernel),)
        status, reason = Status.UNPROVEN, findings[0].message
    waits = (WaitRow("grid-wait", Line(), "all threads, before any branch"),) if scan.always_waits else ()
    return KernelAudit(
        name=kernel.name,
        demangled=kernel.demangled,
        artifact=kernel.artifact,
        isa=Isa.SASS,
        arch=kernel.arch,
        status=status,
        reasons=(reason,),
        waits=waits,
        wait_count=scan.waits,
        trigger_count=scan.triggers,
        findings=findings,
        assumptions=(_NOT_RUN,),
        digest=kernel.digest,
        pdl=pdl,
        always_waits=scan.always_waits,
        triggers_early=scan.triggers_early,
    )


def _launch_unknown(kernel: Surveyed) -> Finding:
    return Finding(
        rule=no_wait.RULE.id,
        severity=Severity.UNPROVEN,
        message=no_wait.LAUNCH_UNKNOWN,
        where=Location(kernel.artifact, kernel=kernel.name),
        why="nothing says how it is launched",
        fix=no_wait.DECLARE_LAUNCH,
        identity=(kernel.name, kernel.arch, str(Isa.SASS), "launch"),
    )
