"""One source, one architecture, one compiler → PTX and machine code with line information and neutral paths."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from validator.build.confined import Ran, run_confined
from validator.build.ids import without_ids
from validator.build.toolchains import Toolchain
from validator.manifest.model import Build

__all__ = ["Attempt", "build_once"]

_TEMPORARY = Path("/tmp")
_PREFIX, _LOCK = "validator-build-", ".lock"
_SETTLED = 60.0
"""Seconds between the making of a folder and the latest moment at which it is locked."""
_SECONDS = 300.0
"""For one program."""
_LARGEST = 256 << 20
"""Bytes of one compiled file."""
_PLACE = re.compile(rb'^(\s*\.file\s+\d+\s+")([^"]*)(")', re.MULTILINE)
_SEEN = re.compile(r"(?i)\b(error|fatal|exception)\b")


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one build gave."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    """Name, as `kernel.ptx` → content."""
    failed: str = ""
    """Why there is nothing; empty: there is."""
    enforced: Mapping[str, str] = field(default_factory=dict)


def build_once(build: Build, arch: str, toolchain: Toolchain, tree: Path) -> Attempt:
    """Compile in a folder of a name that nobody can know, so that what depends on the name shows.

    Args:
        tree: the head's files below `build.root`.
    """
    # Always as long as any other: machine code holds the path of its source, and is not moved when that is blotted out.
    place = _TEMPORARY if _TEMPORARY.is_dir() else Path(tempfile.gettempdir())
    _sweep(place)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
    held = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        return _built(build, arch, toolchain, tree, folder)
    finally:
        os.close(held)
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(place: Path) -> None:
    """Take away what builds left whose process was killed: nobody holds their lock."""
    for lock in place.glob(f"{_PREFIX}*/{_LOCK}"):
        with suppress(OSError):
            held = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(held).st_uid == os.geteuid() and time.time() - os.fstat(held).st_mtime > _SETTLED:
                    shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(held)


def _built(build: Build, arch: str, toolchain: Toolchain, tree: Path, folder: Path) -> Attempt:
    source, out = folder / "src", folder / "out"
    shutil.copytree(tree, source)
    out.mkdir()
    inside = build.source[len(build.root.rstrip("/")) + 1 :] if build.root not in (".", "") else build.source
    if not (source / inside).is_file():
        return Attempt(failed=f"{build.source} is no file of the head")
    ran = _nvcc(build, arch, toolchain, inside, folder) if toolchain.name == "nvcc" else _dsl(
        build, arch, toolchain, inside, folder
    )  # fmt: skip
    if ran.code is None:
        return Attempt(failed=ran.stopped, enforced=ran.enforced)
    made = {p.name: p.read_bytes() for p in sorted(out.iterdir()) if _is_made(p)}
    if ran.code != 0 or not made:
        return Attempt(failed=_why(ran, folder), enforced=ran.enforced)
    neutral = {name: _neutral(data, folder, toolchain) for name, data in made.items()}
    return Attempt(neutral, enforced=ran.enforced)


def _nvcc(build: Build, arch: str, toolchain: Toolchain, inside: str, folder: Path) -> Ran:
    """Source to PTX, then PTX to machine code: what is assembled is what is audited."""
    source, out = folder / "src", folder / "out"
    name = Path(inside).stem
    home = Path(toolchain.program).parent
    given = (folder, [source, *map(Path, toolchain.roots)], _SECONDS, {"PATH": f"{home}:/usr/bin:/bin"})
    ptx = out / f"{name}.ptx"
    command = [toolchain.program, "-ptx", "-lineinfo", f"-arch={arch}", *build.flags, inside, "-o", str(ptx)]
    ran = run_confined(command, *given, cwd=source)
    if ran.code != 0 or not _is_made(ptx):
        return ran
    ptx.write_bytes(_neutral(ptx.read_bytes(), folder, toolchain))
    level = next((flag for flag in build.flags if re.fullmatch(r"-O[0-3]", flag)), "-O3")
    assemble = [str(home / "ptxas"), level, "-lineinfo", f"-arch={arch}", ptx.name, "-o", f"{name}.cubin"]
    return run_confined(assemble, *given, cwd=out)


def _dsl(build: Build, arch: str, toolchain: Toolchain, inside: str, folder: Path) -> Ran:
    source, out = folder / "src", folder / "out"
    asked = {
        "root": str(source),
        "source": str(source / inside),
        "out": str(out),
        "arch": arch,
        "entry": build.entry,
        "signature": build.signature,
        "constants": build.constants,
    }
    environment = {
        "TRITON_CACHE_DIR": str(folder / "cache"),
        "CUTE_DSL_ARCH": arch,
        "CUTE_DSL_KEEP_PTX": "1",
        "CUTE_DSL_KEEP_CUBIN": "1",
        "CUTE_DSL_LINEINFO": "1",
        "CUTE_DSL_DUMP_DIR": str(out),
        "CUTE_DSL_CACHE_DIR": str(folder / "cache"),
        "PYTHONHASHSEED": "0",
    }
    driver = Path(__file__).with_name("dsl_driver.py")
    command = [toolchain.program, "-I", "-B", str(driver), toolchain.name, json.dumps(asked)]
    readable = [source, driver, *map(Path, toolchain.roots), Path(sys.base_prefix) / "lib"]
    return run_confined(command, folder, readable, _SECONDS, environment, cwd=source)


def _is_made(path: Path) -> bool:
    plain = path.is_file() and not path.is_symlink()
    return plain and path.suffix in (".ptx", ".cubin") and path.stat().st_size <= _LARGEST


def _neutral(data: bytes, folder: Path, toolchain: Toolchain) -> bytes:
    """PTX without this machine's folders: the same source gives the same bytes wherever it is built."""
    if data[:4] == b"\x7fELF":
        return data.replace(str(folder).encode(), b"/" + b"_" * (len(str(folder)) - 1))
    roots = ((f"{folder}/src/", ""), (f"{folder}/", ""), *((f"{root}/", "toolchain/") for root in toolchain.roots))

    def place(match: re.Match[bytes]) -> bytes:
        path = match[2].decode("utf-8", "replace")
        for root, named in roots:
            if path.startswith(root):
                path = named + path[len(root) :]
        return match[1] + path.encode() + match[3]

    return without_ids(_PLACE.sub(place, data.rstrip(b"\0")), str(folder).encode())  # CuTe DSL ends its files so


def _why(ran: Ran, folder: Path) -> str:
    """The first line that says what is wrong, without this machine's folders."""
    lines = [line.strip() for line in ran.said.replace(f"{folder}/src/", "").replace(f"{folder}/", "").splitlines()]
    if any(line.startswith("Traceback (") for line in lines):
        lines = [line for line in reversed(lines) if line]
    told = next((line for line in lines if _SEEN.search(line)), next((line for line in lines if line), ""))
    return f"{told[:300] or 'nothing was made'} (exit code {ran.code})"
