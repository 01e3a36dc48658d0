"""Builds of a change's kernels that the ordering audit has read, and their bytes: what can be launched on a device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from validator.change.model import ChangeError, Tree
from validator.manifest.contract import KernelContract, Role
from validator.ordering.architecture import serves
from validator.ordering.program import Isa
from validator.verdict.model import Evidence, Location, StageResult

__all__ = ["Build", "audited", "bytes_of", "launchable_builds", "texts"]

_LARGEST = 512 << 20
_POLLING = {
    "order/flag-scope-too-narrow",
    "order/flag-without-acquire",
    "order/mailbox-used-before-check",
    "order/publish-without-release",
}
"""Rules of which a finding says that a flag or a mailbox is not waited for as it must be."""
_OPEN = ("activation", "index", "state", "output", "workspace")
"""Roles of which an early access is allowed by a step alone."""


@dataclass(frozen=True, slots=True)
class Build:
    """One build of a kernel, and what the audit found in it."""

    evidence: Evidence
    early: tuple[str, ...]
    """Arguments that are touched before they are valid."""
    settled: tuple[str, ...] = ()
    """Arguments of which the declared steps say that nobody touches them who may still run."""

    @property
    def name(self) -> str:
        return str(self.evidence.figures["kernel"])

    @property
    def artifact(self) -> str:
        return str(self.evidence.figures["artifact"])

    @property
    def arch(self) -> str:
        return str(self.evidence.figures["arch"])

    @property
    def isa(self) -> Isa:
        return Isa(str(self.evidence.figures["isa"]))

    @property
    def where(self) -> Location:
        return Location(self.artifact, kernel=self.name)

    def runs_on(self, capability: Sequence[int]) -> bool:
        """On a device of this compute capability; PTX where its driver's compiler takes it."""
        return serves(self.isa, self.arch, "sm_{}{}a".format(*capability))


def audited(contract: KernelContract, so_far: StageResult) -> list[Build]:
    """Audits that settled the obligation of this contract."""
    own = {e for o in so_far.obligations if o.id == f"ordering/{contract.match}" for e in o.evidence}
    found = []
    for evidence in so_far.evidence:
        if evidence.id in own and evidence.kind == "ordering-audit":
            rows = evidence.details.get("early", ())
            early = _named(row for row in rows if not row["allowed"])
            settled = _named(row for row in rows if row["allowed"] and row.get("role") in _OPEN)
            if _POLLING & {f.rule for f in so_far.findings if f.where.kernel == evidence.figures["kernel"]}:
                early = tuple(dict.fromkeys((*early, *_polled(contract))))
            found.append(Build(evidence, early, tuple(name for name in settled if name not in early)))
    return found


def _polled(contract: KernelContract) -> Iterator[str]:
    """Arguments whose words say of themselves, or of others, that they may be read, and those others."""
    for argument in contract.args:
        for part in argument.fields or (argument,):
            if part.role in (Role.FLAG, Role.MAILBOX) or part.guarded_by:
                yield part.name


def _named(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Arguments, each once; a field by its own name."""
    names = (name.rpartition(".")[2] for row in rows for name in row["memory"].split(" or ") if name)
    return tuple(dict.fromkeys(names))


def launchable_builds(builds: Sequence[Build], capability: Sequence[int]) -> list[Build]:
    """The machine code for a device; of kernels that have none, the PTX that its driver compiles."""
    fitting = [b for b in builds if b.runs_on(capability)]
    code = [b for b in fitting if b.isa is Isa.SASS]
    named = {b.name for b in code}
    return [*code, *(b for b in fitting if b.isa is Isa.PTX and b.name not in named)]


def texts(builds: Sequence[Build], capability: Sequence[int]) -> list[Build]:
    """PTX that the driver of a device compiles."""
    return [b for b in builds if b.isa is Isa.PTX and b.runs_on(capability)]


def bytes_of(build: Build, head: Tree, made: Mapping[str, bytes]) -> bytes | None:
    """A file of the head, what a build made here, or a piece of either (`file!member`); None where it is neither."""
    file, _, member = build.artifact.partition("!")
    try:
        data = made[file] if file in made else head.read(file, _LARGEST)
    except ChangeError:
        return None
    if not member:
        return data
    from validator.binary.containers import Found, find_binaries
    from validator.binary.tools import Tools

    pieces = (piece for piece in find_binaries(data, file, Tools.find()) if isinstance(piece, Found))
    return next((piece.data for piece in pieces if piece.artifact == build.artifact), None)
