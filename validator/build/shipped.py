"""Kernels that already shipped, built at the base and at the head by the same compiler.

Every `[[builds]]` table of the base's manifests, and of the change's own where its source is older than the change.
What comes of it is handed to the isolation proof (`StageContext.rebuilt`), which compares it kernel by kernel. A source
whose folder (`root`) the change does not touch is not built: the same compiler makes the same of the same files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from validator.build.cells import Made, Result, cell_of, read_result
from validator.build.toolchains import Toolchain, find_toolchains
from validator.change.model import Change, Tree
from validator.errors import ValidatorError
from validator.globs import matches
from validator.manifest.load import load_manifest
from validator.manifest.model import Build
from validator.run.tree import write_tree
from validator.scale.cell import Cell, Outcome, State
from validator.stage import Rebuilt, StageContext
from validator.verdict.model import StageResult

__all__ = ["run"]

_INERT = (".md", ".rst", ".png", ".svg", ".jpg", ".gif", ".pdf")
_Key = tuple[str, str, str, str]
"""Source, toolchain, entry, architecture."""


def run(context: StageContext) -> StageResult:
    """Fills `context.rebuilt`. Settles nothing by itself."""
    pairs = list(_pairs(context))
    if pairs:
        context.rebuilt.extend(_Both(context, pairs).results())
    return StageResult()


@dataclass(frozen=True, slots=True)
class _Pair:
    """One source for one architecture, as either side says that it is built."""

    arch: str
    base: Build
    head: Build
    same: bool
    """Nothing that it reads is touched."""


def _pairs(context: StageContext) -> Iterator[_Pair]:
    change = context.change
    before = dict(_declared(context, change.merge_base_tree))
    after = dict(_declared(context, change.head_tree))
    own = context.manifest.isolation.paths if context.manifest else ()
    for key in sorted({*before, *after}):
        base, head = before.get(key) or after[key], after.get(key) or before[key]
        if change.merge_base_tree.entry(base.source) is None or matches(base.source, own):
            continue
        yield _Pair(key[3], base, head, base == head and not _touched(change, base))


def _declared(context: StageContext, tree: Tree) -> Iterator[tuple[_Key, Build]]:
    """Builds of a side's manifests; one that does not read declares nothing, and its own finding says so."""
    for entry in tree.list(""):
        if not matches(entry.path, context.policy.manifest.files):
            continue
        try:
            manifest = load_manifest(tree.read(entry.path), entry.path)
        except ValidatorError:
            continue
        for build in manifest.builds:
            for arch in build.architectures or manifest.scope.architectures:
                if build.toolchain != "prebuilt":
                    yield (build.source, build.toolchain, build.entry or "", arch), build


def _touched(change: Change, build: Build) -> bool:
    root = "" if build.root in (".", "") else build.root.rstrip("/") + "/"
    paths = (p for file in change.files for p in file.paths if not p.lower().endswith(_INERT))
    return any(path.startswith(root) for path in paths)


@dataclass(frozen=True)
class _Both:
    """The builds of both sides, run together."""

    context: StageContext
    pairs: list[_Pair]

    def results(self) -> Iterator[Rebuilt]:
        """One a pair, in order."""
        written: dict[tuple[str, str], str] = {}
        cells: dict[str, Cell] = {}
        asked: dict[int, tuple[Toolchain, str, str]] = {}
        for number, pair in enumerate(self.pairs):
            compilers = () if pair.same else find_toolchains(pair.base.toolchain)
            if compilers:
                sides = [self._cell(number, pair, side, compilers[0], written) for side in ("base", "head")]
                cells |= {cell.id: cell for cell in sides}
                asked[number] = (compilers[0], sides[0].id, sides[1].id)
        made: dict[str, Made] = {}
        for done, outcome in enumerate(self.context.work.run(cells.values(), len(cells)), 1):
            made[outcome.cell.id] = _taken(outcome)
            self.context.progress(f"kernels that shipped: {done} of {len(cells)} builds")
        for number, pair in enumerate(self.pairs):
            if pair.same:
                yield Rebuilt(pair.base.source, pair.arch, same_inputs=True)
            elif number not in asked:
                yield Rebuilt(pair.base.source, pair.arch, why=f"there is no {pair.base.toolchain} on this machine")
            else:
                compiler, base, head = asked[number]
                yield _compared(pair, f"{compiler.name} {compiler.version}", made[base], made[head])

    def _cell(
        self, number: int, pair: _Pair, side: str, compiler: Toolchain, written: dict[tuple[str, str], str]
    ) -> Cell:
        build = pair.base if side == "base" else pair.head
        place = (side, build.root)
        if place not in written:
            folder = self.context.workdir / f"shipped-{side}-{len(written)}"
            folder.mkdir()
            change = self.context.change
            write_tree(change.merge_base_tree if side == "base" else change.head_tree, folder, build.root)
            written[place] = self.context.work.keep(folder)
        cell = cell_of(number, build, pair.arch, compiler, written[place])
        return replace(cell, id=f"shipped/{number:02}.{pair.arch}/{side}", what=f"{cell.what}, at the {side}")


def _taken(outcome: Outcome) -> Made:
    if outcome.state is State.DONE:
        return read_result(outcome.data)
    return Made(Result.FAILED if outcome.state is State.RAISED else Result.NOT_RUN, outcome.why)


def _compared(pair: _Pair, compiler: str, base: Made, head: Made) -> Rebuilt:
    found = Rebuilt(pair.base.source, pair.arch, compiler, base.files, head.files)
    if base.result is not Result.BUILT:
        return replace(found, why=f"with {compiler} at the base: {base.result}: {base.why}")
    if head.result is Result.FAILED:
        return replace(found, broken=head.why)
    if head.result is not Result.BUILT:
        return replace(found, why=f"with {compiler} at the head: {head.result}: {head.why}")
    return found
