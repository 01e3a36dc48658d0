"""Source lines of machine code, from `.debug_line` and `.nv_debug_line_sass`.

DWARF 2 to 4 line programs with NVIDIA's extended opcode 0x90, "the rows from here on were inlined at row n of this
function" (LLVM's `DW_LNE_NVIDIA_inlined_call`). `.debug_line` leads to the source (CUDA, Triton's or CuTe's Python);
`.nv_debug_line_sass` has the same form and leads to the line of the PTX. Tables are untrusted: every read is bounded,
and what does not parse leaves instructions without lines.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from validator.binary.elf import Cubin, Relocation
from validator.ordering.program import Line

__all__ = ["LineTable"]

_MAX_BYTES = 256 << 20
_MAX_ROWS = 20_000_000
_INLINED_CALL = 0x90


@dataclass(frozen=True, slots=True)
class _Row:
    pc: int
    file: int
    line: int
    caller: int
    """1-based row of this function that the code was inlined at; 0: not inlined."""


@dataclass(slots=True)
class _Function:
    files: list[str]
    rows: list[_Row] = field(default_factory=list)
    """In the order of the line program, which is what `caller` counts in."""

    def place(self, row: _Row) -> tuple[str, int]:
        name = self.files[row.file - 1] if 1 <= row.file <= len(self.files) else "?"
        return name, row.line

    def outermost(self, row: _Row) -> tuple[str, int] | None:
        """Where the outermost inlined call stands; chains that loop are cut."""
        seen = 0
        found: _Row | None = None
        while row.caller and row.caller <= len(self.rows) and seen < 64:
            row = self.rows[row.caller - 1]
            found = row
            seen += 1
        return self.place(found) if found else None


class _Reader:
    """Little-endian cursor; reading beyond the end raises IndexError."""

    def __init__(self, data: bytes, at: int, stop: int) -> None:
        self.data, self.at, self.stop = data, at, min(stop, len(data))

    def u8(self) -> int:
        if self.at >= self.stop:
            raise IndexError
        self.at += 1
        return self.data[self.at - 1]

    def fixed(self, layout: str) -> int:
        size = struct.calcsize(layout)
        if self.at + size > self.stop:
            raise IndexError
        (value,) = struct.unpack_from(layout, self.data, self.at)
        self.at += size
        return int(value)

    def uleb(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
        raise IndexError

    def sleb(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value - (1 << shift) if byte & 0x40 else value
        raise IndexError

    def text(self) -> str:
        end = self.data.find(b"\0", self.at, self.stop)
        if end < 0:
            raise IndexError
        start, self.at = self.at, end + 1
        return self.data[start:end].decode("utf-8", "backslashreplace")


class LineTable:
    """Line lookup for one cubin."""

    def __init__(self, cubin: Cubin, section: str = ".debug_line") -> None:
        self._functions: dict[str, tuple[_Function, list[_Row], list[int]]] = {}
        found = cubin.section(section)
        if found is None or found.size > _MAX_BYTES:
            return
        data = bytes(cubin.contents(found))
        patches = {r.offset: r for r in cubin.relocations(found)}
        for name, function in _programs(data, patches):
            rows = sorted(function.rows, key=lambda r: r.pc)
            self._functions.setdefault(name, (function, rows, [r.pc for r in rows]))

    def __bool__(self) -> bool:
        return bool(self._functions)

    def __call__(self, function: str, pc: int) -> Line:
        """Where the instruction at byte `pc` of a function came from."""
        known = self._functions.get(function)
        if known is None:
            return Line(pc=pc)
        found, rows, starts = known
        at = bisect_right(starts, pc) - 1
        if at < 0 or rows[at].line == 0:
            return Line(pc=pc)
        file, line = found.place(rows[at])
        return Line(pc=pc, file=file, line=line, inlined_at=found.outermost(rows[at]))


def _programs(data: bytes, patches: dict[int, Relocation]) -> Iterator[tuple[str, _Function]]:
    """(name, rows) of every sequence that parses."""
    at = total = 0
    while at + 4 <= len(data) and total < _MAX_ROWS:
        (length,) = struct.unpack_from("<I", data, at)
        reader = _Reader(data, at + 4, at + 4 + length)
        at += 4 + length
        if length >= 0xFFFFFFF0:
            return
        try:
            for sequence in _unit(reader, patches):
                total += len(sequence[1].rows)
                yield sequence
        except (IndexError, struct.error):
            continue


def _unit(r: _Reader, patches: dict[int, Relocation]) -> Iterator[tuple[str, _Function]]:
    version = r.fixed("<H")
    if not 2 <= version <= 4:
        return
    header = r.fixed("<I")
    program = r.at + header
    step = r.u8()
    if version >= 4:
        r.u8()
    r.u8()  # default_is_stmt
    line_base = int.from_bytes(bytes([r.u8()]), "little", signed=True)
    line_range, opcode_base = r.u8(), r.u8()
    lengths = [r.u8() for _ in range(max(0, opcode_base - 1))]
    if line_range == 0:
        return
    files = _files(r)
    r.at = program
    yield from _Machine(r, files, patches, step, line_base, line_range, opcode_base, lengths).run()


def _files(r: _Reader) -> list[str]:
    folders: list[str] = []
    while r.at < r.stop and r.data[r.at]:
        folders.append(r.text())
    r.u8()
    files: list[str] = []
    while r.at < r.stop and r.data[r.at]:
        name = r.text()
        folder = r.uleb()
        r.uleb()
        r.uleb()
        inside = folders[folder - 1] + "/" if 1 <= folder <= len(folders) and not name.startswith("/") else ""
        files.append(inside + name)
    return files


@dataclass(slots=True)
class _Machine:
    """The line-number state machine (DWARF 4, 6.2.5)."""

    r: _Reader
    files: list[str]
    patches: dict[int, Relocation]
    step: int
    line_base: int
    line_range: int
    opcode_base: int
    lengths: list[int]
    pc: int = 0
    file: int = 1
    line: int = 1
    caller: int = 0
    function: str = ""

    def run(self) -> Iterator[tuple[str, _Function]]:
        found = _Function(self.files)
        while self.r.at < self.r.stop:
            opcode = self.r.u8()
            if opcode >= self.opcode_base:
                special = opcode - self.opcode_base
                self.pc += special // self.line_range * self.step
                self.line += self.line_base + special % self.line_range
                self._emit(found)
            elif opcode == 0:
                if self._extended():
                    yield self.function, found
                    found = _Function(self.files)
                    self.pc, self.file, self.line, self.caller, self.function = 0, 1, 1, 0, ""
            else:
                self._standard(opcode, found)

    def _emit(self, found: _Function) -> None:
        found.rows.append(_Row(self.pc, self.file, self.line, self.caller))

    def _standard(self, opcode: int, found: _Function) -> None:
        r = self.r
        match opcode:
            case 1:
                self._emit(found)
            case 2:
                self.pc += r.uleb() * self.step
            case 3:
                self.line += r.sleb()
            case 4:
                self.file = r.uleb()
            case 8:
                self.pc += (255 - self.opcode_base) // self.line_range * self.step
            case 9:
                self.pc += r.fixed("<H")
            case _:
                for _ in range(self.lengths[opcode - 1]):
                    r.uleb()

    def _extended(self) -> bool:
        """True at the end of a sequence."""
        r = self.r
        size = r.uleb()
        start = r.at
        if size == 0 or start + size > r.stop:
            raise IndexError
        opcode = r.u8()
        if opcode == 2:
            patch = self.patches.get(r.at)
            value = r.fixed("<Q") if size >= 9 else 0
            self.pc = (patch.addend + patch.symbol.value) if patch is not None else value
            self.function = patch.symbol.name.removeprefix(".text.") if patch is not None else self.function
        elif opcode == _INLINED_CALL:
            self.caller = r.uleb()
        r.at = start + size
        return opcode == 1
