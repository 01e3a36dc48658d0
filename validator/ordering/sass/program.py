"""One kernel's machine code as a `Program`."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from validator.binary.elf import Cubin, Kernel, Relocation
from validator.ordering.program import (
    Block,
    Const,
    Event,
    EventKind,
    Guard,
    Isa,
    Line,
    Op,
    Operand,
    Operation,
    Parameter,
    Reg,
)
from validator.ordering.sass.cfg import control_flow
from validator.ordering.sass.destinations import definitions
from validator.ordering.sass.disassemble import Instruction
from validator.ordering.sass.events import events_of, known
from validator.ordering.sass.jumps import jump_tables
from validator.ordering.sass.lower import is_local, operations
from validator.ordering.sass.opcodes import HARMLESS
from validator.ordering.sass.operands import Constants
from validator.ordering.sass.order import settle_order
from validator.ordering.sass.tensor import tensor_events
from validator.ordering.sass.uniform import uniform_moves
from validator.ordering.sass.warps import warp_barriers

__all__ = ["LineLookup", "SassProgram", "digest_of"]

_WORD = 16
_LOOK_BACK = 4096
_NOWHERE = Constants(None, 0, ())

LineLookup = Callable[[str, int], Line]
"""(kernel, byte offset) → where it came from."""


def digest_of(kernel: Kernel) -> str:
    """sha256 of the kernel's section."""
    return hashlib.sha256(kernel.code).hexdigest()


class SassProgram:
    """Implements `validator.ordering.program.Program` over decoded instructions."""

    isa = Isa.SASS

    def __init__(
        self, cubin: Cubin, kernel: Kernel, instructions: Sequence[Instruction], lines: LineLookup | None = None
    ) -> None:
        """
        Args:
            instructions: of the kernel's whole section, in order.
            lines: where instructions came from; None without line information.
        """
        self.name = kernel.name
        self.arch = cubin.arch
        self.parameters: tuple[Parameter, ...] = kernel.parameters
        self.block_size = kernel.block_size
        self.max_block_size = kernel.max_block_size
        self.digest = digest_of(kernel)
        self.resources = cubin.resources(kernel.name)
        self._section = instructions
        self._lines = lines
        self._relocations = _relocations(cubin, kernel)
        self._constants = Constants(
            kernel.parameter_base, kernel.parameter_bytes, kernel.parameters, _bank_symbols(cubin)
        )
        self._windows = _shared_windows(instructions)
        self._uniform = uniform_moves(instructions)
        tables = jump_tables(instructions, kernel.branch_targets, _bank_of_tables(cubin, kernel))
        flow = self._flow = control_flow(instructions, kernel.branch_targets, frozenset(self._relocations), tables)
        self._places = flow.places
        self.blocks: Sequence[Block] = flow.blocks
        self.unknown: Mapping[str, int] = _unknown(instructions[i] for i in set(flow.places))
        self._operations: dict[int, Mapping[Reg, Operation]] = {}
        self.events: Sequence[Event] = self._find_events(bytes(kernel.code), flow.outside, flow.unresolved)

    # -- Program -----------------------------------------------------------------------------------------------------

    def definitions(self, index: int) -> Iterable[Reg]:
        place = self._places[index]
        instruction = self._section[place]
        if instruction.base == "CALL" and place not in self._flow.outside:
            return ()  # the body of the callee follows and says what it sets
        if instruction.defined is None:
            instruction.defined = definitions(instruction)
        return instruction.defined

    def guard(self, index: int) -> Guard | None:
        return self._section[self._places[index]].guard

    def keeps_under(self, index: int) -> Guard | None:
        place = self._places[index]
        return self._uniform[place] if place in self._uniform else self._section[place].guard

    def operation(self, index: int, register: Reg) -> Operation:
        place = self._places[index]
        instruction = self._section[place]
        if instruction.lowered is not None and place not in self._relocations:
            return instruction.lowered[register]
        known_here = self._operations.get(place)
        if known_here is None:
            known_here = self._lower(place, instruction)
        return known_here[register]

    def line(self, index: int) -> Line:
        pc = self._places[index] * _WORD
        return self._lines(self.name, pc) if self._lines is not None else Line(pc=pc)

    def text(self, index: int) -> str:
        place = self._places[index]
        return self._section[place].text(place * _WORD)

    # -- pieces ------------------------------------------------------------------------------------------------------

    def _lower(self, place: int, instruction: Instruction) -> Mapping[Reg, Operation]:
        relocation = self._relocations.get(place)
        if relocation is None and is_local(instruction):
            instruction.lowered = operations(instruction, _NOWHERE)
            return instruction.lowered
        lowered = operations(instruction, self._constants, self._windows)
        if relocation is not None:
            lowered = {reg: _relocated(op, relocation) for reg, op in lowered.items()}
        self._operations[place] = lowered
        return lowered

    def _find_events(self, code: bytes, outside: frozenset[int], unresolved: Mapping[int, str]) -> Sequence[Event]:
        local = [self._section[p] for p in self._places]
        meetings = warp_barriers(self._section)
        found: list[Event] = []
        for index, (place, instruction) in enumerate(zip(self._places, local, strict=True)):
            if place in outside:
                event = Event(EventKind.CALL, index, instruction.opcode, guard=instruction.guard)
                event.name = self._callee(place)
                found.append(event)
            elif place in unresolved:
                event = Event(EventKind.UNKNOWN, index, instruction.opcode, guard=instruction.guard)
                event.name = unresolved[place]
                found.append(event)
            elif place in meetings:
                found.append(Event(EventKind.WARP_BARRIER, index, instruction.opcode))
            elif instruction.base not in HARMLESS:
                found.extend(events_of(instruction, index, self._constants))
        words = [code[p * _WORD : p * _WORD + _WORD] for p in self._places]
        settled = settle_order(local, words, found)
        if not any(instruction.base in ("LDTM", "STTM") for instruction in self._section):
            return settled
        # What an instruction waits for comes before what it does.
        return sorted((*tensor_events(local, words), *settled), key=lambda e: e.index)

    def _callee(self, place: int) -> str:
        """Name of a function outside the section: from its relocation or from the address table in bank 4."""
        relocation = self._relocations.get(place)
        if relocation is not None:
            return relocation.symbol.name
        operands = self._section[place].operands
        if not operands:
            return ""
        wanted = Reg(operands[0])
        # The address is loaded before the call: `LDC.64 R2, c[0x4][R2]` after `MOV R2, 0x18`.
        offset: int | None = None
        for i in range(place - 1, max(-1, place - _LOOK_BACK), -1):
            before = self._section[i]
            if before.defined is None:
                before.defined = definitions(before)
            if wanted not in before.defined:
                continue
            operation = operations(before, self._constants)[wanted]
            if operation.op is Op.SYMBOL and isinstance(operation.attr, tuple):
                return str(operation.attr[1])
            if before.base == "LDC" and operation.attr == "c[0x4]":
                index = operation.args[0] if operation.args else None
                if isinstance(index, Reg):
                    wanted = index
                    continue
            if operation.op is Op.COPY and isinstance(operation.args[0], Const):
                offset = operation.args[0].value
            break
        named = self._constants.symbols.get(offset) if offset is not None else None
        return named[0] if named else ""


def _relocations(cubin: Cubin, kernel: Kernel) -> dict[int, Relocation]:
    section = cubin.sections[kernel.section]
    return {r.offset // _WORD: r for r in cubin.relocations(section)}


def _bank_of_tables(cubin: Cubin, kernel: Kernel) -> bytes:
    """Constant bank 2 holds the tables of a kernel's indirect branches; empty where a linker is to fill it in."""
    section = cubin.section(f".nv.constant2.{kernel.name}")
    return b"" if section is None or cubin.relocations(section) else bytes(cubin.contents(section))


def _bank_symbols(cubin: Cubin) -> Mapping[int, tuple[str, int]]:
    """Constant bank 4 holds addresses of variables and functions; the relocations say of which."""
    section = cubin.section(".nv.constant4")
    if section is None:
        return {}
    return {r.offset: (r.symbol.name, r.addend) for r in cubin.relocations(section)}


def _relocated(operation: Operation, relocation: Relocation) -> Operation:
    """An immediate that the linker fills with an address."""
    symbol = Operation(Op.SYMBOL, (), ("global", relocation.symbol.name, relocation.addend), 64)
    args: tuple[Operand, ...] = tuple(symbol if isinstance(a, Const) else a for a in operation.args)
    return Operation(operation.op, args, operation.attr, operation.width)


def _shared_windows(instructions: Sequence[Instruction]) -> frozenset[str]:
    """Registers that hold the rank of the CTA in its cluster somewhere: what shared addresses are made from."""
    found = {i.operands[0] for i in instructions if i.base in ("S2R", "S2UR") and "SR_CgaCtaId" in i.operands}
    copies = [(i.operands[0], i.operands[-1]) for i in instructions if found and _copies(i)]
    while new := {target for target, source in copies if source in found} - found:
        found |= new
    return frozenset(found)


def _copies(i: Instruction) -> bool:
    if i.base == "IMAD":
        return list(i.operands[1:3]) == ["RZ", "RZ"]
    return i.base in ("MOV", "UMOV", "R2UR") and len(i.operands) == 2


def _unknown(instructions: Iterable[Instruction]) -> Mapping[str, int]:
    counts = Counter(i.opcode or f"{i.code:#05x}" for i in instructions if not i.never and not known(i))
    return dict(sorted(counts.items()))
