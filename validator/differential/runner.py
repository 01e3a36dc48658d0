"""One kernel's candidate: call it, look at everything that came back and at what should not have changed."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType, TracebackType
from typing import Self

import numpy as np

from validator.differential.book import Book
from validator.differential.buffers import Placed, place
from validator.differential.calls import FIRST, SECOND, Played, Turn, Underway, no_result
from validator.differential.cases import FILLED, Case, Inputs, aliases_of, is_written, size_of
from validator.differential.checked import checked
from validator.differential.data import Data, numbered, prepared, room_for
from validator.differential.device import Candidate, Device, NotRunHere, launch_of
from validator.differential.digests import noted
from validator.differential.expected import Expected, as_trusted
from validator.differential.faults import Fault, FaultKind
from validator.differential.judge import accepts, judge
from validator.differential.meanwhile import Doubted, Meanwhile
from validator.differential.numbers import Array, beside
from validator.differential.packed import packed
from validator.differential.poison import Surroundings, surroundings_of
from validator.differential.reference import Outputs, Reference
from validator.differential.returned import Returned, returned
from validator.differential.shapes import Space
from validator.manifest.contract import KernelContract
from validator.run.channel import GIVEN, Result
from validator.run.channel import Call as Request
from validator.run.sandbox import Outcome, Worker

__all__ = ["FIRST", "SECOND", "Outputs", "Played", "Runner", "Series", "Turn"]

_LARGE = 1 << 20
"""Bytes of arguments from which a call is laid out while another one runs."""
_AT_A_TIME = 100
"""Calls that are handed over together where nobody looks at what comes of them."""
_REFUSED_MEMORY = ("ended by SIGSEGV", "ended by SIGBUS")
"""How a process ends that writes where it may not; a kernel's fault on a device ends it otherwise."""


@dataclass
class Runner:
    """The candidate of one kernel in a process of its own, and what it is compared with."""

    chosen: Candidate
    """What the candidate is and where it runs."""
    candidate: Worker
    reference: Reference
    checker: Worker | None = None
    """Decides about values under the tolerance policy `property`."""
    calls: int = 0
    attributed: int = 0
    """Failures for which a new process was started to find out why."""
    hidden: int = 0
    """Failures that a new process did not show."""
    trusting: bool = True
    """False once the candidate has written to an input and put it back: then its inputs are looked at, not locked."""
    _book: Book = field(init=False, repr=False, default_factory=Book)
    """What stands where the candidate cannot write."""
    _poisons: Book = field(init=False, repr=False, default_factory=Book)
    """Poisons that stand where the next call will be."""
    _around: Surroundings = field(init=False, repr=False, default_factory=Surroundings)
    """Of the case that is looked at, and of all calls that its plan makes."""
    _ready: Underway | None = field(init=False, repr=False, default=None)
    """What was laid on a device before the reference was asked, and nothing since."""
    meanwhile: Meanwhile = field(init=False, repr=False, default_factory=Meanwhile)
    """What is done while the reference is asked."""

    @property
    def contract(self) -> KernelContract:
        """The contract as the candidate sees it: a compiled kernel takes more arguments, and returns none."""
        return self.chosen.contract

    @property
    def stock(self) -> KernelContract:
        """The contract as the trusted callables see it."""
        return self.reference.stock

    @property
    def data(self) -> Data:
        return self.reference.data

    def surround(self, case: Case) -> None:
        """What the calls of a case, and those that follow from it, find around their arrays."""
        around = surroundings_of(case.seed, bytewise=self.candidate.elsewhere is not None)
        # Large ones would lie in memory twice, and be looked at after every call.
        self._around = replace(around, writable=around.writable and size_of(self.contract, case) < _LARGE)

    def build(self, case: Case) -> Inputs:
        """The case's data; what the candidate cannot write is drawn where it reads it. Raises `ReferenceFailed`."""
        room = partial(self._book.home, self.candidate)
        laid_otherwise = dict(case.layouts)
        return self.data.build(case, {name: room for name in self._locked(case) if name not in laid_otherwise})

    def expect(self, case: Case, inputs: Inputs) -> dict[str, Expected]:
        """What is right for these inputs. Raises `ReferenceFailed`."""
        expected = self.reference.expect(case, inputs)
        self.announce(expected)
        return expected

    def announce(self, expected: Mapping[str, Expected]) -> None:
        """Large results that will lie on a device can be judged there; others are known again by their digests."""
        elsewhere = self.candidate.elsewhere
        for want in expected.values():
            if elsewhere is None or not elsewhere.usable or want.native.nbytes < elsewhere.least:
                noted(want.native)
                continue
            if (few := packed(self.contract, want)) is not None:
                once = self.contract.deterministic != "spread"
                elsewhere.expect(want.exact, few.trusted, few.away, few.yard, once=once)
            elif as_trusted(self.contract.tolerance):
                elsewhere.knows(want.native)

    @property
    def locks(self) -> bool:
        """Whether the candidate cannot write to its inputs."""
        return self._watched and self.trusting and self.candidate.protects and not self._around.writable

    def ahead(self, inputs: Inputs) -> bool:
        """Whether the next call is laid out while one runs: where that saves anything, in buffers of its own.

        Of small cases each result is gone from the candidate's memory before the next call.
        """
        size = sum(v.nbytes for v in inputs.values() if isinstance(v, np.ndarray))
        return size >= _LARGE and self.contract.launches is None and self.locks

    def _defers(self, case: Case, inputs: Inputs) -> bool:
        """Whether a second thread does what can be done while the reference is asked: where that takes any time, nobody
        else is needed for it, and no input has to be looked at, which may hold other values by then."""
        alone = self._in_place and self.candidate.elsewhere is None and self.checker is None
        return alone and not (self.meanwhile.idle or case.aliased) and self.ahead(inputs)

    @property
    def lies_elsewhere(self) -> bool:
        """Whether large buffers lie on a device, where they are laid by the device itself, in no time."""
        return self.candidate.elsewhere is not None and self.candidate.elsewhere.usable

    @cached_property
    def lasting(self) -> bool:
        """Whether a call leaves its arguments as they were, but for those that it only fills."""
        return all(self.contract.values[name][0] in FILLED for name in self._written)

    @property
    def _in_place(self) -> bool:
        return self.chosen.adapter.name in ("numpy", "torch")

    @property
    def _watched(self) -> bool:
        """Whether writing to an input is seen at once: in place, or when an adapter brings it back from a device."""
        return self._in_place or self.chosen.adapter.name in ("torch-cuda", "cuda")

    @cached_property
    def space(self) -> Space:
        """Sizes that the contract allows."""
        return Space(self.contract)

    @cached_property
    def _steps(self) -> dict[str, tuple[str, int]]:
        """By-value argument → (array, axis) whose stride it tells the kernel."""
        told = {n: str(v.stride).rpartition(".") for n, (_, v) in self.contract.values.items() if v.stride is not None}
        return {name: (array, int(axis)) for name, (array, _, axis) in told.items()}

    @cached_property
    def _written(self) -> frozenset[str]:
        return frozenset(n for n, (role, values) in self.contract.values.items() if is_written(role, values))

    @cached_property
    def _read_only(self) -> frozenset[str]:
        return frozenset(self.contract.values) - self._written

    def _layouts(self, case: Case) -> dict[str, str]:
        """How arguments lie; rows are made distant here only for a callable on this machine's own memory."""
        return {name: layout for name, layout in case.layouts if self._in_place or layout != "distant"}

    def _locked(self, case: Case) -> frozenset[str]:
        """Arguments that the candidate has no business writing to, nor to any that lies in the same memory."""
        if not self.locks:
            return frozenset()
        if not case.aliased:
            return self._read_only
        shared = {n for pair in aliases_of(self.contract, case).items() if self._written & set(pair) for n in pair}
        return self._read_only - shared

    def play(
        self,
        case: Case,
        inputs: Inputs,
        expected: Mapping[str, Expected],
        turn: Turn = FIRST,
        known: Mapping[str, Array] = MappingProxyType({}),
        then: Turn | None = None,
    ) -> Played:
        """Call the candidate once and judge all of it. `known`: results for these inputs that are right; `then`: where
        a call with other values will follow, in buffers of its own."""
        with Series(self, case, inputs, [turn], then) as series:
            return series.next(expected, known)

    def laid(self, case: Case, inputs: Inputs, turn: Turn) -> Underway:
        """A call's arguments in the candidate's memory."""
        ready, self._ready = self._ready, None
        if ready is not None and ready.case is case and ready.inputs is inputs and ready.turn.is_laid_as(turn):
            ready.turn = turn
            return ready
        passed, _ = prepared(self.contract, inputs, self._around.poisons[turn.which])
        placed = place(
            self.candidate,
            passed,
            self._layouts(case),
            aliases_of(self.contract, case),
            first_slot=turn.slot,
            over=turn.over,
            pattern=self._around.patterns[turn.which],
            steps=self._steps,
            room=room_for(self.contract, case),
            given=self._locked(case),
            book=self._book,
            poisons=self._poisons,
            apart=self.ahead(inputs),
        )
        return Underway(case, turn, inputs, passed, placed, secrets.randbits(63))

    def ready(self, case: Case, inputs: Inputs, turn: Turn = FIRST) -> None:
        """Lay out a large call before the reference is asked about it: the candidate maps its memory meanwhile."""
        if not self.ahead(inputs):
            return

        def lay() -> None:
            if (call := self.poison(case, inputs, turn)) is not None:
                self.candidate.coming(call.placed.call())
                self._ready = call if self.lies_elsewhere else None

        if self._defers(case, inputs):
            self.meanwhile.lay(lay)
        else:
            lay()

    def poison(self, case: Case, inputs: Inputs, turn: Turn) -> Underway | None:
        """Make the outputs of a later call ready, also while another one runs. None: nothing to be made ready."""
        if case.aliased or not self.lasting:
            return None  # what is changed in place has no poison
        call = self.laid(case, inputs, turn)
        for name in self._written & call.placed.views.keys():
            at, array = call.placed.views[name]
            self._poisons.put(call.placed.where(at), call.passed[name], array, call.placed.pattern)
        return call

    def begin(self, call: Underway) -> None:
        """Hand the call over, after whatever launches come before its last."""
        call.placed.guard()
        for at, slot in enumerate(call.placed.slots):
            if not slot & GIVEN:
                self._poisons.forget(call.placed.where(at))
        *before, last = self._made_of(call)
        self.calls += 1 + len(before)
        ended = [r for r in self.candidate.call_many(before) if r.result is None] if before else []
        if ended:
            call.reply = ended[0]
        else:
            call.begun = self.candidate.begin(last, call.nonce)

    def _made_of(self, call: Underway) -> list[Request]:
        """The launches that make its result."""
        case, turn = call.case, call.turn
        if self.chosen.compiled:
            more = launch_of(self.contract, {**dict(case.dims), **dict(case.configuration)})
        else:
            more = tuple(value for _, value in case.configuration)
        return call.placed.calls(numbered(self.contract, case, turn.order), keep=turn.keep, more=more)

    def call_on(self, case: Case, inputs: Inputs, most: int, seconds: float = math.inf) -> None:
        """Call with the same values so often, or for about so long, whatever comes of it, where they are `lasting`.
        These calls are not counted: how many there are hangs on the machine."""
        call = self.laid(case, inputs, FIRST)
        call.placed.guard()
        asked, end = self._made_of(call), time.monotonic() + seconds
        while most > 0 and time.monotonic() < end:
            times = min(most, _AT_A_TIME)
            if self._in_place and len(asked) == 1:  # what lies elsewhere, or takes several launches, is made anew
                self.candidate.call(replace(asked[0], times=times))
            else:
                self.candidate.call_many(asked * times)
            most -= times

    def answered(self, call: Underway) -> None:
        """Wait until the candidate is done with it."""
        if call.begun is not None:
            call.reply, call.begun = self.candidate.finish(call.begun), None
            if self._in_place:
                call.seen = call.placed.glimpses(self._written)

    def finished(
        self, call: Underway, expected: Mapping[str, Expected], known: Mapping[str, Array] = MappingProxyType({})
    ) -> Played:
        """All that is wrong with an answered call."""
        if (without := self._without(call, expected, known)) is not None:
            return without
        assert call.reply is not None
        assert call.reply.result is not None
        return self._looked_at(call, call.reply.result, expected, known)

    def later(
        self,
        call: Underway,
        expected: Mapping[str, Expected],
        known: Mapping[str, Array],
        is_fine: Callable[[Played], bool],
    ) -> Played | None:
        """An answered call, judged: or, of a large one, None: it is judged meanwhile, and where it is not `is_fine`,
        `Doubted` is raised when the next series begins or `meanwhile` is settled."""
        result = call.reply.result if call.reply is not None else None
        if result is None or not self._defers(call.case, call.inputs):
            return self.finished(call, expected, known)
        self.meanwhile.judge(call.turn.slot, partial(self._looked_at, call, result, expected, known), is_fine)
        return None

    def _without(self, call: Underway, expected: Mapping[str, Expected], known: Mapping[str, Array]) -> Played | None:
        """What a call without a result comes to; None: it has one."""
        reply = call.reply
        if reply is None:  # an earlier call ended the process
            return self.play(call.case, call.inputs, expected, call.turn, known)
        if reply.outcome is Outcome.ABSENT:
            raise NotRunHere(reply.detail.partition(": ")[2][:1000])
        if reply.outcome is Outcome.HANG and self.chosen.device is Device.PTX:
            raise NotRunHere(f"running the PTX takes longer than allowed: {reply.detail}")
        if reply.outcome is Outcome.SIGNAL and reply.detail in _REFUSED_MEMORY and call.placed.given:
            return self._unlocked(call, expected, known)
        return Played((no_result(reply),), None, call.nonce, call.placed) if reply.result is None else None

    def _looked_at(
        self, call: Underway, result: Result, expected: Mapping[str, Expected], known: Mapping[str, Array]
    ) -> Played:
        """All that is wrong with a result."""
        right = known or (self._natives(expected) if as_trusted(self.contract.tolerance) else {})
        call.placed = call.placed.looked(self._written, right, expected)
        look = partial(self.collected, call.case, call.placed, result, right)
        back = look(copied=not call.turn.fleeting)
        faults = [*back.faults, *self._disturbed(call)]
        call.placed = call.placed.unlooked()
        if not back.known and not any(f.kind is FaultKind.METADATA for f in faults):
            wrong = self.judged(call.inputs, expected, back.outputs)
            if wrong and call.turn.fleeting:  # what is told of it is told of what nobody changes meanwhile
                back = look()
                wrong = self.judged(call.inputs, expected, back.outputs) or wrong
            faults += wrong
        return Played((*faults, *self._late(call)), back.outputs, call.nonce, call.placed)

    def _late(self, call: Underway) -> Iterator[Fault]:
        """What is right by now need not have been when the call was answered."""
        now = call.placed.glimpses(call.seen) if call.seen else {}
        for name, few in call.seen.items():
            if not np.array_equal(few, now[name]):
                yield Fault(FaultKind.EARLIER, name, f"{name} was written to after the call had returned")

    @staticmethod
    def _natives(expected: Mapping[str, Expected]) -> Outputs:
        """What the trusted implementation gives, where it says something about every element."""
        return {name: want.native for name, want in expected.items()}

    def collected(
        self,
        case: Case,
        placed: Placed,
        result: Result,
        known: Mapping[str, Array] = MappingProxyType({}),
        *,
        copied: bool = True,
    ) -> Returned:
        """The outputs, and what is wrong with their form; not `copied`, they are seen where they lie."""
        return returned(self.contract, case, placed, result, known, copied=copied)

    def _unlocked(self, call: Underway, expected: Mapping[str, Expected], known: Mapping[str, Array]) -> Played:
        """The same call with inputs that can be written: whether it was that, and what becomes of them."""
        self.trusting = False
        played = self.play(call.case, call.inputs, expected, call.turn, known)
        if any(f.figures.get("outcome") == Outcome.SIGNAL for f in played.faults):
            self.trusting = True  # it ends by itself, whatever its inputs lie in
        return played

    def judged(self, inputs: Inputs, expected: Mapping[str, Expected], outputs: Outputs) -> list[Fault]:
        """Every fault of these outputs. Under the policy `property`, the checker decides about values."""
        return judge(self.contract, expected, outputs) or self._checked(inputs, expected, outputs)

    def accepted(self, inputs: Inputs, expected: Mapping[str, Expected], outputs: Outputs) -> bool:
        """Whether `judged` finds no fault; cheaper where nobody asks which."""
        return accepts(self.contract, expected, outputs) and not self._checked(inputs, expected, outputs)

    def _checked(self, inputs: Inputs, expected: Mapping[str, Expected], outputs: Outputs) -> list[Fault]:
        if self.checker is None:
            return []
        return checked(self.checker, self.stock, inputs, self._natives(expected), outputs)

    def _disturbed(self, call: Underway) -> list[Fault]:
        faults = []
        for name, count in call.placed.disturbed(call.passed, self._written):
            if name in self._written:
                text = f"{count} bytes beside {name} were written (guard zone or gap between rows)"
                faults.append(Fault(FaultKind.GUARD, name, text, {"bytes": count}))
            else:
                text = f"{name} is an input and {count} of its bytes changed"
                faults.append(Fault(FaultKind.INPUT, name, text, {"bytes": count}))
        return faults


class Series:
    """Calls with the same values. While one runs, the next is laid out and the one before it is judged."""

    def __init__(
        self, runner: Runner, case: Case, inputs: Inputs, turns: Sequence[Turn], then: Turn | None = None
    ) -> None:
        """Begins the first. Where calls are made ahead, turns that follow each other must use buffers of their own.

        `then`: a call with other values that will follow, in other buffers than the last turn's.
        """
        self._runner, self._case, self._inputs, self._turns, self._then = runner, case, inputs, list(turns), then
        self._ahead = runner.ahead(inputs)
        self._running: Underway | None = None
        self._coming: Underway | None = None
        runner.meanwhile.laid()
        if runner.meanwhile.looks_at(turns[0].slot):
            runner.meanwhile.settle()
        self.begin()
        try:
            runner.meanwhile.settle()
        except Doubted:
            self._answered()
            raise
        if self._ahead:
            with beside(1):
                self._lay()
                self._prepare()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Nothing is left unanswered, but nobody who interrupts waits for it."""
        if kind is None or issubclass(kind, Exception):
            self._answered()

    def _answered(self) -> None:
        if self._running is not None:
            self._runner.answered(self._running)

    def begin(self) -> None:
        """The next call, if it is not running yet."""
        if self._running is not None:
            return
        self._lay()
        if self._coming is not None:
            self._running, self._coming = self._coming, None
            self._runner.begin(self._running)

    def next(self, expected: Mapping[str, Expected], known: Mapping[str, Array] = MappingProxyType({})) -> Played:
        """The next call, judged. `known`: results that are right."""
        self.begin()
        running, self._running = self._running, None
        assert running is not None
        self._runner.answered(running)
        ahead = self._ahead and self._runner.trusting  # which an earlier call may have cost it
        ahead = ahead and running.reply is not None and running.reply.result is not None
        if ahead:
            self.begin()
        with beside(self._running is not None):
            played = self._runner.finished(running, expected, known)
            if ahead:
                self._lay()
                self._prepare()
        return played

    def later(
        self,
        expected: Mapping[str, Expected],
        is_fine: Callable[[Played], bool],
        known: Mapping[str, Array] = MappingProxyType({}),
    ) -> Played | None:
        """The last call, see `Runner.later`."""
        self.begin()
        running, self._running = self._running, None
        assert running is not None
        self._runner.answered(running)
        return self._runner.later(running, expected, known, is_fine)

    def _lay(self) -> None:
        if self._turns and self._coming is None:
            self._coming = self._runner.laid(self._case, self._inputs, self._turns.pop(0))

    def _prepare(self) -> None:
        """While the last call runs."""
        then = None if self._runner.lies_elsewhere else self._then
        if self._running is not None and self._coming is None and then is not None:
            self._runner.poison(self._case, self._inputs, then)
            self._then = None
