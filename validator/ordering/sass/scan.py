"""What the opcodes of a kernel say before anything is disassembled.

Most kernels of a library neither wait for other grids nor trigger them, and many of the rest begin with the wait; both
show in the opcode numbers alone. What a scan settles it settles soundly: an opcode that the table does not know, a
branch or a predicate before the wait all send the kernel to the full analysis.
"""

from __future__ import annotations

import numpy as np

from validator.binary.elf import Kernel
from validator.errors import Problem
from validator.ordering.sass.codes import CLASSES, Class, class_of
from validator.ordering.sass.disassemble import Instruction
from validator.ordering.sass.errors import SassError
from validator.ordering.sass.settlement import Scan, Settlement

__all__ = ["check_agreement", "scan"]

_WORD = 16
_CLASS_OF = [Class(int(number)) for number in CLASSES]
_FIRST_WITH_PDL = 90
_ALWAYS = 7
"""Predicate field (bits 12 to 15) of an instruction that is not predicated: PT, not negated."""


def scan(kernel: Kernel, sm: int) -> Scan:
    """Count and settle; one pass of numpy over the section."""
    words = np.frombuffer(kernel.code, dtype="<u8")[::2]
    classes = CLASSES[(words & np.uint64(0xFFF)).astype(np.intp)]
    counts = np.bincount(classes, minlength=len(Class))
    waits, triggers = int(counts[Class.WAIT]), int(counts[Class.TRIGGER])
    accesses, unknown = int(counts[Class.GLOBAL]), int(counts[Class.UNKNOWN])
    first = _first_wait(words, classes) if waits else None
    triggers_early = first is not None and bool((classes[:first] == Class.TRIGGER).any())
    calls_out = bool(counts[Class.CONTROL]) and _calls(words, classes)
    settlement, reason = _settle(sm, waits, triggers, accesses, unknown, first, calls_out)
    return Scan(len(words), waits, triggers, accesses, unknown, first is not None, triggers_early, settlement, reason)


_SKIPPED = (Class.HARMLESS, Class.SHARED, Class.ORDER, Class.TRIGGER)


def _first_wait(
    words: np.ndarray[tuple[int], np.dtype[np.uint64]], classes: np.ndarray[tuple[int], np.dtype[np.uint8]]
) -> int | None:
    """Index of an unconditional wait that every path passes before any branch or global access."""
    stops = np.flatnonzero(~np.isin(classes, _SKIPPED))
    if not len(stops):
        return None
    first = int(stops[0])
    if classes[first] != Class.WAIT:
        return None
    return first if int(words[first]) >> 12 & 0xF == _ALWAYS else None


_CALLS = (0x343, 0x344, 0x943, 0x944)


def _calls(
    words: np.ndarray[tuple[int], np.dtype[np.uint64]], classes: np.ndarray[tuple[int], np.dtype[np.uint8]]
) -> bool:
    numbers = words[classes == Class.CONTROL] & np.uint64(0xFFF)
    return bool(np.isin(numbers, _CALLS).any())


def _settle(
    sm: int, waits: int, triggers: int, accesses: int, unknown: int, first: int | None, calls: bool
) -> tuple[Settlement | None, str]:
    if sm < _FIRST_WITH_PDL:
        return (
            Settlement.NO_PDL,
            f"sm_{sm} has no programmatic dependent launch, and no other rule is run on its machine code",
        )
    if first is not None:
        return (
            Settlement.WAITS_FIRST,
            f"every path passes the wait at {first * _WORD:#x} before its first branch and its first global access",
        )
    if unknown or waits:
        return None, ""
    if not triggers and not accesses and not calls:
        return Settlement.NO_GLOBAL, "touches no global memory and never triggers"
    if not triggers:
        return (
            Settlement.NO_PART,
            "neither waits for other grids nor triggers them; nothing is early unless it is launched with "
            "programmatic dependent launch",
        )
    return None, ""


def check_agreement(name: str, instructions: list[Instruction]) -> None:
    """A scan and nvdisasm that call one instruction two things cannot both be trusted.

    Raises:
        SassError: names the kernel and the first instruction.
    """
    for instruction in dict.fromkeys(instructions):
        said = _CLASS_OF[instruction.code]
        if said is not Class.UNKNOWN and instruction.opcode and said is not class_of(instruction.base):
            raise SassError(
                Problem(
                    f"opcode {instruction.code:#05x} is {instruction.base} to nvdisasm and "
                    f"{said.name.lower()} to the opcode table",
                    f"{name} at {instructions.index(instruction) * _WORD:#x}",
                    "this nvdisasm is newer than the table: report it, and pin the version named in the extra",
                )
            )
