"""The build stage: every `[[builds]]` table of the manifest, for every architecture, with every such compiler here.

What is built is handed on to the audits. What ships is compared with it: the same code, other code, or made by another
compiler, so that nobody can tell. `build/…` obligations say so for each source and architecture.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from validator.build.cells import Made, Result, cell_of, read_result
from validator.build.compare import compare, made_by
from validator.build.toolchains import Toolchain, find_toolchains
from validator.change.model import ChangeError, Tree
from validator.manifest.model import Build
from validator.run.tree import write_tree
from validator.scale.cell import Cell, Outcome, State
from validator.stage import StageContext
from validator.verdict.model import Evidence, Obligation, StageResult, Status, Strength

__all__ = ["run"]

_LARGEST = 512 << 20
"""Bytes of a file that ships."""


def run(context: StageContext) -> StageResult:
    """One obligation a source and architecture. `context.made` gets what was built; where nothing was, what ships."""
    if context.manifest is None or not context.manifest.builds:
        return StageResult()
    targets = [
        _Target(number, build, arch, context.change.head_tree)
        for number, build in enumerate(context.manifest.builds)
        for arch in build.architectures or context.manifest.scope.architectures
    ]
    trees: dict[str, str] = {}
    cells: list[Cell] = []
    owners: dict[str, tuple[_Target, Toolchain]] = {}
    for target in targets:
        for toolchain in find_toolchains(target.build.toolchain):
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
        for name, data in target.for_the_audits():
            context.made[name] = data
            context.made_in[name] = target.cell
    return StageResult(tuple(t.obligation() for t in targets), tuple(t.evidence() for t in targets))


def _written(context: StageContext, root: str, index: int) -> Path:
    folder = context.workdir / f"sources{index}"
    folder.mkdir()
    write_tree(context.change.head_tree, folder, root)
    return folder


def _taken(outcome: Outcome) -> Made:
    if outcome.state is State.DONE:
        return read_result(outcome.data)
    return Made(Result.FAILED if outcome.state is State.RAISED else Result.NOT_RUN, outcome.why)


@dataclass
class _Target:
    """One source for one architecture: what was built of it, and what ships."""

    number: int
    build: Build
    arch: str
    head: Tree
    made: dict[str, Made] = field(default_factory=dict)
    """Version of the compiler → what came of it."""
    cells: dict[str, str] = field(default_factory=dict)
    """Version of the compiler → id of the cell."""

    def __post_init__(self) -> None:
        self.id = f"build/{self.build.source}@{self.arch}"
        paths = [path.replace("{arch}", self.arch) for path in self.build.ships]
        self.shipped = {path: data for path in paths if (data := _read(self.head, path)) is not None}
        self.absent = tuple(path for path in paths if path not in self.shipped)

    @property
    def chosen(self) -> tuple[str, Made] | None:
        """The build to compare with: by the compiler that made what ships, or else by the newest."""
        asked = {made_by(data) for data in self.shipped.values()}
        versions = sorted(self.made, key=lambda v: (v in asked, _numbers(v)), reverse=True)
        return (versions[0], self.made[versions[0]]) if versions else None

    @property
    def cell(self) -> str:
        """The cell that made what is handed to the audits; empty: none did."""
        return self.cells[self.chosen[0]] if self.chosen is not None and self._files() else ""

    def for_the_audits(self) -> Iterator[tuple[str, bytes]]:
        """What was built and does not ship as it is; where nothing was built, what ships."""
        files = self.chosen[1].files if self.chosen is not None else {}
        if not files:
            yield from self.shipped.items()
        for name, data in files.items():
            suffix = PurePosixPath(name).suffix
            if not any(compare(ships, data).same for ships in self._alike(suffix).values()):
                yield f"built/{PurePosixPath(name).stem}.{self.arch}{suffix}", data

    def obligation(self) -> Obligation:
        status, reason = self._settled()
        ships = (
            "what ships is what its source builds to" if self.build.ships else "its source builds, the same each time"
        )
        strength = Strength.MACHINE_CODE if status is Status.PROVEN else None
        return Obligation(
            self.id, f"{self.build.source} for {self.arch}: {ships}", status, reason, (self.id,), (), strength
        )

    def evidence(self) -> Evidence:
        told = [
            f"{self.build.toolchain} {v}: {m.result}" + (f" ({m.why})" if m.why else "") for v, m in self.made.items()
        ]
        held = "; ".join(f"{path}: {how}" for path, _, how in self._held())
        summary = "; ".join(told) or f"{self.build.toolchain}: nothing was built here"
        source = _read(self.head, self.build.source)
        inputs = {self.build.source: source} if source is not None else {}
        enforced = self.chosen[1].enforced if self.chosen is not None else {}
        return Evidence(
            id=self.id,
            kind="build",
            strength=Strength.MACHINE_CODE if self.made else Strength.DECLARED,
            summary=summary + (f"; {held}" if held else ""),
            status=self._settled()[0],
            inputs={
                path: f"sha256:{hashlib.sha256(data).hexdigest()}" for path, data in (inputs | self.shipped).items()
            },
            figures={
                "architecture": self.arch,
                "builds": 2 * len(self.made),
                **({f"{self.build.toolchain} version": self.chosen[0]} if self.chosen is not None else {}),
                **{f"sha256 of {n}": hashlib.sha256(d).hexdigest() for n, d in sorted(self._files().items())},
            },
            details={"outputs": self._outputs()},
            not_covered=tuple(
                f"the compiler ran without confinement of {name} on this machine ({state})"
                for name, state in sorted(enforced.items())
                if state != "yes"
            ),
        )

    # -- inside ------------------------------------------------------------------------------------------------------

    def _outputs(self) -> dict[str, str]:
        """What this run made, and what ships and is the same code: path → digest."""
        same = {path for path, status, _ in self._held() if status is Status.PROVEN}
        outputs = {path: data for path, data in self.shipped.items() if path in same}
        outputs.update(self.for_the_audits() if self._files() else ())
        return {path: f"sha256:{hashlib.sha256(data).hexdigest()}" for path, data in sorted(outputs.items())}

    def _files(self) -> Mapping[str, bytes]:
        return self.chosen[1].files if self.chosen is not None else {}

    def _alike(self, suffix: str) -> dict[str, bytes]:
        return {path: data for path, data in self.shipped.items() if path.endswith(suffix)}

    def _held(self) -> Iterator[tuple[str, Status, str]]:
        """(what ships, how it stands, in words)."""
        built = {PurePosixPath(name).suffix: data for name, data in self._files().items()}
        for path, data in self.shipped.items():
            against = built.get(PurePosixPath(path).suffix)
            if against is None:
                yield path, Status.UNPROVEN, "nothing of its kind was built to compare it with"
                continue
            found, mine, theirs = compare(data, against), made_by(data), made_by(against)
            if found.same:
                yield path, Status.PROVEN, found.how
            elif mine and mine == theirs:
                yield (
                    path,
                    Status.REFUTED,
                    f"{found.how} than {self.build.source} builds to with the same compiler ({mine})",
                )
            else:
                yield (
                    path,
                    Status.UNPROVEN,
                    f"{found.how}; made by {mine or 'an unknown compiler'}, built here with {theirs}",
                )

    def _settled(self) -> tuple[Status, str]:
        chosen = self.chosen
        if chosen is None:
            if self.build.toolchain == "prebuilt":
                return Status.UNPROVEN, "it ships compiled and is not built here: nobody knows what it was made from"
            return Status.UNPROVEN, f"there is no {self.build.toolchain} on this machine"
        version, made = chosen
        if made.result is not Result.BUILT:
            return Status.UNPROVEN, f"{self.build.toolchain} {version}: {made.result}: {made.why}"
        held = list(self._held())
        for status in (Status.REFUTED, Status.UNPROVEN):
            told = [f"{path}: {how}" for path, found, how in held if found is status]
            if told:
                return status, "; ".join(told)
        return Status.PROVEN, ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _read(tree: Tree, path: str) -> bytes | None:
    try:
        return tree.read(path, _LARGEST) if tree.entry(path) is not None else None
    except ChangeError:
        return None
