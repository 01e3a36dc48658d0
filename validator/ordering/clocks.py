"""What each of several threads may know of the others' steps: vector clocks over their traces.

Threads run side by side, and whoever waits stands until all who arrive at the barrier have come. What cannot be told
(who arrives, how often in a phase, an order by memory) counts as knowing everything, so that what a thread does not
know here it does not know in any run. Steps behind a wait that nothing completes in the traces are not reached.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence

from validator.ordering.program import Event, EventKind
from validator.ordering.traces import MEETINGS, Thread

__all__ = ["Clocks"]

_ALL = 1 << 30
_Clock = tuple[int, ...]
"""Thread by thread: its steps before this one are known to be over."""
_Name = tuple[EventKind, int]
"""A CTA barrier, the cluster's, or an mbarrier."""
_Phase = tuple[_Name, int]


class Clocks:
    """The clock of every step that is reached."""

    def __init__(
        self,
        threads: Sequence[Thread],
        beside: Collection[int],
        each: Callable[[Event], int | None],
        hidden: Callable[[Event], bool],
    ) -> None:
        """`beside`: threads that may tell others of their warp, or be told, without a barrier; `each`: how often a
        thread arrives in each phase at the mbarrier that is waited for, None: not told; `hidden`: whether others than
        `threads` may tell something at a step."""
        self._threads, self._beside, self._each, self._hidden = threads, beside, each, hidden
        self._place = {thread.number: k for k, thread in enumerate(threads)}
        self._phases = [_phases(thread) for thread in threads]
        """Thread → the phase that each of its arrivals and waits belongs to."""
        self._arriving = [_arriving(thread, phases) for thread, phases in zip(threads, self._phases, strict=True)]
        self._members: dict[_Name, set[int]] = {}
        for k, arriving in enumerate(self._arriving):
            for name, _ in (phase for found in arriving.values() for phase in found):
                self._members.setdefault(name, set()).add(k)
        self._arrived: dict[_Phase, dict[int, _Clock]] = {}
        self._clocks: list[list[_Clock]] = [[] for _ in threads]
        self._run()

    def comparable(self, *threads: Thread) -> bool:
        """Whether threads tell nothing but to those that are walked: at every barrier that they arrive at there is
        another one."""
        alone = {
            name for name, members in self._members.items() if len(members) == 1 and not self._waited(name, members)
        }
        places = [self._place[thread.number] for thread in threads]
        return not any(
            self._threads[k].number in self._beside or any(self._members[name] == {k} for name in alone) for k in places
        )

    def _waited(self, name: _Name, members: set[int]) -> bool:
        """Whether a thread that does not arrive at a barrier waits there."""
        return any(
            found == name for k, phases in enumerate(self._phases) if k not in members for found, _ in phases.values()
        )

    def reached(self, thread: Thread, position: int) -> bool:
        """Whether a thread surely comes to a step."""
        return position < len(self._clocks[self._place[thread.number]])

    def knows(self, thread: Thread, position: int, other: Thread, step: int) -> bool:
        """Whether a thread may know at a step that another thread's step is over."""
        return self._clocks[self._place[thread.number]][position][self._place[other.number]] > step

    def _run(self) -> None:
        states = [[_ALL if t.number in self._beside else 0] * len(self._threads) for t in self._threads]
        moved = True
        while moved:
            moved = False
            for k, thread in enumerate(self._threads):
                while len(self._clocks[k]) < len(thread.steps) and self._step(k, states[k]):
                    moved = True

    def _step(self, k: int, state: list[int]) -> bool:
        """One step of a thread, if it can be done."""
        thread, position = self._threads[k], len(self._clocks[k])
        event = thread.steps[position].event
        phase = self._phases[k].get(position)
        state[k] = position + 1
        for arrival in self._arriving[k].get(position, ()):
            self._arrived.setdefault(arrival, {}).setdefault(k, tuple(state))
        told: _Clock | None = None
        if self._hidden(event):
            told = (_ALL,) * len(state)
        elif event.kind in MEETINGS and event.waits:
            told = self._told(k, phase, 1)
        elif event.kind is EventKind.MBARRIER_WAIT and position in thread.fresh:
            told = self._told(k, phase, self._each(event))
        else:
            told = tuple(state)
        if told is None:
            return False
        state[:] = [max(pair) for pair in zip(state, told, strict=True)]
        self._clocks[k].append(tuple(state))
        return True

    def _told(self, k: int, phase: _Phase | None, each: int | None) -> _Clock | None:
        """What a phase tells whoever waits for it; None: it is not over yet."""
        members = set[int]() if phase is None else self._members.get(phase[0], set())
        if phase is None or each is None or not members - {k}:
            return (_ALL,) * len(self._threads)
        arrived = self._arrived.get((phase[0], phase[1] * each), {})
        if members - arrived.keys():
            return None
        return tuple(max(column) for column in zip(*arrived.values(), strict=True))


def _phases(thread: Thread) -> dict[int, _Phase]:
    """Position → barrier, and which of the thread's arrivals at it, or of the phases that it waited for, this is."""
    met: dict[_Name, int] = {}
    waited: dict[_Name, int] = {}
    result: dict[int, _Phase] = {}
    for k in thread.at(*MEETINGS, EventKind.MBARRIER_ARRIVE, EventKind.MBARRIER_WAIT):
        step = thread.steps[k]
        place = 0 if step.event.kind in MEETINGS and not step.event.barrier else step.place
        if place is None:
            continue
        meets = step.event.kind in MEETINGS
        name = (step.event.kind if meets else EventKind.MBARRIER_WAIT, place)
        if step.event.kind is EventKind.MBARRIER_WAIT:
            waited[name] = waited.get(name, 0) + (k in thread.fresh)
            result[k] = name, waited[name]
        elif step.event.arrives or meets:
            met[name] = met.get(name, 0) + step.event.arrives
            result[k] = name, met[name]
    return result


def _arriving(thread: Thread, phases: dict[int, _Phase]) -> dict[int, list[_Phase]]:
    """Position → arrivals that are made there; one that counts copies behind it is made with the last of them."""
    result: dict[int, list[_Phase]] = {}
    for k, (name, number) in phases.items():
        event = thread.steps[k].event
        if event.kind is EventKind.MBARRIER_WAIT or not event.arrives:
            continue
        own = thread.arrivals.get(name[1], []) if event.kind is EventKind.MBARRIER_ARRIVE else []
        copies = thread.copies.get(name[1], []) if own else []
        if copies and copies[0] < own[0] and thread.phase(copies[0], 1) is not None:
            copies = []  # all of them come before the arrival
        after = own[bisect_left(own, k) + 1] if own and k < own[-1] else len(thread.steps)
        last = bisect_left(copies, after)
        result.setdefault(max(k, copies[last - 1]) if last else k, []).append((name, number))
    return result
