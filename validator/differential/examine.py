"""One kernel of a check: its trees written out, its candidate run, its obligation settled."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from validator.change.model import read_files
from validator.differential.cases import Case
from validator.differential.corpus import parse_cases, split
from validator.differential.device import Device, devices_asked
from validator.differential.engine import run_kernel
from validator.differential.errors import DifferentialError
from validator.differential.journal import journal_of
from validator.differential.processes import Trees, runner_for
from validator.differential.settle import Demands, settle, together
from validator.differential.stage import told, unsettled
from validator.differential.tolerances import granted
from validator.errors import ValidatorError
from validator.manifest.contract import KernelContract
from validator.run.sandbox import TreeReader, write_tree
from validator.stage import StageContext
from validator.verdict.model import Finding, StageResult

__all__ = ["examine"]


def examine(context: StageContext, contract: KernelContract, written: dict[str, Trees]) -> StageResult:
    """Run a contract's candidates, on every device asked for, and settle its obligation.

    `written`: trees by import root, shared by kernels.
    """
    root = contract.import_root
    if root not in written:
        written[root] = _write_trees(context, root, len(written))
    trees = written[root]
    if contract.compiled is not None:
        trees = replace(trees, artifacts=_write_artifact(context, contract.compiled.artifact))
    where = context.manifest_path or f"{context.manifest.id if context.manifest else 'manifest'}"
    capped, findings = granted(contract, context.policy.differential, where)
    first, outside = split(capped, _corpus(context))
    runs = []
    for device in devices_asked(capped, context.policy.differential.min_strength):
        try:
            runs.append(_on_device(context, capped, trees, device, findings, first, outside))
        except ValidatorError as error:
            runs.append(StageResult((unsettled(contract, told(error)),)))
    return together(runs)


def _on_device(
    context: StageContext,
    contract: KernelContract,
    trees: Trees,
    device: Device,
    findings: tuple[Finding, ...],
    first: tuple[Case, ...],
    outside: tuple[Case, ...],
) -> StageResult:
    demands = Demands(context.policy.differential.min_cases, context.policy.differential.confinement)
    with (
        runner_for(contract, trees, device=device) as runner,
        journal_of(context.journal, runner) as journal,
    ):
        result = run_kernel(runner, context.seed, demands.cases, first, context.progress, journal=journal)
        chosen = runner.chosen
    head, root = context.change.head_tree, contract.import_root
    source = _digest(head, chosen.source) if chosen.compiled else _module_digest(head, root, chosen.target)
    inputs = {
        f"candidate {chosen.target}": source,
        f"reference {contract.reference}": _module_digest(context.change.base_tree, root, contract.reference or ":"),
    }
    return settle(contract, result, demands, chosen, inputs, findings, outside)


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
    """A folder that holds this one file of the head. Raises `DifferentialError` when the head has none of that name."""
    folder = context.workdir / hashlib.sha256(f"artifact {path}".encode()).hexdigest()[:12]
    target = folder / path
    if not target.exists():
        if not _has(context.change.head_tree, path):
            raise DifferentialError(f"`compiled` names {path}, which is no file of the head")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(context.change.head_tree.read(path))
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
