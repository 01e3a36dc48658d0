"""Work over processes: in order, with few pieces in flight, and nothing left behind when it is interrupted."""

from __future__ import annotations

import signal
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from multiprocessing import active_children, get_context
from typing import TypeVar

from validator.errors import Problem, ValidatorError

__all__ = ["SpreadError", "spread"]

Item = TypeVar("Item")
Result = TypeVar("Result")

_BYTES = 192 << 20
"""Of work that waits in this process, whatever the number of processes."""


class SpreadError(ValidatorError):
    """A process ended before its work did."""


def spread(
    function: Callable[[Item], Result], items: Iterable[Item], jobs: int, size: Callable[[Item], int]
) -> Iterator[Result]:
    """`function` of each item, in order, in up to `jobs` processes. One item alone starts none.

    Args:
        function: importable by name; it and the items are sent to fresh interpreters.
        size: bytes of an item; bounds what is in flight.

    Raises:
        SpreadError: a process was killed; what it worked on is lost.
    """
    source = iter(items)
    first = list(islice(source, 2))
    if jobs <= 1 or len(first) < 2:
        yield from map(function, chain(first, source))
        return
    with tempfile.TemporaryDirectory(prefix="validator-") as folder:
        others = set(active_children())
        # Fresh interpreters: a fork of a process with threads may hang.
        pool = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_start, initargs=(folder,))
        try:
            yield from _through(pool, function, chain(first, source), jobs, size)
        except BrokenProcessPool:
            hint = "fewer processes need less memory: --jobs 1"
            raise SpreadError(Problem("a process was killed, perhaps for want of memory", "", hint)) from None
        except BaseException:
            for child in set(active_children()) - others:
                child.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _through(
    pool: ProcessPoolExecutor,
    function: Callable[[Item], Result],
    items: Iterable[Item],
    jobs: int,
    size: Callable[[Item], int],
) -> Iterator[Result]:
    waiting: deque[tuple[Future[Result], int]] = deque()
    held = 0
    for item in items:
        waiting.append((pool.submit(function, item), size(item)))
        held += waiting[-1][1]
        while waiting and (waiting[0][0].done() or len(waiting) > 2 * jobs or held > _BYTES):
            done, weight = waiting.popleft()
            held -= weight
            yield done.result()
    while waiting:
        yield waiting.popleft()[0].result()


def _start(folder: str) -> None:
    """Of each process: it dies quietly on Ctrl-C, and its temporary files go with those of its parent."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    tempfile.tempdir = folder
