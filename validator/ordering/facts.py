"""Everything the rules may ask about one kernel, computed when first asked."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property

from validator.manifest.contract import KernelContract
from validator.manifest.roles import Role
from validator.ordering.barriers import Barriers
from validator.ordering.conditions import Conditions
from validator.ordering.dataflow import Flow
from validator.ordering.doubts import NO_WAY, Doubts
from validator.ordering.judge import Judgement, judge
from validator.ordering.linked import waits_behind
from validator.ordering.masks import Masks
from validator.ordering.mbarriers import Mbarrier
from validator.ordering.memory import Declarations, Touch, touches
from validator.ordering.polls import Poll, fences, find_polls
from validator.ordering.program import HARMLESS_CALLS, Event, EventKind, Program
from validator.ordering.provenance import Provenance
from validator.ordering.scalars import Place, happens, scalar_cases, without
from validator.ordering.slices import LoadSlices
from validator.ordering.threads import Threads
from validator.ordering.threadset import describe
from validator.ordering.waits import Order, grid_order
from validator.ordering.witness import reached_unwaited
from validator.verdict.model import Location, Severity

__all__ = ["Early", "Facts"]


@dataclass(frozen=True, slots=True)
class Early:
    """An access that some thread may make before anything orders it."""

    touch: Touch
    threads: int
    """Who, as a mask."""
    judgement: Judgement
    flag: str = ""
    """The flag that was to be polled first; empty when the grid wait is what is missing."""


def _fixed_block(program: Program, contract: KernelContract | None) -> tuple[int, int, int] | None:
    if program.block_size is not None:
        return program.block_size
    declared = contract.launch.block if contract is not None else None
    if declared is None or not declared or not all(isinstance(n, int) for n in declared):
        return None
    sizes = [int(n) for n in declared] + [1, 1]
    return sizes[0], sizes[1], sizes[2]


def _masks(flow: Flow, block: tuple[int, int, int] | None) -> Masks:
    """Branches and predicates evaluated; a second time with more rows of threads when one asks for them."""
    for rows in (False, True):
        threads = Threads(flow, block, flow.program.max_block_size, rows)
        masks = Masks(flow, threads)
        for event in flow.program.events:
            threads.holds(event.guard, event.index)
        if masks.edges and not threads.wants_rows:
            break
    return masks


class Facts:
    """One kernel under its contract. All fields are lazy."""

    def __init__(self, program: Program, contract: KernelContract | None, artifact: str) -> None:
        self.program = program
        self.contract = contract
        self.artifact = artifact
        self.declarations = Declarations(program, contract)
        self.flow = Flow(program)
        self._block = _fixed_block(program, contract)
        self.masks = _masks(self.flow, self._block)
        self.threads = self.masks.threads
        self.provenance = Provenance(self.flow, self.declarations.rank)
        self.slices = LoadSlices(self.flow)
        self.conditions = Conditions(self.flow, self.slices)
        self.barriers = Barriers(self.masks, self.provenance)
        self._flags: dict[str, Order] = {}
        self._mbarriers: dict[Mbarrier | None, Order] = {}
        self._untried: dict[frozenset[int], Order] = {}

    # -- launch ------------------------------------------------------------------------------------------------------

    def events(self, *kinds: EventKind) -> list[Event]:
        """Events of these kinds that some thread may execute."""
        return [e for e in self.program.events if e.kind in kinds and self.masks.executing(e)]

    @cached_property
    def waits(self) -> list[Event]:
        return self.events(EventKind.GRID_WAIT)

    @cached_property
    def triggers(self) -> list[Event]:
        return self.events(EventKind.GRID_TRIGGER)

    @property
    def declared_pdl(self) -> bool | None:
        return self.contract.launch.pdl if self.contract is not None else None

    @cached_property
    def pdl(self) -> bool | None:
        """Whether the launch may overlap with its predecessor; None when nothing says."""
        if self.declared_pdl is not None:
            return self.declared_pdl
        marks = (EventKind.GRID_WAIT, EventKind.GRID_TRIGGER)
        return True if any(e.kind in marks for e in self.program.events) else None

    # -- order -------------------------------------------------------------------------------------------------------

    @cached_property
    def order(self) -> Order:
        """Behind the grid waits."""
        return grid_order(self.masks, self.barriers)

    @cached_property
    def cases(self) -> list[tuple[frozenset[Place], Order]]:
        """(what is never taken, order behind the grid waits) for the launches of each kind, told apart by single scalar
        arguments; empty: all are of one kind."""
        several = len(self._closed) > 1 or any(self._closed)
        return [(edges, self._order_without(edges)) for edges in self._closed] if several else []

    @cached_property
    def cases_of_any_phase(self) -> list[tuple[frozenset[Place], Order]]:
        """The same, all launches if they are of one kind, if waits whose first phase does not show are right."""
        return [(edges, self._order_without(edges, True)) for edges in self._closed]

    @cached_property
    def _closed(self) -> list[frozenset[Place]]:
        return self.launch_kinds if self.waits else []

    @cached_property
    def launch_kinds(self) -> list[frozenset[Place]]:
        """What is never taken in the launches of each kind, told apart by single scalar arguments."""
        return scalar_cases(self.flow, self.declarations.bounds)

    def _order_without(self, closed: frozenset[Place], any_phase: bool = False) -> Order:
        """Behind the grid waits, in launches that never take some edges."""
        masks = _masks(Flow(self.program, without(self.flow, closed)), self._block)
        provenance = Provenance(masks.flow, self.declarations.rank)
        return grid_order(masks, Barriers(masks, provenance, any_phase=any_phase))

    @cached_property
    def certain_order(self) -> Order:
        """Behind the grid waits, if every function that is not looked into waits: what is missed here surely is."""
        called = [e for e in self.events(EventKind.CALL) if e.name not in HARMLESS_CALLS]
        if not called:
            return self.order
        clears = dict(self.order.own)
        for event in called:
            clears[event.index] = clears.get(event.index, 0) | self.masks.executing(event)
        return Order(self.masks, self.barriers, clears)

    def mbarrier_order(self, name: Mbarrier | None = None) -> Order:
        """Behind a wait for any mbarrier, or for the one of that name and those that hand on its order."""
        known = self._mbarriers.get(name)
        if known is None:
            known = self._mbarriers[name] = self._behind_mbarriers(name)
        return known

    def _behind_mbarriers(self, name: Mbarrier | None) -> Order:
        tried, waits = self.barriers.tried, self._waits_for(name)
        if name is not None and len(waits) == len(self.events(EventKind.MBARRIER_WAIT)):
            return self.mbarrier_order()
        answered = {e.index: self.masks.everyone for e in waits}
        clears = {e.index: self.masks.everyone for e in waits if tried.stands(e)}
        return Order(self.masks, self.barriers, clears, tried.passing(answered))

    def _waits_for(self, name: Mbarrier | None) -> list[Event]:
        """Waits for an mbarrier and for those that hand on its order; None: for any."""
        waits = self.events(EventKind.MBARRIER_WAIT)
        right = {e.index for e in waits_behind(self.barriers, name)} if name is not None else None
        return [e for e in waits if right is None or e.index in right]

    def taken_untried(self, name: Mbarrier | None, places: Iterable[Event]) -> Set[int]:
        """Events that a thread comes to before it has so much as tried a wait for an mbarrier, as a walk shows.

        The answer that a branch then looks at is what stands there before the first wait.
        """
        if not self.barriers.tried.may_be_answered_otherwise:
            return frozenset()
        waits = frozenset(e.index for e in self._waits_for(name))
        order = self._untried.get(waits)
        if order is None:  # many mbarriers hand on the order of the same ones
            order = Order(self.masks, self.barriers, dict.fromkeys(waits, self.masks.everyone))
            self._untried[waits] = order
        goals = {e.index: missing for e in places if (missing := order.missing(e))}
        return reached_unwaited(self.masks, order, goals, None).found if goals else frozenset()

    @cached_property
    def touches(self) -> list[Touch]:
        """Accesses to global memory that some thread may make."""
        return [t for t in touches(self.program, self.declarations, self.provenance) if self.masks.executing(t.event)]

    @cached_property
    def polls(self) -> list[Poll]:
        """Polling loops on flags and mailboxes."""
        roles = (Role.FLAG, Role.MAILBOX)
        words = [t for t in self.touches if t.targets and all(x.role in roles for x in t.targets)]
        others = {t.index for t in self.touches if t.word != "prefetch"} - {t.index for t in words}
        return find_polls(self.flow, self.masks, self.conditions, words, others) if words else []

    def polls_on(self, name: str) -> list[Poll]:
        """Polls on the argument called `name` (a field may be called by its own name alone)."""
        return [p for p in self.polls if p.name == name or p.name.rpartition(".")[2] == name]

    def flag_order(self, name: str, acquired: bool = False) -> Order:
        """Behind the polls on a flag; `acquired`: only where what it publishes is visible too."""
        key = f"{name}\0{acquired}"
        known = self._flags.get(key)
        if known is not None:
            return known
        scope = self.declarations.scope(name)
        polls = self.polls_on(name)
        if acquired:
            # A fence after a relaxed poll makes it an acquire.
            passed = self.flag_order(name)
            everyone = self.masks.everyone
            clears = {index: everyone & ~passed.before(index) for index in fences(self.flow, scope)}
            polls = [p for p in polls if p.acquires(scope)]
        else:
            clears = {}
        edges = {edge: self.masks.everyone for p in polls for edge in p.exits}
        order = Order(self.masks, self.barriers, clears, edges)
        self._flags[key] = order
        return order

    def guard_of(self, touch: Touch) -> str:
        """Name of the flag that publishes what a read reads; empty when none is declared."""
        if touch.writes or touch.word == "prefetch":
            return ""
        return next((t.guarded_by for t in touch.targets if t.guarded_by), "")

    @cached_property
    def early(self) -> list[Early]:
        """Accesses that nothing orders, allowed or not, in text order."""
        found = self._unordered
        wrong = {e.touch.index: e.threads for e in found if e.judgement.severity is Severity.ERROR and not e.flag}
        shown = self.taken_unwaited(wrong)
        doubt = Judgement(False, Severity.UNPROVEN, NO_WAY)
        return [replace(e, judgement=doubt) if e.touch.index in wrong.keys() - shown else e for e in found]

    def taken_unwaited(self, places: Mapping[int, int]) -> Set[int]:
        """Of instructions and the threads that may come there unwaited: those where a thread really can, or may.

        Given up on, a search speaks for none against the solver.
        """
        if not places or not self.waits:
            return places.keys()
        reached = reached_unwaited(self.masks, self.certain_order, places)
        return reached.found if reached.whole else places.keys()

    def taken_in_flight(self, copy: Event, places: Mapping[int, int], steps: int) -> Set[int]:
        """Of those that a thread may come to behind a copy, with no mbarrier waited for since: those where it can."""
        return reached_unwaited(self.masks, self.mbarrier_order(), places, frozenset((copy.index,)), steps).found

    @cached_property
    def _doubts(self) -> Doubts:
        return Doubts(self)

    @property
    def _unordered(self) -> list[Early]:
        """What the solver lets through."""
        result: list[Early] = []
        for touch in self.touches:
            flag = self.guard_of(touch)
            if flag:
                missing = self.flag_order(flag).missing(touch.event)
            elif self.pdl:
                missing = self.order.missing(touch.event)
            else:
                continue
            if missing:
                judgement = judge(touch)
                if judgement.severity is Severity.ERROR and not flag and self._ordered_in_all_cases(touch.event):
                    continue
                if judgement.severity is Severity.ERROR and not flag:
                    doubt = self._doubts.reason(touch.event, missing)
                    judgement = Judgement(False, Severity.UNPROVEN, doubt) if doubt else judgement
                elif judgement.severity is Severity.ERROR:
                    doubt = self._doubts.of_flag(touch.event, flag)
                    judgement = Judgement(False, Severity.UNPROVEN, doubt) if doubt else judgement
                result.append(Early(touch, missing, judgement, flag))
        return result

    def _ordered_in_all_cases(self, event: Event) -> bool:
        return self.ordered_in(self.cases, event)

    def ordered_in(self, cases: Sequence[tuple[frozenset[Place], Order]], event: Event) -> bool:
        """Whether an event is ordered in launches of every kind."""
        found = [order.missing(event) for closed, order in cases if happens(self.flow, closed, event.index)]
        return bool(cases) and not any(found)

    @cached_property
    def early_at(self) -> dict[int, Early]:
        """Instruction → the first that is early of its accesses."""
        return {e.touch.index: e for e in reversed(self.early)}

    @cached_property
    def early_indices(self) -> frozenset[int]:
        return frozenset(self.early_at)

    @cached_property
    def written(self) -> dict[str, list[Touch]]:
        """Name of memory → the accesses of this kernel that write it."""
        result: dict[str, list[Touch]] = {}
        for touch in self.touches:
            if touch.writes:
                for target in touch.targets:
                    result.setdefault(target.memory, []).append(touch)
        return result

    # -- words -------------------------------------------------------------------------------------------------------

    def where(self, index: int) -> Location:
        """The place of an instruction in the artifact."""
        line = self.program.line(index)
        return Location(self.artifact, line=line.text, pc=line.pc, kernel=self.program.name, source=line.source)

    def at(self, index: int) -> str:
        return str(self.program.line(index))

    def path(self, early: Early, limit: int = 12) -> tuple[str, ...]:
        """Steps from the entry to an early access that pass nothing which orders it."""
        return self.path_to(early.touch.index, early.threads, early.flag, limit)

    def path_to(self, index: int, threads: int, flag: str = "", limit: int = 12) -> tuple[str, ...]:
        """Steps by which the first of `threads` comes to an instruction with no wait (or poll of `flag`) passed."""
        order = self.flag_order(flag) if flag else self.order
        thread = threads & -threads
        goal = self.flow.block_of(index)
        came: dict[int, tuple[int, int]] = {}
        queue = deque([0])
        seen = {0}
        while queue and goal not in seen:
            number = queue.popleft()
            if not self._passes(number, order, thread):
                continue
            for k, edge in enumerate(self.flow.blocks[number].successors):
                open_edge = self.masks.edges[number][k] & ~order.edges.get((number, k), 0) & thread
                if open_edge and edge.target not in seen:
                    seen.add(edge.target)
                    came[edge.target] = (number, k)
                    queue.append(edge.target)
        turns = self._turns(goal, came, limit)
        who = "" if threads == self.masks.everyone else f" ({describe(thread, self.masks.everyone)}, for example)"
        missing = f"poll of '{flag}'" if flag else "wait"
        end = f"{self.at(index)}: {self.program.text(index)}, with no {missing} passed"
        return (f"enter {self.program.name}{who}", *turns, end)

    def _passes(self, number: int, order: Order, thread: int) -> bool:
        """Whether the thread leaves a block without having been ordered in it."""
        return not any(order.at_events.get(e.index, 0) & thread for e in self.flow.events_in[number])

    def _turns(self, goal: int, came: dict[int, tuple[int, int]], limit: int) -> list[str]:
        """The branches on the way to a block, in order; of many the first and the last."""
        turns: list[str] = []
        number = goal
        while number in came:
            before, k = came[number]
            block = self.flow.blocks[before]
            if len(block.successors) > 1:
                last = max(block.start, block.stop - 1)
                taken = self.flow.blocks[block.successors[k].target].start != block.stop
                verb = "branch taken" if taken else "branch not taken"
                turns.append(f"{self.at(last)}: {verb}: {self.program.text(last)}")
            number = before
        turns.reverse()
        if len(turns) > limit:
            hidden = len(turns) - limit
            turns = [*turns[: limit // 2], f"… {hidden} more branches", *turns[-(limit // 2) :]]
        return turns
