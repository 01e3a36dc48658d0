"""PTX text: a module whose every instruction can be asked about, or a `PtxError` that says its line."""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.targets.common import FIXTURES, small
from validator.ordering.ptx import PtxError, PtxProgram, read_ptx

MODULES = ("validator.ordering.ptx",)


def seeds() -> Iterator[bytes]:
    return small((FIXTURES / "ordering").rglob("*.ptx"), 60, 1 << 14)


def one(data: bytes) -> None:
    try:
        for program in read_ptx(data, "fuzz.ptx").programs:
            _ask(program)
    except PtxError as error:
        _placed(error)


def _placed(error: PtxError) -> None:
    """Says its line."""
    assert error.line >= 1
    assert "fuzz.ptx:" in str(error)


def _ask(program: PtxProgram) -> None:
    """Everything of every instruction."""
    total = max(block.stop for block in program.blocks)
    for block in program.blocks:
        assert 0 <= block.start < block.stop <= total
        assert all(0 <= edge.target < len(program.blocks) for edge in block.successors)
    assert all(0 <= event.index < total for event in program.events)
    for index in range(total):
        program.guard(index)
        program.line(index)
        program.text(index)
        for register in program.definitions(index):
            program.operation(index, register)
