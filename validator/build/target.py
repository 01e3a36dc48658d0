"""One source for one architecture: what was built of it with each compiler, what ships, and how the two stand."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from validator.build.cells import Made, Result
from validator.build.compare import compare, made_by
from validator.build.toolchains import numbers_of
from validator.change.model import ChangeError, Tree
from validator.manifest.model import Build
from validator.verdict.model import Evidence, Finding, Obligation, Status, Strength

__all__ = ["Held", "Target", "is_pinned"]

_LARGEST = 512 << 20
"""Bytes of a file that ships."""


@dataclass(frozen=True, slots=True)
class Held:
    """A file that ships, held against what was built."""

    path: str
    status: Status
    how: str
    """In words."""


@dataclass
class Target:
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
    def missing(self) -> tuple[str, ...]:
        """Pinned versions of the compiler of which none is here."""
        return tuple(pin for pin in self.build.versions if not any(is_pinned(v, (pin,)) for v in self.made))

    @property
    def chosen(self) -> tuple[str, Made] | None:
        """The build to compare with: by the compiler that made what ships, or else by the newest."""
        asked = {made_by(data) for data in self.shipped.values()}
        versions = sorted(self.made, key=lambda v: (v in asked, numbers_of(v)), reverse=True)
        return (versions[0], self.made[versions[0]]) if versions else None

    def counting(self) -> dict[str, Made]:
        """Version → build that has to stand: of every pinned compiler, or else the chosen one."""
        if self.build.versions:
            return self.made
        return dict([self.chosen]) if self.chosen is not None else {}

    def for_the_audits(self) -> Iterator[tuple[str, bytes, str]]:
        """(name, content, id of the cell that made it) of what was built and does not ship as it is.

        Where nothing was built, what ships.
        """
        if not self._files():
            yield from ((path, data, "") for path, data in self.shipped.items())
        known = list(self.shipped.values())
        chosen = self.chosen[0] if self.chosen is not None else ""
        for version, made in sorted(self.counting().items(), key=lambda item: item[0] != chosen):
            by = "" if version == chosen else f".{self.build.toolchain}-{version}"
            for name, data in made.files.items():
                path = PurePosixPath(name)
                if not any(compare(other, data).same for other in known):
                    yield f"built/{path.stem}.{self.arch}{by}{path.suffix}", data, self.cells[version]
                    known.append(data)

    def obligation(self, findings: Sequence[Finding] = ()) -> Obligation:
        status, reason = self._settled()
        ships = (
            "what ships is what its source builds to" if self.build.ships else "its source builds, the same each time"
        )
        strength = Strength.MACHINE_CODE if status is Status.PROVEN else None
        found = tuple(finding.id for finding in findings)
        return Obligation(
            self.id, f"{self.build.source} for {self.arch}: {ships}", status, reason, (self.id,), found, strength
        )

    def evidence(self) -> Evidence:
        told = [
            f"{self.build.toolchain} {v}: {m.result}" + (f" ({m.why})" if m.why else "") for v, m in self.made.items()
        ]
        told += [f"{self.build.toolchain} {pin}: pinned, and not on this machine" for pin in self.missing]
        held = "; ".join(f"{one.path}: {one.how}" for one in self.held())
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
            not_covered=(
                *(f"{path} is not in the head: nothing ships under that name" for path in self.absent),
                *(
                    f"the compiler ran without confinement of {name} on this machine ({state})"
                    for name, state in sorted(enforced.items())
                    if state != "yes"
                ),
            ),
        )

    # -- inside ------------------------------------------------------------------------------------------------------

    def _outputs(self) -> dict[str, str]:
        """What this run made, and what ships and is the same code: path → digest."""
        same = {one.path for one in self.held() if one.status is Status.PROVEN}
        outputs = {path: data for path, data in self.shipped.items() if path in same}
        if self._files():
            outputs |= {name: data for name, data, _ in self.for_the_audits()}
        return {path: f"sha256:{hashlib.sha256(data).hexdigest()}" for path, data in sorted(outputs.items())}

    def _files(self) -> Mapping[str, bytes]:
        return self.chosen[1].files if self.chosen is not None else {}

    def held(self) -> Iterator[Held]:
        """What ships, each file against what was built."""
        built = {PurePosixPath(name).suffix: data for name, data in self._files().items()}
        for path, data in self.shipped.items():
            against = built.get(PurePosixPath(path).suffix)
            if against is None:
                yield Held(path, Status.UNPROVEN, "nothing of its kind was built to compare it with")
                continue
            found, mine, theirs = compare(data, against), made_by(data), made_by(against)
            if found.same:
                yield Held(path, Status.PROVEN, found.how)
            elif mine and mine == theirs:
                how = f"{found.how} than {self.build.source} builds to with the same compiler ({mine})"
                yield Held(path, Status.REFUTED, how)
            else:
                how = f"{found.how}; made by {mine or 'an unknown compiler'}, built here with {theirs}"
                yield Held(path, Status.UNPROVEN, how)

    def _settled(self) -> tuple[Status, str]:
        if self.chosen is None:
            if self.build.toolchain == "prebuilt":
                return Status.UNPROVEN, "it ships compiled and is not built here: nobody knows what it was made from"
            pinned = f" {' or '.join(self.build.versions)}" if self.build.versions else ""
            return Status.UNPROVEN, f"there is no {self.build.toolchain}{pinned} on this machine"
        held = list(self.held())
        refuted = [f"{one.path}: {one.how}" for one in held if one.status is Status.REFUTED]
        if refuted:
            return Status.REFUTED, "; ".join(refuted)
        left = [f"{one.path}: {one.how}" for one in held if one.status is Status.UNPROVEN]
        failed = {version: made for version, made in self.counting().items() if made.result is not Result.BUILT}
        told = [f"{self.build.toolchain} {version}: {made.result}: {made.why}" for version, made in failed.items()]
        told += [f"{self.build.toolchain} {pin} is pinned and not on this machine" for pin in self.missing]
        told += left if self._files() else []  # where nothing was built, that is the reason
        return (Status.UNPROVEN, "; ".join(told)) if told else (Status.PROVEN, "")


def is_pinned(version: str, pins: Sequence[str]) -> bool:
    """Whether a version is one of these, or of their series: `13.0` means 13.0.88. No pins: any."""
    return not pins or any(version == pin or version.startswith(f"{pin}.") for pin in pins)


def _read(tree: Tree, path: str) -> bytes | None:
    try:
        return tree.read(path, _LARGEST) if tree.entry(path) is not None else None
    except ChangeError:
        return None
