"""Workers for tests that start hundreds: forked from an interpreter that has imported numpy already, and nothing else.

A worker's program, its arguments, folder, environment and confinement are those of `validator.run`; only the fifth of
a second that numpy takes to import (two seconds, of torch) is spent once. Tests of what workers are and of what they
can do (`tests/run`), and every command line, start them anew.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from tests.support import fork_server
from validator.run import process

__all__ = ["WarmWorkers"]

_NUMPY = ("ctypes.util", "mmap", "numpy", "ml_dtypes")
_TORCH = (*_NUMPY, "torch")
_ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
}
"""As in a worker's own environment: no threads before a fork."""


class _Worker:
    """As much of a `Popen` as `Process` asks for."""

    def __init__(self, told: socket.socket, stdout: IO[bytes]) -> None:
        self._told = told
        self.stdout = stdout
        self.pid = int(told.recv(16))
        self._status: int | None = None

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._ended(timeout)
        if status is None:
            raise subprocess.TimeoutExpired("worker", timeout or 0)
        return status

    def _ended(self, timeout: float | None) -> int | None:
        if self._status is None:
            self._told.settimeout(timeout)
            with suppress(BlockingIOError, TimeoutError):
                self._status = int(self._told.recv(16))
                self._told.close()
        return self._status


class _Server:
    """The interpreter that is forked, started for the first worker."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        self._modules = modules
        self._process: subprocess.Popen[bytes] | None = None

    def worker(self, argv: Sequence[str], shared: Sequence[int], env: Mapping[str, str], cwd: Path) -> _Worker:
        """`shared`: descriptors of the channel and the pools, as `argv` names them."""
        if self._process is None:
            self._start()
        told, tell = socket.socketpair(type=socket.SOCK_SEQPACKET)
        out, into = os.pipe()
        order = json.dumps({"argv": [str(word) for word in argv], "env": dict(env), "cwd": str(cwd)}).encode()
        socket.send_fds(self._orders, [order], [*shared, into, tell.fileno()])
        tell.close()
        os.close(into)
        return _Worker(told, os.fdopen(out, "rb", 0))

    def close(self) -> None:
        if self._process is not None:
            self._orders.close()
            self._process.wait()

    def _start(self) -> None:
        self._orders, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        numpy = find_spec("numpy")
        assert numpy is not None
        assert numpy.origin is not None
        packages = str(Path(numpy.origin).parents[1])
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", fork_server.__file__, str(theirs.fileno()), packages, *self._modules],
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()


class WarmWorkers:
    """One server for each set of modules, until it is closed."""

    def __init__(self) -> None:
        self._servers = {modules: _Server(modules) for modules in (_NUMPY, _TORCH)}

    @contextmanager
    def used(self) -> Iterator[None]:
        """Every worker that this process starts is a warm one."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(process, "subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": self._started}))
            yield

    def close(self) -> None:
        for server in self._servers.values():
            server.close()

    def _started(
        self, command: Sequence[str], *, pass_fds: Sequence[int], env: Mapping[str, str], cwd: Path, **_: Any
    ) -> _Worker:
        """In place of `Popen`, for `python -I -S -B PROGRAM CHANNEL POOLS…`."""
        argv = command[4:]
        torch = Path(argv[0]).with_name("adapters").joinpath("torch.py").exists()
        return self._servers[_TORCH if torch else _NUMPY].worker(argv, pass_fds, env, cwd)
