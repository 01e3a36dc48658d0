"""What is done in a second thread while the gate asks the reference: judging the call before, laying out the next one.

A case goes on as if the call had been right. Where it was not, that is said at the next moment at which the case could
have ended, before anything more is judged: `Doubted`. By then its inputs may hold other values: who wants to know why
runs the case again, each call judged in its turn.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from validator.differential.calls import Played
from validator.differential.faults import Fault

__all__ = ["Doubted", "Meanwhile"]

_T = TypeVar("_T")


class Doubted(Exception):
    """A call that was judged meanwhile was not as it should be."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__(*(fault.message for fault in faults))
        self.faults = faults
        """Empty where it is right, and only other than a call before it."""


class Meanwhile:
    """One thread, in which at most one judgement waits."""

    def __init__(self) -> None:
        self.idle = False
        """Everything is done in its turn."""
        self._judged: Future[tuple[Played, bool]] | None = None
        self._slot = 0
        """First of the buffers of the call that is judged."""
        self._laid: Future[None] | None = None

    def judge(self, slot: int, look: Callable[[], Played], is_fine: Callable[[Played], bool]) -> None:
        """Judge a call whose buffers begin at `slot`, which nobody uses until then."""
        assert self._judged is None, "a judgement is settled before the next call is judged"

        def judged() -> tuple[Played, bool]:
            played = look()
            return played, is_fine(played)

        self._judged, self._slot = self._submit(judged), slot

    def looks_at(self, slot: int) -> bool:
        """Whether the call that is judged lies in the buffers that begin there."""
        return self._judged is not None and self._slot == slot

    def lay(self, work: Callable[[], Any]) -> None:
        """Lay something out, once the call before is judged: it may lie where that did."""
        self.laid()
        self._laid = self._submit(work)

    def laid(self) -> None:
        """Wait until it lies there."""
        if self._laid is not None:
            waiting, self._laid = self._laid, None
            waiting.result()

    def settle(self) -> None:
        """Wait for the judgement. Raises `Doubted` where the call was not fine."""
        if self._judged is None:
            return
        waiting, self._judged = self._judged, None
        played, fine = waiting.result()
        if not fine:
            raise Doubted(played.faults)

    def forget(self) -> None:
        """Nobody wants to know any more."""
        for waiting in (self._laid, self._judged):
            if waiting is not None:
                waiting.exception()
        self._laid = self._judged = None

    def _submit(self, work: Callable[[], _T]) -> Future[_T]:
        def quietly() -> _T:
            with np.errstate(all="ignore"):
                return work()

        return self._thread.submit(quietly)

    @cached_property
    def _thread(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, "meanwhile")
