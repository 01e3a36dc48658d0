"""Runs outside of a check: several contracts, or one stored case."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

from validator.differential.cases import Case
from validator.differential.cells import cells_of, merged, parts_of, put_together
from validator.differential.corpus import fits, split
from validator.differential.device import Candidate, Device, candidate_of
from validator.differential.engine import Keep, is_news, planned_cases, run_cases, unkept, without_decoys
from validator.differential.errors import DifferentialError
from validator.differential.found import Found
from validator.differential.journal import journal_of
from validator.differential.processes import Trees, runner_for
from validator.differential.results import WHERE, CaseResult, KernelResult
from validator.differential.running import run_case
from validator.differential.settle import Demands, settle
from validator.differential.stage import unsettled
from validator.errors import ValidatorError
from validator.manifest.contract import KernelContract
from validator.scale.cell import Cell, InPlace, Outcome, Work
from validator.verdict.model import StageResult

__all__ = ["Here", "Ran", "replay_case", "run_contracts"]

Ran = tuple[KernelContract, KernelResult | None, StageResult]
"""A contract, what was run of it (None: nothing could be), and what that means."""


class Here(InPlace):
    """Runs every cell here and now; content goes by its path, as nothing is kept for another run."""

    def keep(self, path: Path) -> str:
        self.places[str(path)] = path
        return str(path)


def run_contracts(
    contracts: Iterable[KernelContract],
    trees: Trees,
    seed: int,
    count: int,
    first: Sequence[Case] = (),
    progress: Callable[[str], None] = lambda line: None,
    *,
    trusted: bool = True,
    keep: Keep = unkept,
    device: Device = Device.CPU,
    journal: Path | None = None,
    work: Work | None = None,
    where: str = WHERE,
) -> list[Ran]:
    """Run every contract: cell by cell wherever `work` runs them, or with a journal here, case by case.

    `trusted`: the reference does not come from the candidate's own tree.
    `keep` gets each kind of failure, also of cells that an interrupt leaves unfinished, so that it loses none.
    `where`: options of `validator replay` that find what is run here.
    `journal`: folder that keeps every finished case; what an earlier run of the same finished is not run again.
    Results do not depend on what runs the cells, nor on how many there are at a time.
    """
    kernels = [_Kernel(contract, device, trees, seed, count, first) for contract in contracts]
    if journal is None:
        _run_cells(kernels, progress, keep, work or Here())
    else:
        _run_journaled(kernels, progress, keep, journal)
    stages = [kernel.settled(trusted, where) for kernel in kernels]
    return [(k.contract, k.result, stage) for k, stage in zip(kernels, stages, strict=True)]


@dataclass
class _Kernel:
    """One contract on its way to a result."""

    contract: KernelContract
    device: Device
    trees: Trees
    seed: int
    count: int
    first: Sequence[Case]
    result: KernelResult | None = None
    reason: str = ""
    """Why there is none."""
    chosen: Candidate | None = None
    outside: tuple[Case, ...] = ()
    planned: tuple[Case, ...] = ()
    outcomes: list[Outcome] = field(default_factory=list)

    def plan(self) -> None:
        """Draw its cases."""
        self.chosen = candidate_of(self.contract, self.device)
        mine, self.outside = split(self.contract, self.first)
        self.planned = planned_cases(self.chosen.contract, self.seed, self.count, mine)

    def cells(self, work: Work, found: Path) -> list[Cell]:
        """Its cases as cells; none where it cannot be run."""
        self.attempt(self.plan)
        trees = self.trees.below(self.contract.import_root)
        return list(cells_of(self.contract, self.device, self.planned, trees, work, found))

    def put_together(self) -> None:
        """Its cells' outcomes as one result."""
        if not self.reason:
            self.result = put_together(self.planned, self.outcomes)

    def journaled(self, part: int, ended: threading.Event, keep: Keep, folder: Path) -> KernelResult:
        """Run one of its parts here, case by case."""
        trees = self.trees.below(self.contract.import_root)
        cases = self.parts[part]
        with (
            runner_for(self.contract, trees, device=self.device) as runner,
            journal_of(folder, runner, part) as journal,
        ):
            return run_cases(runner, cases, enough=lambda _: ended.is_set(), keep=keep, journal=journal)

    @cached_property
    def parts(self) -> list[tuple[Case, ...]]:
        """Its cases as cells hold them: whoever runs them, results are the same."""
        return list(parts_of(self.contract, self.device, self.planned))

    def attempt(self, step: Callable[[], None]) -> None:
        """What ends here is why nothing is known of the kernel."""
        try:
            step()
        except ValidatorError as error:
            self.reason = "; ".join(map(str, error.problems))

    def settled(self, trusted: bool, where: str) -> StageResult:
        if self.result is None or self.chosen is None:
            return StageResult((unsettled(self.contract, self.reason),))
        stage = settle(self.contract, self.result, Demands(cases=1), self.chosen, outside=self.outside, where=where)
        return stage if trusted else _own_reference(stage)


def _run_cells(kernels: Sequence[_Kernel], progress: Callable[[str], None], keep: Keep, work: Work) -> None:
    with TemporaryDirectory() as folder:
        found, shown = Found(Path(folder)), {kernel.contract.match: KernelResult(()) for kernel in kernels}

        def tell() -> None:
            for noted in found.news():
                known = shown[noted.failed.case.kernel]
                if is_news(noted.failed, known):
                    known.shrunk[noted.failed.case.id] = noted.failed
                    keep(noted.failed, noted.simpler)

        queues = [(kernel, kernel.cells(work, found.folder)) for kernel in kernels]
        owners = {cell.id: kernel for kernel, cells in queues for cell in cells}
        ordered = [cell for row in zip_longest(*(cells for _, cells in queues)) for cell in row if cell is not None]
        try:
            for done, outcome in enumerate(work.run(ordered, len(ordered)), 1):
                owners[outcome.cell.id].outcomes.append(outcome)
                progress(f"differential: {done} of {len(ordered)} cells")
                tell()
        except KeyboardInterrupt:
            tell()
            raise
    for kernel in kernels:
        kernel.attempt(kernel.put_together)


def _run_journaled(kernels: Sequence[_Kernel], progress: Callable[[str], None], keep: Keep, folder: Path) -> None:
    """As many parts at a time as there are processors; one that uses a GPU has it to itself."""
    ended = threading.Event()
    for kernel in kernels:
        kernel.attempt(kernel.plan)
    gpu = any(kernel.device is Device.CUDA for kernel in kernels)
    # Threads: what takes time is in processes of its own, or in numpy.
    with ThreadPoolExecutor(1 if gpu else os.cpu_count() or 1) as pool:
        running = [
            (kernel, [pool.submit(kernel.journaled, part, ended, keep, folder) for part in range(len(kernel.parts))])
            for kernel in kernels
        ]
        try:
            for kernel, futures in running:
                kernel.attempt(partial(_gather, kernel, futures, progress))
        except BaseException:
            ended.set()  # interrupted: each ends with the case that it is at; what was found is kept already
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _gather(kernel: _Kernel, futures: Sequence[Future[KernelResult]], progress: Callable[[str], None]) -> None:
    """A kernel's result out of its parts'. Raises what ended one of them."""
    if kernel.reason:
        return
    parts = []
    for done, future in enumerate(futures, 1):
        parts.append(future.result())
        progress(f"{kernel.contract.match}: {done} of {len(futures)} parts")
    kernel.result = merged(kernel.planned, parts)


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
