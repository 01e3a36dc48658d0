"""Kernels whose turn did not come: named and unproven, with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from validator.manifest.matching import match_contract
from validator.ordering.program import Isa
from validator.ordering.result import KernelAudit, Skipped
from validator.verdict.model import Status

if TYPE_CHECKING:
    from validator.manifest.contract import KernelContract
    from validator.ordering.sass.reader import Looked

__all__ = ["GO_ON", "NOT_EXAMINED", "is_unexamined", "left_out", "unexamined"]

NOT_EXAMINED = "not examined: "
"""What the reason of such a kernel begins with."""
GO_ON = "give it a longer --budget, or --cache DIR: the same command then goes on where this one stopped"


def unexamined(looked: Sequence[Looked], contracts: tuple[KernelContract, ...], why: str) -> list[KernelAudit]:
    """Kernels that were scanned and need more than that, for which there was no time."""
    from validator.ordering.sass.demangle import demangle
    from validator.ordering.sass.program import digest_of

    readable = demangle(item.kernel.name for item in looked)
    result: list[KernelAudit] = []
    for item in looked:
        name = item.kernel.name
        contract = match_contract(contracts, name, readable[name])
        result.append(
            KernelAudit(
                name=name,
                demangled=readable[name],
                artifact=item.cubin.name,
                isa=Isa.SASS,
                arch=item.cubin.arch,
                status=Status.UNPROVEN,
                reasons=(NOT_EXAMINED + why,),
                wait_count=item.scan.waits,
                trigger_count=item.scan.triggers,
                digest=digest_of(item.kernel),
                pdl=contract.launch.pdl if contract is not None else None,
                # In a step the worst is taken of what nobody looked at: whoever follows it may come early.
                triggers_early=bool(item.scan.triggers),
            )
        )
    return result


def is_unexamined(kernel: KernelAudit) -> bool:
    return kernel.status is Status.UNPROVEN and bool(kernel.reasons) and kernel.reasons[0].startswith(NOT_EXAMINED)


def left_out(artifact: str, kernels: int, why: str) -> Skipped:
    """The same for a whole file, where every format shows it."""
    return Skipped(
        artifact, f"{kernels:,} of its kernels {'was' if kernels == 1 else 'were'} {NOT_EXAMINED}{why}", GO_ON
    )
