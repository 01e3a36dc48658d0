"""Kernels in cubins: a fingerprint of each, over code, constants, launch parameters, relocations and what it takes.

Sources: ELF64 as `validator.binary.elf` reads it; the `.nv.info` attributes that hold symbol numbers, as
`cuobjdump -elf` names them (EIATTR_PARAM_CBANK, EIATTR_EXTERNS), and EIATTR_MAXREG_COUNT.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterator

from validator.binary.elf import Cubin, Section, Symbol
from validator.isolation.kernels.model import Kernel, plain

__all__ = ["kernels_in_machine_code"]

_EXECUTABLE = 4
_OBJECT = 1
_NOTHING_STORED = 8
_PARAMETER_BANK, _EXTERNS, _REGISTER_LIMIT = 0x0A, 0x0F, 0x1B
_OF_THE_MODULE = (".nv.constant3", ".nv.constant4", ".nv.global.init", ".nv.global")
"""Variables that all kernels of a file share; each counts like a kernel of its own."""
_OF_A_FUNCTION = tuple(
    f".nv.{kind}." for kind in ("info", *(f"constant{bank}" for bank in range(8)), "shared", "local")
)
_CAPSULE = ".nv.capmerc.text."
_NUMBERED = re.compile(r"^\$str(\$\d+)?$|^\$[\w$]*\$\d+$")
"""Names that a compiler counts through the file."""


def kernels_in_machine_code(data: bytes, arch: str | None = None) -> Iterator[Kernel]:
    """Every kernel, device function and shared variable. Raises `BinaryError` where the file is damaged."""
    cubin = Cubin(data, "", arch)
    entries = {s.name for s in cubin.symbols if s.entry}
    for section in cubin.sections:
        if section.name.startswith(".text.") and section.flags & _EXECUTABLE:
            name = section.name.removeprefix(".text.")
            yield _function(cubin, section, name, "kernel" if name in entries or not entries else "function")
    for section in filter(None, map(cubin.section, _OF_THE_MODULE)):
        yield from _variables(cubin, section)


def _function(cubin: Cubin, section: Section, name: str, kind: str) -> Kernel:
    digest = hashlib.sha256(cubin.contents(section))
    takes = {_WORDS.get(what, what): amount for what, amount in cubin.resources(name).items()}
    digest.update(repr(sorted(takes.items())).encode())
    for prefix in _OF_A_FUNCTION:
        other = cubin.section(prefix + name)
        if other is not None and prefix == ".nv.info.":
            digest.update(_launch(cubin, other))
            for limit in (value for attribute, value in cubin.records(other) if attribute == _REGISTER_LIMIT):
                takes["limit on the register count"] = int.from_bytes(limit, "little")
        elif other is not None:
            digest.update(prefix.encode() + _content(cubin, other))
    capsule = cubin.section(_CAPSULE + name)
    # What a driver makes code for a related processor from. It numbers what else the file holds: its size alone counts.
    digest.update(str(capsule.size).encode() if capsule is not None else b"")
    for patch in cubin.relocations(section):
        target = "SELF" if patch.symbol.name == name else _meant(cubin, patch.symbol)
        digest.update(f"{patch.offset} {patch.type} {patch.addend} {target}\n".encode())
    takes["code"] = section.size
    return Kernel(_plain(name), cubin.arch, digest.hexdigest(), takes, kind)


_WORDS = {"registers": "register count", "stack bytes": "stack", "shared bytes": "shared memory"}


def _plain(name: str) -> str:
    return plain(name.encode("utf-8", "backslashreplace")).decode("utf-8", "replace")


def _content(cubin: Cubin, section: Section) -> bytes:
    """What a section holds; of one that takes room only, how much."""
    return struct.pack("<Q", section.size) + bytes(cubin.contents(section))


def _launch(cubin: Cubin, section: Section) -> bytes:
    """A kernel's records, with names for the numbers of symbols, which move with whatever else the file holds."""
    out = b""
    for attribute, payload in cubin.records(section):
        if attribute == _PARAMETER_BANK:
            payload = payload[4:]
        elif attribute == _EXTERNS:
            numbers = (n for (n,) in struct.iter_unpack("<I", payload[: len(payload) // 4 * 4]))
            payload = " ".join(cubin.symbols[n].name for n in numbers if n < len(cubin.symbols)).encode()
        out += bytes([attribute]) + struct.pack("<I", len(payload)) + payload
    return out


def _meant(cubin: Cubin, symbol: Symbol) -> str:
    """What a name stands for, where only this file can name it; or else the name."""
    stored = _stored(cubin, symbol) if symbol.type == _OBJECT and symbol.local else None
    return _plain(symbol.name) if stored is None else hashlib.sha256(stored).hexdigest()


def _stored(cubin: Cubin, symbol: Symbol) -> bytes | None:
    """A variable's bytes; its size where it starts out empty; None where the file says neither."""
    if not 0 < symbol.section < len(cubin.sections) or not symbol.size:
        return None
    section = cubin.sections[symbol.section]
    if section.type == _NOTHING_STORED:
        return struct.pack("<Q", symbol.size)
    return bytes(cubin.contents(section)[symbol.value : symbol.value + symbol.size])


def _variables(cubin: Cubin, section: Section) -> Iterator[Kernel]:
    """Each variable of a section that the file names; the section as a whole where it names none."""

    def made(name: str, content: bytes) -> Kernel:
        return Kernel(name, cubin.arch, hashlib.sha256(content).hexdigest(), {"size": len(content)}, "variable")

    named = [s for s in cubin.symbols if s.section == section.index and s.type == _OBJECT and s.size]
    for symbol in named:
        stored = _stored(cubin, symbol) or b""
        name = "$" if _NUMBERED.match(symbol.name) else _plain(symbol.name)
        yield made(name, stored)
    patches = cubin.relocations(section)
    for patch in patches:
        yield made(f"{section.name}+{patch.offset:#x}", _meant(cubin, patch.symbol).encode())
    if not named and not patches:
        yield made(section.name, _content(cubin, section))
