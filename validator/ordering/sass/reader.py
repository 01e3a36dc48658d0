"""From a file that ships to programs ready for the audit: scan, decode what matters, lower."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from validator.errors import Problem
from validator.ordering.result import Skipped
from validator.ordering.sass.containers import Found, Limits, find_binaries
from validator.ordering.sass.demangle import demangle, with_types
from validator.ordering.sass.disassemble import Decoder
from validator.ordering.sass.elf import Cubin, Kernel
from validator.ordering.sass.errors import SassError
from validator.ordering.sass.lines import LineTable
from validator.ordering.sass.program import SassProgram, digest_of
from validator.ordering.sass.scan import Scan, check_agreement, scan
from validator.ordering.sass.tools import INSTALL_HINT, Tools

__all__ = ["BinaryModule", "SassKernel", "read_binary"]

_BATCH = 1 << 19
"""Instructions that are decoded together; what bounds the memory a library takes."""
_SMALL = 4 << 20
"""Bytes below which everything is lowered: rules that have nothing to do with early accesses run as well."""


@dataclass(frozen=True, slots=True)
class SassKernel:
    """One kernel of a binary: lowered, or settled by its opcodes."""

    artifact: str
    """Path as given, `!`-separated inside archives and libraries."""
    name: str
    """Mangled."""
    demangled: str
    arch: str
    digest: str
    """sha256 of the machine code."""
    scan: Scan
    program: SassProgram | None
    """None when the scan settles it."""


@dataclass(slots=True)
class BinaryModule:
    """Iterate once: kernels come as they are decoded; `skipped`, `ptx` fill up on the way."""

    name: str
    tools: Tools
    skipped: list[Skipped] = field(default_factory=list)
    ptx: list[tuple[str, bytes]] = field(default_factory=list)
    """(artifact, text) of the PTX that the binary carries for the driver's compiler."""
    _kernels: Iterator[SassKernel] = field(default_factory=lambda: iter(()))

    def __iter__(self) -> Iterator[SassKernel]:
        return self._kernels


def read_binary(
    data: bytes | Path,
    name: str,
    *,
    tools: Tools | None = None,
    only: Callable[[str], bool] | None = None,
    in_full: Callable[[str], bool] | None = None,
    limits: Limits | None = None,
) -> BinaryModule:
    """Every kernel of a cubin, fat binary, library, object, wheel, zip file or folder.

    Args:
        name: what to call it in reports.
        only: mangled name → whether the kernel is wanted at all; None: all.
        in_full: mangled name → whether it is lowered even if the scan settles it (a contract says more about it than
            its opcodes do); None: all are. Files below 4 MiB are small enough to lower everything in any case.

    Raises:
        SassError: while iterating, when the outermost file cannot be read; damage further in is in `skipped`.
    """
    found = tools or Tools.find()
    module = BinaryModule(name, found)
    size = len(data) if isinstance(data, bytes) else data.stat().st_size if data.is_file() else _SMALL
    module._kernels = _Reader(module, only, in_full if size >= _SMALL else None).run(
        find_binaries(data, name, found, limits)
    )
    return module


@dataclass(slots=True)
class _Wanted:
    """A kernel on its way."""

    cubin: Cubin
    kernel: Kernel
    scan: Scan
    lower: bool


class _Reader:
    def __init__(
        self, module: BinaryModule, only: Callable[[str], bool] | None, in_full: Callable[[str], bool] | None
    ) -> None:
        self._module = module
        self._only = only
        self._in_full = in_full
        self._decoders: dict[int, Decoder] = {}
        self._no_decoder = False
        self._lines: tuple[Cubin, LineTable] | None = None

    def run(self, pieces: Iterator[Found | Skipped]) -> Iterator[SassKernel]:
        """Collects kernels until there is enough to decode, then hands them out in order."""
        pending: list[_Wanted] = []
        load = 0
        for piece in pieces:
            if isinstance(piece, Skipped):
                self._module.skipped.append(piece)
            elif piece.kind == "ptx":
                self._module.ptx.append((piece.artifact, piece.data))
            else:
                for wanted in self._cubin(piece):
                    pending.append(wanted)
                    load += wanted.scan.instructions if wanted.lower else 0
                    if load >= _BATCH:
                        yield from self._flush(pending)
                        pending, load = [], 0
        yield from self._flush(pending)

    def _cubin(self, piece: Found) -> Iterator[_Wanted]:
        try:
            cubin = Cubin(piece.data, piece.artifact, piece.arch)
            kernels = list(cubin.kernels())
            demangle(k.name for k in kernels)  # all at once: `only` and `in_full` may ask for them one by one
            for kernel in kernels:
                if self._only is None or self._only(kernel.name):
                    looked = scan(kernel, cubin.sm)
                    full = self._in_full is None or self._in_full(kernel.name)
                    old = looked.settlement is not None and cubin.sm < 90
                    yield _Wanted(cubin, kernel, looked, not old and (full or looked.settlement is None))
        except SassError as error:
            if piece.artifact == self._module.name:
                raise
            self._module.skipped.append(Skipped(piece.artifact, str(error)))

    def _flush(self, pending: list[_Wanted]) -> Iterator[SassKernel]:
        names = demangle(w.kernel.name for w in pending)
        for sm in sorted({w.cubin.sm for w in pending if w.lower}):
            decoder = self._decoder(sm)
            if decoder is not None:
                decoder.learn(w.kernel.code for w in pending if w.lower and w.cubin.sm == sm)
        for wanted in pending:
            readable = names[wanted.kernel.name]
            program: SassProgram | None = None
            if wanted.lower:
                try:
                    program = self._lower(wanted, readable)
                except SassError as error:
                    self._module.skipped.append(Skipped(f"{wanted.cubin.name}!{wanted.kernel.name}", str(error)))
                    continue
                if program is None:
                    continue
            digest = program.digest if program is not None else digest_of(wanted.kernel)
            yield SassKernel(
                wanted.cubin.name, wanted.kernel.name, readable, wanted.cubin.arch, digest, wanted.scan, program
            )

    def _decoder(self, sm: int) -> Decoder | None:
        if self._module.tools.nvdisasm is None:
            if not self._no_decoder:
                self._no_decoder = True
                self._module.skipped.append(
                    Skipped(self._module.name, "machine code needs nvdisasm, and it was not found", INSTALL_HINT)
                )
            return None
        if sm not in self._decoders:
            self._decoders[sm] = Decoder(self._module.tools, sm)
        return self._decoders[sm]

    def _line_table(self, cubin: Cubin) -> LineTable:
        """Parsed once per cubin; kernels of one cubin follow each other."""
        if self._lines is None or self._lines[0] is not cubin:
            self._lines = (cubin, LineTable(cubin))
        return self._lines[1]

    def _lower(self, wanted: _Wanted, readable: str) -> SassProgram | None:
        decoder = self._decoder(wanted.cubin.sm)
        if decoder is None:
            return None
        instructions = decoder.decode(wanted.kernel.code)
        check_agreement(f"{wanted.cubin.name}!{wanted.kernel.name}", instructions)
        kernel = replace(wanted.kernel, parameters=with_types(wanted.kernel.parameters, readable))
        try:
            return SassProgram(wanted.cubin, kernel, instructions, self._line_table(wanted.cubin))
        except (IndexError, KeyError, ValueError) as error:
            where = f"{wanted.cubin.name}!{wanted.kernel.name}"
            raise SassError(Problem(f"cannot be followed: {type(error).__name__}: {error}", where)) from error
