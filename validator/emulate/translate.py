"""From decoded instructions to closures: done once a kernel, run for every schedule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from validator.emulate import bulk, collectives, synchronising, transfers, values
from validator.emulate.hazard import HazardKind
from validator.emulate.lanes import Lanes
from validator.emulate.layout import Layout
from validator.emulate.operands import Context, NotTranslated, Read, Step, reader
from validator.emulate.program import Decoded, Immediate, Instruction, Kind, Segment
from validator.emulate.synchronising import Gate

if TYPE_CHECKING:
    from validator.emulate.machine import Machine

__all__ = ["Code", "CodeSegment", "translate"]

Leave = Callable[["Machine", Lanes], "int | None"]
"""Ends a segment: the one segment all its threads go on with, or None when they were sent on or have left."""
Family = Callable[[Instruction, Context], Step]
Wrap = Callable[[Instruction, Step], Step]

_STEPS: dict[str, Family] = {
    "mov": values.move,
    "ldparam": values.load_parameter,
    "cvta": values.convert_address,
    "isspacep": values.space_test,
    "ld": transfers.load_step,
    "ldu": transfers.load_step,
    "st": transfers.store_step,
    "atom": transfers.atomic_step,
    "red": transfers.atomic_step,
    "ldmatrix": transfers.matrix_load,
    "stmatrix": transfers.matrix_store,
    "fence": synchronising.fence_step,
    "membar": synchronising.fence_step,
    "griddepcontrol": synchronising.grid_step,
    "mbarrier": synchronising.mbarrier_step,
    "mapa": bulk.map_address,
    "getctarank": bulk.rank_of_address,
    **dict.fromkeys(
        ("shfl", "vote", "match", "redux", "elect", "activemask", "mma", "movmatrix"), collectives.collective
    ),
    **dict.fromkeys(
        (
            "prefetch",
            "prefetchu",
            "applypriority",
            "discard",
            "nanosleep",
            "setmaxnreg",
            "pmevent",
            "brkpt",
            "createpolicy",
        ),
        transfers.nothing,
    ),
}
_WHOLE = ("mma", "ldmatrix", "stmatrix", "movmatrix")
_MEMBERS = ("shfl", "vote", "match", "redux", "elect")
_FINE_WORDS = frozenset(
    ("release", "acquire", "acq_rel", "sc", "mbarrier", "bulk", "arrive", "async", "cluster", "commit_group", "proxy")
)
_SHARED_WORDS = frozenset(("nc", "volatile", "relaxed", "mmio"))


@dataclass(slots=True)
class CodeSegment:
    start: int
    gate: Gate | None
    steps: list[Step]
    leave: Leave
    weight: int
    """Instructions."""
    polls: bool


@dataclass(slots=True)
class Code:
    """A kernel ready to run, any number of times."""

    name: str
    segments: list[CodeSegment]
    registers: list[int]
    layout: Layout
    fine: bool
    """Whether it synchronises by more than barriers of whole CTAs and warps."""
    atomics: bool
    shares: bool
    """Whether it has accesses that may see what was there before a store: old bytes are kept for them."""
    exit_index: int
    decoded: Decoded
    hoisted: frozenset[int] = frozenset()
    """Program indices of loads that the machine code executes before the wait."""
    file: bytes = b""
    """What it was made from: another process makes it again from that."""
    unsupported: Counter[str] = field(default_factory=Counter)
    """Opcode and what is missing → instructions that cannot be executed."""


def translate(
    decoded: Decoded, layout: Layout, hoisted: frozenset[int] = frozenset(), wrap: Wrap | None = None
) -> Code:
    """Closures for every segment; what cannot be executed is counted and stops a run that reaches it.

    `wrap` may put something around the step of each instruction.
    """
    context = Context(layout, hoisted)
    unsupported = Counter(decoded.unsupported)
    segments = [_segment(s, context, unsupported, wrap or _bare) for s in decoded.segments]
    instructions = [i for s in decoded.segments for i in s.instructions]
    exits = [i.index for i in instructions if i.kind is Kind.EXIT]
    return Code(
        name=decoded.name,
        segments=segments,
        registers=decoded.registers,
        layout=layout,
        fine=any(_is_fine(i) for i in instructions),
        atomics=any(i.base in ("atom", "red") or "reduce" in i.words for i in instructions),
        shares=any(_is_fine(i) or _shares(i) for i in instructions),
        exit_index=exits[0] if exits else 0,
        decoded=decoded,
        hoisted=hoisted,
        unsupported=unsupported,
    )


def _bare(instruction: Instruction, step: Step) -> Step:
    return step


def _is_fine(i: Instruction) -> bool:
    if i.base in ("fence", "membar", "mbarrier"):
        return True
    if i.base == "bar" and "warp" in i.words:
        mask = i.operands[-1] if i.operands else None
        return not (isinstance(mask, Immediate) and mask.value & 0xFFFFFFFF == 0xFFFFFFFF)
    if i.base in ("bar", "barrier"):
        return not ("sync" in i.words and len(i.operands) < 2) and "warp" not in i.words
    return i.base in ("ld", "st", "atom", "red", "cp") and not _FINE_WORDS.isdisjoint(i.words)


def _shares(i: Instruction) -> bool:
    return i.base in ("atom", "red") or (i.base in ("ld", "st") and not _SHARED_WORDS.isdisjoint(i.words))


def _segment(segment: Segment, context: Context, unsupported: Counter[str], wrap: Wrap) -> CodeSegment:
    gate: Gate | None = None
    steps: list[Step] = []
    leave: Leave = _go_on(segment.next)
    for number, instruction in enumerate(segment.instructions):
        if number == 0:
            gate = _guarded_gate(instruction, context, unsupported)
            if gate is not None and not _also_step(instruction):
                continue
        if instruction.kind is Kind.PLAIN:
            step = wrap(instruction, _step(instruction, context, unsupported))
            steps.append(_guarded(instruction, step, context, unsupported))
        else:
            leave = _left(instruction, segment.next, context, unsupported)
    return CodeSegment(segment.start, gate, steps, leave, max(len(segment.instructions), 1), segment.polls)


# --- steps ----------------------------------------------------------------------------------------------------------


def _step(instruction: Instruction, context: Context, unsupported: Counter[str]) -> Step:
    try:
        return _translated(instruction, context)
    except NotTranslated as reason:
        return _refused(instruction, reason, unsupported)


def _refused(instruction: Instruction, reason: Exception, unsupported: Counter[str]) -> Step:
    """Counts what cannot be executed; a thread that reaches it ends the run."""
    called = instruction.base == "call"
    name = (" " if called else ".").join(instruction.words)
    told = f"{name}: {reason}" if str(reason) else name
    if not called:  # calls are counted already, with what they call
        unsupported[told] += 1
    return _stop(told, instruction.index)


def _translated(instruction: Instruction, context: Context) -> Step:
    """Raises `NotTranslated`, also for operands that are too few or of the wrong kind for the instruction."""
    try:
        return _family(instruction)(instruction, context)
    except (IndexError, ValueError) as wrong:
        raise NotTranslated("its operands are not those of the form") from wrong


def _family(instruction: Instruction) -> Family:
    base, words = instruction.base, instruction.words
    if base in ("bar", "barrier"):
        if "warp" in words:
            return _warp_barrier
        if "cluster" in words:
            return synchronising.cluster_step
    if base == "cp":
        return bulk.bulk_step if "bulk" in words or "reduce" in words else synchronising.copy_async
    if base in ("st", "red") and "async" in words:
        return bulk.async_store
    if base in ("wgmma", "tcgen05", "multimem", "call"):
        return _absent
    return _STEPS.get(base, values.compute)


def _absent(instruction: Instruction, context: Context) -> Step:
    raise NotTranslated


def _stop(what: str, index: int) -> Step:
    from validator.emulate.machine import Unexecutable

    def stop(m: Machine, lanes: Lanes) -> None:
        raise Unexecutable(what, index)

    return stop


def _warp_barrier(instruction: Instruction, context: Context) -> Step:
    masks = reader(context, instruction.operands[-1], 32)

    def meet(m: Machine, lanes: Lanes) -> None:
        named = masks(m, lanes)
        # Lanes that name different masks at one instruction do not meet each other.
        for mask in np.unique(named).tolist():
            m.barriers.warp(m, lanes.threads if len(named) == 1 else lanes.threads[named == mask])

    return meet


def _predicate(instruction: Instruction, context: Context) -> Read | None:
    return None if instruction.guard is None else reader(context, instruction.guard, 1)


def _guarded(instruction: Instruction, step: Step, context: Context, unsupported: Counter[str]) -> Step:
    try:
        predicate = _predicate(instruction, context)
    except NotTranslated as reason:
        return _refused(instruction, reason, unsupported)
    if predicate is None:
        return step

    def guarded(m: Machine, lanes: Lanes) -> None:
        chosen = lanes.where(predicate(m, lanes))
        if chosen is not None:
            step(m, chosen)

    return guarded


# --- gates ----------------------------------------------------------------------------------------------------------


def _also_step(instruction: Instruction) -> bool:
    """Whether the instruction does something once its gate is passed."""
    return instruction.base not in ("bar", "barrier") or "warp" in instruction.words


def _gate(instruction: Instruction, context: Context) -> Gate | None:
    base, words = instruction.base, instruction.words
    if base in ("bar", "barrier"):
        if "warp" in words:
            return collectives.members_gate(instruction, context)
        return None if "cluster" in words and "arrive" in words else synchronising.barrier_gate(instruction, context)
    if base in _WHOLE:
        return collectives.whole_warp_gate(instruction, context)
    return collectives.members_gate(instruction, context) if base in _MEMBERS else None


def _guarded_gate(instruction: Instruction, context: Context, unsupported: Counter[str]) -> Gate | None:
    try:
        gate, predicate = _gate(instruction, context), _predicate(instruction, context)
    except (NotTranslated, IndexError) as reason:
        stop = _refused(instruction, reason, unsupported)
        return lambda m, lanes, key: stop(m, lanes)
    if gate is None or predicate is None:
        return gate

    def guarded(m: Machine, lanes: Lanes, key: int) -> Lanes | None:
        mask = np.broadcast_to(predicate(m, lanes), (lanes.count,))
        chosen, rest = lanes.where(mask), lanes.where(~mask)
        passed = None if chosen is None else gate(m, chosen, key)
        if rest is None or passed is None:
            return passed or rest
        return Lanes(np.sort(np.concatenate([rest.threads, passed.threads])))

    return guarded


# --- ends of segments -----------------------------------------------------------------------------------------------


def _go_on(following: int | None) -> Leave:
    def leave(m: Machine, lanes: Lanes) -> int | None:
        if following is None:
            m.leave(lanes.threads)
        return following

    return leave


def _left(instruction: Instruction, following: int | None, context: Context, unsupported: Counter[str]) -> Leave:
    try:
        return _leaving(instruction, following, context)
    except (NotTranslated, IndexError) as reason:
        stop = _refused(instruction, reason, unsupported)

        def leave(m: Machine, lanes: Lanes) -> int | None:
            stop(m, lanes)
            return None

        return leave


def _leaving(instruction: Instruction, following: int | None, context: Context) -> Leave:
    if instruction.kind is Kind.INDIRECT:
        return _guard_leave(instruction, following, context, _switch(instruction, context))
    if instruction.kind is Kind.TRAP:
        return _guard_leave(instruction, following, context, _trap(instruction))
    if instruction.kind is Kind.EXIT:
        return _guard_leave(instruction, following, context, _go_on(None))
    target = instruction.targets[0]
    return _guard_leave(instruction, following, context, lambda m, lanes: target)


def _guard_leave(instruction: Instruction, following: int | None, context: Context, leave: Leave) -> Leave:
    """Threads whose guard holds leave, the others fall through; where they part, both are sent on."""
    predicate = _predicate(instruction, context)
    if predicate is None:
        return leave
    otherwise = _go_on(following)

    def guarded(m: Machine, lanes: Lanes) -> int | None:
        mask = predicate(m, lanes)
        held = int(np.count_nonzero(mask))
        if held == lanes.count:
            return leave(m, lanes)
        if not held:
            return otherwise(m, lanes)
        for part, way in ((Lanes(lanes.threads[~mask]), otherwise), (Lanes(lanes.threads[mask]), leave)):
            follow = way(m, part)
            if follow is not None:
                m.send(follow, part.threads)
        return None

    return guarded


def _switch(instruction: Instruction, context: Context) -> Leave:
    number = reader(context, instruction.operands[0], 32)
    targets = instruction.targets

    def leave(m: Machine, lanes: Lanes) -> int | None:
        chosen = np.minimum(np.broadcast_to(number(m, lanes), (lanes.count,)), len(targets) - 1)
        for which in np.unique(chosen).tolist():
            m.send(targets[which], lanes.threads[chosen == which])
        return None

    return leave


def _trap(instruction: Instruction) -> Leave:
    from validator.emulate.machine import Stopped

    def leave(m: Machine, lanes: Lanes) -> int | None:
        m.report(HazardKind.TRAP, instruction.index, lanes.threads, "", None, "the kernel traps")
        raise Stopped

    return leave
