"""Which registers each SASS instruction writes."""

from __future__ import annotations

import re
from functools import lru_cache

from validator.ordering.program import Reg
from validator.ordering.sass.disassemble import Instruction
from validator.ordering.sass.opcodes import NO_RESULT
from validator.ordering.sass.operands import is_predicate, register, successor

__all__ = ["access_bytes", "definitions", "destinations", "results"]

_REG = re.compile(r"^U?R\d+(\.\w+)?$")
_MATRIX = re.compile(r"^(\d+)x(\d+)x(\d+)$")
_COUNT = re.compile(r"^[xX]?(\d+)$")

_SETP = "ISETP UISETP FSETP UFSETP DSETP HSETP2 PLOP3 UPLOP3 PSETP UPSETP"
_TWO_PREDICATES = frozenset(_SETP.split())
_LOADS = frozenset(["LD", "LDG", "LDS", "LDL", "LDSM", "LDTM"])
_ATOMICS = frozenset(["ATOM", "ATOMG", "ATOMS"])
_DOUBLE = frozenset(["DADD", "DMUL", "DFMA", "DMNMX", "DSEL", "FADD2", "FMUL2", "FFMA2", "CS2R"])
_WGMMA = frozenset(["HGMMA", "QGMMA", "IGMMA", "BGMMA"])
_MMA = frozenset(["HMMA", "IMMA", "DMMA", "QMMA", "OMMA", "BMMA"])


def access_bytes(instruction: Instruction) -> int:
    """Bytes one thread moves, from the size modifier; 4 where there is none."""
    mods = instruction.modifiers
    for name, size in (
        ("U8", 1),
        ("S8", 1),
        ("U16", 2),
        ("S16", 2),
        ("64", 8),
        ("128", 16),
        ("256", 32),
        ("192", 24),
        ("96", 12),
    ):
        if name in mods:
            return size
    if mods & {"F16x2", "BF16x2"}:
        return 4
    return 4


def _count(instruction: Instruction) -> int:
    """Registers that the first destination spans."""
    base, mods = instruction.base, instruction.modifiers
    if base in _LOADS or base in _ATOMICS or base in ("LDC", "LDCU", "ULDC"):
        if base in ("LDSM", "LDTM"):
            # LDSM.16.M88.4 and LDTM.16dp256bit.x8: the last modifier counts registers.
            last = _COUNT.match(instruction.opcode.rpartition(".")[2])
            return int(last[1]) if last else 1
        if base == "LDG" and "256" in mods:
            return 4
        return max(1, access_bytes(instruction) // 4)
    if base == "SYNCS":
        # The token of an arrival is a 64-bit state with the phase on top.
        return 2 if "ARRIVE" in mods else 1
    if base in _DOUBLE:
        return 1 if "32" in mods else 2
    if "WIDE" in mods or ("64" in mods and base not in ("SHF", "USHF", "MUFU", "I2F", "ISETP", "UISETP")):
        return 2
    if base == "F2F" and "F64" in instruction.opcode.split(".")[1:2]:
        return 2
    if base == "I2F" and "F64" in mods:
        return 2
    if base == "F2I" and mods & {"S64", "U64"}:
        return 2
    if base in _WGMMA or base in _MMA:
        return _accumulators(instruction)
    return 1


def _accumulators(instruction: Instruction) -> int:
    mods = instruction.opcode.split(".")
    half = "F16" in mods and "F32" not in mods
    for mod in mods:
        shape = _MATRIX.match(mod)
        if shape and instruction.base in _WGMMA:
            columns = int(shape[2])
            return max(1, columns // (4 if half else 2))
    if instruction.base == "DMMA":
        return 4
    return 2 if half else 4


@lru_cache(maxsize=1 << 18)
def results(opcode: str, operands: tuple[str, ...]) -> tuple[int, ...]:
    """Positions of the destination operands."""
    base = opcode.partition(".")[0]
    if base in NO_RESULT or not operands:
        return (0,) if base == "BMOV" and _REG.match(operands[0] if operands else "") else ()
    if base == "R2P":
        return ()
    if base == "B2R":
        return tuple(range(min(2, len(operands))))
    if base in _TWO_PREDICATES:
        return tuple(
            i for i in (0, 1) if i < len(operands) and is_predicate(operands[i]) and not operands[i].startswith("!")
        )
    first = operands[0]
    if is_predicate(first) and not first.startswith("!"):
        if base in ("VOTE", "VOTEU"):
            return (0,)
        if len(operands) > 1 and (_REG.match(operands[1]) or operands[1] in ("RZ", "URZ")):
            return (0, 1)
        return (0,)
    if not (_REG.match(first) or first in ("RZ", "URZ")):
        return ()
    found = [0]
    limit = 1 if base in ("VOTE", "VOTEU", "ELECT") else 2
    for i in range(1, min(len(operands), limit + 1)):
        if (
            not is_predicate(operands[i])
            or operands[i].startswith("!")
            or (i == len(operands) - 1 and base not in ("VOTE", "VOTEU", "ELECT"))
        ):
            break
        found.append(i)
    if "256" in opcode.split(".") and base == "LDG" and len(operands) > 1 and _REG.match(operands[1]):
        found.append(1)
    return tuple(found)


def destinations(instruction: Instruction) -> list[tuple[Reg, int, int]]:
    """(register, position of its operand, word inside that operand)."""
    if instruction.never:
        return []
    base = instruction.base
    if base == "R2P":
        return [(register(f"P{i}"), 0, i) for i in range(7)]
    if base in ("UR2UP",):
        return [(register(f"UP{i}"), 0, i) for i in range(7)]
    if base == "RPCMOV":
        return [(reg, 0, word) for word, reg in enumerate(_return_address(instruction))]
    if base == "CALL":
        # The ABI's result and scratch registers; what a callee that is not in the section does to them is unknown.
        return [(register(f"R{i}"), 0, i) for i in range(4, 16)]
    found: list[tuple[Reg, int, int]] = []
    for position in results(instruction.opcode, instruction.operands):
        name = instruction.operands[position].partition(".")[0]
        if name in ("RZ", "URZ", "PT", "UPT"):
            continue
        reg = register(name)
        if is_predicate(name):
            found.append((reg, position, 0))
            continue
        for word in range(_count(instruction)):
            following = successor(reg, word)
            if following is not None:
                found.append((following, position, word))
    return found


def _return_address(instruction: Instruction) -> list[Reg]:
    """The register, or the two, that `RPCMOV` sets: compilers also keep a value in the return address's."""
    name = instruction.operands[0] if instruction.operands else ""
    if name == "Rpc":
        return [register("Rpc.LO"), register("Rpc.HI")]
    if name.startswith("Rpc"):
        return [register(name)]
    first = register(name)
    following = successor(first, 1) if "64" in instruction.modifiers else None
    return [first] if following is None else [first, following]


def definitions(instruction: Instruction) -> tuple[Reg, ...]:
    """Registers it writes."""
    return tuple(reg for reg, _, _ in destinations(instruction))
