"""The ordering stage of a check: every kernel of the manifest, in every artifact and on every architecture in scope.

`order/…` findings come from the audit. What is decided here is what the audits add up to: machine code speaks louder
than PTX for the architecture it was built for, and an architecture that no artifact serves is unproven.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from validator.change.kernels import kernel_sources
from validator.change.written import kernels_written
from validator.manifest.model import Manifest
from validator.ordering.case import FAMILY, STATEMENT, Case, settle_movable
from validator.ordering.result import Audit
from validator.ordering.supply import Supply, gather, unnamed, with_made
from validator.stage import StageContext
from validator.verdict.model import Obligation, StageResult, Status

__all__ = ["Auditor", "run", "run_with"]

Auditor = Callable[[Supply, Manifest], Audit]
"""Audits everything that was gathered, under the manifest's contracts and steps."""


def run(context: StageContext) -> StageResult:
    """One obligation a kernel, and one for the artifacts as a whole."""

    def auditor(supply: Supply, manifest: Manifest) -> Audit:
        from validator.ordering.cells import cells_of, put_together

        cells = list(cells_of(supply.blobs, manifest.kernels, context.workdir, context.work, context.made_in))
        outcomes = []
        for outcome in context.work.run(cells, len(cells)):
            outcomes.append(outcome)
            context.progress(f"ordering: {len(outcomes)} of {len(cells)} files")
        return put_together(outcomes, manifest.kernels, manifest.steps)

    return run_with(context, auditor)


def run_with(context: StageContext, auditor: Auditor) -> StageResult:
    """`run` with the audit handed in."""
    manifest = context.manifest
    if not context.policy.ordering.required:
        return _alone(Status.NOT_APPLICABLE, "the policy does not require it (`ordering.required`)")
    if manifest is None:
        return _alone(Status.UNPROVEN, "there is no readable manifest that says which kernels there are")
    supply = with_made(gather(context.change.head_tree, manifest.artifacts), context.made)
    if not manifest.kernels and not manifest.artifacts and not context.made:
        return _no_kernels(context)
    supply = replace(supply, missing=(*supply.missing, *unnamed(context.change, supply)))
    context.progress(f"ordering: {len(supply.blobs)} artifacts")
    settled = settle_movable(auditor(supply, manifest), manifest)
    written = kernels_written(context.change, context.policy.trusted.tests)
    return Case(manifest, context.policy, supply, settled, tuple(written)).result()


def _alone(status: Status, reason: str) -> StageResult:
    return StageResult((Obligation(FAMILY, STATEMENT, status, reason),))


def _no_kernels(context: StageContext) -> StageResult:
    found = kernel_sources(context.change)
    if not found:
        return _alone(Status.NOT_APPLICABLE, "the manifest declares no kernel, and no changed file looks like one")
    listed = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    return _alone(
        Status.UNPROVEN,
        f"the change brings kernel code ({listed}) and its manifest declares no [[kernels]] and no [[artifacts]]",
    )
