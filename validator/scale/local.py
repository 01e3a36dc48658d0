"""The default executor: worker processes of this machine, and one for each of its GPUs.

Workers are fresh interpreters that start when there is enough to do for them; little work is done in this process. A
worker that goes away costs the batch it had, nothing else. When this process goes away, so do they.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection
from pathlib import Path
from typing import Any, Self

from validator.scale.batch import Batch, Finished, run_cells
from validator.scale.cell import Needs
from validator.scale.surroundings import devices

__all__ = ["Local", "gpus_here", "serve"]

_WORTH = 1.0
"""Seconds of work from which another process pays: it takes about a third of one to start."""
_PARTING = 2.0
"""Seconds that a worker has to end what it runs."""
_PR_SET_PDEATHSIG = 1


def gpus_here(devices: Path = Path("/dev")) -> tuple[str, ...]:
    """Names of this machine's GPUs as CUDA takes them; what CUDA_VISIBLE_DEVICES leaves of them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return tuple(name.strip() for name in visible.split(",") if name.strip() not in ("", "-1"))
    numbers = (path.name.removeprefix("nvidia") for path in devices.glob("nvidia[0-9]*"))
    return tuple(sorted((n for n in numbers if n.isdigit()), key=int))


@dataclass
class _Worker:
    """One process and what it is busy with."""

    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None
    channel: Any = None
    batch: Batch | None = None
    since: float = 0.0
    """When it got it."""


@dataclass
class Local:
    """Worker processes, `jobs` without a GPU and one a GPU."""

    jobs: int = 0
    """0: as many as there are processors."""
    gpus: tuple[str, ...] | None = None
    """None: as many as there are."""
    in_place: bool = True
    """Little work is done in this process."""
    starts: int = 0
    """Processes started so far."""
    _places: _Places = field(default_factory=lambda: _Places())
    _queued: deque[Batch] = field(default_factory=deque)

    def __post_init__(self) -> None:
        gpus = gpus_here() if self.gpus is None else self.gpus
        self._plain = [_Worker({}) for _ in range(self.jobs or os.cpu_count() or 1)]
        self._with_gpu = [_Worker({"CUDA_VISIBLE_DEVICES": name}) for name in gpus]
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def place(self, name: str, path: Path) -> None:
        self._places[name] = str(path)

    def room(self, needs: Needs) -> bool:
        if not self._started:
            return True
        free = sum(worker.batch is None for worker in self._for(needs))
        return sum(self._for(batch.needs) is self._for(needs) for batch in self._queued) < free

    def submit(self, batch: Batch) -> None:
        self._queued.append(batch)
        elsewhere = not self.in_place or bool(batch.needs.gpu and self._with_gpu)
        if self._started or elsewhere or sum(b.seconds for b in self._queued) >= _WORTH:
            self._give()

    def devices(self) -> str:
        return devices()

    @property
    def busy(self) -> bool:
        return bool(self._queued) or any(worker.batch is not None for worker in self._workers)

    def wait(self, seconds: float | None = None) -> list[Finished]:
        if self._started:
            self._give()
        if not any(worker.batch is not None for worker in self._workers):
            return [self._here(self._queued.popleft())] if self._queued else []
        waiting = {worker.channel: worker for worker in self._workers if worker.batch is not None}
        return [self._finished(waiting[channel]) for channel in connection.wait(list(waiting), seconds)]

    def running(self) -> list[tuple[Batch, float]]:
        now = time.monotonic()
        held = [(worker.batch, now - worker.since) for worker in self._workers if worker.batch is not None]
        return [*held, *((batch, 0.0) for batch in self._queued)]

    def give_up(self, batches: Sequence[Batch]) -> None:
        gone = set(map(id, batches))
        self._queued = deque(batch for batch in self._queued if id(batch) not in gone)
        self._end(*(worker for worker in self._workers if worker.batch is not None and id(worker.batch) in gone))

    def close(self) -> None:
        self._end(*self._workers)
        self._queued.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    # -- inside ------------------------------------------------------------------------------------------------------

    @property
    def _workers(self) -> list[_Worker]:
        return [*self._plain, *self._with_gpu]

    @property
    def _started(self) -> bool:
        return self._folder is not None

    def _for(self, needs: Needs) -> Sequence[_Worker]:
        """Who can take it. Without a GPU here, whoever runs the cell says so: that is its outcome."""
        return self._with_gpu if needs.gpu and self._with_gpu else self._plain

    def _give(self) -> None:
        """Hand queued batches to workers that are free, in order."""
        for batch in list(self._queued):
            free = next((worker for worker in self._for(batch.needs) if worker.batch is None), None)
            if free is not None:
                self._queued.remove(batch)
                self._send(free, batch)

    def _send(self, worker: _Worker, batch: Batch) -> None:
        if worker.process is None:
            self._start(worker)
        worker.batch, worker.since = batch, time.monotonic()
        with suppress(OSError):  # it has just died: `wait` sees that
            worker.channel.send((batch.cells, {name: self._places[name] for name in batch.content}))

    def _start(self, worker: _Worker) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="validator-")
        worker.channel, theirs = connection.Pipe()
        told = [str(theirs.fileno()), self._folder.name, str(os.getpid()), *sys.path]
        # A fresh interpreter that imports nothing of whoever uses this: neither a fork nor `spawn` would be.
        worker.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *told],
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            env={**os.environ, **worker.environment},
        )
        theirs.close()
        self.starts += 1

    def _finished(self, worker: _Worker) -> Finished:
        batch = worker.batch
        assert batch is not None
        worker.batch = None
        try:
            return Finished(batch, worker.channel.recv())
        except (EOFError, OSError):
            code = self._code(worker)
            self._end(worker)
            return Finished(batch, None, f"the process that ran it {_ended(code)}")

    def _here(self, batch: Batch) -> Finished:
        return Finished(batch, run_cells(batch.cells, self._places))

    @staticmethod
    def _code(worker: _Worker) -> int | None:
        """How a worker that closed its channel ended; None: it did not."""
        assert worker.process is not None
        with suppress(subprocess.TimeoutExpired):
            return worker.process.wait(5)
        return None

    def _end(self, *workers: _Worker) -> None:
        """Those with work in hand may first end what they started, and take away what it wrote."""
        up = [(worker, worker.process) for worker in workers if worker.process is not None]
        for worker, process in up:
            process.kill() if worker.batch is None else process.terminate()
        until = time.monotonic() + _PARTING
        for worker, process in up:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))
            process.kill()
            process.wait()
            worker.channel.close()
            worker.process = worker.channel = worker.batch = None


def _ended(code: int | None) -> str:
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


_PROGRAM = """\
import sys
number, folder, parent, *sys.path[:] = sys.argv[1:]
from validator.scale.local import serve
serve(int(number), folder, int(parent))
"""


def serve(number: int, folder: str, parent: int) -> None:
    """A worker: takes batches from that descriptor until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # gone before that took effect
        return
    tempfile.tempdir = folder  # what it leaves goes with its parent's
    channel = connection.Connection(number)
    while True:
        try:
            cells, places = channel.recv()
        except (EOFError, OSError):
            return
        channel.send(run_cells(cells, _Places(places)))


class _Places(dict[str, str]):
    """Content by name, as a worker finds it."""

    def __call__(self, name: str) -> Path:
        return Path(self[name])
