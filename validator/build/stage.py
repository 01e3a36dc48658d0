"""The build stage: every `[[builds]]` table of the manifest, for every architecture, with every such compiler here that
it pins, or with all of them.

What is built is handed on to the audits. What ships is compared with it: the same code, other code, or made by another
compiler, so that nobody can tell. `build/…` obligations say so for each source and architecture.
"""

from __future__ import annotations

from pathlib import Path

from validator.build.cells import Made, Result, cell_of, read_result
from validator.build.rules import findings_of
from validator.build.target import Target, is_pinned
from validator.build.toolchains import Toolchain, find_toolchains
from validator.run.tree import write_tree
from validator.scale.cell import Cell, Outcome, State
from validator.stage import StageContext
from validator.verdict.model import StageResult

__all__ = ["run"]


def run(context: StageContext) -> StageResult:
    """One obligation a source and architecture. `context.made` gets what was built; where nothing was, what ships."""
    if context.manifest is None or not context.manifest.builds:
        return StageResult()
    targets = [
        Target(number, build, arch, context.change.head_tree)
        for number, build in enumerate(context.manifest.builds)
        for arch in build.architectures or context.manifest.scope.architectures
    ]
    trees: dict[str, str] = {}
    cells: list[Cell] = []
    owners: dict[str, tuple[Target, Toolchain]] = {}
    for target in targets:
        for toolchain in find_toolchains(target.build.toolchain):
            if not is_pinned(toolchain.version, target.build.versions):
                continue
            root = target.build.root
            if root not in trees:
                trees[root] = context.work.keep(_written(context, root, len(trees)))
            cell = cell_of(target.number, target.build, target.arch, toolchain, trees[root])
            cells.append(cell)
            owners[cell.id] = (target, toolchain)
    for done, outcome in enumerate(context.work.run(cells, len(cells)), 1):
        target, toolchain = owners[outcome.cell.id]
        target.made[toolchain.version] = _taken(outcome)
        target.cells[toolchain.version] = outcome.cell.id
        context.progress(f"build: {done} of {len(cells)} builds")
    for target in targets:
        for name, data, made_in in target.for_the_audits():
            context.made[name] = data
            context.made_in[name] = made_in
    found = [findings_of(target) for target in targets]
    return StageResult(
        tuple(target.obligation(mine) for target, mine in zip(targets, found, strict=True)),
        tuple(target.evidence() for target in targets),
        tuple(finding for mine in found for finding in mine),
    )


def _written(context: StageContext, root: str, index: int) -> Path:
    folder = context.workdir / f"sources{index}"
    folder.mkdir()
    write_tree(context.change.head_tree, folder, root)
    return folder


def _taken(outcome: Outcome) -> Made:
    return read_result(outcome.data) if outcome.state is State.DONE else Made(Result.NOT_RUN, outcome.why)
