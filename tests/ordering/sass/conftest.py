"""Machine code for the tests: the fixtures that ship, and kernels compiled on the spot where there is an nvcc."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from validator.binary.tools import Tools
from validator.ordering.sass.reader import read_binary

ROOT = Path(__file__).parents[3]
LABELLED = ROOT / "fixtures/ordering/labelled"
SOURCES = Path(__file__).parent / "kernels"
ARCHITECTURES = ("sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103a", "sm_120", "sm_120a")


def labelled_cubins() -> list[Path]:
    return sorted(LABELLED.glob("*/*.cubin"))


@pytest.fixture(scope="session")
def tools() -> Tools:
    found = Tools.find()
    if found.nvdisasm is None or found.cuobjdump is None:
        pytest.skip("nvdisasm and cuobjdump are not here: pip install 'validator[sass]'")
    return found


@cache
def _compiled(source: str, arch: str, flags: tuple[str, ...], folder: Path) -> Path:
    out = folder / f"{Path(source).stem}.{arch}.{'_'.join(f.strip('-') for f in flags) or 'cubin'}"
    # What takes long is the way to PTX, the same for every architecture.
    command = ["nvcc", "-std=c++17", "-O3", *flags, source] if flags else ["ptxas", "-O3", str(_ptx(source, folder))]
    _run([*command, f"-arch={arch}", "-o", str(out)])
    return out


@cache
def _ptx(source: str, folder: Path) -> Path:
    out = folder / f"{Path(source).stem}.ptx"
    _run(["nvcc", "-std=c++17", "-O3", "-ptx", "-arch=compute_90", "-o", str(out), source])
    return out


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=300)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """`compiled("roles.cu", "sm_90a")` → path of the cubin; further flags replace `-cubin`."""
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc here")
    folder = tmp_path_factory.mktemp("cubins")
    return lambda name, arch, *flags: _compiled(str(SOURCES / name), arch, flags, folder)


@pytest.fixture(scope="session")
def kernels(tools):
    """Path → (name → kernel). Starting the disassembler is what costs time, so each file is read once a session."""

    @cache
    def read(path):
        module = read_binary(path, "test", tools=tools)
        found = {k.name: k for k in module}
        assert not module.skipped
        return found

    return read
