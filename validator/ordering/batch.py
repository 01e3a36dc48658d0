"""Pieces of an audit as they travel between processes: what to audit, under which contracts, and what came of it."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from validator.errors import ValidatorError
from validator.manifest.matching import match_contract
from validator.ordering.program import Program
from validator.ordering.result import KernelAudit, Skipped

if TYPE_CHECKING:
    from validator.manifest.contract import KernelContract
    from validator.ordering.sass.reader import Portion

__all__ = ["Batch", "Code", "Outcome", "Part", "Settings", "Text", "Work", "audit_batch"]

_BYTES_A_LINE = 24


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for a whole audit."""

    contracts: tuple[KernelContract, ...]
    globs: tuple[str, ...]
    """Kernels that are asked for, by mangled or readable name; empty: all."""

    def wanted(self, *names: str) -> bool:
        return not self.globs or any(fnmatch.fnmatchcase(name, glob) for name in names for glob in self.globs)


class Text(NamedTuple):
    """One PTX module."""

    file: int
    """Number of the artifact it belongs to."""
    name: str
    data: bytes
    key: str = ""
    """Of its entry in the cache; empty: none of its own."""

    @property
    def weight(self) -> int:
        """In instructions, about."""
        return len(self.data) // _BYTES_A_LINE

    @property
    def bytes(self) -> int:
        return len(self.data)


class Code(NamedTuple):
    """Kernels of one cubin."""

    file: int
    portion: Portion
    weight: int
    """Instructions."""
    key: str = ""
    """Of its entry in the cache; empty: none of its own."""

    @property
    def bytes(self) -> int:
        return len(self.portion.data)


Work = Text | Code


class Batch(NamedTuple):
    """What one process takes at a time."""

    settings: Settings
    work: tuple[Work, ...]

    @property
    def bytes(self) -> int:
        return sum(item.bytes for item in self.work)


class Part(NamedTuple):
    """What came of one piece of work."""

    file: int
    kernels: list[KernelAudit]
    skipped: list[Skipped]
    key: str = ""


Outcome = list[Part]


def audit_batch(batch: Batch) -> Outcome:
    """Everything of a batch, in order. Whatever goes wrong with a piece is said, not raised."""
    parts = [Part(item.file, [], [], item.key) for item in batch.work]
    codes: list[tuple[Part, Code]] = []
    for part, item in zip(parts, batch.work, strict=True):
        if isinstance(item, Text):
            _text(part, item, batch.settings)
        else:
            codes.append((part, item))
    if codes:
        _codes(codes, batch.settings)
    return parts


def _text(part: Part, item: Text, settings: Settings) -> None:
    from validator.ordering.ptx import read_ptx
    from validator.ordering.sass.demangle import demangle

    try:
        module = read_ptx(item.data, item.name)
    except ValidatorError as error:
        part.skipped.extend(_skipped(error, item.name))
        return
    readable = demangle(program.name for program in module.programs)
    for program in module.programs:
        name = readable.get(program.name, program.name)
        if settings.wanted(program.name, name):
            _audit(part, program, settings, item.name, name, program.digest)


def _codes(codes: Sequence[tuple[Part, Code]], settings: Settings) -> None:
    """All of them at once: the disassembler is started for what is new in any."""
    from validator.binary.tools import Tools
    from validator.ordering.sass.reader import lower, open_portion

    looked = [(part, item) for part, code in codes for item in open_portion(code.portion)]
    owners = [part for part, _ in looked]
    try:
        for part, kernel in zip(owners, lower([item for _, item in looked], Tools.find()), strict=True):
            if isinstance(kernel, Skipped):
                part.skipped.append(kernel)
            elif kernel.program is not None:
                _audit(part, kernel.program, settings, kernel.artifact, kernel.demangled, kernel.digest)
    except ValidatorError as error:
        for part, code in codes:
            part.kernels.clear()
            part.skipped.extend(_skipped(error, code.portion.artifact))


def _audit(part: Part, program: Program, settings: Settings, artifact: str, readable: str, digest: str) -> None:
    from validator.ordering.audit import audit_program

    contract = match_contract(settings.contracts, program.name, readable)
    try:
        part.kernels.append(audit_program(program, contract, artifact=artifact, demangled=readable, digest=digest))
    except ValidatorError as error:
        part.skipped.extend(_skipped(error, artifact))


def _skipped(error: ValidatorError, artifact: str) -> Iterator[Skipped]:
    return (Skipped(problem.where or artifact, problem.what, problem.fix) for problem in error.problems)
