"""From a file that ships to programs ready for the audit: scan, decode what matters, lower."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from validator.binary.containers import Found, Limits, find_binaries
from validator.binary.elf import Cubin, Kernel
from validator.binary.tools import INSTALL_HINT, Tools
from validator.errors import Problem
from validator.ordering.result import Skipped
from validator.ordering.sass.demangle import demangle, with_types
from validator.ordering.sass.disassemble import decoder_for
from validator.ordering.sass.errors import SassError
from validator.ordering.sass.lines import LineTable
from validator.ordering.sass.program import SassProgram, digest_of
from validator.ordering.sass.scan import check_agreement, scan
from validator.ordering.sass.settlement import Scan, Surveyed

__all__ = [
    "SMALL",
    "BinaryModule",
    "Looked",
    "Portion",
    "SassKernel",
    "lower",
    "no_decoder",
    "open_portion",
    "read_binary",
    "survey",
]

_BATCH = 1 << 19
"""Instructions that are decoded together; what bounds the memory a library takes."""
SMALL = 4 << 20
"""Bytes below which everything is lowered: rules that have nothing to do with early accesses run as well."""


@dataclass(frozen=True, slots=True)
class SassKernel(Surveyed):
    """One kernel of a binary: lowered, or settled by its opcodes."""

    program: SassProgram | None
    """None when the scan settles it."""


@dataclass(frozen=True, slots=True)
class Looked:
    """A kernel that was scanned."""

    cubin: Cubin
    place: int
    """Counts the kernels of the cubin from 0."""
    kernel: Kernel
    scan: Scan
    lower: bool
    """Whether the scan leaves something open, or everything is wanted."""

    @property
    def where(self) -> str:
        return f"{self.cubin.name}!{self.kernel.name}"

    def settled(self) -> SassKernel:
        """What its opcodes say."""
        name = self.kernel.name
        readable = demangle((name,))[name]
        return SassKernel(self.cubin.name, name, readable, self.cubin.arch, digest_of(self.kernel), self.scan, None)


@dataclass(frozen=True, slots=True)
class Portion:
    """Kernels of one cubin that have to be lowered, as they travel between processes."""

    artifact: str
    data: bytes
    arch: str | None
    """As its container says."""
    places: tuple[int, ...]


def survey(
    piece: Found, only: Callable[[str], bool] | None = None, in_full: Callable[[str], bool] | None = None
) -> list[Looked]:
    """The kernels of one cubin, scanned, in order.

    Args:
        only: mangled name → whether the kernel is wanted at all; None: all.
        in_full: mangled name → whether it is lowered even if the scan settles it; None: all are.

    Raises:
        SassError: the cubin is damaged.
    """
    cubin = Cubin(piece.data, piece.artifact, piece.arch)
    kernels = list(cubin.kernels())
    demangle(k.name for k in kernels)  # all at once: `only` and `in_full` may ask for them one by one
    looked: list[Looked] = []
    for place, kernel in enumerate(kernels):
        if only is None or only(kernel.name):
            found = scan(kernel, cubin.sm)
            full = in_full is None or in_full(kernel.name)
            old = found.settlement is not None and cubin.sm < 90
            looked.append(Looked(cubin, place, kernel, found, not old and (full or found.settlement is None)))
    return looked


def open_portion(portion: Portion) -> list[Looked]:
    """The kernels of a portion; their cubin was read before."""
    cubin = Cubin(portion.data, portion.artifact, portion.arch)
    kernels = list(cubin.kernels())
    return [Looked(cubin, p, kernels[p], scan(kernels[p], cubin.sm), True) for p in portion.places]


def lower(looked: Sequence[Looked], tools: Tools) -> Iterator[SassKernel | Skipped]:
    """One by one as programs, in order; what cannot be followed is a `Skipped`. Decodes all of them at once."""
    names = demangle(item.kernel.name for item in looked)
    for sm in sorted({item.cubin.sm for item in looked}):
        decoder_for(tools, sm).learn(item.kernel.code for item in looked if item.cubin.sm == sm)
    table: tuple[Cubin, LineTable] | None = None
    for item in looked:
        if table is None or table[0] is not item.cubin:
            table = (item.cubin, LineTable(item.cubin))
        try:
            program = _program(item, names[item.kernel.name], tools, table[1])
        except SassError as error:
            yield Skipped.because(item.where, error)
            continue
        name, arch = item.kernel.name, item.cubin.arch
        yield SassKernel(item.cubin.name, name, names[name], arch, program.digest, item.scan, program)


def _program(item: Looked, readable: str, tools: Tools, lines: LineTable) -> SassProgram:
    instructions = decoder_for(tools, item.cubin.sm).decode(item.kernel.code)
    check_agreement(item.where, instructions)
    kernel = replace(item.kernel, parameters=with_types(item.kernel.parameters, readable))
    try:
        return SassProgram(item.cubin, kernel, instructions, lines)
    except (IndexError, KeyError, ValueError) as error:
        raise SassError(Problem(f"cannot be followed: {type(error).__name__}: {error}", item.where)) from error


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
    """Every kernel of a cubin, fat binary, library, object, wheel, zip file or folder, in this process.

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
    size = len(data) if isinstance(data, bytes) else data.stat().st_size if data.is_file() else SMALL
    module._kernels = _all(module, find_binaries(data, name, found, limits), only, in_full if size >= SMALL else None)
    return module


def _all(
    module: BinaryModule,
    pieces: Iterable[Found | Skipped],
    only: Callable[[str], bool] | None,
    in_full: Callable[[str], bool] | None,
) -> Iterator[SassKernel]:
    """Collects kernels until there is enough to decode."""
    pending: list[Looked] = []
    for piece in pieces:
        if isinstance(piece, Skipped):
            module.skipped.append(piece)
        elif piece.kind == "ptx":
            module.ptx.append((piece.artifact, piece.data))
        else:
            try:
                looked = survey(piece, only, in_full)
            except SassError as error:
                if piece.artifact == module.name:
                    raise
                module.skipped.append(Skipped.because(piece.artifact, error))
                continue
            yield from (item.settled() for item in looked if not item.lower)
            pending += (item for item in looked if item.lower)
            if sum(item.scan.instructions for item in pending) >= _BATCH:
                yield from _lowered(module, pending)
                pending = []
    yield from _lowered(module, pending)


def _lowered(module: BinaryModule, pending: Sequence[Looked]) -> Iterator[SassKernel]:
    if pending and module.tools.nvdisasm is None:
        if no_decoder(module.name) not in module.skipped:
            module.skipped.append(no_decoder(module.name))
        return
    for item in lower(pending, module.tools):
        if isinstance(item, Skipped):
            module.skipped.append(item)
        else:
            yield item


def no_decoder(name: str) -> Skipped:
    """The machine code of a file cannot be decoded here."""
    return Skipped(name, "machine code needs nvdisasm, and it was not found", INSTALL_HINT)
