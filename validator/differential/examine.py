"""One kernel of a check: its trees written out, its candidate run, its obligation settled."""

from __future__ import annotations

import hashlib

from validator.change.model import read_files
from validator.differential.cases import Case
from validator.differential.corpus import parse_cases, split
from validator.differential.engine import run_kernel
from validator.differential.processes import Trees, runner_for
from validator.differential.settle import Demands, settle
from validator.differential.tolerances import granted
from validator.manifest.contract import KernelContract
from validator.run.sandbox import TreeReader, write_tree
from validator.stage import StageContext
from validator.verdict.model import StageResult

__all__ = ["examine"]


def examine(context: StageContext, contract: KernelContract, written: dict[str, Trees]) -> StageResult:
    """Run the candidate of a contract and settle its obligation. `written`: trees by import root, shared by kernels."""
    root, target = contract.import_root, contract.candidate or ":"
    if root not in written:
        written[root] = _write_trees(context, root, len(written))
    where = context.manifest_path or f"{context.manifest.id if context.manifest else 'manifest'}"
    capped, findings = granted(contract, context.policy.differential, where)
    demands = Demands(context.policy.differential.min_cases, context.policy.differential.confinement)
    first, outside = split(capped, _corpus(context))
    with runner_for(capped, written[root]) as runner:
        result = run_kernel(runner, context.seed, demands.cases, first, context.progress)
    inputs = {
        f"candidate {target}": _module_digest(context.change.head_tree, root, target),
        f"reference {contract.reference}": _module_digest(context.change.base_tree, root, contract.reference or ":"),
    }
    return settle(capped, result, demands, inputs, findings, outside)


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


def _module_digest(tree: TreeReader, root: str, target: str) -> str:
    """Digest of the source file of a callable's module; `sha256:` of nothing when it is not there."""
    stem = target.partition(":")[0].replace(".", "/")
    prefix = "" if root in ("", ".") else root.strip("/") + "/"
    for path in (f"{prefix}{stem}.py", f"{prefix}{stem}/__init__.py"):
        if any(entry.path == path for entry in tree.list(path)):
            return "sha256:" + hashlib.sha256(tree.read(path)).hexdigest()
    return "absent"
