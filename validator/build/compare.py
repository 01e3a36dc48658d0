"""What ships against what was built: the same code, whatever the paths and the debugging information beside it."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass

from validator.build.ids import without_ids

__all__ = ["Compared", "compare", "made_by"]

_RELEASE = re.compile(rb"Cuda compilation tools, release [\d.]+, V(\d+\.\d+\.\d+)")
_CODE = (".text.", ".nv.constant", ".nv.global", ".nv.shared", ".nv.info.")
_COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DEBUG = re.compile(
    rb"^\s*(\.file\s.*|\.loc\s.*|\$L__(info_string|tmp|func_(begin|end))\w*:|\.target\s+(?P<t>\S+).*)$", re.MULTILINE
)
_SECTION = re.compile(rb"^\s*\.section\s+\.debug_\w+\s*\{.*?^\s*\}", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Compared:
    """What was found."""

    same: bool
    how: str
    """In words."""


def compare(shipped: bytes, built: bytes) -> Compared:
    """Whether two compiled files hold the same code."""
    if shipped == built:
        return Compared(True, "the same bytes")
    if (shipped[:4] == b"\x7fELF") is not (built[:4] == b"\x7fELF"):
        return Compared(False, "another kind of file")
    if shipped[:4] != b"\x7fELF":
        same = _instructions(shipped) == _instructions(built)
        return Compared(same, "the same instructions" if same else "other instructions")
    from elftools.common.exceptions import ELFError  # loaded where machine code is compared, not by every check

    try:
        mine, theirs = _sections(shipped), _sections(built)
    except (ELFError, ValueError, KeyError, OverflowError) as error:
        return Compared(False, f"cannot be read as machine code: {type(error).__name__}")
    differing = sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name))
    if not differing:
        return Compared(True, "the same machine code; line information differs")
    return Compared(False, f"other contents of {', '.join(differing[:3])}" + (" and more" if differing[3:] else ""))


def made_by(data: bytes) -> str:
    """Release of NVIDIA's compiler that a file names; empty: none."""
    found = _RELEASE.search(data)
    return found[1].decode() if found else ""


def _sections(data: bytes) -> Mapping[str, bytes]:
    """Everything of a cubin that decides what runs."""
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(io.BytesIO(data))
    found = (s for s in elf.iter_sections() if s.name.startswith(_CODE) and s["sh_type"] != "SHT_NOBITS")
    return {without_ids(s.name.encode()).decode(): s.data() for s in found}


def _instructions(ptx: bytes) -> list[bytes]:
    """Lines of PTX that are code, without comments, places and debugging sections."""
    ptx = without_ids(ptx.rstrip(b"\0"))
    text = _DEBUG.sub(lambda m: b".target " + m["t"] if m["t"] else b"", _SECTION.sub(b"", _COMMENT.sub(b"", ptx)))
    return [b" ".join(line.split()) for line in text.splitlines() if line.strip()]
