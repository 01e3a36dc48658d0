"""The private folder that a worker lives in: its program, the packages it may import, and a home to write to."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from validator.run.adapters import Adapter
from validator.run.outcome import RunError

__all__ = ["Quarters"]

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Quarters:
    """One worker's folder, of a name that says nothing."""

    folder: Path
    home: Path
    libraries: Path
    program: Path

    @classmethod
    def made(cls, adapter: Adapter) -> Self:
        """Raises `RunError` where a package that the adapter needs is not installed; nothing is left then."""
        folder = Path(tempfile.mkdtemp(prefix=secrets.token_hex(4)))
        try:
            home, libraries = folder / "h", folder / "l"
            home.mkdir()
            _link_libraries(libraries, adapter)
            return cls(folder, home, libraries, _copy_program(folder / secrets.token_hex(4), adapter))
        except BaseException:
            _remove(folder)
            raise

    def environment(self) -> dict[str, str]:
        """Every variable that the worker sees."""
        home = str(self.home)
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        return {"HOME": home, "TMPDIR": home, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TZ": "UTC", **one}

    def remove(self) -> None:
        """With whatever was left in it."""
        _remove(self.folder)


def _link_libraries(folder: Path, adapter: Adapter) -> None:
    """A folder with links to the few packages that a callable may import, and to nothing else."""
    folder.mkdir()
    for name in dict.fromkeys((*adapter.libraries, *adapter.optional)):
        spec = find_spec(name)
        if spec is None:
            if name in adapter.libraries:
                raise RunError(f"{name} is not installed")
            continue
        places = spec.submodule_search_locations  # of a package without `__init__.py` too; None: one file
        found = [Path(place) for place in (places if places is not None else (spec.origin or "",))]
        _link(folder / found[0].name, found)
        for path in (place.with_name(f"{name}.libs") for place in found):
            if path.exists() and not (folder / path.name).exists():
                _link(folder / path.name, [path])
    for name in adapter.entry_points:
        with contextlib.suppress(PackageNotFoundError):
            package = distribution(name)
            described = Path(str(package.locate_file(f"{name}-{package.version}.dist-info")))
            (folder / described.name).symlink_to(described.resolve(), target_is_directory=True)


def _link(link: Path, places: list[Path]) -> None:
    """One path for what an import finds in all of these: several make a package without `__init__.py` (`nvidia`, `cuda`
    and `google`, whose parts are distributions that may be installed in different folders)."""
    places = [place for place in places if place.exists()]
    places = [place for place in places if (place / "__init__.py").exists()][:1] or places
    if not places:
        return
    if len(places) == 1 or not all(place.is_dir() for place in places):
        link.symlink_to(places[0].resolve(), target_is_directory=places[0].is_dir())
        return
    link.mkdir()
    for name in dict.fromkeys(entry.name for place in places for entry in place.iterdir()):
        _link(link / name, [place / name for place in places])


def _copy_program(folder: Path, adapter: Adapter) -> Path:
    """The worker's files under names that say nothing: what is called sees the file it was called from."""
    folder.mkdir()
    own = () if "." in adapter.module else [f"adapters/{name}" for name in (adapter.module, *adapter.beside)]
    for name in ("channel", "confine", *(("imported",) if adapter.gpu else ()), *own):
        copy = folder / f"{name}.py"
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(_HERE / f"{name}.py", copy)
    program = folder / f"{secrets.token_hex(4)}.py"
    shutil.copyfile(_HERE / "worker.py", program)
    return program


def _remove(folder: Path) -> None:
    """A folder and all in it, however deep and whatever its modes: what lies inside a folder is moved up first."""
    with contextlib.suppress(OSError):
        while entries := list(os.scandir(folder)):
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)
                    continue
                os.chmod(entry.path, 0o700)
                for inner in os.listdir(entry.path):
                    os.rename(os.path.join(entry.path, inner), folder / secrets.token_hex(8))
                os.rmdir(entry.path)
        folder.rmdir()
