"""The command line in a process of its own, for tests that start hundreds: forked from one that imported it already.

What a command line does is what `python -m validator` does; only the half second of imports is spent once. Tests of how
it starts (`tests/cli/test_cli.py`) start it anew.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Ran", "Warm", "fresh"]

KEPT = ("PATH", "HOME", "TMPDIR")
"""What a command line may know of this machine. Nothing that asks for colour, width or debugging."""
ROOT = Path(__file__).parents[2]
_IMPORTS = (
    "validator.cli.check",
    "validator.cli.audit",
    "validator.cli.diff",
    "validator.cli.report",
    "validator.cli.review",
    "validator.cli.waive",
    "validator.cli.output",
    "validator.cli.display",
    "validator.pipeline",
    "validator.rules",
    "validator.report.bundle",
    "validator.report.formats",
    "validator.report.schemas",
    "validator.differential.engine",
    "validator.ordering.artifacts",
    "validator.emulate.document",
    "validator.report.audit_text",
    "validator.report.audit_json",
)
"""What most commands import; the others import what else they need, as ever."""


@dataclass(frozen=True)
class Ran:
    """What one command line did."""

    code: int
    out: str
    err: str


def _environment(more: Mapping[str, str] | None) -> dict[str, str]:
    return {**{k: os.environ[k] for k in KEPT if k in os.environ}, "LC_ALL": "C.UTF-8", **(more or {})}


def fresh(args: Sequence[str], cwd: Path | None, env: Mapping[str, str] | None, timeout: float) -> Ran:
    """In an interpreter that starts now."""
    done = subprocess.run(
        [sys.executable, "-m", "validator", *args],
        cwd=cwd,
        env=_environment(env),
        capture_output=True,
        timeout=timeout,
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


class Warm:
    """One interpreter that has imported the command line and does nothing but fork."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        here = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.support.command_line import serve"
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"{here}; serve({theirs.fileno()})"],
            env=_environment(None),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()

    def __call__(self, args: Sequence[str], cwd: Path | None, env: Mapping[str, str] | None, timeout: float) -> Ran:
        """As `fresh`. Raises `TimeoutExpired`; nothing can be asked afterwards."""
        where = str(cwd or Path.cwd())
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            asked = json.dumps({"args": list(args), "cwd": where, "env": _environment(env)}).encode()
            socket.send_fds(self._socket, [asked], [out.fileno(), err.fileno()])
            with selectors.DefaultSelector() as selector:
                selector.register(self._socket, selectors.EVENT_READ)
                if not selector.select(timeout):
                    self.close()
                    raise subprocess.TimeoutExpired(list(args), timeout)
            code = int(self._socket.recv(16))
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode())
        return Ran(code, *texts)

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._socket.close()


def serve(descriptor: int) -> None:
    """Fork for every command line that is asked for, one after another. The child runs it and ends as it would."""
    import importlib

    for name in _IMPORTS:
        importlib.import_module(name)
    asked = socket.socket(fileno=descriptor)
    while True:
        data, given, _, _ = socket.recv_fds(asked, 1 << 20, 2)
        if not data:
            return
        child = os.fork()
        if child == 0:
            asked.close()
            _become(json.loads(data), given)
            from validator.__main__ import main

            sys.exit(main())
        for one in given:
            os.close(one)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        asked.sendall(str(code).encode())


def _become(asked: dict[str, object], given: Sequence[int]) -> None:
    for target, one in enumerate(given, 1):
        os.dup2(one, target)
        os.close(one)
    os.chdir(str(asked["cwd"]))
    os.environ.clear()
    os.environ.update(asked["env"])  # type: ignore[call-overload]
    sys.argv = ["validator", *asked["args"]]  # type: ignore[misc]
    sys.path.remove(str(ROOT))
