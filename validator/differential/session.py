"""Runs outside of a check: several contracts, or one stored case."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from validator.differential.cases import Case
from validator.differential.corpus import fits, split
from validator.differential.device import Device
from validator.differential.engine import Keep, run_case, run_kernel, without_decoys
from validator.differential.errors import DifferentialError
from validator.differential.journal import journal_of
from validator.differential.processes import Trees, runner_for
from validator.differential.results import CaseResult, KernelResult
from validator.differential.settle import Demands, settle
from validator.differential.stage import unsettled
from validator.errors import ValidatorError
from validator.manifest.contract import KernelContract
from validator.verdict.model import StageResult

__all__ = ["Ran", "replay_case", "run_contracts"]

Ran = tuple[KernelContract, KernelResult | None, StageResult]
"""A contract, what was run of it (None: nothing could be), and what that means."""


def run_contracts(
    contracts: Iterable[KernelContract],
    trees: Trees,
    seed: int,
    count: int,
    first: Sequence[Case] = (),
    progress: Callable[[str], None] = lambda line: None,
    *,
    trusted: bool = True,
    keep: Keep = lambda failed, simpler: None,
    device: Device = Device.CPU,
    journal: Path | None = None,
) -> list[Ran]:
    """Run every contract, as many at a time as there are processors.

    `trusted`: the reference does not come from the candidate's own tree.
    `keep` gets each kind of failure as soon as there is one, so that an interrupted run loses none. `journal`: folder
    that keeps every finished case; what an earlier run of the same finished is not run again.
    """
    ended = threading.Event()

    def one(contract: KernelContract) -> Ran:
        progress(f"{contract.match}: starting")
        try:
            mine, outside = split(contract, first)
            with (
                runner_for(contract, trees.below(contract.import_root), device=device) as runner,
                journal_of(journal, runner) as kept,
            ):
                result = run_kernel(
                    runner, seed, count, mine, progress, lambda _: ended.is_set(), keep=keep, journal=kept
                )
            stage = settle(contract, result, Demands(cases=1), runner.chosen, outside=outside)
            return contract, result, stage if trusted else _own_reference(stage)
        except ValidatorError as error:
            reason = "; ".join(map(str, error.problems))
            return contract, None, StageResult((unsettled(contract, reason),))

    several = list(contracts)
    if len(several) == 1:
        return [one(several[0])]
    # Threads: what takes time is in processes of its own, or in numpy. One that uses a GPU has it to itself.
    with ThreadPoolExecutor(1 if device is Device.CUDA else min(len(several) or 1, os.cpu_count() or 1)) as pool:
        running = [pool.submit(one, contract) for contract in several]
        try:
            return [future.result() for future in running]
        except BaseException:
            ended.set()  # interrupted: each ends with the case that it is at; what was found is kept already
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _own_reference(stage: StageResult) -> StageResult:
    """Say that the reference was the tree's own: whoever wrote the candidate may have written it too."""
    told = "the reference comes from the candidate's own tree (give --base)"
    return replace(stage, evidence=tuple(replace(e, not_covered=(told, *e.not_covered)) for e in stage.evidence))


def replay_case(contract: KernelContract, trees: Trees, case: Case, device: Device = Device.CPU) -> CaseResult:
    """Run one stored case. Raises `DifferentialError` when the contract no longer allows it."""
    if not fits(contract, case):
        raise DifferentialError(f"case {case.id} is outside the contract of {contract.match} as it stands now")
    with runner_for(contract, trees.below(contract.import_root), device=device) as runner:
        (result,) = without_decoys(runner, [run_case(runner, case).result])
        return result
