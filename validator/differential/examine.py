"""The kernels of a check: their trees written out, their candidates run, their obligations settled."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

from validator.change.model import read_files
from validator.differential.cases import Case
from validator.differential.cells import cells_of, put_together, seeded
from validator.differential.corpus import parse_cases, split
from validator.differential.device import Candidate, devices_asked, offered
from validator.differential.engine import run_cases
from validator.differential.errors import DifferentialError
from validator.differential.found import Found
from validator.differential.journal import journal_of
from validator.differential.processes import Trees, runner_for
from validator.differential.results import KernelResult
from validator.differential.settle import Demands, settle, together
from validator.differential.stage import told, unsettled
from validator.differential.tolerances import granted
from validator.errors import ValidatorError
from validator.manifest.contract import KernelContract
from validator.run.tree import TreeReader, write_tree
from validator.scale.cell import Outcome
from validator.stage import StageContext
from validator.verdict.model import Finding, StageResult

__all__ = ["examine"]


def examine(context: StageContext, contracts: Sequence[KernelContract]) -> list[StageResult]:
    """Run the candidates of every contract, on every device asked for, and settle each contract's obligation."""
    written: dict[str, Trees] = {}
    asked = [_asked(context, contract, written) for contract in contracts]
    prepared = [one for runs in asked for one in runs if isinstance(one, _Examination)]
    if context.journal is None:
        _run(context, prepared)
    return [together([one.settled() if isinstance(one, _Examination) else one for one in runs]) for runs in asked]


def _asked(
    context: StageContext, contract: KernelContract, written: dict[str, Trees]
) -> list[_Examination | StageResult]:
    """What is to be run of a contract, a device each; or why it is not. `written`: trees by import root."""
    try:
        root = contract.import_root
        if root not in written:
            written[root] = _write_trees(context, root, len(written))
        trees = written[root]
        if contract.compiled is not None:
            trees = replace(trees, artifacts=_write_artifact(context, contract.compiled.artifact))
        where = context.manifest_path or f"{context.manifest.id if context.manifest else 'manifest'}"
        capped, findings = granted(contract, context.policy.differential, where)
        first, outside = split(capped, _corpus(context))
    except ValidatorError as error:
        return [_unsettled(contract, error)]
    runs: list[_Examination | StageResult] = []
    for device in devices_asked(capped, context.policy.differential.min_strength):
        try:
            chosen = offered(capped, device)
            policy = context.policy.differential
            count, seeds, strength = policy.min_cases, policy.seeds, policy.strength
            wanted = seeded(chosen.contract, context.seed, seeds, count, first, context.store, strength)
        except ValidatorError as error:
            runs.append(_unsettled(contract, error))
        else:
            runs.append(_Examination(context, capped, chosen, trees, wanted, findings, outside))
    return runs


def _unsettled(contract: KernelContract, error: ValidatorError) -> StageResult:
    return StageResult((unsettled(contract, told(error)),))


def _run(context: StageContext, examinations: Sequence[_Examination]) -> None:
    """All cells of all kernels at once: the first of each before the second of any, as they tell most."""
    owners: dict[str, _Examination] = {}
    queues = []
    found = Found(context.workdir / "found")
    found.folder.mkdir()
    for one in examinations:
        cells = list(cells_of(one.contract, one.chosen.device, one.planned, one.trees, context.work, found.folder))
        owners |= {cell.id: one for cell in cells}
        queues.append(cells)
    ordered = [cell for row in zip_longest(*queues) for cell in row if cell is not None]
    try:
        for done, outcome in enumerate(context.work.run(ordered, len(ordered)), 1):
            owners[outcome.cell.id].outcomes.append(outcome)
            context.progress(f"differential: {done} of {len(ordered)} cells")
    except KeyboardInterrupt as stop:
        for noted in found.news():
            stop.add_note(noted.words(_where(context)))
        raise


@dataclass
class _Examination:
    """One kernel on one device: what is to be run of it, and what that comes to."""

    context: StageContext
    contract: KernelContract
    chosen: Candidate
    trees: Trees
    planned: tuple[Case, ...]
    findings: tuple[Finding, ...]
    outside: tuple[Case, ...]
    outcomes: list[Outcome] = field(default_factory=list)

    def settled(self) -> StageResult:
        policy = self.context.policy.differential
        demands = Demands(policy.min_cases, policy.confinement)
        try:
            result = self._journaled() if self.context.journal else put_together(self.planned, self.outcomes)
        except ValidatorError as error:
            return _unsettled(self.contract, error)
        return settle(
            self.contract,
            result,
            demands,
            self.chosen,
            self._inputs(),
            self.findings,
            self.outside,
            _where(self.context),
        )

    def _journaled(self) -> KernelResult:
        """Here and now, case by case."""
        with (
            runner_for(self.contract, self.trees, device=self.chosen.device) as runner,
            journal_of(self.context.journal, runner) as journal,
        ):
            return run_cases(runner, self.planned, self.context.progress, journal=journal)

    def _inputs(self) -> dict[str, str]:
        head, root, reference = self.context.change.head_tree, self.contract.import_root, self.contract.reference
        chosen, base = self.chosen, self.context.change.base_tree
        source = _digest(head, chosen.source) if chosen.compiled else _module_digest(head, root, chosen.target)
        return {
            f"candidate {chosen.target}": source,
            f"reference {reference}": _module_digest(base, root, reference or ":"),
        }


def _where(context: StageContext) -> str:
    """Options of `validator replay` that find what a check ran, in a checkout of its head."""
    return shlex.join(["--manifest", context.manifest_file or "FILE", "--base", context.change.merge_base])


def _corpus(context: StageContext) -> tuple[Case, ...]:
    """Cases that failed once, from the base revision. Raises `DifferentialError` when a file holds none."""
    folder = context.policy.differential.corpus
    return parse_cases(read_files(context.change.base_tree, folder, ".json")) if folder is not None else ()


def _write_trees(context: StageContext, root: str, index: int) -> Trees:
    # Names that say nothing: the candidate can see the path it was imported from.
    folders = [context.workdir / hashlib.sha256(f"{side}{index}".encode()).hexdigest()[:12] for side in "hb"]
    for folder, tree in zip(folders, (context.change.head_tree, context.change.base_tree), strict=True):
        folder.mkdir(parents=True)
        write_tree(tree, folder, root)
    return Trees(*folders)


def _write_artifact(context: StageContext, path: str) -> Path:
    """A folder that holds this one file of the head, and the machine code beside PTX, which says what was moved in it.

    Raises `DifferentialError` when the head has none of that name.
    """
    folder = context.workdir / hashlib.sha256(f"artifact {path}".encode()).hexdigest()[:12]
    target = folder / path
    if not target.exists():
        if not _has(context.change.head_tree, path):
            raise DifferentialError(f"`compiled` names {path}, which is no file of the head")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(context.change.head_tree.read(path))
        built = path.removesuffix(".ptx") + ".cubin"
        if path.endswith(".ptx") and _has(context.change.head_tree, built):
            (folder / built).write_bytes(context.change.head_tree.read(built))
    return folder


def _digest(tree: TreeReader, path: str) -> str:
    return "sha256:" + hashlib.sha256(tree.read(path)).hexdigest()


def _has(tree: TreeReader, path: str) -> bool:
    return any(entry.path == path for entry in tree.list(path))


def _module_digest(tree: TreeReader, root: str, target: str) -> str:
    """Digest of the source file of a callable's module; `sha256:` of nothing when it is not there."""
    stem = target.partition(":")[0].replace(".", "/")
    prefix = "" if root in ("", ".") else root.strip("/") + "/"
    for path in (f"{prefix}{stem}.py", f"{prefix}{stem}/__init__.py"):
        if _has(tree, path):
            return _digest(tree, path)
    return "absent"
