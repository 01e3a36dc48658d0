"""DWARF line tables: rows, or nothing; bounded, whatever lengths and counts they declare."""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.targets.common import FIXTURES
from validator.binary.elf import Cubin
from validator.ordering.sass.lines import _programs

MODULES = ("validator.ordering.sass.lines",)


def seeds() -> Iterator[bytes]:
    for path in sorted((FIXTURES / "ordering").rglob("*.cubin"))[:200:40]:
        cubin = Cubin(path.read_bytes(), path.name)
        if (section := cubin.section(".debug_line")) is not None and section.size < 1 << 13:
            yield bytes(cubin.contents(section))


def one(data: bytes) -> None:
    rows = 0
    for name, function in _programs(data, {}):
        assert isinstance(name, str)
        rows += len(function.rows)
        for row in function.rows:
            function.place(row)
            function.outermost(row)
    assert rows <= 64 * len(data) + 64
