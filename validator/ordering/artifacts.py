"""Audits whole files: PTX text, cubins, and what carries them (fat binaries, libraries, wheels).

Each file is read by the front end its content asks for, kernel by kernel. What opcodes settle is settled on the spot;
the rest is gathered to batches, over files and within one, and spread over processes. A library of thousands of kernels
never stands in memory as a whole. What cannot be read is a `Skipped`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from validator.errors import ValidatorError
from validator.manifest.matching import match_contract
from validator.ordering.ahead import compiled_later
from validator.ordering.assembly import assemble
from validator.ordering.batch import Batch, Outcome, Settings, Text, Work, audit_batch
from validator.ordering.result import Audit, KernelAudit, Skipped
from validator.ordering.spread import spread
from validator.ordering.unexamined import GO_ON, NOT_EXAMINED, left_out, unexamined

if TYPE_CHECKING:
    from validator.binary.containers import Found
    from validator.binary.tools import Tools
    from validator.manifest.contract import KernelContract, Step
    from validator.ordering.sass.cache import ResultCache
    from validator.ordering.sass.reader import Looked, Portion
    from validator.verdict.model import Finding

__all__ = ["Artifact", "Progress", "audit_artifacts"]

Progress = Callable[[str], None]
"""Takes one plain line."""

_BATCH = 1 << 14
"""Instructions in a batch: seconds of work, beside half a second to start the disassembler."""


class Artifact(NamedTuple):
    """One file to audit; either its bytes or where to read them."""

    name: str
    """What reports call it; untrusted text."""
    data: bytes | None = None
    path: Path | None = None

    @property
    def source(self) -> bytes | Path:
        return self.path if self.data is None and self.path is not None else self.data or b""

    def read(self) -> bytes:
        return self.source.read_bytes() if isinstance(self.source, Path) else self.source

    def is_ptx(self) -> bool:
        """By name, else by content: text that has a `.version` directive near its start."""
        if self.name.lower().endswith(".ptx"):
            return True
        if isinstance(self.source, Path):
            with self.source.open("rb") as file:
                start = file.read(4096)
        else:
            start = self.source[:4096]
        return b"\0" not in start and b".version" in start


def audit_artifacts(
    artifacts: Iterable[Artifact | tuple[str, bytes]],
    contracts: tuple[KernelContract, ...],
    steps: tuple[Step, ...] = (),
    kernel_glob: str | Sequence[str] | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
    cache: Path | None = None,
    over: Callable[[], str] | None = None,
) -> Audit:
    """Audit every kernel of every artifact whose name matches `kernel_glob` (None: all), in up to `jobs` processes.

    `cache`: a folder, the validator's own, with results of files that did not change, and of parts of large ones as
    they are done; None: everything is read again. `over`: why nothing more is to be begun, in words; empty: go on.
    What was not begun by then is unproven.
    """
    globs = (kernel_glob,) if isinstance(kernel_glob, str) else tuple(kernel_glob or ())
    run = _Run([Artifact(*item) for item in artifacts], Settings(contracts, globs), progress, cache, over)
    try:
        for outcome in spread(audit_batch, run.batches(_BATCH if jobs > 1 else 4 * _BATCH), jobs, _size):
            run.take(outcome)
    finally:
        run.close()
    kernels = [kernel for file in run.files for kernel in file.kernels]
    skipped = [item for file in run.files for item in file.skipped]
    tools = {tool: version for file in run.files for tool, version in file.tools.items()}
    findings: Sequence[Finding] = ()
    if steps:
        from validator.ordering.steps import apply_steps

        kernels, findings = apply_steps(kernels, contracts, steps)
    return assemble(kernels, [*skipped, *compiled_later(kernels)], findings, tools)


def _size(batch: Batch) -> int:
    return batch.bytes


@dataclass(slots=True)
class _File:
    """What is known of one artifact so far."""

    artifact: Artifact
    kernels: list[KernelAudit] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    tools: dict[str, str] = field(default_factory=dict)
    key: str | None = None
    """Of its entry in the cache."""
    open: int = 1
    """Pieces of work that are not done, reading it among them."""
    left: int = 0
    """Kernels for which there was no time."""
    why: str = ""
    """There was none."""


class _Run:
    """One audit: hands out work, takes results, and closes each file when its last result is in."""

    def __init__(
        self,
        artifacts: Sequence[Artifact],
        settings: Settings,
        progress: Progress | None,
        cache: Path | None,
        over: Callable[[], str] | None,
    ) -> None:
        self.files = [_File(artifact) for artifact in artifacts]
        self._settings = settings
        self._progress = progress
        self._cache_folder = cache
        self._over = over or str
        self._closed = 0
        self._kernels = 0
        self._found = 0
        """Kernels that were seen so far, done or not."""

    # -- work --------------------------------------------------------------------------------------------------------

    def batches(self, limit: int) -> Iterator[Batch]:
        """Everything there is to lower and audit, `limit` instructions or a little more at a time."""
        pending: list[Work] = []
        weight = 0
        for number in range(len(self.files)):
            for work in self._read(number):
                pending.append(work)
                weight += work.weight
                if weight >= limit:
                    yield Batch(self._settings, tuple(pending))
                    pending, weight = [], 0
        if pending:
            yield Batch(self._settings, tuple(pending))

    def _read(self, number: int) -> Iterator[Work]:
        """What one file asks for. Whatever goes wrong with it is said, not raised."""
        file = self.files[number]
        if not self._stored(file):
            try:
                for work in self._pieces(number, file):
                    file.open += 1
                    yield work
            except ValidatorError as error:
                file.skipped.extend(Skipped(p.where or file.artifact.name, p.what, p.fix) for p in error.problems)
            except OSError as error:
                file.skipped.append(Skipped(file.artifact.name, f"cannot be read: {error.strerror or error}"))
        self._done(file)

    def _pieces(self, number: int, file: _File) -> Iterator[Work]:
        if file.artifact.is_ptx():
            if why := self._over():
                file.skipped.append(Skipped(file.artifact.name, NOT_EXAMINED + why, GO_ON))
                return
            yield Text(number, file.artifact.name, file.artifact.read())
            return
        from validator.binary.containers import find_binaries
        from validator.binary.tools import Tools

        tools = Tools.find()
        file.tools.update(tools.versions)
        reading = _Binary(number, file, self._settings, tools, self._cache)
        for piece in find_binaries(file.artifact.source, file.artifact.name, tools):
            if isinstance(piece, Skipped):
                file.skipped.append(piece)
            elif piece.kind == "ptx":
                if why := self._over():
                    file.skipped.append(Skipped(piece.artifact, NOT_EXAMINED + why, GO_ON))
                else:
                    yield Text(number, piece.artifact, piece.data)
            else:
                looked = reading.survey(piece)
                self._found += len(looked)
                before = len(file.kernels)
                file.kernels += reading.settled(looked)
                for work in reading.portions(piece, [item for item in looked if item.lower], self._over):
                    self._kernels += len(file.kernels) - before
                    yield work
                    before = len(file.kernels)
                self._kernels += len(file.kernels) - before

    # -- results -----------------------------------------------------------------------------------------------------

    def take(self, outcome: Outcome) -> None:
        for part in outcome:
            file = self.files[part.file]
            file.kernels.extend(part.kernels)
            file.skipped.extend(part.skipped)
            self._kernels += len(part.kernels)
            if part.key and not part.skipped and self._cache is not None:
                # At once: what is done of a large file is kept when the audit is interrupted.
                from validator.ordering.sass.cache import Stored

                self._cache.put(part.key, Stored(tuple(part.kernels)))
            self._done(file)

    def _done(self, file: _File) -> None:
        file.open -= 1
        if not file.open:
            self._close(file)
        if self._progress is not None:
            found = f" of {self._found} found so far" if self._found > self._kernels else ""
            done = f"{self._closed} of {len(self.files)} files, {self._kernels} kernels{found}"
            self._progress(f"{done}: {file.artifact.name}")

    def _close(self, file: _File) -> None:
        self._closed += 1
        if file.left:
            file.skipped.append(left_out(file.artifact.name, file.left, file.why))
        if not (file.kernels or file.skipped) and not self._settings.globs:
            hint = "name a file that holds PTX or machine code"
            file.skipped.append(Skipped(file.artifact.name, "holds no kernel", hint))
        if file.key is not None and not file.skipped and self._cache is not None:
            # What was skipped may be readable next time: a tool that was missing or took too long.
            from validator.ordering.sass.cache import Stored

            self._cache.put(file.key, Stored(tuple(file.kernels), file.tools))

    def close(self) -> None:
        """All results are in."""
        if self._cache is not None:
            self._cache.close()

    # -- cache -------------------------------------------------------------------------------------------------------

    @cached_property
    def _cache(self) -> ResultCache | None:
        if self._cache_folder is None:
            return None
        from validator.binary.tools import Tools
        from validator.ordering.sass.cache import ResultCache

        return ResultCache(self._cache_folder, dict(Tools.find().versions))

    def _stored(self, file: _File) -> bool:
        """Whether the cache had it; a file that cannot be read is left to whoever reads it next."""
        if self._cache is None:
            return False
        artifact, settings = file.artifact, self._settings
        try:
            file.key = self._cache.key(artifact.source, artifact.name, settings.contracts, settings.globs)
        except OSError:
            return False
        stored = self._cache.get(file.key)
        if stored is None:
            return False
        file.key = None
        self._kernels += len(stored.kernels)
        file.kernels, file.tools = list(stored.kernels), stored.tools
        return True


class _Binary:
    """Machine code of one file: settles what it can and hands on the rest."""

    def __init__(self, number: int, file: _File, settings: Settings, tools: Tools, cache: ResultCache | None) -> None:
        from validator.ordering.sass.reader import SMALL

        self._number, self._file, self._settings, self._tools = number, file, settings, tools
        source = file.artifact.source
        size = source.stat().st_size if isinstance(source, Path) else len(source)
        self._in_full = None if size < SMALL else self._declared
        self._cache = None if size < SMALL else cache
        """For parts of the file: a small one is done before anybody interrupts it."""

    def _declared(self, name: str) -> bool:
        """What a contract says can make more of a kernel than its opcodes do."""
        from validator.ordering.sass.demangle import demangle

        contracts = self._settings.contracts
        return bool(contracts) and match_contract(contracts, name, demangle((name,))[name]) is not None

    def _wanted(self, name: str) -> bool:
        from validator.ordering.sass.demangle import demangle

        return self._settings.wanted(name, demangle((name,))[name])

    def survey(self, piece: Found) -> list[Looked]:
        """The kernels of one cubin that are asked for."""
        from validator.ordering.sass.errors import SassError
        from validator.ordering.sass.reader import survey

        try:
            return survey(piece, self._wanted if self._settings.globs else None, self._in_full)
        except SassError as error:
            self._file.skipped.append(Skipped.because(piece.artifact, error))
            return []

    def settled(self, looked: Sequence[Looked]) -> list[KernelAudit]:
        """Audits of the kernels of one cubin that need not be lowered."""
        from validator.ordering.settled import audit_settled

        contracts = self._settings.contracts
        surveyed = (item.settled() for item in looked if not item.lower)
        return [audit_settled(k, match_contract(contracts, k.name, k.demangled)) for k in surveyed]

    def portions(self, piece: Found, looked: Sequence[Looked], over: Callable[[], str]) -> Iterator[Work]:
        """Kernels to lower, a batch at most in each portion; what is kept of them goes to the file, so does what is
        left when the time is over."""
        from validator.ordering.batch import Code
        from validator.ordering.sass.reader import Portion, no_decoder

        if looked and self._tools.nvdisasm is None:
            missing = no_decoder(self._file.artifact.name)
            if missing not in self._file.skipped:
                self._file.skipped.append(missing)
            return
        of_piece = hashlib.sha256(piece.data).digest() if self._cache is not None else b""
        first = weight = 0
        for number, item in enumerate(looked, 1):
            weight += item.scan.instructions
            if weight < _BATCH and number < len(looked):
                continue
            if why := over():
                left = unexamined(looked[first:], self._settings.contracts, why)
                self._file.kernels += left
                self._file.left, self._file.why = self._file.left + len(left), why
                return
            portion = Portion(piece.artifact, piece.data, piece.arch, tuple(i.place for i in looked[first:number]))
            key = self._key(of_piece, portion)
            kept = self._cache.get(key) if self._cache is not None else None
            if kept is not None:
                self._file.kernels += kept.kernels
            else:
                yield Code(self._number, portion, weight, key)
            first, weight = number, 0

    def _key(self, of_piece: bytes, portion: Portion) -> str:
        """Of what is kept of some kernels of a cubin with this digest; empty where nothing is."""
        if self._cache is None:
            return ""
        which = ("kernels", str(portion.arch), *map(str, portion.places))
        return self._cache.key(of_piece, portion.artifact, self._settings.contracts, which)
