"""A worker process with a watchdog: a kernel that hangs or faults ends the worker, never the run.

The worker reads one JSON value a line and answers with one. It is started again after a death, so an illegal access
(which spoils the process's CUDA context for good) costs only the case that made it.
"""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from validator.errors import ValidatorError

__all__ = ["Watched", "serve"]

_LONGEST_LINE = 1 << 24


class Watched:
    """`command` as a process that answers requests; use it in a `with` block."""

    def __init__(self, command: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None) -> None:
        """`seconds`: how long one answer may take; the first one of a process includes its start.

        `environment`: all that the process sees; None: what this one does.
        """
        self._command, self._seconds, self._environment = list(command), seconds, environment
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def ask(self, request: Any) -> Any:
        """The worker's answer, or `{"failed": reason}` when it died or took too long."""
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._died()
        line = self._line(process)
        if line is None:
            self._end()
            return {"failed": f"no answer within {self._seconds:g} s: the worker was ended"}
        try:
            answer = json.loads(line)
        except ValueError:
            return self._died()
        if isinstance(answer, dict) and "failed" in answer:
            self._end()
        return answer

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, bufsize=0, env=self._environment)
        return self._process

    def _line(self, process: subprocess.Popen[bytes]) -> bytes | None:
        """One line; b"" when the worker ended; None when the time is over."""
        assert process.stdout is not None
        deadline, line = time.monotonic() + self._seconds, b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n") and len(line) < _LONGEST_LINE:
                if not selector.select(max(deadline - time.monotonic(), 0)):
                    return None
                part = process.stdout.read(1 << 16)
                if not part:
                    return b""
                line += part
        return line

    def _died(self) -> dict[str, str]:
        code = self._process.wait(5) if self._process else None
        self._end()
        return {"failed": f"the worker ended with status {code}"}

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            self._process.wait()
        self._process = None


def serve(answer: Callable[[Any], Any]) -> None:
    """The worker's loop. A `ValidatorError` is an answer too, after which the asker starts a new worker."""
    for line in sys.stdin:
        try:
            said = answer(json.loads(line))
        except ValidatorError as error:
            said = {"failed": str(error)}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()
