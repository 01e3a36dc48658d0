"""Which SASS instructions touch memory or order it, and how.

Sources: the measured table in the project's facts (PTX statement beside the SASS that ptxas 12.9 to 13.5 made of it for
sm_90a, 100a, 103a and 120), and the opcode lists of NVIDIA's "CUDA Binary Utilities". What an opcode does is said once,
here; an opcode in neither table is an UNKNOWN event.

What a single instruction does not say (whether a strong load is an acquire) depends on its neighbours: see `order`.
"""

from __future__ import annotations

from collections.abc import Callable

from validator.ordering.program import (
    Access,
    Const,
    Direction,
    Event,
    EventKind,
    Op,
    Operand,
    Operation,
    Order,
    Reg,
    Scope,
    Space,
)
from validator.ordering.sass.destinations import access_bytes
from validator.ordering.sass.disassemble import Instruction
from validator.ordering.sass.opcodes import HARMLESS
from validator.ordering.sass.operands import Constants, address, is_predicate, operand, register, successor

__all__ = ["events_of", "known"]

_SCOPES = {"SM": Scope.CTA, "CTA": Scope.CTA, "VC": Scope.GPU, "GPU": Scope.GPU, "SYS": Scope.SYS}

_Rule = Callable[[Instruction, int, Constants], list[Event]]


def known(instruction: Instruction) -> bool:
    """Whether the opcode stands in a table here."""
    return instruction.base in _RULES or instruction.base in HARMLESS


def events_of(instruction: Instruction, index: int, constants: Constants) -> list[Event]:
    """Events of the instruction at `index`; none for a filler that never executes."""
    if instruction.never:
        return []
    rule = _RULES.get(instruction.base)
    if rule is not None:
        found = rule(instruction, index, constants)
    elif instruction.base in HARMLESS:
        found = []
    else:
        what = f"opcode {instruction.base}" if instruction.opcode else f"encoding {instruction.code:#05x}"
        found = [
            Event(
                EventKind.UNKNOWN, index, instruction.opcode or f"{instruction.code:#05x}", name=f"{what} is not known"
            )
        ]
    for event in found:
        event.guard = instruction.guard
    return found


# -- pieces ----------------------------------------------------------------------------------------------------------


def _addresses(i: Instruction, constants: Constants) -> list[tuple[Operand, ...]]:
    """Every memory operand, in order."""
    return [found for token in i.operands if (found := address(token, constants)) is not None]


def _event(kind: EventKind, i: Instruction, index: int) -> Event:
    return Event(kind, index, i.opcode)


def _scope(i: Instruction) -> Scope | None:
    return next((_SCOPES[m] for m in i.opcode.split(".")[1:] if m in _SCOPES), None)


def _next(terms: tuple[Operand, ...], distance: int) -> tuple[Operand, ...]:
    """The same operand some registers further: bulk copies keep the barrier's address beside the destination's."""
    first = terms[0] if terms else None
    following = successor(first, distance) if isinstance(first, Reg) else None
    return (following,) if following else ()


def _values(i: Instruction, constants: Constants, words: int) -> tuple[Operand, ...]:
    """What a store writes: the register operand after the address."""
    after = False
    for token in i.operands:
        if address(token, constants) is not None:
            after = True
        elif after and not is_predicate(token):
            first = operand(token, constants)
            if isinstance(first, Reg):
                return tuple(r for n in range(words) if (r := successor(first, n)) is not None)
            return (first,) * words
    return ()


# -- plain accesses --------------------------------------------------------------------------------------------------


def _access(space: Space, direction: Direction) -> _Rule:
    def rule(i: Instruction, index: int, constants: Constants) -> list[Event]:
        event = _event(EventKind.ACCESS, i, index)
        size = access_bytes(i)
        found = _addresses(i, constants)
        event.accesses = (Access(direction, space, found[0] if found else (), size),)
        if "STRONG" in i.modifiers or direction is Direction.ATOMIC:
            event.order, event.scope, event.movable = Order.RELAXED, _scope(i), False
        elif "MMIO" in i.modifiers:
            event.order, event.scope, event.movable = Order.RELAXED, Scope.SYS, False
        event.noncoherent = "CONSTANT" in i.modifiers
        if direction is not Direction.READ:
            event.movable = False
            event.value = _values(i, constants, max(1, size // 4))
        return [event]

    return rule


def _by_handle(direction: Direction) -> _Rule:
    """Textures and surfaces: the handle, a uniform register or a constant, stands for the memory as a pointer would."""

    def rule(i: Instruction, index: int, constants: Constants) -> list[Event]:
        event = _event(EventKind.ACCESS, i, index)
        handle = next((t for t in i.operands if t.startswith("UR") or "[0x" in t), None)
        found = operand(handle, constants) if handle is not None else None
        event.accesses = (Access(direction, Space.GLOBAL, (found,) if found is not None else (), None),)
        event.noncoherent = direction is Direction.READ and i.base != "SULD"
        event.movable = direction is Direction.READ
        return [event]

    return rule


def _prefetch_line(i: Instruction, index: int, constants: Constants) -> list[Event]:
    """CCTL: prefetches touch memory, invalidations order (`order` reads them), the rest acts on the cache alone.

    PML2 is prefetch.L2::evict_last, DML2 applypriority; RML2 is discard, which destroys what the line holds.
    """
    discards = "RML2" in i.modifiers
    if discards or i.modifiers & {"PML2", "DML2"} or any(m.startswith("PF") for m in i.modifiers):
        event = _event(EventKind.ACCESS, i, index)
        found = _addresses(i, constants)
        direction = Direction.WRITE if discards else Direction.PREFETCH
        event.accesses = (Access(direction, Space.GLOBAL, found[0] if found else (), None),)
        return [event]
    if i.modifiers & {"IVALL", "IVALLP", "IV", "IVP", "RS", "WB", "WBALL", "RSLB", "WBALLP", "LDC", "LDCU"}:
        return []
    return [Event(EventKind.UNKNOWN, index, i.opcode, name=f"cache operation {i.opcode} is not known")]


# -- asynchronous copies ---------------------------------------------------------------------------------------------


def _copy(i: Instruction, index: int, group: str, *accesses: Access, barrier: tuple[Operand, ...] = ()) -> list[Event]:
    event = _event(EventKind.ASYNC_COPY, i, index)
    event.accesses, event.group, event.barrier, event.movable = accesses, group, barrier, False
    return [event]


def _ldgsts(i: Instruction, index: int, constants: Constants) -> list[Event]:
    found = [*_addresses(i, constants), (), ()]
    size = access_bytes(i)
    return _copy(
        i,
        index,
        "cp.async",
        Access(Direction.READ, Space.GLOBAL, found[1], size),
        Access(Direction.WRITE, Space.SHARED, found[0], size),
    )


def _bulk(i: Instruction, index: int, constants: Constants) -> list[Event]:
    """UBLKCP.<to>.<from>, UBLKRED.<to>.<from>: S shared, G global, T another CTA's shared memory."""
    found = [*_addresses(i, constants), (), ()]
    to, source = found[0], found[1]
    letters = [m for m in i.opcode.split(".")[1:] if m in ("S", "G", "T")]
    write = Direction.ATOMIC if i.base == "UBLKRED" else Direction.WRITE
    amount = Operation(Op.SHL, (operand(i.operands[2], constants), Const(4))) if len(i.operands) > 2 else None
    if letters[:2] == ["S", "G"]:
        copies = _copy(
            i,
            index,
            "mbarrier",
            Access(Direction.READ, Space.GLOBAL, source, None),
            Access(Direction.WRITE, Space.SHARED, to, None),
            barrier=_next(to, 1),
        )
        copies[0].amount = amount  # in units of 16 bytes
        return copies
    if letters[:2] == ["G", "S"]:
        stores = _copy(
            i,
            index,
            "bulk",
            Access(Direction.READ, Space.SHARED, source, None),
            Access(write, Space.GLOBAL, to, None),
        )
        stores[0].amount = amount
        return stores
    if letters[:2] in (["S", "S"], ["T", "S"]):
        return _copy(
            i,
            index,
            "mbarrier",
            Access(Direction.READ, Space.SHARED, source, None),
            Access(write, Space.CLUSTER, to, None),
            barrier=_next(to, 1),
        )
    return [Event(EventKind.UNKNOWN, index, i.opcode, name=f"direction of {i.opcode} is not known")]


def _tensor_load(i: Instruction, index: int, constants: Constants) -> list[Event]:
    found = [*_addresses(i, constants), (), ()]
    return _copy(
        i,
        index,
        "mbarrier",
        Access(Direction.READ, Space.GLOBAL, found[1], None, tensormap=True),
        Access(Direction.WRITE, Space.SHARED, found[0], None),
        barrier=_next(found[0], 1),
    )


def _tensor_store(i: Instruction, index: int, constants: Constants) -> list[Event]:
    found = [*_addresses(i, constants), (), ()]
    write = Direction.ATOMIC if i.base == "UTMAREDG" else Direction.WRITE
    return _copy(
        i,
        index,
        "bulk",
        Access(Direction.READ, Space.SHARED, found[0], None),
        Access(write, Space.GLOBAL, found[1], None, tensormap=True),
    )


def _bulk_prefetch(i: Instruction, index: int, constants: Constants) -> list[Event]:
    found = _addresses(i, constants)
    tensor = i.base == "UTMAPF"
    event = _event(EventKind.ACCESS, i, index)
    target = (found[1] if len(found) > 1 else ()) if tensor else (found[0] if found else ())
    event.accesses = (Access(Direction.PREFETCH, Space.GLOBAL, target, None, tensormap=tensor),)
    return [event]


def _descriptor(i: Instruction, index: int, constants: Constants) -> list[Event]:
    if "PF" in i.modifiers:
        event = _event(EventKind.ACCESS, i, index)
        found = _addresses(i, constants)
        event.accesses = (Access(Direction.PREFETCH, Space.GENERIC, found[0] if found else (), 128),)
        return [event]
    event = _event(EventKind.PROXY_FENCE, i, index)
    event.proxy = "tensormap"
    return [event]


def _next_work(i: Instruction, index: int, constants: Constants) -> list[Event]:
    """UGETNEXTWORKID [to], [mbarrier]: clusterlaunchcontrol.try_cancel, 16 bytes into shared memory."""
    found = [*_addresses(i, constants), (), ()]
    space = Space.CLUSTER if "BROADCAST" in i.modifiers else Space.SHARED
    return _copy(i, index, "mbarrier", Access(Direction.WRITE, space, found[0], 16), barrier=found[1])


def _remote_store(i: Instruction, index: int, constants: Constants) -> list[Event]:
    """STAS, REDAS: st.async and red.async into the shared memory of a CTA of the cluster, with an mbarrier there."""
    found = _addresses(i, constants)
    write = Direction.ATOMIC if i.base == "REDAS" else Direction.WRITE
    target = found[0] if found else ()
    return _copy(i, index, "mbarrier", Access(write, Space.CLUSTER, target, access_bytes(i)), barrier=_next(target, 1))


def _commit(group: str) -> _Rule:
    def rule(i: Instruction, index: int, constants: Constants) -> list[Event]:
        event = _event(EventKind.ASYNC_COMMIT, i, index)
        event.group = group
        return [event]

    return rule


def _matrix_async(group: str) -> _Rule:
    """wgmma and tcgen05 read shared memory through descriptors, in the async proxy."""

    def rule(i: Instruction, index: int, constants: Constants) -> list[Event]:
        event = _event(EventKind.ASYNC_READ, i, index)
        event.group = group
        if group == "tcgen05" or any(t.startswith("gdesc") for t in i.operands):
            event.accesses = (Access(Direction.READ, Space.SHARED, (), None),)
        found = [event]
        if any(t.startswith("gsb") for t in i.operands):
            commit = _event(EventKind.ASYNC_COMMIT, i, index)
            commit.group = group
            found.append(commit)
        return found

    return rule


def _warpgroup(i: Instruction, index: int, constants: Constants) -> list[Event]:
    if "DEPBAR" not in i.modifiers:
        return []
    event = _event(EventKind.ASYNC_WAIT, i, index)
    event.group, event.pending = "wgmma", _pending(i)
    return [event]


def _pending(i: Instruction) -> int | None:
    last = i.operands[-1] if i.operands else ""
    try:
        return int(last, 0)
    except ValueError:
        return None


def _scoreboard_wait(i: Instruction, index: int, constants: Constants) -> list[Event]:
    """DEPBAR.LE SBn, k: which operations the scoreboard counts is settled by `order`."""
    event = _event(EventKind.ASYNC_WAIT, i, index)
    event.pending = _pending(i)
    return [event]


# -- barriers and fences ---------------------------------------------------------------------------------------------


def _barrier(i: Instruction, index: int, constants: Constants) -> list[Event]:
    event = _event(EventKind.BARRIER, i, index)
    values = [operand(t, constants) for t in i.operands if not is_predicate(t)]
    event.barrier = (values[0],) if values else (Const(0),)
    event.thread_count = values[1] if len(values) > 1 else None
    event.waits = "ARV" not in i.modifiers
    return [event] if i.modifiers & {"SYNC", "SYNCALL", "ARV", "RED", "SCAN"} else []


def _cluster(arrives: bool) -> _Rule:
    def rule(i: Instruction, index: int, constants: Constants) -> list[Event]:
        event = _event(EventKind.CLUSTER_BARRIER, i, index)
        event.arrives, event.waits, event.scope = arrives, not arrives, Scope.CLUSTER
        event.order = Order.RELAXED
        return [event]

    return rule


def _warp(i: Instruction, index: int, constants: Constants) -> list[Event]:
    return [_event(EventKind.WARP_BARRIER, i, index)]


def _syncs(i: Instruction, index: int, constants: Constants) -> list[Event]:
    mods = i.modifiers
    found = _addresses(i, constants)
    where = found[0] if found else ()
    if "EXCH" in mods:
        event = _event(EventKind.MBARRIER_INIT, i, index)
        value = operand(i.operands[-1], constants)
        # The word written is twice (2^20 - count).
        half = Operation(Op.SHR, (value, Const(1)))
        event.thread_count = Operation(Op.SUB, (Const(1 << 20), half))
    elif "ARRIVE" in mods:
        event = _event(EventKind.MBARRIER_ARRIVE, i, index)
        event.order, event.scope = Order.RELEASE, Scope.CTA
        # `A1T0`: one arrival, no bytes; `A0TR`: no arrival, bytes from a register; without either: one, and bytes.
        event.announces = not any(m.endswith("T0") for m in mods)
        event.arrives = not any(m.startswith("A0") for m in mods)
        event.amount = operand(i.operands[-1], constants) if event.announces and event.arrives else None
        if any(m.startswith("AR") and m != "ARRIVE" for m in mods):
            bare = "ART0" in mods
            event.thread_count = operand(i.operands[-1], constants) if bare else Operation(Op.OPAQUE, (), "count")
    elif "PHASECHK" in mods:
        event = _event(EventKind.MBARRIER_WAIT, i, index)
        event.order, event.scope = Order.ACQUIRE, Scope.CTA
        last = operand(i.operands[-1], constants)
        event.parity = Operation(Op.SHR, (last, Const(31)))
        first = i.operands[0]
        event.result = register(first) if is_predicate(first) and first != "PT" else None
    elif mods & {"CCTL", "LD", "ST", "CAS"}:
        return []
    else:
        return [Event(EventKind.UNKNOWN, index, i.opcode, name=f"barrier operation {i.opcode} is not known")]
    event.barrier, event.movable = where, False
    return [event]


def _arrive_on(group: str) -> _Rule:
    def rule(i: Instruction, index: int, constants: Constants) -> list[Event]:
        event = _event(EventKind.MBARRIER_ARRIVE, i, index)
        found = _addresses(i, constants)
        event.barrier, event.group = found[0] if found else (), group
        if not event.barrier and i.operands:
            first = operand(i.operands[0].strip("[]"), constants)
            event.barrier = (first,)
        return [event]

    return rule


def _fence(i: Instruction, index: int, constants: Constants) -> list[Event]:
    event = _event(EventKind.FENCE, i, index)
    event.order = Order.SC if "SC" in i.modifiers else Order.ACQ_REL
    event.scope = _scope(i) or Scope.SYS
    return [event]


def _view(i: Instruction, index: int, constants: Constants) -> list[Event]:
    """FENCE.VIEW.ASYNC: `.S` and `.G` are fence.proxy.async, `.T` is tcgen05.wait::st."""
    if "T" in i.modifiers:
        waited = _event(EventKind.ASYNC_WAIT, i, index)
        waited.group, waited.pending = "tcgen05.st", 0
        return [waited]
    event = _event(EventKind.PROXY_FENCE, i, index)
    if "ASYNC" not in i.modifiers:
        event.proxy = "alias"
    elif "S" in i.modifiers:
        event.proxy = "async.shared::cta"
    elif "G" in i.modifiers:
        event.proxy = "async.global"
    else:
        event.proxy = "async"
    return [event]


def _simple(kind: EventKind) -> _Rule:
    def rule(i: Instruction, index: int, constants: Constants) -> list[Event]:
        return [_event(kind, i, index)]

    return rule


_R, _W, _A = Direction.READ, Direction.WRITE, Direction.ATOMIC
_TCGEN05 = ("UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCOMMA", "UTCMXQMMA", "UTCCP")
_RULES: dict[str, _Rule] = {
    "LDG": _access(Space.GLOBAL, _R),
    "LDGMC": _access(Space.GLOBAL, _R),
    "LD": _access(Space.GENERIC, _R),
    "LDS": _access(Space.SHARED, _R),
    "LDSM": _access(Space.SHARED, _R),
    "LDL": _access(Space.LOCAL, _R),
    "STG": _access(Space.GLOBAL, _W),
    "ST": _access(Space.GENERIC, _W),
    "STS": _access(Space.SHARED, _W),
    "STSM": _access(Space.SHARED, _W),
    "STL": _access(Space.LOCAL, _W),
    "ATOM": _access(Space.GENERIC, _A),
    "ATOMG": _access(Space.GLOBAL, _A),
    "ATOMS": _access(Space.SHARED, _A),
    "RED": _access(Space.GENERIC, _A),
    "REDG": _access(Space.GLOBAL, _A),
    "REDGMC": _access(Space.GLOBAL, _A),
    "STGMC": _access(Space.GLOBAL, _W),
    **dict.fromkeys(("TEX", "TLD", "TLD4", "TXD", "TXQ", "TMML", "SULD"), _by_handle(_R)),
    "SUST": _by_handle(_W),
    **dict.fromkeys(("SUATOM", "SURED"), _by_handle(_A)),
    "CCTL": _prefetch_line,
    "LDGSTS": _ldgsts,
    "UBLKCP": _bulk,
    "UBLKRED": _bulk,
    "UTMALDG": _tensor_load,
    "UTMASTG": _tensor_store,
    "UTMAREDG": _tensor_store,
    "UBLKPF": _bulk_prefetch,
    "UTMAPF": _bulk_prefetch,
    "UTMACCTL": _descriptor,
    "UGETNEXTWORKID": _next_work,
    "STAS": _remote_store,
    "REDAS": _remote_store,
    "LDGDEPBAR": _commit("cp.async"),
    "UTMACMDFLUSH": _commit("bulk"),
    "DEPBAR": _scoreboard_wait,
    "WARPGROUP": _warpgroup,
    **dict.fromkeys(("HGMMA", "QGMMA", "IGMMA", "BGMMA"), _matrix_async("wgmma")),
    **dict.fromkeys(_TCGEN05, _matrix_async("tcgen05")),
    "BAR": _barrier,
    "UCGABAR_ARV": _cluster(arrives=True),
    "UCGABAR_WAIT": _cluster(arrives=False),
    "WARPSYNC": _warp,
    "SYNCS": _syncs,
    "ARRIVES": _arrive_on("cp.async"),
    "UTCBAR": _arrive_on("tcgen05"),
    "MEMBAR": _fence,
    "FENCE": _view,
    "ACQBULK": _simple(EventKind.GRID_WAIT),
    "PREEXIT": _simple(EventKind.GRID_TRIGGER),
    "EXIT": _simple(EventKind.EXIT),
}
