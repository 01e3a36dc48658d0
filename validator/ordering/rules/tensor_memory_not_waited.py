"""Tensor memory is handed over before a load or store of it is done.

`tcgen05.ld` and `tcgen05.st` are asynchronous. Who lets the tensor core write what it loads, or read what it stores,
has to execute `tcgen05.wait::ld` or `tcgen05.wait::st` first: an arrival or a barrier does not wait for them.

Bad:  `tcgen05.ld {…}, [acc]; mbarrier.arrive [empty]; tcgen05.wait::ld; …` (the next tile lands in what is loaded)
Bad:  `tcgen05.st [p], {…}; mbarrier.arrive [p_full];` (the tensor core multiplies what stood there before)
Good: `tcgen05.ld {…}, [acc]; tcgen05.wait::ld; tcgen05.fence::before_thread_sync; mbarrier.arrive [empty];`

In PTX a loaded register that is used before any wait is a warning: the ISA says nothing of its value, while ptxas, as
measured, holds back the use until the load is done. Compilers move such uses above the wait by themselves.

In machine code a load counts as done where an instruction waits for its scoreboard, whoever asked for that.

Mend it with the wait of the right kind behind the last load or store, before the arrival.

Not seen: which columns are loaded and which the tensor core writes, so that an arrival is left alone where another one
stands behind the wait, at another mbarrier; hand-over to loads and stores of other warps; mbarriers whose address does
not show.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from validator.ordering.dataflow import registers
from validator.ordering.findings import finding
from validator.ordering.program import Event, EventKind, Isa, Op
from validator.ordering.witness import Passing, reached_unwaited
from validator.rule import Rule
from validator.verdict.model import Finding, Severity

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["RULE", "check"]

RULE = Rule(
    "order/tensor-memory-not-waited", "tensor memory is handed over before its load or store is done", Severity.ERROR
)

_WALKED = 1000
"""Blocks walked for one load or store."""
_VERBS = {EventKind.TENSOR_LOAD: ("loaded", "ld"), EventKind.TENSOR_STORE: ("stored", "st")}


def check(facts: Facts) -> Iterable[Finding]:
    """One finding per hand-over and kind, and one for all registers that are used too early."""
    touching = facts.events(*_VERBS)
    if not touching:
        return
    handing = _handing(facts)
    found: dict[tuple[EventKind, int], list[Event]] = {}
    for event in touching:
        for index in _reached(facts, event, handing):
            found.setdefault((event.kind, index), []).append(event)
    for (kind, index), events in found.items():
        yield _handed_over(facts, kind, index, events)
    if facts.program.isa is Isa.PTX:
        yield from _used(facts, [e for e in touching if e.kind is EventKind.TENSOR_LOAD])


def _handing(facts: Facts) -> dict[int, int]:
    """Instruction at which a thread tells those who issue tensor-core work behind it that they may → who executes it.

    That is an arrival at an mbarrier, or at a CTA barrier, that such a thread waits for; not one that announces bytes.
    """
    work = {e.index: facts.masks.executing(e) for e in facts.events(EventKind.ASYNC_READ) if _multiplies(e)}
    result: dict[int, int] = {}
    for wait in facts.events(EventKind.MBARRIER_WAIT, EventKind.BARRIER):
        if not wait.waits or not _leads_to(facts, wait, work):
            continue
        if wait.kind is EventKind.MBARRIER_WAIT:
            given = [a for a in facts.barriers.mbarriers.arrivals(wait) if a.group is None and not a.announces]
        else:
            given = _met(facts, wait, reduce(or_, work.values(), 0))
        result |= {event.index: facts.masks.executing(event) for event in given}
    return result


def _met(facts: Facts, wait: Event, working: int) -> list[Event]:
    """Arrivals that a CTA barrier waits for: its own, and those of threads that issue no tensor-core work elsewhere."""
    mine = next((m for m in facts.barriers.named.values() if any(e is wait for e, _ in m)), [])
    return [e for e, threads in mine if e.arrives and (e is wait or not threads & working)]


def _multiplies(event: Event) -> bool:
    return event.group == "tcgen05" and "mma" in event.opcode.lower()


def _leads_to(facts: Facts, wait: Event, work: dict[int, int]) -> bool:
    """Whether a thread that waits somewhere issues tensor-core work behind it."""
    threads = facts.masks.executing(wait)
    mine = {index for index, mask in work.items() if mask & threads}
    return any(e.index in mine for e in facts.flow.events_after((wait.index,), (), facts.masks.open_to(threads)))


def _waits(facts: Facts, event: Event) -> list[Event]:
    """Waits behind which a load or store is done; in machine code a load names the scoreboards that will do."""
    kind, _, boards = (event.group or "").partition(".ld.")
    wanted = {f"{kind}.ld.{board}" for board in boards.split(".")} if boards else {event.group}
    return [e for e in facts.events(EventKind.ASYNC_WAIT) if e.group in wanted]


def _reached(facts: Facts, event: Event, handing: dict[int, int]) -> Iterable[int]:
    """Hand-overs that a thread really comes to behind a load or store with no wait for it in between."""
    masks, threads = facts.masks, facts.masks.executing(event)
    done = {e.index: masks.everyone for e in _waits(facts, event)}
    after = list(facts.flow.events_after((event.index,), set(done), masks.open_to(threads)))
    goals = {e.index: threads & handing[e.index] for e in after if e.index in handing and e.index not in done}
    goals = {index: mask for index, mask in goals.items() if mask}
    if not goals or _handed_on_later(facts, event, goals, {e.index for e in after} & done.keys(), handing):
        return ()
    return sorted(reached_unwaited(masks, Passing(done), goals, frozenset((event.index,)), _WALKED).found)


def _handed_on_later(
    facts: Facts, event: Event, goals: Iterable[int], waits: Iterable[int], handing: Iterable[int]
) -> bool:
    """Whether behind the wait the tensor core is told at another place than before: what comes before the wait may then
    be about something else (a stage of shared memory, another part of tensor memory)."""
    told = {_place(facts, index) for index in goals}
    open_to = facts.masks.open_to(facts.masks.executing(event))
    later = {e.index for e in facts.flow.events_after(waits, (event.index,), open_to)} | set(waits)
    return any(_place(facts, index) not in told for index in later.intersection(handing))


def _place(facts: Facts, index: int) -> object:
    """The mbarrier of an arrival, or the number of a CTA barrier."""
    named = facts.barriers.named
    number = next((name for name, members in named.items() if any(e.index == index for e, _ in members)), None)
    return number if number is not None else facts.barriers.mbarriers.identities.get(index)


def _handed_over(facts: Facts, kind: EventKind, index: int, events: list[Event]) -> Finding:
    verb, side = _VERBS[kind]
    first = events[0].index
    hand = next(e for e in facts.flow.event_at[index] if e.kind is not EventKind.ASYNC_WAIT)
    return finding(
        RULE,
        facts,
        [e.index for e in events],
        f"tensor memory {verb} by {events[0].opcode} is handed over by {hand.opcode} at {facts.at(index)} before that "
        "is done",
        identity=(side, str(len([e for e in facts.events(hand.kind) if e.index < index]))),
        why="an arrival waits for no load or store of tensor memory",
        fix=f"execute tcgen05.wait::{side} before the arrival",
        steps=tuple(f"{facts.at(i)}: {facts.program.text(i)}" for i in (first, index)),
    )


def _used(facts: Facts, loads: list[Event]) -> Iterator[Finding]:
    """Registers that are used with no wait for their load before, in the run of instructions behind it."""
    uses = {load.index: use for load in loads if (use := _first_use(facts, load)) is not None}
    if uses:
        load, use = min(uses.items())
        yield finding(
            RULE,
            facts,
            list(uses),
            f"what {facts.flow.event_at[load][0].opcode} loads is used at {facts.at(use)} before any tcgen05.wait::ld",
            identity=("used",),
            why="the PTX ISA says nothing of the value; whether ptxas holds back the use shows in machine code alone",
            fix="execute tcgen05.wait::ld before the first use",
            steps=tuple(f"{facts.at(i)}: {facts.program.text(i)}" for i in (load, use)),
            severity=Severity.WARNING,
        )


def _first_use(facts: Facts, load: Event) -> int | None:
    """The first instruction in the block of a load that takes what it brings, moves apart; None: a wait comes first."""
    program = facts.program
    brought = set(program.definitions(load.index))
    waits = {e.index for e in _waits(facts, load)}
    block = facts.flow.blocks[facts.flow.block_of(load.index)]
    for index in range(load.index + 1, block.stop):
        if index in waits:
            return None
        for event in facts.flow.event_at.get(index, ()):
            taken = (*event.value, *(o for a in event.accesses for o in a.address))
            if any(register in brought for operand in taken for register in registers(operand)):
                return index
        for target in program.definitions(index):
            made = program.operation(index, target)
            if any(register in brought for register in registers(made)):
                if made.op not in (Op.COPY, Op.PACK):
                    return index
                brought.add(target)
    return None
