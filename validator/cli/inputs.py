"""Which files a command line means: files as they are named, folders walked for what can hold kernels."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from validator.errors import Problem, ValidatorError

__all__ = ["SUFFIXES", "InputError", "InputFile", "discover"]

SUFFIXES = (".ptx", ".cubin", ".fatbin", ".so", ".o", ".a", ".whl", ".zip")
"""What a folder is searched for; a file that is named on the command line is taken whatever it is called."""


class InputError(ValidatorError):
    """A path that was asked for cannot be audited at all."""


@dataclass(frozen=True, slots=True)
class InputFile:
    name: str
    """What reports call it: never absolute, with `/`; unique in one run."""
    path: Path


def discover(paths: Sequence[str]) -> tuple[InputFile, ...]:
    """Every file meant, sorted by name, each once. Raises `InputError` with every problem."""
    problems: list[Problem] = []
    found: dict[Path, Path] = {}
    for text in paths:
        path = Path(text)
        try:
            mode = path.stat().st_mode
        except OSError as error:
            problems.append(Problem(_why(error), text, "name a file or a folder that exists"))
            continue
        if stat.S_ISDIR(mode):
            inside = list(_walk(path))
            if not inside:
                problems.append(Problem("holds nothing to audit", text, f"looked for *{', *'.join(SUFFIXES)}"))
            found.update((p.absolute(), p) for p in inside)
        elif stat.S_ISREG(mode):
            found.setdefault(path.absolute(), path)
        else:
            problems.append(Problem("is neither a file nor a folder", text))
    if problems:
        raise InputError(*problems)
    names = _names(list(found))
    return tuple(sorted((InputFile(names[full], path) for full, path in found.items()), key=lambda f: f.name))


def _why(error: OSError) -> str:
    return {2: "there is no such file or folder", 13: "may not be read"}.get(error.errno or 0, str(error.strerror))


def _walk(folder: Path) -> Iterator[Path]:
    """Regular files of the known kinds; links to folders are not followed, so that no loop can hold the walk."""
    for root, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            path = Path(root, name)
            if _known(name) and path.is_file():
                yield path


def _known(name: str) -> bool:
    return name.lower().endswith(SUFFIXES) or ".so." in name


def _names(paths: Sequence[Path]) -> dict[Path, str]:
    """Path → name: relative to here where that goes down, else as many trailing parts as keep it apart from others."""
    here = Path.cwd()
    names = {p: p.relative_to(here).as_posix() for p in paths if p.is_relative_to(here)}
    elsewhere = [p for p in paths if p not in names]
    shared = len(os.path.commonpath(elsewhere).split("/")) if len(elsewhere) > 1 else 0
    for path in elsewhere:
        parts = path.parts[max(shared - 1, 1) :] if shared else path.parts[-1:]
        names[path] = "/".join(parts) if "/".join(parts) not in names.values() else "/".join(path.parts[1:])
    return names
