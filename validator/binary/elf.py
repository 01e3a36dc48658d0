"""Cubins: a bounds-checked reader of the parts of an ELF64 file that an audit needs.

Sources: the System V ABI (ELF64 layout); NVIDIA's `.nv.info` records as `nvdisasm` names them (EIATTR_*). Every offset
and count in the file is checked against the file's size before it is used; a lie is a `BinaryError`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from validator.binary.errors import BinaryError
from validator.binary.parameter import Parameter
from validator.errors import Problem

__all__ = ["Cubin", "Kernel", "Relocation", "Section", "Symbol", "is_cubin"]

_EM_CUDA = 190
_SHT_NOBITS = 8
_SHT_RELA = 4
_SHT_REL = 9
_STO_CUDA_ENTRY = 0x10
_SHF_EXECINSTR = 4
_MAX_SECTIONS = 1 << 20
_INSTRUCTION = 16

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")
_REL = struct.Struct("<QQ")

_MAX_THREADS, _PARAM_CBANK, _REQNTID, _KPARAM_INFO, _BRANCH_TARGETS, _KPARAM_INFO_V2 = (
    0x05,
    0x0A,
    0x10,
    0x17,
    0x34,
    0x45,
)
_PER_FUNCTION = {0x2F: "registers", 0x11: "stack bytes"}
_ARCH_OPTION = re.compile(rb"-arch[ =]+sm_(\d{2,3}[af]?)\b")


@dataclass(frozen=True, slots=True)
class Section:
    index: int
    name: str
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    entry_size: int


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str
    section: int
    value: int
    size: int
    type: int
    entry: bool
    """STO_CUDA_ENTRY: a kernel, not a device function."""
    local: bool = False
    """STB_LOCAL: nothing outside the file can name it."""


@dataclass(frozen=True, slots=True)
class Relocation:
    offset: int
    """Bytes into the section it patches."""
    symbol: Symbol
    addend: int
    type: int = 0
    """R_CUDA_*: how the address is put into the instruction."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One `__global__` function with what the ELF says about it."""

    name: str
    """Mangled."""
    code: memoryview
    """Machine code, 16 bytes an instruction, from the start of its section."""
    section: int
    parameters: tuple[Parameter, ...]
    """By offset."""
    parameter_base: int | None
    """Offset of the parameter block in constant bank 0, from EIATTR_PARAM_CBANK."""
    parameter_bytes: int
    block_size: tuple[int, int, int] | None
    max_block_size: int | None
    branch_targets: dict[int, tuple[int, ...]]
    """Byte offset of an indirect branch → byte offsets it may go to (EIATTR_INDIRECT_BRANCH_TARGETS)."""
    functions: dict[int, str]
    """Byte offset → name of the functions that start inside this section, the kernel included."""


def is_cubin(data: bytes | memoryview) -> bool:
    """Whether the first bytes are those of a 64-bit little-endian ELF file for CUDA."""
    head = bytes(data[:20])
    return len(head) == 20 and head[:6] == b"\x7fELF\x02\x01" and int.from_bytes(head[18:20], "little") == _EM_CUDA


class Cubin:
    """An opened cubin.

    Raises BinaryError when a header, table or record points outside the file.
    """

    def __init__(
        self, data: bytes | memoryview, name: str, arch: str | None = None, *, any_machine: bool = False
    ) -> None:
        """`arch` is what a container says of it; it is believed where the file's own number agrees. `any_machine`: also
        a host's file, of which only sections are asked."""
        self.name = name
        self._said = arch
        self._data = memoryview(data)
        if len(self._data) < _HEADER.size:
            raise self._broken(f"{len(self._data)} bytes are too few for an ELF header")
        if not (is_cubin(self._data) or (any_machine and bytes(self._data[:6]) == b"\x7fELF\x02\x01")):
            raise self._broken("not a 64-bit little-endian CUDA ELF file")
        head = _HEADER.unpack_from(self._data)
        self._abi_version, self._flags = head[0][8], head[7]
        self._table, self._entry, self._count, self._names = head[6], head[11], head[12], head[13]
        self.relocatable = head[1] == 1
        """Not linked: calls and addresses may still be relocations."""

    def _broken(self, what: str) -> BinaryError:
        return BinaryError(Problem(what, self.name, "the file is damaged or no cubin: build it again"))

    def _slice(self, offset: int, size: int, what: str) -> memoryview:
        if offset < 0 or size < 0 or offset + size > len(self._data):
            raise self._broken(f"{what} at {offset:#x} with {size:#x} bytes reaches beyond the file")
        return self._data[offset : offset + size]

    def _string(self, table: memoryview, offset: int, what: str) -> str:
        """NUL-terminated text; names longer than 64 KiB are refused (nothing sane makes them)."""
        if offset >= len(table):
            raise self._broken(f"name of {what} lies outside its string table")
        window = bytes(table[offset : offset + 65536])
        end = window.find(b"\0")
        if end < 0:
            raise self._broken(f"name of {what} does not end")
        return window[:end].decode("utf-8", "backslashreplace")

    @cached_property
    def sm(self) -> int:
        """90, 100, …; `e_flags` moved it with ABI version 8 (CUDA 13)."""
        flags = int(self._flags)
        return (flags >> 8) & 0xFF if self._abi_version >= 8 else flags & 0xFF

    @cached_property
    def arch(self) -> str:
        """`sm_90a`: the letter is only in the container, in the note that ptxas leaves, or a flag of older files."""
        if self._said is not None and self._said.removeprefix("sm_").rstrip("af") == str(self.sm):
            return self._said
        for section in self.sections:
            if section.name.startswith(".note.nv.tkinfo"):
                found = _ARCH_OPTION.search(bytes(self.contents(section)[:65536]))
                if found and int(found[1].rstrip(b"af")) == self.sm:
                    return f"sm_{found[1].decode()}"
        accelerated = self._abi_version < 8 and self._flags & 0x800
        return f"sm_{self.sm}{'a' if accelerated else ''}"

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        count, names = self._count, self._names
        if count == 0 and self._table:
            # More than 65,279 sections: the real counts stand in section 0 (System V ABI, "Sections").
            first = _SECTION.unpack_from(self._slice(self._table, _SECTION.size, "section table"))
            count, names = first[5], first[6] if names == 0xFFFF else names
        if count == 0:
            return ()
        if self._entry != _SECTION.size or count > _MAX_SECTIONS:
            raise self._broken(f"{count} section headers of {self._entry} bytes")
        raw = list(_SECTION.iter_unpack(self._slice(self._table, count * _SECTION.size, "section table")))
        if names >= count:
            raise self._broken(f"section {names} holds the names, but there are {count} sections")
        strings = self._slice(raw[names][4], raw[names][5], "section names")
        return tuple(
            Section(i, self._string(strings, h[0], f"section {i}"), h[1], h[2], h[4], h[5], h[6], h[7], h[9])
            for i, h in enumerate(raw)
        )

    def contents(self, section: Section) -> memoryview:
        """Contents; empty for sections that take no room in the file."""
        if section.type == _SHT_NOBITS:
            return self._data[:0]
        return self._slice(section.offset, section.size, f"section {section.name}")

    @cached_property
    def _by_name(self) -> dict[str, Section]:
        return {s.name: s for s in self.sections}

    def section(self, name: str) -> Section | None:
        return self._by_name.get(name)

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        table = self.section(".symtab")
        if table is None:
            return ()
        if table.link >= len(self.sections):
            raise self._broken("the symbol table names no string table")
        strings = self.contents(self.sections[table.link])
        raw = self.contents(table)
        if len(raw) % _SYMBOL.size:
            raise self._broken("the symbol table is cut off")
        return tuple(
            Symbol(
                self._string(strings, name, f"symbol {i}"),
                section,
                value,
                size,
                info & 15,
                bool(other & _STO_CUDA_ENTRY),
                info >> 4 == 0,
            )
            for i, (name, info, other, section, value, size) in enumerate(_SYMBOL.iter_unpack(raw))
        )

    def relocations(self, section: Section) -> tuple[Relocation, ...]:
        """Patches to apply to `section`, from `.rela.NAME` and `.rel.NAME`."""
        found: list[Relocation] = []
        for patch in self._patches.get(section.index, ()):
            layout = _RELA if patch.type == _SHT_RELA else _REL
            raw = self.contents(patch)
            if len(raw) % layout.size:
                raise self._broken(f"relocations {patch.name} are cut off")
            for record in layout.iter_unpack(raw):
                index = record[1] >> 32
                if index >= len(self.symbols):
                    raise self._broken(f"a relocation in {patch.name} names symbol {index} of {len(self.symbols)}")
                found.append(
                    Relocation(
                        record[0], self.symbols[index], record[2] if len(record) > 2 else 0, record[1] & 0xFFFFFFFF
                    )
                )
        return tuple(found)

    @cached_property
    def _patches(self) -> dict[int, list[Section]]:
        found: dict[int, list[Section]] = {}
        for section in self.sections:
            if section.type in (_SHT_RELA, _SHT_REL) and section.size:
                found.setdefault(section.info, []).append(section)
        return found

    @cached_property
    def code_sections(self) -> tuple[Section, ...]:
        return tuple(s for s in self.sections if s.name.startswith(".text") and s.flags & _SHF_EXECINSTR and s.size)

    @cached_property
    def _functions(self) -> dict[int, list[Symbol]]:
        found: dict[int, list[Symbol]] = {}
        for symbol in self.symbols:
            if symbol.type == 2:
                found.setdefault(symbol.section, []).append(symbol)
        return found

    def kernels(self) -> Iterator[Kernel]:
        """Every `__global__` function, in section order."""
        for section in self.code_sections:
            functions = self._functions.get(section.index, [])
            entries = [s for s in functions if s.entry]
            code = self.contents(section)
            if len(code) % _INSTRUCTION:
                raise self._broken(f"section {section.name} is no multiple of {_INSTRUCTION} bytes")
            for entry in entries:
                if entry.value != 0:
                    raise self._broken(f"kernel {entry.name!r} does not start its section")
                yield self._kernel(entry, section, code, {s.value: s.name for s in functions})

    def _kernel(self, entry: Symbol, section: Section, code: memoryview, functions: dict[int, str]) -> Kernel:
        info = self.section(f".nv.info.{entry.name}")
        base: int | None = None
        size = 0
        required: tuple[int, int, int] | None = None
        most: int | None = None
        parameters: list[Parameter] = []
        targets: dict[int, tuple[int, ...]] = {}
        for attribute, payload in self.records(info) if info else ():
            match attribute:
                case 0x0A if len(payload) >= 8:
                    _, base, size = struct.unpack_from("<IHH", payload)
                case 0x17 | 0x45 if len(payload) >= 12:
                    parameters.append(_parameter(attribute, payload))
                case 0x10 if len(payload) >= 12:
                    required = struct.unpack_from("<III", payload)
                case 0x05 if len(payload) >= 12:
                    x, y, z = struct.unpack_from("<III", payload)
                    most = x * y * z
                case 0x34:
                    targets.update(_branch_targets(payload))
                case _:
                    pass
        parameters.sort(key=lambda p: p.index)
        return Kernel(
            entry.name, code, section.index, tuple(parameters), base, size, required, most, targets, functions
        )

    def resources(self, kernel: str) -> dict[str, int]:
        """`registers` and `stack bytes` (spills among them) of a thread, `shared bytes` of a CTA."""
        shared = self.section(f".nv.shared.{kernel}")
        return {**self._per_function.get(kernel, {}), "shared bytes": shared.size if shared else 0}

    @cached_property
    def _per_function(self) -> dict[str, dict[str, int]]:
        """Function → EIATTR_REGCOUNT and EIATTR_FRAME_SIZE, which stand in the file's own `.nv.info`."""
        info = self.section(".nv.info")
        found: dict[str, dict[str, int]] = {}
        for attribute, payload in self.records(info) if info else ():
            if attribute in _PER_FUNCTION and len(payload) >= 8:
                index, value = struct.unpack_from("<II", payload)
                if index < len(self.symbols):
                    found.setdefault(self.symbols[index].name, {})[_PER_FUNCTION[attribute]] = value
        return found

    def records(self, section: Section) -> Iterator[tuple[int, bytes]]:
        """Records of `.nv.info.*`: format byte, attribute byte, a 16-bit value, or a length and that many bytes."""
        raw = bytes(self.contents(section))
        at = 0
        while at + 4 <= len(raw):
            kind, attribute, value = struct.unpack_from("<BBH", raw, at)
            at += 4
            if kind == 4:
                if at + value > len(raw):
                    raise self._broken(f"record {attribute:#x} in {section.name} reaches beyond its section")
                yield attribute, raw[at : at + value]
                at += value
            elif kind in (1, 2, 3):
                yield attribute, value.to_bytes(2, "little")
            else:
                raise self._broken(f"record of unknown format {kind} in {section.name}")


def _parameter(attribute: int, payload: bytes) -> Parameter:
    """EIATTR_KPARAM_INFO packs the size into the top 14 bits of its last word; _V2 keeps it whole."""
    _, ordinal, offset, last = struct.unpack_from("<IHHI", payload)
    if attribute == 0x45 and len(payload) >= 12:
        return Parameter(index=ordinal, offset=offset, size=last)
    return Parameter(index=ordinal, offset=offset, size=last >> 18)


def _branch_targets(payload: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    at = 0
    while at + 12 <= len(payload):
        branch, _, count = struct.unpack_from("<III", payload, at)
        at += 12
        count = min(count, (len(payload) - at) // 4)
        yield branch, struct.unpack_from(f"<{count}I", payload, at)
        at += 4 * count
