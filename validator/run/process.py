"""The confined process itself: started with a channel and shared memory, asked within a deadline, ended as a group."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from validator.run.adapters import Adapter
from validator.run.channel import Buffer, Kind, ProtocolError, coalesced
from validator.run.exchange import Exchange
from validator.run.limits import Limits
from validator.run.outcome import Outcome, Reply
from validator.run.quarters import Quarters

__all__ = ["Process"]

_BY_SIGNAL: dict[int, Outcome] = {signal.SIGSYS: Outcome.FORBIDDEN, signal.SIGXCPU: Outcome.HANG}


class Process:
    """One life of a worker."""

    def __init__(self, adapter: Adapter, tree: Path, limits: Limits, pools: Sequence[int]) -> None:
        """`tree`: folder that the callable is loaded from; `pools`: descriptors of the memory it shares.

        Raises `RunError` where the machine cannot set one up.
        """
        self._limits = limits
        self._output = 0
        """Bytes on its standard streams until now."""
        self._out: list[memoryview] = []
        """What has not been sent yet, of all frames in their order."""
        self.quarters = Quarters.made(adapter)
        self._socket, theirs = socket.socketpair()
        folders = (self.quarters.libraries, tree, self.quarters.home)
        words = [str(word) for word in (self.quarters.program, theirs.fileno(), ",".join(map(str, pools)), *folders)]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", *words, *_settings(adapter, limits)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(), *pools),
                env=self.quarters.environment(),
                cwd=self.quarters.home,
                start_new_session=True,
            )
        except BaseException:
            self._socket.close()
            self.quarters.remove()
            raise
        finally:
            theirs.close()
        self._socket.setblocking(False)
        os.set_blocking(self._stdout.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._selector.register(self._stdout, selectors.EVENT_READ)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """Also the id of its process group."""
        return self._process.pid

    def close(self) -> None:
        """End it and whatever it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._selector.close()
        self._stdout.close()
        self._socket.close()
        self.quarters.remove()

    def exchange(self, frames: Sequence[Buffer], expected: Kind, nonces: Sequence[int], seconds: float) -> list[Reply]:
        """Send frames, wait for the answers, and watch the clock and the standard streams meanwhile.

        Whatever ends the exchange early is the reply to everything that is still unanswered.
        """
        return self.finish(self.begin(frames, expected, nonces), seconds)

    def begin(self, frames: Sequence[Buffer], expected: Kind, nonces: Sequence[int]) -> Exchange:
        """Send frames, as far as that goes without waiting; `finish` waits. Exchanges end in the order they began."""
        self.tell(frames)
        return Exchange(self._socket, expected, nonces, self._limits.returned)

    def tell(self, frames: Sequence[Buffer]) -> None:
        """Send what is not answered: as far as that goes without waiting, the rest with whatever is waited for next."""
        self._out += [memoryview(part) for part in coalesced(frames)]
        with contextlib.suppress(OSError):  # whatever it is, the wait for an answer meets it too
            self._send()

    def _send(self) -> None:
        """As much as goes at once. Raises `OSError`."""
        if self._out:
            sent = self._socket.send(self._out[0])
            self._out[0] = self._out[0][sent:]
            if not self._out[0]:
                self._out.pop(0)

    def finish(self, exchange: Exchange, seconds: float) -> list[Reply]:
        """The answers to what was begun."""
        ended = self._pump(exchange, time.monotonic() + seconds, seconds)
        return exchange.replies + [ended] * (exchange.due - len(exchange.replies))

    def hand_over(self, frame: Sequence[Buffer], descriptor: int | None) -> None:
        """Send a frame behind all that were begun, with a descriptor. What follows meets a worker that has ended."""
        with contextlib.suppress(OSError):
            self._socket.setblocking(True)
            self._socket.settimeout(self._limits.wall)
            try:
                while self._out:
                    self._socket.sendall(self._out.pop(0))
                socket.send_fds(self._socket, [b"".join(frame)], [] if descriptor is None else [descriptor])
            finally:
                self._socket.setblocking(False)

    @property
    def _stdout(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def _pump(self, exchange: Exchange, end: float, seconds: float) -> Reply:
        """Move bytes until the exchange is complete (`OK`) or something ends it."""
        selector = self._selector
        while True:
            wants = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._out else 0)
            if selector.get_key(self._socket).events != wants:
                selector.modify(self._socket, wants)
            left = end - time.monotonic()
            if left <= 0:
                return Reply(Outcome.HANG, detail=f"no answer within {seconds:g} s")
            for key, events in selector.select(left):
                if key.fileobj is self._stdout:
                    if not self._drain():
                        selector.unregister(key.fileobj)
                    if self._output > self._limits.output:
                        return Reply(Outcome.FLOOD, detail=f"more than {self._limits.output} bytes of output")
                    continue
                try:
                    if events & selectors.EVENT_WRITE:
                        self._send()
                    if events & selectors.EVENT_READ and exchange.step():
                        return Reply(Outcome.OK)
                except (BrokenPipeError, ConnectionResetError, EOFError):
                    return self._ended()
                except ProtocolError as error:
                    return Reply(Outcome.PROTOCOL, detail=str(error))

    def _drain(self) -> bool:
        """Take what stands on its streams; False at their end."""
        try:
            data = os.read(self._stdout.fileno(), 1 << 16)
        except BlockingIOError:
            return True
        self._output += len(data)
        return bool(data)

    def _ended(self) -> Reply:
        """It closed the channel: say how it ended."""
        try:
            status = self._process.wait(2)
        except subprocess.TimeoutExpired:
            return Reply(Outcome.PROTOCOL, detail="closed the channel and went on")
        if status >= 0:
            return Reply(Outcome.MISSING, detail=f"ended with exit code {status} and without an answer")
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        return Reply(_BY_SIGNAL.get(-status, Outcome.SIGNAL), detail=f"ended by {name}")


def _settings(adapter: Adapter, limits: Limits) -> list[str]:
    """What the worker must see of the machine, and its limits."""
    seen = [f"read={path}" for path in adapter.readable] + [f"write={path}" for path in adapter.open_files]
    flags = [f"{name}=yes" for name, on in (("device", adapter.gpu), ("programs", adapter.programs)) if on]
    return [*seen, *flags, *limits.arguments(adapter)]
