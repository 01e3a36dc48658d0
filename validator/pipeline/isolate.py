"""The isolation proof on its own: the same inputs, waivers and result as a check, one family of obligations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from validator.change.folder import FolderTree
from validator.pipeline import Options, check
from validator.pipeline.stages import STAGES
from validator.stage import Store
from validator.verdict.compute import compute, verdict_reason
from validator.verdict.result import CheckResult

__all__ = ["isolate"]

_STAGES = [entry for entry in STAGES if entry.name in ("isolation/shipped-kernels-built", "isolation/proof")]


def isolate(
    options: Options,
    *,
    progress: Callable[[str], None] = lambda line: None,
    store: Store | None = None,
    kernels: tuple[Path, Path] | None = None,
    debug: bool = False,
) -> CheckResult:
    """Judge the isolation of one change. Other obligations of the policy are not looked at, and not in the result.

    `kernels`: folders of kernels as built at the base and at the head. Raises `ChangeError` where one is none.
    """
    built = (FolderTree(kernels[0]), FolderTree(kernels[1])) if kernels else None
    result = check(options, progress=progress, stages=_STAGES, store=store, kernels=built, debug=debug)
    kept = tuple(o for o in result.obligations if o.id.startswith("isolation"))
    return replace(
        result,
        obligations=kept,
        verdict=compute(kept),
        reason=verdict_reason(kept),
        reproduce=result.reproduce.replace(" check ", " isolate ", 1).rpartition(" --seed ")[0],
    )
