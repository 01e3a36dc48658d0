"""Runs outside of a check: several contracts, one stored case, and the corpus of cases that failed before."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from validator.differential.cases import Case, case_text, load_case
from validator.differential.engine import CaseResult, KernelResult, run_case, run_kernel
from validator.differential.errors import DifferentialError
from validator.differential.processes import Trees, runner_for
from validator.differential.settle import settle
from validator.differential.shapes import Space
from validator.differential.stage import unsettled
from validator.errors import Problem, ValidatorError
from validator.manifest.contract import KernelContract
from validator.verdict.model import StageResult

__all__ = ["Ran", "replay_case", "run_contracts", "store_case", "stored_cases"]

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
    keep: Callable[[CaseResult], None] = lambda result: None,
) -> list[Ran]:
    """Run every contract. `trusted`: the reference does not come from the candidate's own tree.

    `keep` gets each shrunk failure as soon as there is one, so that an interrupted run loses none.
    """
    ran: list[Ran] = []
    for contract in contracts:
        progress(f"{contract.match}: starting")
        try:
            if contract.candidate is None:
                raise DifferentialError("the manifest names no CPU callable (`candidate`), nothing was run")
            mine = tuple(c for c in first if c.kernel == contract.match and _fits(contract, c))
            with runner_for(contract, trees.below(contract.import_root)) as runner:
                result = run_kernel(runner, seed, count, mine, progress, keep=keep)
            stage = settle(contract, result, 1, {})
            ran.append((contract, result, stage if trusted else _own_reference(stage)))
        except ValidatorError as error:
            reason = "; ".join(map(str, error.problems))
            ran.append((contract, None, StageResult((unsettled(contract, reason),))))
    return ran


def _own_reference(stage: StageResult) -> StageResult:
    """Say that the reference was the tree's own: whoever wrote the candidate may have written it too."""
    told = "the reference comes from the candidate's own tree (give --base)"
    return replace(stage, evidence=tuple(replace(e, not_covered=(told, *e.not_covered)) for e in stage.evidence))


def replay_case(contract: KernelContract, trees: Trees, case: Case) -> CaseResult:
    """Run one stored case. Raises `DifferentialError` when the contract no longer allows it."""
    if not _fits(contract, case):
        raise DifferentialError(f"case {case.id} is outside the contract of {contract.match} as it stands now")
    with runner_for(contract, trees.below(contract.import_root)) as runner:
        return run_case(runner, case).result


def _fits(contract: KernelContract, case: Case) -> bool:
    space, dims = Space(contract), dict(case.dims)
    named = {n for part in (case.dtypes, case.variants, case.layouts) for n, _ in part} | set(case.aliased)
    return dims.keys() == set(space.names) and space.holds(dims) and named <= contract.values.keys()


def stored_cases(folder: Path) -> tuple[Case, ...]:
    """Every case of a corpus, by file name. A folder that does not exist yet is an empty one."""
    if not folder.exists():
        return ()
    cases, problems = [], []
    for path in sorted(folder.glob("*.json")):
        try:
            cases.append(load_case(path.read_text("utf-8", "replace"), path.name))
        except DifferentialError as error:
            problems += [p if isinstance(p, Problem) else Problem(str(p)) for p in error.problems]
    if problems:
        raise DifferentialError(*problems)
    return tuple(cases)


def store_case(folder: Path, failed: CaseResult) -> None:
    """Add a case to a corpus; its file appears whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{failed.case.id}.json"
    if not path.exists():
        part = path.with_suffix(".part")
        part.write_text(case_text(failed.case) + "\n")
        os.replace(part, path)
