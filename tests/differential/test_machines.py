"""What is compiled gives the same bits on every generation of processors, not on the newest alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tests.support.machines import MACHINES, Calls, library_for, machines

NEWEST = machines()[:1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("machines")


@pytest.mark.parametrize("machine", list(MACHINES)[1:])
@pytest.mark.parametrize("size", [1, 3, 4, 5, 4099])
def test_every_machine_gives_the_same_bits(machine: str, size: int, folder: Path) -> None:
    if machine not in machines()[1:]:
        pytest.skip(f"this processor has nothing newer than {machine} to hold it against")
    try:
        newest, older = (library_for(name, folder) for name in (*NEWEST, machine))
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("nothing can be compiled here")
    calls = Calls(size)
    asked = set()
    for (name, one), (_, other) in zip(calls(newest), calls(older), strict=True):
        asked.add(name)
        for got, due in zip([a.tobytes() for a in other()], [a.tobytes() for a in one()], strict=True):
            assert got == due, name
    assert asked == _functions(folder / f"{machine}.so") - {"_init", "_fini"}


def _functions(library: Path) -> set[str]:
    """All that it exports."""
    with library.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".dynsym").iter_symbols()
        return {s.name for s in symbols if s["st_shndx"] != "SHN_UNDEF" and s["st_info"]["type"] == "STT_FUNC"}
