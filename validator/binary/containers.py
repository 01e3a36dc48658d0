"""Device code inside what people ship: shared libraries, objects, fat binaries, wheels, zip files and folders of them.

Everything here is untrusted. Archives are read member by member under limits on count, size and ratio; nothing is ever
written under a name that an archive or a fat binary chose. Fat binaries, whose contents may be compressed, are unpacked
by NVIDIA's `cuobjdump` in a private folder after the names it would write were checked.
"""

from __future__ import annotations

import lzma
import mmap
import re
import shutil
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from validator.binary.elf import is_cubin
from validator.binary.errors import BinaryError
from validator.binary.skipped import Skipped
from validator.binary.tools import INSTALL_HINT, Tools, run_tool
from validator.errors import Problem

__all__ = ["Found", "Limits", "find_binaries"]

_FATBIN = b"\x50\xed\x55\xba"
_SUFFIXES = (".cubin", ".fatbin", ".so", ".o", ".whl", ".zip", ".a", ".pyd", ".ptx")
_NAMED = re.compile(rb"^\s*(?:ELF|PTX) file\s+\d+:\s*(\S.*?)\s*$", re.MULTILINE)
_SAFE = re.compile(r"^[\w.+-][\w.+ -]*$")
_ARCH = re.compile(r"\.(sm_\d{2,3}[af]?)\.(cubin|ptx)$")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What an archive may ask for."""

    members: int = 100_000
    member_bytes: int = 4 << 30
    ptx_bytes: int = 256 << 20
    total_bytes: int = 12 << 30
    depth: int = 3
    """Archives in archives."""
    tool_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class Found:
    """One piece of device code."""

    artifact: str
    """`!`-separated path from the outermost file in."""
    data: bytes
    kind: str
    """`cubin` or `ptx`."""
    arch: str | None
    """As the container says; None when it does not."""


def find_binaries(
    source: bytes | Path, name: str, tools: Tools, limits: Limits | None = None
) -> Iterator[Found | Skipped]:
    """Device code in `source`, in a stable order; what cannot be opened comes back as `Skipped`.

    Raises:
        BinaryError: the outermost file is damaged or breaks a limit.
    """
    bounds = limits or Limits()
    if isinstance(source, bytes):
        if is_cubin(source):
            yield Found(name, source, "cubin", None)
            return
        with TemporaryDirectory(prefix="validator-sass-") as folder:
            path = Path(folder) / "input"
            path.write_bytes(source)
            yield from _file(path, name, tools, bounds, 0)
    elif source.is_dir():
        for path in sorted(p for p in source.rglob("*") if p.suffix in _SUFFIXES or ".so." in p.name):
            if path.is_file() and not path.is_symlink():
                yield from _guarded(path, f"{name}/{path.relative_to(source).as_posix()}", tools, bounds, 0)
    else:
        yield from _file(source, name, tools, bounds, 0)


def _guarded(path: Path, name: str, tools: Tools, limits: Limits, depth: int) -> Iterator[Found | Skipped]:
    """Like `_file`, with errors as values: one bad member must not hide the others."""
    try:
        yield from _file(path, name, tools, limits, depth)
    except BinaryError as error:
        yield Skipped.because(name, error)


def _file(path: Path, name: str, tools: Tools, limits: Limits, depth: int) -> Iterator[Found | Skipped]:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(64)
    except OSError as error:
        raise BinaryError(Problem(f"cannot be read: {error.strerror or error}", name)) from None
    if not head:
        raise BinaryError(Problem("is empty", name, "build it again"))
    if is_cubin(head) or name.endswith(".ptx"):
        most = limits.member_bytes if is_cubin(head) else limits.ptx_bytes
        if size > most:
            raise BinaryError(Problem(f"{size} bytes are more than the {most} allowed", name))
        yield Found(name, path.read_bytes(), "cubin" if is_cubin(head) else "ptx", None)
    elif head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        yield from _archive(path, name, tools, limits, depth)
    elif head[:4] == _FATBIN or ((head[:4] == b"\x7fELF" or head[:8] == b"!<arch>\n") and _has_device_code(path)):
        yield from _fat(path, name, tools, limits)
    elif head[:4] != b"\x7fELF" and head[:8] != b"!<arch>\n":
        raise BinaryError(Problem("is neither an ELF file, a fat binary nor a zip archive", name))


def _has_device_code(path: Path) -> bool:
    """Whether a host binary carries a fat binary: the section's name stands in it."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        return view.find(b".nv_fatbin") >= 0 or view.find(b"__nv_relfatbin") >= 0


# -- fat binaries ----------------------------------------------------------------------------------------------------


def _fat(path: Path, name: str, tools: Tools, limits: Limits) -> Iterator[Found | Skipped]:
    if tools.cuobjdump is None:
        yield Skipped(name, "holds device code that only cuobjdump can unpack, and it was not found", INSTALL_HINT)
        return
    with TemporaryDirectory(prefix="validator-sass-") as folder:
        # A name of our own: cuobjdump derives what it writes from it.
        link = Path(folder) / "fat"
        link.symlink_to(path.resolve())
        for kind, list_flag, extract_flag in (("cubin", "-lelf", "-xelf"), ("ptx", "-lptx", "-xptx")):
            out = Path(folder) / kind
            out.mkdir()
            listed = _listed(link, name, tools.cuobjdump, kind, list_flag, out, limits)
            if len(set(listed)) == len(listed):
                yield from _unpack(link, name, tools.cuobjdump, kind, extract_flag, out, limits, listed)
            else:
                yield from _apart(path, name, tools.cuobjdump, kind, (list_flag, extract_flag), out, limits)
            shutil.rmtree(out)


def _apart(
    path: Path, name: str, cuobjdump: Path, kind: str, flags: tuple[str, str], out: Path, limits: Limits
) -> Iterator[Found | Skipped]:
    """Its fat binaries one by one: cuobjdump writes parts of one name, as device linking makes them, to one file."""
    for number, piece in enumerate(_pieces(path, limits), 1):
        alone = out / f"fat{number}.fatbin"
        alone.write_bytes(piece)
        into = out / str(number)
        into.mkdir()
        listed = _listed(alone, name, cuobjdump, kind, flags[0], into, limits)
        for again in sorted({n for n in listed if listed.count(n) > 1}):
            yield Skipped(f"{name}!{again}", f"one fat binary holds {listed.count(again)} of this name: one was read")
        unique = sorted(set(listed))
        yield from _unpack(alone, f"{name}!{number}", cuobjdump, kind, flags[1], into, limits, unique)
        alone.unlink()


def _pieces(path: Path, limits: Limits) -> Iterator[bytes]:
    """The fat binaries inside a file: magic, version 1, header of 16 bytes, bytes that follow it."""
    found = 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        start = view.find(_FATBIN)
        while start >= 0 and found < limits.members:
            _, version, header, size = struct.unpack_from("<IHHQ", view[start : start + 16].ljust(16, b"\0"))
            end = start + header + size
            if version == 1 and header == 16 and 0 < size <= len(view) - start - header:
                found += 1
                yield view[start:end]
            start = view.find(_FATBIN, end if version == 1 and header == 16 and end <= len(view) else start + 4)


def _listed(link: Path, name: str, cuobjdump: Path, kind: str, flag: str, out: Path, limits: Limits) -> list[str]:
    """Names under which cuobjdump would write what a file holds. Raises `BinaryError`: none, or one that is unsafe."""
    listing = run_tool(
        [str(cuobjdump), flag, str(link)], timeout=limits.tool_seconds, output_limit=64 << 20, folder=out, check=False
    )
    names = [n.decode("utf-8", "backslashreplace") for n in _NAMED.findall(listing)]
    if not names and kind == "cubin" and b"No ELF file found" not in listing:
        said = listing.decode("utf-8", "backslashreplace").strip()[:300]
        raise BinaryError(Problem(f"cuobjdump finds no device code in it: {said}", name))
    bad = next((n for n in names if not _SAFE.match(n)), None)
    if bad is not None or len(names) > limits.members:
        raise BinaryError(Problem(f"holds a cubin named {bad!r}" if bad else f"holds {len(names)} cubins", name))
    return names


def _unpack(
    link: Path, name: str, cuobjdump: Path, kind: str, flag: str, out: Path, limits: Limits, names: list[str]
) -> Iterator[Found | Skipped]:
    if not names:
        return
    run_tool(
        [str(cuobjdump), flag, "all", str(link)],
        timeout=limits.tool_seconds,
        output_limit=limits.member_bytes,
        folder=out,
    )
    for wanted in names:
        extracted = out / wanted
        if extracted.is_symlink() or not extracted.is_file():
            yield Skipped(f"{name}!{wanted}", "cuobjdump lists it but did not unpack it")
            continue
        arch = _ARCH.search(wanted)
        yield Found(f"{name}!{wanted.removeprefix('fat.')}", extracted.read_bytes(), kind, arch[1] if arch else None)
        extracted.unlink()


# -- archives --------------------------------------------------------------------------------------------------------


_DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError, NotImplementedError)
"""What `zipfile` and the decompressors behind it raise; `RuntimeError`: encrypted."""


def _archive(path: Path, name: str, tools: Tools, limits: Limits, depth: int) -> Iterator[Found | Skipped]:
    if depth >= limits.depth:
        raise BinaryError(Problem(f"is an archive {depth} archives deep", name))
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > limits.members:
                raise BinaryError(Problem(f"holds {len(members)} members, more than {limits.members}", name))
            wanted = sorted((m for m in members if _interesting(m)), key=lambda m: m.filename)
            total = sum(m.file_size for m in wanted)
            if total > limits.total_bytes:
                raise BinaryError(Problem(f"unpacks to {total} bytes, more than {limits.total_bytes}", name))
            for member in wanted:
                yield from _member(archive, member, name, tools, limits, depth)
    except (*_DAMAGED, OSError, ValueError) as error:
        raise BinaryError(Problem(f"is a damaged archive: {error}", name, "build it again")) from None


def _interesting(member: zipfile.ZipInfo) -> bool:
    last = member.filename.rsplit("/", 1)[-1]
    return last.endswith(_SUFFIXES) or ".so." in last


def _member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, tools: Tools, limits: Limits, depth: int
) -> Iterator[Found | Skipped]:
    inner = f"{name}!{member.filename}"
    with TemporaryDirectory(prefix="validator-sass-") as folder:
        target = Path(folder) / "member"
        try:
            _copy_bounded(archive, member, target, min(limits.member_bytes, member.file_size))
        except _DAMAGED as error:
            yield Skipped(inner, f"cannot be unpacked: {error}")
            return
        yield from _guarded(target, inner, tools, limits, depth + 1)


def _copy_bounded(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path, most: int) -> None:
    """Stops where the directory's size is passed: a member that inflates to more than it says is a bomb."""
    written = 0
    with archive.open(member) as source, target.open("wb") as sink:
        while chunk := source.read(_CHUNK):
            written += len(chunk)
            if written > most:
                raise zipfile.BadZipFile(f"inflates to more than {most} bytes")
            sink.write(chunk)
