"""Kernels that already shipped: each compiled kernel outside the isolated paths, at base and at head.

A kernel's fingerprint is its code without its name, comments, source lines and debug sections, so that a rebuild that
changes nothing else is no change.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from validator.change.model import Entry, MissingFile, Tree

__all__ = ["COMPILED", "Kernel", "Shipped", "compare_shipped"]

COMPILED = (".ptx", ".cubin", ".fatbin", ".so", ".a", ".o")
_LIMIT = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Kernel:
    """One compiled kernel (or a whole file that cannot be taken apart)."""

    fingerprint: str
    registers: int | None
    """Of the machine code; for PTX, the registers it declares."""


@dataclass(frozen=True, slots=True)
class Shipped:
    """What became of the compiled kernels of the base."""

    files: int
    unchanged: int
    changed: tuple[tuple[str, str, Kernel, Kernel], ...]
    """(path, kernel, at base, at head)."""
    new: tuple[tuple[str, str], ...]
    gone: tuple[tuple[str, str], ...]


def compare_shipped(base: Tree, head: Tree, isolated: Callable[[str], bool]) -> Shipped:
    """Compare every compiled file outside the isolated paths; files that are the same object are not opened."""
    before, after = _compiled(base, isolated), _compiled(head, isolated)
    unchanged = 0
    changed: list[tuple[str, str, Kernel, Kernel]] = []
    new: list[tuple[str, str]] = []
    gone: list[tuple[str, str]] = []
    for path in sorted({*before, *after}):
        same = path in before and path in after and before[path].id == after[path].id
        old = _kernels(base, path) if path in before else {}
        if same:
            unchanged += len(old)
            continue
        now = _kernels(head, path) if path in after else {}
        for name in sorted({*old, *now}):
            if name not in now:
                gone.append((path, name))
            elif name not in old:
                new.append((path, name))
            elif old[name].fingerprint == now[name].fingerprint:
                unchanged += 1
            else:
                changed.append((path, name, old[name], now[name]))
    return Shipped(len(before), unchanged, tuple(changed), tuple(new), tuple(gone))


def _compiled(tree: Tree, isolated: Callable[[str], bool]) -> dict[str, Entry]:
    return {e.path: e for e in tree.list("") if e.path.endswith(COMPILED) and not isolated(e.path)}


def _kernels(tree: Tree, path: str) -> dict[str, Kernel]:
    """Name → kernel; the file as a whole under the empty name where it holds none that can be read."""
    try:
        data = tree.read(path, _LIMIT)
    except MissingFile:
        return {"": Kernel("unreadable", None)}
    found = dict(_ptx(data)) if path.endswith(".ptx") else dict(_machine_code(data))
    return found or {"": Kernel(hashlib.sha256(data).hexdigest(), None)}


_ENTRY = re.compile(rb"^[ \t]*(?:\.visible[ \t]+|\.weak[ \t]+)?\.entry[ \t]+([\w$.]+)", re.M)
_NOISE = re.compile(rb"//[^\n]*|/\*.*?\*/|^[ \t]*\.(?:loc|file|section)\b[^\n]*$", re.M | re.S)
_REGISTERS = re.compile(rb"\.reg[ \t]+\.\w+[ \t]+%\w+<(\d+)>")


def _ptx(data: bytes) -> Iterator[tuple[str, Kernel]]:
    """Kernels of a PTX file: from each `.entry` to the next; what stands before the first belongs to all of them."""
    text = _NOISE.sub(b"", data)
    starts = list(_ENTRY.finditer(text))
    preamble = text[: starts[0].start()] if starts else b""
    for match, following in zip(starts, [*starts[1:], None], strict=True):
        body = text[match.start() : following.start() if following else len(text)].replace(match[1], b"KERNEL")
        canonical = b" ".join((preamble + body).split())
        registers = sum(int(n) - 1 for n in _REGISTERS.findall(body))
        yield match[1].decode("ascii", "replace"), Kernel(hashlib.sha256(canonical).hexdigest(), registers)


def _machine_code(data: bytes) -> Iterator[tuple[str, Kernel]]:
    """Kernels of a cubin: `.text.NAME` and the constants of `.nv.constant0.NAME`; registers from the section header."""
    # Most trees hold no machine code, and reading the library takes longer than reading the change.
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        sections = {s.name: s for s in ELFFile(io.BytesIO(data)).iter_sections()}
        for name, section in sections.items():
            if name.startswith(".text.") and section["sh_type"] == "SHT_PROGBITS":
                digest = hashlib.sha256(section.data())
                yield name.removeprefix(".text."), Kernel(digest.hexdigest(), section["sh_info"] >> 24)
    except (
        ELFError,
        ValueError,
        KeyError,
        IndexError,
        OverflowError,
        UnicodeError,
        AssertionError,
        TypeError,
        AttributeError,
    ):
        return
