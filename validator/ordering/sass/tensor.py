"""Loads and stores of tensor memory, and where they are done.

`tcgen05.wait::st` is an instruction (`FENCE.VIEW.ASYNC.T`), `tcgen05.wait::ld` is none: ptxas lets what follows it wait
for the scoreboard of the load, as it does for whoever uses the loaded registers. Loads are done in order: of several in
a row only the last may have a scoreboard, and a wait for a later one is a wait for all. Measured with ptxas 13.0 on
sm_100a and in shipped kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from validator.ordering.program import Event, EventKind
from validator.ordering.sass.disassemble import Instruction
from validator.ordering.sass.opcodes import CONTROL
from validator.ordering.sass.order import scoreboards

__all__ = ["tensor_events"]

_NONE = 7
_LOAD = "tcgen05.ld"
_WAIT_MASK = 52
"""Bits 116 to 121 of an encoding: the scoreboards that it waits for before it is issued."""


def tensor_events(instructions: Sequence[Instruction], words: Sequence[bytes]) -> Iterator[Event]:
    """Every LDTM and STTM, and every wait for the scoreboard of an LDTM, in text order.

    Args:
        words: the 16 bytes of each instruction, with the scheduling bits.
    """
    loads = _boards(instructions, words)
    used = sorted(set().union(*loads.values())) if loads else []
    for index, instruction in enumerate(instructions):
        waited = _waited(instruction, words[index]) if used else 0
        for number in used:
            if waited >> number & 1:
                group = f"{_LOAD}.{number}"
                yield Event(EventKind.ASYNC_WAIT, index, instruction.opcode, group=group, pending=0)
        if loads.get(index):
            group = ".".join((_LOAD, *map(str, sorted(loads[index]))))
            yield Event(EventKind.TENSOR_LOAD, index, instruction.opcode, guard=instruction.guard, group=group)
        elif instruction.base == "STTM" and not instruction.never:
            yield Event(EventKind.TENSOR_STORE, index, instruction.opcode, guard=instruction.guard, group="tcgen05.st")


def _boards(instructions: Sequence[Instruction], words: Sequence[bytes]) -> dict[int, set[int]]:
    """LDTM → scoreboards one of which says that it is done: its own and those of the loads that follow it in a row.

    Empty where that does not show: such a load is left out.
    """
    result: dict[int, set[int]] = {}
    behind: set[int] = set()
    for index in range(len(instructions) - 1, -1, -1):
        instruction = instructions[index]
        if instruction.base == "LDTM" and not instruction.never:
            behind = behind | ({scoreboards(words[index])[0]} - {_NONE})
            result[index] = behind
        elif instruction.base in CONTROL:
            behind = set()
    return result


def _waited(instruction: Instruction, word: bytes) -> int:
    """Scoreboards, as a bit mask, behind which an instruction is issued."""
    mask = int.from_bytes(word[8:16], "little") >> _WAIT_MASK & 0x3F
    if instruction.base == "DEPBAR" and instruction.operands and instruction.operands[0].startswith("SB"):
        left = instruction.operands[1] if len(instruction.operands) > 1 else "0x0"
        if left == "0x0":
            mask |= 1 << int(instruction.operands[0][2:])
    return mask
