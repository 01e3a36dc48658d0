"""What a library or archive holds besides device code: enough to say which parts of it differ.

Sources: the System V ABI (sections that are loaded), nvcc's names for the sections that hold device code, and the
central directory of zip archives (APPNOTE 4.3.12).
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping

from validator.binary.elf import Cubin
from validator.binary.errors import BinaryError

__all__ = ["differing", "parts_of"]

_LOADED = 2
_DEVICE = (".nv", "__nv", ".note.gnu.build-id")
_MOST = 20_000


def parts_of(data: bytes) -> Mapping[str, str]:
    """Part → size and mark: loaded sections of a host's ELF file, members of a zip archive."""
    if data[:4] == b"\x7fELF":
        try:
            file = Cubin(data, "", any_machine=True)
            loaded = [s for s in file.sections if s.flags & _LOADED and s.name and not s.name.startswith(_DEVICE)]
            return {s.name: f"{s.size:,} {hashlib.sha256(file.contents(s)).hexdigest()[:32]}" for s in loaded}
        except BinaryError:
            return {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()[:_MOST]
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError):
        return {}
    return {m.filename: f"{m.file_size:,} {m.CRC:08x}" for m in members if not m.is_dir()}


def differing(old: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Which parts differ, in words. That none does is no proof: sections and checksums may lie."""
    told = []
    for part in sorted({*old, *now}):
        before, after = (side.get(part, "").partition(" ")[0] for side in (old, now))
        if old.get(part) != now.get(part):
            sizes = f"{before} bytes" if before == after else f"{before or 'no'} → {after or 'no'} bytes"
            told.append(f"`{part[:80]}` ({sizes})")
    more = f" and {len(told) - 8} more" if len(told) > 8 else ""
    return f"{', '.join(told[:8])}{more}" if told else "no part that could be told apart"
