"""Questions to a trusted function's process: small ones together, large ones one by one, in two processes where that
saves time.

What was asked for is laid where the last of its kind lay: new pages take longer than to fill them. Two processes give
the same, or the function is none that can be compared with.
"""

from __future__ import annotations

import itertools
import math
import os
import secrets
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import numpy as np

from validator.differential.arena import Written
from validator.differential.buffers import Placed, place
from validator.differential.cases import Case, Inputs, aliases_of
from validator.differential.data import numbered, prepared, room_for
from validator.differential.numbers import Array
from validator.manifest.contract import KernelContract
from validator.run.sandbox import Begun, Outcome, Reply, Worker

__all__ = ["Answer", "Trusted"]

Answer = tuple[Placed, dict[str, Array], Reply]
"""Where a call's arguments lie, what its outputs held before, what came back."""

_AT_ONCE = 1 << 20
"""Bytes of arguments that are worth one exchange for several calls; beyond, each call is let go of before the next."""
_STAYS = 1 << 29
"""Bytes of arguments up to which their pages stay for the next ones, and lie twice."""
_WIDE = 1 << 20
"""First of the slots of arguments in other types than the contract's."""
_PATIENCE = {"numpy": 0.3}
"""Seconds of waiting for large results from which a second process is worth its start, by adapter."""
_LONG = 10.0
"""The same for an adapter that takes seconds to start."""


@dataclass
class _Lane:
    """One process, and what lies there."""

    worker: Worker
    used: set[int] = field(default_factory=set)
    """Slots that were lent."""
    large: bool = False
    """Some of it takes much room."""

    def clear(self) -> None:
        """Nobody looks at it again, and what comes next is of other sizes."""
        self.worker.empty(self.used)
        for slot in self.used if self.large else ():
            self.worker.drop(slot)
        self.used, self.large = set(), False


@dataclass
class _Asked:
    """One result on its way."""

    lane: _Lane
    placed: Placed
    poison: dict[str, Array]
    begun: list[Begun]
    """The launches that make it."""


class Trusted:
    """A trusted function: in one process, and in a second one, its twin, where it keeps the gate waiting."""

    def __init__(self, contract: KernelContract, worker: Worker, twin: Worker | None = None) -> None:
        self.worker = worker
        self._contract = contract
        self._lanes = [_Lane(worker)]
        self._twin = twin if (os.cpu_count() or 1) > 1 else None
        self._waited = 0.0
        self._sizes: object = None

    def asked(self, several: Iterable[Inputs], case: Case, which: int, *, wide: bool = False) -> Iterator[Answer]:
        """For each an answer, which lasts until the next is asked for. `wide`: they are of other types than usual."""
        rest = iter(several)
        first = next(rest, None)
        if first is None:
            return
        size, sizes = _bytes(first), (case.dims, case.dtypes)
        stays = size <= _STAYS
        if sizes != self._sizes or not stays:
            self._clear()
            self._sizes = sizes
        of = _One(self._contract, case, which, _WIDE if wide and stays else 0)
        try:
            if size > _AT_ONCE:
                yield from self._one_by_one(chain([first], rest), of, alone=not stays)
            else:
                yield from self._together(chain([first], rest), of)
        finally:
            if not stays:
                self._clear()

    def _clear(self) -> None:
        for lane in self._lanes:
            lane.clear()

    def _together(self, several: Iterable[Inputs], of: _One) -> Iterator[Answer]:
        """In one exchange, as far as they are small."""
        lane, waiting, size = self._lanes[0], list[tuple[Placed, dict[str, Array]]](), 0
        slot = of.slot
        for inputs in several:
            placed, poison = of.laid(lane, inputs, slot)
            slot, size = slot + len(placed.arenas) + 1, size + placed.size
            waiting.append((placed, poison))
            if size > _AT_ONCE:
                yield from _exchanged(lane.worker, waiting, of.turns)
                waiting, size, slot = [], 0, of.slot
        if waiting:
            yield from _exchanged(lane.worker, waiting, of.turns)

    def _one_by_one(self, several: Iterable[Inputs], of: _One, *, alone: bool) -> Iterator[Answer]:
        """While somebody looks at one, another may be made, unless they are too large to lie in two processes."""
        busy: deque[_Asked] = deque()
        try:
            for inputs in several:
                lane = self._idle(busy) if not alone or not busy else None
                if lane is None:
                    lane, answer = self._answer(busy)
                    yield answer
                placed, poison = of.laid(lane, inputs, of.slot)
                lane.large = True
                asked = _Asked(lane, placed, poison, [])
                busy.append(asked)
                asked.begun += [lane.worker.begin(call, secrets.randbits(63)) for call in placed.calls(of.turns)]
            while busy:
                yield self._answer(busy)[1]
        finally:
            for asked in busy:  # nobody waits for it
                asked.lane.worker.close()

    def _idle(self, busy: Iterable[_Asked]) -> _Lane | None:
        """A process that has nothing to do; the twin is started when there is work for it for the first time."""
        taken = [asked.lane for asked in busy]
        lane = next((lane for lane in self._lanes if not any(lane is other for other in taken)), None)
        if lane is None and self._twin is not None and self._waited > self._patience:
            twin, self._twin = self._twin, None
            if twin.start().outcome is Outcome.OK:
                self._lanes.append(lane := _Lane(twin))
        return lane

    @property
    def _patience(self) -> float:
        return _PATIENCE.get(self._lanes[0].worker.adapter.name, _LONG)

    def _answer(self, busy: deque[_Asked]) -> tuple[_Lane, Answer]:
        """To the oldest, and where the next may be asked once nobody looks at it."""
        started, oldest = time.monotonic(), busy[0]
        reply: Reply | None = None
        for begun in oldest.begun:  # every one of them, or its answer would be taken for a later one's
            answer = oldest.lane.worker.finish(begun)
            if reply is None or (reply.result is not None and answer is not None):
                reply = answer
        self._waited += time.monotonic() - started
        assert reply is not None  # of the first launch that failed, or the last
        busy.popleft()
        return oldest.lane, (oldest.placed, oldest.poison, reply)


@dataclass(frozen=True)
class _One:
    """How each of several is asked."""

    contract: KernelContract
    case: Case
    which: int
    slot: int

    @cached_property
    def turns(self) -> tuple[int, Sequence[int]] | None:
        return numbered(self.contract, self.case)

    @cached_property
    def aliases(self) -> dict[str, str]:
        return aliases_of(self.contract, self.case)

    @cached_property
    def room(self) -> int:
        return room_for(self.contract, self.case, widest=8)

    def laid(self, lane: _Lane, inputs: Inputs, slot: int) -> tuple[Placed, dict[str, Array]]:
        passed, poison = prepared(self.contract, inputs, self.which)
        placed = place(lane.worker, passed, {}, self.aliases, first_slot=slot, room=self.room)
        lane.used.update(placed.slots)
        return placed, poison


def _exchanged(
    worker: Worker, waiting: list[tuple[Placed, dict[str, Array]]], turns: tuple[int, Sequence[int]] | None
) -> Iterator[Answer]:
    calls = [placed.calls(turns) for placed, _ in waiting]
    replies = worker.call_many([call for some in calls for call in some])
    ends = itertools.accumulate(map(len, calls))
    for (placed, poison), some, end in zip(waiting, calls, ends, strict=True):
        of_this = replies[end - len(some) : end]
        reply = next((r for r in of_this if r.result is None), of_this[-1])
        yield placed, poison, reply


def _bytes(inputs: Inputs) -> int:
    arrays = (v for v in inputs.values() if isinstance(v, np.ndarray | Written))
    return sum(math.prod(array.shape) * array.dtype.itemsize for array in arrays)
