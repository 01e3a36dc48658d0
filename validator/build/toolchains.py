"""Compilers of this machine, each with its version: what can be built, and with what."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["Toolchain", "find_toolchains", "host_compiler", "numbers_of", "with_interpreter"]

_RELEASE = re.compile(r"\bV(\d+\.\d+\.\d+)")
_PACKAGES = {"triton": ("triton", "triton"), "cutedsl": ("cutlass", "nvidia-cutlass-dsl")}
"""Toolchain → module, package."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """One compiler."""

    name: str
    """`nvcc`, `triton` or `cutedsl`."""
    version: str
    program: str
    """nvcc itself, or the interpreter that has the package."""
    roots: tuple[str, ...]
    """Folders of its installation, which it reads."""


def find_toolchains(name: str) -> tuple[Toolchain, ...]:
    """Every version of a compiler that is here, the newest first; empty: none.

    `nvcc`: on PATH, in /usr/local/cuda-*, and from the package index. `triton`, `cutedsl`: of this interpreter, or of
    those that VALIDATOR_BUILD_PYTHON names, as PATH does.
    """
    return _nvcc() if name == "nvcc" else _package(name) if name in _PACKAGES else ()


@cache
def host_compiler() -> str:
    """What nvcc hands the host's part of a source to, and takes headers from; empty: there is none."""
    return _said(["/usr/bin/c++", "--version"]).partition("\n")[0].strip()


@cache
def _nvcc() -> tuple[Toolchain, ...]:
    places = [shutil.which("nvcc"), *sorted(Path("/usr/local").glob("cuda-*/bin/nvcc"))]
    places += [p for entry in sys.path if entry for p in sorted(Path(entry).glob("nvidia/*/bin/nvcc"))]
    found: dict[str, Toolchain] = {}
    for place in places:
        if place is None or not os.access(place, os.X_OK):
            continue
        real = Path(place).resolve()
        said = _said([str(place), "--version"])
        release = _RELEASE.search(said)
        home = _home(Path(place), real)
        if release and home is not None and release[1] not in found:
            found[release[1]] = Toolchain("nvcc", release[1], str(home / "bin/nvcc"), (str(home),))
    return tuple(sorted(found.values(), key=lambda t: numbers_of(t.version), reverse=True))


def _home(place: Path, real: Path) -> Path | None:
    """The installation that an nvcc belongs to: a wrapper on PATH says so itself."""
    for candidate in (real.parents[1], place.absolute().parents[1]):
        if (candidate / "bin/cicc").exists() or (candidate / "nvvm/bin/cicc").exists():
            return candidate
    told = re.search(r"^#\\$ TOP=(.*)$", _said([str(place), "--dryrun", "-ptx", "x.cu"]), re.MULTILINE)
    return Path(told[1].strip()).resolve() if told else None


def _package(name: str) -> tuple[Toolchain, ...]:
    module, package = _PACKAGES[name]
    others = [place for place in os.environ.get("VALIDATOR_BUILD_PYTHON", "").split(os.pathsep) if place]
    if others:
        there = (_of_interpreter(name, package, other) for other in others)
        found = {toolchain.version: toolchain for toolchain in there if toolchain is not None}
        return tuple(sorted(found.values(), key=lambda t: numbers_of(t.version), reverse=True))
    if importlib.util.find_spec(module) is None:
        return ()
    try:
        installed = version(package)
    except PackageNotFoundError:
        return ()
    roots = tuple(p for p in sys.path if p and Path(p).is_dir())
    return (Toolchain(name, installed, sys.executable, with_interpreter(sys.executable, roots)),)


def _of_interpreter(name: str, package: str, python: str) -> Toolchain | None:
    script = f"import importlib.metadata as m, sys; print(m.version({package!r}), *sys.path, sep=chr(10))"
    lines = _said([python, "-I", "-c", script]).splitlines()
    roots = tuple(p for p in lines[1:] if p and Path(p).is_dir())
    return Toolchain(name, lines[0], python, with_interpreter(python, roots)) if roots else None


def numbers_of(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def with_interpreter(python: str, roots: tuple[str, ...]) -> tuple[str, ...]:
    """What a program of this interpreter reads: itself, and where it imports from."""
    real = Path(python).resolve()
    places = [Path(python).parent, Path(python).parent.parent / "pyvenv.cfg", real.parent, real.parent.parent / "lib"]
    return (*(str(p) for p in places if p.exists()), *roots)


def _said(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr
