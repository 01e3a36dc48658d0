"""Cubins (ELF): every kernel scanned, located and lowered, or a `SassError` that says where."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from tests.fuzz.targets.common import FIXTURES, small, told
from validator.binary.elf import Cubin
from validator.ordering.sass.disassemble import Instruction
from validator.ordering.sass.errors import SassError
from validator.ordering.sass.lines import LineTable
from validator.ordering.sass.program import SassProgram
from validator.ordering.sass.scan import scan

MODULES = ("validator.ordering.sass",)
_VOCABULARY = (
    ("NOP", ()), ("BRA", ()), ("BRX", ("R2",)), ("CALL.REL.NOINC", ()), ("RET.REL.NODEC", ("R2",)), ("BSSY", ("B0",)),
    ("BSYNC", ("B0",)), ("LDG.E", ("R4", "desc[UR4][R2.64]")), ("STG.E", ("desc[UR4][R2.64]", "R4")), ("ACQBULK", ()),
    ("IADD3", ("R2", "R2", "c[0x0][0x210]", "RZ")), ("EXIT", ()), ("", ()), ("FROBNICATE", ("R2", "UR[", "c[x")),
)  # fmt: skip
_JUMPS = ("BRA", "CALL.REL.NOINC", "BSSY")


def seeds() -> Iterator[bytes]:
    return small((FIXTURES / "ordering").rglob("*.cubin"), 8)


def one(data: bytes) -> None:
    try:
        cubin = Cubin(data, "fuzz.cubin")
        assert cubin.arch
        table = LineTable(cubin)
        for kernel in cubin.kernels():
            scan(kernel, cubin.sm)
            table(kernel.name, 0x40)
            cubin.resources(kernel.name)
            SassProgram(cubin, kernel, _decoded(bytes(kernel.code)), table)
    except SassError as error:
        told(error)


@cache
def _decoded(code: bytes) -> list[Instruction]:
    """What a disassembler might say of any code: a fixed vocabulary, chosen by the encoding (no process an input)."""
    found = []
    for at in range(0, len(code), 16):
        word = code[at : at + 16].ljust(4, b"\0")
        name, operands = _VOCABULARY[word[0] % len(_VOCABULARY)]
        distance = int.from_bytes(word[2:4], "little", signed=True) * 16 if name in _JUMPS else None
        found.append(Instruction(name, operands, None, False, distance, int.from_bytes(word[:2], "little") & 0xFFF))
    return found
