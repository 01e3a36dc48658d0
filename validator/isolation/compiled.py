"""Kernels in PTX and in cubins: a fingerprint of all that runs, and what each takes of the device.

Names that nvcc makes unique by a hash of the source's path count without the hash. Layout of `.nv.info` records
(format, attribute, size, payload) and the attributes used: as `cuobjdump -elf` prints them, EIATTR_REGCOUNT and
EIATTR_FRAME_SIZE.
"""

from __future__ import annotations

import hashlib
import io
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

__all__ = ["Kernel", "kernels_of"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """One compiled kernel, or a whole file that cannot be taken apart."""

    fingerprint: str
    resources: Mapping[str, int]
    """What it takes of the device, by what: registers a thread, bytes of stack, bytes of shared memory."""


def kernels_of(path: str, data: bytes) -> dict[str, Kernel]:
    """Name → kernel; the file as a whole under the empty name where it holds none that can be read."""
    found = dict(_ptx(data)) if path.endswith(".ptx") else dict(_machine_code(data))
    return found or {"": Kernel(hashlib.sha256(data).hexdigest(), {})}


_HASH = re.compile(rb"(_INTERNAL_|_intern_|_GLOBAL__N__|__nv_static_\d+__)[0-9a-f]{8}(?=_)")


def _plain(name: bytes) -> bytes:
    return _HASH.sub(rb"\g<1>00000000", name)


# PTX ------------------------------------------------------------------------------------------------------------

_ENTRY = re.compile(rb"^[ \t]*(?:\.visible[ \t]+|\.weak[ \t]+)?\.entry[ \t]+([\w$.]+)", re.M)
_NOISE = re.compile(
    rb"//[^\n]*|/\*.*?\*/|^[ \t]*\.section[ \t]+\.debug_\w+\s*\{.*?^[ \t]*\}|^[ \t]*\.(?:loc|file|section)\b[^\n]*$"
    rb"|^[ \t]*\$L__(?:info_string|tmp|func_(?:begin|end))\w*:|(?<=,)[ \t]*debug[ \t]*$",
    re.M | re.S,
)
_REGISTERS = re.compile(rb"\.reg[ \t]+\.\w+[ \t]+%\w+<(\d+)>")
_MEMORY = re.compile(rb"\.(local|shared)[ \t]+(?:\.align[ \t]+\d+[ \t]+)?\.[bsuf](\d+)[ \t]+[\w$]+((?:\[\d+\])*)")


def _ptx(data: bytes) -> Iterator[tuple[str, Kernel]]:
    """Kernels of a PTX file: from each `.entry` to the next; what stands before the first belongs to all of them."""
    text = _plain(_NOISE.sub(b"", data))
    starts = list(_ENTRY.finditer(text))
    preamble = text[: starts[0].start()] if starts else b""
    for match, following in zip(starts, [*starts[1:], None], strict=True):
        body = text[match.start() : following.start() if following else len(text)]
        own = re.escape(match[1])
        # Its parameters are named after it, and so are its variables: `_ZZ3addE5table`.
        named = re.compile(rb"(?<![\w$.])%b(?![\w$.])|%b(?=_param_)|(?<=_ZZ)%d%b(?=E)" % (own, own, len(match[1]), own))
        canonical = b" ".join((preamble + named.sub(b"KERNEL", body)).split())
        resources = {"declared registers": sum(int(n) - 1 for n in _REGISTERS.findall(body)), **_memory(body)}
        yield match[1].decode("ascii", "replace"), Kernel(hashlib.sha256(canonical).hexdigest(), resources)


def _memory(body: bytes) -> dict[str, int]:
    """Bytes of stack and of shared memory that a kernel declares."""
    found = {"bytes of stack": 0, "bytes of shared memory": 0}
    for space, bits, sizes in _MEMORY.findall(body):
        count = 1
        for size in re.findall(rb"\d+", sizes):
            count *= int(size)
        found["bytes of stack" if space == b"local" else "bytes of shared memory"] += int(bits) // 8 * count
    return found


# Machine code ---------------------------------------------------------------------------------------------------

_REGCOUNT, _FRAME_SIZE = 0x2F, 0x11
_FORMAT_WITH_SIZE = 0x04
_OF_THE_MODULE = (".nv.constant3", ".nv.constant4", ".nv.global.init", ".nv.global")
"""Variables that all kernels of a file share; each counts like a kernel of its own."""
_PARAMETER_BANK = 0x0A


def _machine_code(data: bytes) -> Iterator[tuple[str, Kernel]]:
    """Kernels of a cubin: code, constants, launch parameters and relocations of each."""
    # Most trees hold no machine code, and reading the library takes longer than reading the change.
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        yield from _kernels(ELFFile(io.BytesIO(data)))
    except (ELFError, ValueError, LookupError, OverflowError, AssertionError, TypeError, AttributeError, struct.error):
        return


def _kernels(elf: ELFFile) -> Iterator[tuple[str, Kernel]]:
    from elftools.elf.sections import SymbolTableSection

    sections = {s.name: s for s in elf.iter_sections()}
    table = sections.get(".symtab")
    symbols = [s.name for s in table.iter_symbols()] if isinstance(table, SymbolTableSection) else []
    resources = _resources(sections[".nv.info"].data(), symbols) if ".nv.info" in sections else {}
    for section_name, section in sections.items():
        if not section_name.startswith(".text.") or section["sh_type"] != "SHT_PROGBITS":
            continue
        name = section_name.removeprefix(".text.")
        digest = hashlib.sha256(section.data())
        for other in sorted(s for s in sections if s.endswith(f".{name}") and s != section_name):
            kind = other.removesuffix(name)
            if kind == ".nv.info.":
                digest.update(b"".join(_without_symbols(sections[other].data())))
            elif kind.startswith((".nv.constant", ".nv.shared.", ".nv.local.")):
                digest.update(kind.encode() + _content(sections[other]))
            elif kind in (".rela.text.", ".rel.text."):
                digest.update(_relocations(sections[other], symbols, name))
        shared = sections.get(f".nv.shared.{name}")
        taken = {**resources.get(name, {}), "bytes of shared memory": shared["sh_size"] if shared else 0}
        yield _plain(name.encode()).decode(), Kernel(digest.hexdigest(), taken)
    for name in _OF_THE_MODULE:
        if name in sections:
            yield name, Kernel(hashlib.sha256(_content(sections[name])).hexdigest(), {})


def _content(section: Any) -> bytes:
    """What a section holds; of one that takes room only, how much."""
    if section["sh_type"] == "SHT_NOBITS":
        return struct.pack("<Q", section["sh_size"])
    return struct.pack("<Q", section["sh_size"]) + section.data()  # type: ignore[no-any-return]  # bytes


def _relocations(section: Any, symbols: list[str], own: str) -> bytes:
    """Places, kinds and the names that they mean, the kernel's own left out."""
    lines = []
    for entry in section.iter_relocations():
        number = entry["r_info_sym"]
        target = symbols[number] if number < len(symbols) else "?"
        lines.append(f"{entry['r_offset']} {entry['r_info_type']} {'KERNEL' if target == own else target}")
    return _plain("\n".join(lines).encode("utf-8", "replace"))


def _records(info: bytes) -> Iterator[tuple[int, bytes]]:
    """(attribute, payload) of every `.nv.info` record."""
    at = 0
    while at + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == _FORMAT_WITH_SIZE:
            yield attribute, info[at : at + size]
            at += size
        else:
            yield attribute, info[at - 2 : at]


def _without_symbols(info: bytes) -> Iterator[bytes]:
    """A kernel's records without the places of symbols, which move with whatever else the file holds."""
    for attribute, payload in _records(info):
        yield bytes([attribute]) + (payload[4:] if attribute == _PARAMETER_BANK else payload)


def _resources(info: bytes, symbols: list[str]) -> dict[str, dict[str, int]]:
    """Kernel → what the module's `.nv.info` says that it takes."""
    found: dict[str, dict[str, int]] = {}
    names = {_REGCOUNT: "registers", _FRAME_SIZE: "bytes of stack"}
    for attribute, payload in _records(info):
        if attribute in names and len(payload) == 8:
            symbol, value = struct.unpack("<II", payload)
            if symbol < len(symbols):
                found.setdefault(symbols[symbol], {})[names[attribute]] = value
    return found
