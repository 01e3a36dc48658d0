"""The differential stage: one obligation per kernel that can be run, settled by running it.

What runs candidates is imported only where there is one to run: a change without kernels does not pay for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from validator.change.kernels import kernel_sources
from validator.errors import ValidatorError
from validator.manifest.contract import KernelContract
from validator.stage import StageContext
from validator.verdict.model import Obligation, StageResult, Status

__all__ = ["STATEMENT", "run", "told", "unsettled"]

NOTHING_RUN = "the manifest names no CPU callable (`candidate`), nothing was run"
STATEMENT = "the CPU callable of every kernel agrees with its reference, on inputs that the contract allows"


def run(context: StageContext) -> StageResult:
    """Run every kernel's candidate against its reference. No callable, no evidence: `unproven`."""
    if context.manifest is None:
        return _alone(Status.UNPROVEN, "there is no readable manifest that says which kernels there are")
    if not context.manifest.kernels:
        return _no_kernels(context)
    contracts = context.manifest.kernels
    examined = iter(_examined(context, [c for c in contracts if c.runnable]))
    results = [next(examined) if c.runnable else StageResult((unsettled(c, NOTHING_RUN),)) for c in contracts]
    return StageResult(
        tuple(o for r in results for o in r.obligations),
        tuple(e for r in results for e in r.evidence),
        tuple(f for r in results for f in r.findings),
    )


def _examined(context: StageContext, contracts: Sequence[KernelContract]) -> list[StageResult]:
    if not contracts:
        return []
    from validator.differential.examine import examine

    return examine(context, contracts)


def _no_kernels(context: StageContext) -> StageResult:
    found = kernel_sources(context.change)
    if not found:
        return _alone(Status.NOT_APPLICABLE, "the manifest declares no kernel, and no changed file looks like one")
    listed = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    return _alone(Status.UNPROVEN, f"the change brings kernel code ({listed}) and its manifest declares no [[kernels]]")


def _alone(status: Status, reason: str) -> StageResult:
    return StageResult((Obligation("differential", STATEMENT, status, reason),))


def told(error: ValidatorError) -> str:
    """Why a kernel was not examined."""
    text = "; ".join(map(str, error.problems))
    return text if text.startswith("not run here") else f"could not be examined: {text}"


def unsettled(contract: KernelContract, reason: str) -> Obligation:
    return Obligation(
        f"differential/{contract.match}",
        f"{contract.match}: the CPU callable of the new path agrees with its reference",
        Status.UNPROVEN,
        reason,
    )
