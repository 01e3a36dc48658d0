"""What neighbouring instructions make of each other.

* A strong load or an atomic followed by `CCTL.IVALL`, with no other access between, is an acquire: ptxas invalidates
  the L1 cache for it. `LDG.E.STRONG.SM` needs no invalidation: CTA scope is an acquire by itself.
* `MEMBAR` before a strong store or an atomic, with nothing but its error barriers between, makes that a release.
* `DEPBAR.LE SBn, k` waits for what counts on scoreboard n: `LDGDEPBAR` (cp.async groups) or `UTMACMDFLUSH` (bulk
  groups), which name theirs in bits 110 to 112 or 113 to 115 of the encoding. On any other scoreboard it is an
  ordinary operand wait.
"""

from __future__ import annotations

from collections.abc import Sequence

from validator.ordering.program import Direction, Event, EventKind, Order, Scope
from validator.ordering.sass.disassemble import Instruction

__all__ = ["scoreboards", "settle_order"]

_TRANSPARENT = frozenset(("ERRBAR", "CGAERRBAR", "NOP"))
_LOOK = 24
_NO_SCOREBOARD = 7


def scoreboards(word: bytes) -> tuple[int, int]:
    """Scoreboards that an encoding releases for its result and for its sources; 7 is none."""
    high = int.from_bytes(word[8:16], "little")
    return high >> 46 & 7, high >> 49 & 7


def settle_order(
    instructions: Sequence[Instruction], words: Sequence[bytes], events: Sequence[Event]
) -> tuple[Event, ...]:
    """Events with order, scope and group settled; ordinary scoreboard waits taken out.

    Args:
        words: the 16 bytes of each instruction, with the scheduling bits.
    """
    groups = _group_scoreboards(instructions, words)
    kept: list[Event] = []
    for event in events:
        if event.kind is EventKind.ASYNC_WAIT and event.group is None:
            if not _settle_wait(event, instructions, groups):
                continue
        elif (
            event.kind is EventKind.ACCESS and event.accesses[0].direction in _SETTLED and event.order is Order.RELAXED
        ):
            _settle_access(event, instructions)
        elif event.kind is EventKind.CLUSTER_BARRIER:
            _settle_cluster(event, instructions)
        kept.append(event)
    return tuple(kept)


_SETTLED = (Direction.READ, Direction.WRITE, Direction.ATOMIC)


def _settle_access(event: Event, instructions: Sequence[Instruction]) -> None:
    direction = event.accesses[0].direction
    acquires = direction is not Direction.WRITE and (
        _invalidated_after(event.index, instructions) or (direction is Direction.READ and event.scope is Scope.CTA)
    )
    releases = direction is not Direction.READ and _fenced_before(event.index, instructions)
    if acquires and releases:
        event.order = Order.ACQ_REL
    elif acquires:
        event.order = Order.ACQUIRE
    elif releases:
        event.order = Order.RELEASE


def _touches(instruction: Instruction) -> bool:
    return instruction.base.startswith(("LD", "ST", "AT", "RED")) and instruction.base not in (
        "LDC",
        "LDCU",
        "REDUX",
        "LDGDEPBAR",
        "STL",
        "LDL",
    )


def _invalidated_after(index: int, instructions: Sequence[Instruction]) -> bool:
    guard = instructions[index].guard
    for i in range(index + 1, min(len(instructions), index + 1 + _LOOK)):
        here = instructions[i]
        if here.never:
            continue
        if here.base == "CCTL" and "IVALL" in here.modifiers:
            return here.guard is None or here.guard == guard
        if here.distance is not None or here.base in ("EXIT", "RET", "BAR", "MEMBAR") or _touches(here):
            return False
    return False


def _fenced_before(index: int, instructions: Sequence[Instruction]) -> bool:
    guard = instructions[index].guard
    for i in range(index - 1, max(-1, index - 1 - _LOOK), -1):
        here = instructions[i]
        if here.never or here.base in _TRANSPARENT:
            continue
        if here.base == "MEMBAR":
            return here.guard is None or here.guard == guard
        if here.distance is not None or here.base in ("EXIT", "RET", "BAR") or _touches(here):
            return False
    return False


def _settle_cluster(event: Event, instructions: Sequence[Instruction]) -> None:
    """barrier.cluster.arrive releases through a MEMBAR before it, .wait acquires through CCTL.IVALL after it."""
    if event.arrives and _fenced_before(event.index, instructions):
        event.order = Order.RELEASE
    elif event.waits and _invalidated_after(event.index, instructions):
        event.order = Order.ACQUIRE


def _group_scoreboards(instructions: Sequence[Instruction], words: Sequence[bytes]) -> dict[int, set[str]]:
    """Scoreboard → the kinds of groups that count on it."""
    found: dict[int, set[str]] = {}
    for i, instruction in enumerate(instructions):
        group = {"LDGDEPBAR": "cp.async", "UTMACMDFLUSH": "bulk"}.get(instruction.base)
        if group is not None:
            for number in scoreboards(words[i]):
                if number != _NO_SCOREBOARD:
                    found.setdefault(number, set()).add(group)
    return found


def _settle_wait(event: Event, instructions: Sequence[Instruction], groups: dict[int, set[str]]) -> bool:
    """Says what a DEPBAR waits for; False when it is an ordinary operand wait."""
    operands = instructions[event.index].operands
    if len(operands) < 2 or not operands[0].startswith("SB"):
        return False
    counted = groups.get(int(operands[0][2:]), set())
    if not counted:
        return False
    if len(counted) == 1:
        event.group = next(iter(counted))
    else:
        # Both kinds share the scoreboard: the commit that stands nearest before is meant.
        event.group = _nearest_commit(event.index, instructions)
    if event.group == "bulk":
        event.read_only = not _invalidated_after(event.index, instructions)
    return True


def _nearest_commit(index: int, instructions: Sequence[Instruction]) -> str:
    for i in range(index - 1, -1, -1):
        if instructions[i].base == "UTMACMDFLUSH":
            return "bulk"
        if instructions[i].base == "LDGDEPBAR":
            break
    return "cp.async"
