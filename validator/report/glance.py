"""Kernels at a glance: the manifest's kernels joined with what was examined of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from validator.manifest.contract import Argument, KernelContract
from validator.verdict.model import Evidence, Obligation, Status, worst
from validator.verdict.result import CheckResult

__all__ = ["Kernel", "kernels_at_a_glance"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """One `[[kernels]]` table of the manifest and the evidence about it."""

    match: str
    """Glob over kernel names, as declared."""
    pdl: bool | None
    """Launched with programmatic dependent launch; None: the manifest does not say."""
    arguments: Mapping[str, str]
    """Argument → role, `undeclared` when there is none; struct fields as `argument.field`."""
    audits: tuple[Evidence, ...]
    """Ordering audits and differential runs of this kernel, by id."""
    status: Status
    """Worst of the kernel's obligations; unproven when there are none."""


def kernels_at_a_glance(result: CheckResult) -> tuple[Kernel, ...]:
    """In the manifest's order; empty without a manifest."""
    contracts = result.manifest.kernels if result.manifest else ()
    evidence = sorted(result.evidence, key=lambda e: e.id)
    return tuple(_kernel(contract, evidence, result.obligations) for contract in contracts)


def _kernel(contract: KernelContract, evidence: list[Evidence], obligations: tuple[Obligation, ...]) -> Kernel:
    # Stages name the obligation of a kernel `family/match`.
    about = [o for o in obligations if o.id.partition("/")[2] == contract.match]
    ids = {used for o in about for used in o.evidence}
    roles: dict[str, str] = {}
    for argument in contract.args:
        roles.update(_roles(argument))
    own = tuple(e for e in evidence if e.id in ids)
    return Kernel(contract.match, contract.launch.pdl, roles, own, worst([o.status for o in about]))


def _roles(argument: Argument) -> dict[str, str]:
    if argument.fields:
        return {f"{argument.name}.{field.name}": field.role.value for field in argument.fields}
    return {argument.name: argument.role.value if argument.role else "undeclared"}
