"""The gate's side of a worker: start it confined, ask, wait no longer than agreed, and name whatever happened.

Every exchange ends in one `Outcome`. Only `OK` and `ERROR` leave the worker alive; after any other the process group is
killed and the next question starts a fresh one.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import secrets
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from validator.errors import ValidatorError
from validator.run.adapters import ADAPTERS, Adapter
from validator.run.channel import (
    HEADER,
    Buffer,
    Call,
    Kind,
    ProtocolError,
    Result,
    coalesced,
    pack_frame,
    unpack_header,
)
from validator.run.pool import Pool

__all__ = ["Limits", "Outcome", "Reply", "RunError", "Worker", "write_tree"]

WORKER = Path(__file__).with_name("worker.py")
_TRIES = 2
"""Starts that may fail one after another for a reason other than the source (killed, out of time)."""


class RunError(ValidatorError):
    """A worker cannot be set up on this machine."""


class Outcome(StrEnum):
    """How one exchange with a worker ended."""

    OK = "ok"
    ERROR = "error"
    """The callable raised."""
    MEMORY = "memory-exhausted"
    HANG = "hang"
    """No answer within the deadline, or the processor time was used up."""
    SIGNAL = "signal"
    """Ended by a signal: a crash."""
    FORBIDDEN = "forbidden-system-call"
    """Tried to start a process or to look into another."""
    FLOOD = "output-flood"
    """Wrote more to its standard streams than is allowed."""
    PROTOCOL = "protocol-violation"
    """Sent something else than what was asked for."""
    MISSING = "missing"
    """Ended without an answer."""
    UNLOADABLE = "unloadable"
    """The module or the function cannot be imported."""
    ABSENT = "not-run-here"
    """This machine or the adapter cannot run it; says nothing about the callable."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one worker may use."""

    memory: int = 4 << 30
    """Bytes of address space."""
    cpu: int = 600
    """Seconds of processor time, over the worker's life."""
    wall: float = 20.0
    """Seconds for one call."""
    start: float = 60.0
    """Seconds until the callable is imported."""
    file: int = 16 << 20
    """Bytes of the largest file it may write."""
    output: int = 1 << 20
    """Bytes on its standard streams, over its life."""
    returned: int = 1 << 30
    """Bytes of one answer."""

    def arguments(self, adapter: Adapter) -> list[str]:
        """As the worker takes them. Processes are limited too: where it binds, a fork storm ends early."""
        memory = [] if adapter.gpu else [f"as={self.memory + adapter.reserve}"]
        return [*memory, f"cpu={self.cpu}", f"fsize={self.file}", "core=0", "nofile=256", "nproc=512"]


@dataclass(frozen=True, slots=True)
class Reply:
    """The end of one exchange."""

    outcome: Outcome
    result: Result | None = None
    detail: str = ""
    """Untrusted text: what the callable raised, or what ended it."""
    payload: bytes | bytearray = b""


class _Listed(Protocol):
    @property
    def path(self) -> str: ...
    @property
    def mode(self) -> int: ...


class TreeReader(Protocol):
    """What is needed of a revision's files."""

    def list(self, prefix: str = "") -> Sequence[_Listed]: ...
    def read(self, path: str, limit: int = ...) -> bytes: ...


def write_tree(tree: TreeReader, folder: Path, prefix: str = "", *, limit: int = 256 << 20) -> int:
    """Write the regular files below `prefix` into `folder`, read-only. Returns how many.

    Links, submodules and files too large to read are left out; a path that would leave the folder is refused, and so is
    a tree beyond `limit` bytes.
    """
    written, total = 0, 0
    root = "" if prefix == "." else prefix.removeprefix("./").strip("/")
    for entry in tree.list(root):
        relative = entry.path[len(root) :].lstrip("/") if root else entry.path
        if entry.mode & 0o170000 != 0o100000:
            continue
        parts = relative.split("/")
        if any(part in ("", ".", "..") for part in parts) or "\0" in relative:
            raise RunError(f"tree entry {relative!r} is not a plain path")
        try:
            data = tree.read(entry.path)
        except ValidatorError:
            continue  # larger than what is read at all: a callable that needs it fails to load, visibly
        total += len(data)
        if total > limit:
            raise RunError(
                f"the tree holds more than {limit >> 20} MiB; set `import_root` to the folder that is needed"
            )
        target = folder.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(0o444)
        written += 1
    return written


def _libraries(folder: Path, adapter: Adapter) -> None:
    """A folder with links to the few packages that a callable may import, and to nothing else."""
    folder.mkdir()
    for name in (*adapter.libraries, *adapter.optional):
        spec = find_spec(name)
        if spec is None:
            if name in adapter.libraries:
                raise RunError(f"{name} is not installed")
            continue
        places = spec.submodule_search_locations  # of a package without `__init__.py` too; None: one file
        found = Path(next(iter(places)) if places is not None else spec.origin or "")
        for path in (found, found.with_name(f"{name}.libs")):
            if path.exists():
                (folder / path.name).symlink_to(path.resolve(), target_is_directory=path.is_dir())


def _remove(folder: Path) -> None:
    """A folder and all in it, however deep and whatever its modes: what lies inside a folder is moved up first."""
    with contextlib.suppress(OSError):
        while entries := list(os.scandir(folder)):
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)
                    continue
                os.chmod(entry.path, 0o700)
                for inner in os.listdir(entry.path):
                    os.rename(os.path.join(entry.path, inner), folder / secrets.token_hex(8))
                os.rmdir(entry.path)
        folder.rmdir()


def _program(folder: Path, adapter: Adapter) -> Path:
    """The worker's files under names that say nothing: what is called sees the file it was called from."""
    folder.mkdir()
    for name in ("channel", "confine", *(() if "." in adapter.module else (f"adapters/{adapter.module}",))):
        copy = folder / f"{name}.py"
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(WORKER.parent / f"{name}.py", copy)
    program = folder / f"{secrets.token_hex(4)}.py"
    shutil.copyfile(WORKER, program)
    return program


def _environment(home: Path) -> dict[str, str]:
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {"HOME": str(home), "TMPDIR": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TZ": "UTC", **one}


@dataclass
class Worker:
    """One callable in a process of its own. Starts on first use and again after it had to be ended."""

    target: str
    """`module:function`, or `path:kernel` for an adapter of compiled kernels."""
    tree: Path
    """Folder it is loaded from."""
    limits: Limits = field(default_factory=Limits)
    forbidden: tuple[str, ...] = ()
    """Functions that raise inside this worker: what the callable is compared with."""
    idle: tuple[str, ...] = ()
    """Functions that do nothing inside this worker, to see what rests on them."""
    adapter: Adapter = ADAPTERS["numpy"]
    """How the callable is made out of the target."""
    options: Mapping[str, str] = field(default_factory=dict)
    """What the adapter is told besides."""
    enforced: dict[str, str] = field(default_factory=dict)
    """What confinement this machine gives ("yes", or "no: why"), known after the first start."""
    bound: tuple[str, ...] = ()
    """Those of `forbidden` and `idle` that exist there and were replaced."""
    starts: int = 0

    def __post_init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._private: Path | None = None
        self._pool: Pool | None = None
        self._output = 0
        self._broken: Reply | None = None
        self._failures = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
        if self._pool is not None:
            self._pool.close()

    def call(self, call: Call, nonce: int | None = None) -> Reply:
        """Run the callable once. `nonce`: for a later `recall`."""
        return self._ask(Kind.CALL, [self._asked(call, secrets.randbits(63) if nonce is None else nonce)])[0]

    def call_many(self, calls: Sequence[Call]) -> list[Reply]:
        """Run the callable several times, all arguments known beforehand: one round trip."""
        return self._ask(Kind.CALL, [self._asked(call, secrets.randbits(63)) for call in calls])

    def recall(self, nonce: int, room: memoryview | None = None) -> Reply:
        """What a kept call returned, as it is now; its buffers are in their places. `room`: as in that call."""
        return self._ask(Kind.RECALL, [_Asked(secrets.randbits(63), [struct.pack("<Q", nonce)], room)])[0]

    def lend(self, slot: int, length: int, over: int | None = None) -> memoryview:
        """A buffer of the worker: what is written here it sees, what it writes is seen here. Raises `PoolFull`.

        The same address, there too, as long as the slot is asked for with the same length; its contents stay. `over`: a
        slot whose contents it replaces, at another address, where both are of one length.
        """
        return self._memory().lend(slot, length, over)

    def arena(self, slot: int) -> tuple[int, int, int]:
        """The slot as a `Call` names it."""
        return (slot, *self._memory().where(slot))

    def empty(self, slots: Iterable[int]) -> None:
        """What stands in these buffers is not needed any more."""
        for slot in slots:
            self._memory().empty(slot)

    def start(self) -> Reply:
        """Make sure that the callable is imported."""
        if self._broken is not None:
            return self._broken
        if self._process is not None and self._process.poll() is None:
            return Reply(Outcome.OK)
        self.close()
        reply = self._start()
        if reply.outcome is Outcome.OK:
            self._failures = 0
            return reply
        self.close()
        self._failures += 1
        if reply.outcome in (Outcome.UNLOADABLE, Outcome.ABSENT) or self._failures == _TRIES:
            self._broken = reply  # the same source will not import the next time either
        return reply

    def close(self) -> None:
        """End the worker and whatever it started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
        if self._socket is not None:
            self._socket.close()
        if self._private is not None:
            _remove(self._private)
        self._process = self._socket = self._private = None

    def _memory(self) -> Pool:
        if self._pool is None:
            self._pool = Pool(self.limits.memory // mmap.PAGESIZE * mmap.PAGESIZE)
        return self._pool

    def _start(self) -> Reply:
        self._private = Path(tempfile.mkdtemp(prefix=secrets.token_hex(4)))
        home, libraries = self._private / "h", self._private / "l"
        home.mkdir()
        _libraries(libraries, self.adapter)
        ours, theirs = socket.socketpair()
        pool = self._memory().descriptor
        program = _program(self._private / secrets.token_hex(4), self.adapter)
        command = [sys.executable, "-I", "-S", "-B", str(program), str(theirs.fileno()), str(pool)]
        self._process = subprocess.Popen(
            [*command, str(libraries), str(self.tree), str(home), *self._settings()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(theirs.fileno(), pool),
            env=_environment(home),
            cwd=home,
            start_new_session=True,
        )
        theirs.close()
        ours.setblocking(False)
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._socket, self._output = ours, 0
        self.starts += 1
        (ready,) = self._exchange([], Kind.READY, [0], self.limits.start)
        if ready.outcome is not Outcome.OK:
            return ready
        lines = ready.payload.decode("utf-8", "replace").splitlines()
        self.enforced = {k: v for k, _, v in (line.partition("=") for line in lines)}
        nonce = secrets.randbits(63)
        frame = pack_frame(Kind.LOAD, nonce, [self._order()])
        (loaded,) = self._exchange(frame, Kind.LOADED, [nonce], self.limits.start)
        if loaded.outcome is Outcome.ERROR:
            return Reply(Outcome.UNLOADABLE, detail=loaded.detail)
        self.bound = tuple(filter(None, loaded.payload.decode("utf-8", "replace").split("\0")))
        return loaded

    def _asked(self, call: Call, nonce: int) -> _Asked:
        room = self._memory().lend(call.arenas[-1][0], call.arenas[-1][2]) if call.room else None
        return _Asked(nonce, call.pack(), room)

    def _settings(self) -> list[str]:
        """What the worker must see of the machine, and its limits."""
        adapter = self.adapter
        seen = [f"read={path}" for path in adapter.readable] + [f"write={path}" for path in adapter.open_files]
        return [*seen, *(["device=yes"] if adapter.gpu else []), *self.limits.arguments(adapter)]

    def _order(self) -> bytes:
        """What the worker shall load, and how."""
        order = {
            "adapter": self.adapter.module,
            "target": self.target,
            "options": dict(self.options),
            "launches": self.adapter.launches,
            "forbidden": list(self.forbidden),
            "idle": list(self.idle),
        }
        return json.dumps(order).encode()

    def _ask(self, kind: Kind, asked: Sequence[_Asked]) -> list[Reply]:
        reply = self.start()
        if reply.outcome is not Outcome.OK:
            return [reply] * len(asked)
        frames = [part for a in asked for part in pack_frame(kind, a.nonce, a.parts)]
        replies = self._exchange(frames, Kind.RESULT, [a.nonce for a in asked], self.limits.wall * len(asked))
        judged = [_result(reply, a.room) for reply, a in zip(replies, asked, strict=True)]
        if any(reply.outcome not in (Outcome.OK, Outcome.ERROR, Outcome.ABSENT) for reply in judged):
            self.close()
        return judged

    def _exchange(self, frames: Sequence[Buffer], expected: Kind, nonces: Sequence[int], seconds: float) -> list[Reply]:
        """Send frames, wait for the answers, and watch the clock and the standard streams meanwhile.

        Whatever ends the exchange early is the reply to everything that is still unanswered.
        """
        assert self._socket is not None
        exchange = _Exchange(self._socket, frames, expected, nonces, self.limits.returned)
        ended = self._pump(exchange, time.monotonic() + seconds, seconds)
        return exchange.replies + [ended] * (len(nonces) - len(exchange.replies))

    def _pump(self, exchange: _Exchange, end: float, seconds: float) -> Reply:
        """Move bytes until the exchange is complete (`OK`) or something ends it."""
        assert self._process is not None
        assert self._process.stdout is not None
        assert self._socket is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, exchange.wants)
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while True:
                left = end - time.monotonic()
                if left <= 0:
                    return Reply(Outcome.HANG, detail=f"no answer within {seconds:g} s")
                for key, events in selector.select(left):
                    if key.fileobj is self._process.stdout:
                        if not self._drain():
                            selector.unregister(key.fileobj)
                        if self._output > self.limits.output:
                            return Reply(Outcome.FLOOD, detail=f"more than {self.limits.output} bytes of output")
                        continue
                    try:
                        if exchange.step(events):
                            return Reply(Outcome.OK)
                    except (BrokenPipeError, ConnectionResetError, EOFError):
                        return self._ended()
                    except ProtocolError as error:
                        return Reply(Outcome.PROTOCOL, detail=str(error))
                    if selector.get_key(self._socket).events != exchange.wants:
                        selector.modify(self._socket, exchange.wants)

    def _drain(self) -> bool:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            data = os.read(self._process.stdout.fileno(), 1 << 16)
        except BlockingIOError:
            return True
        self._output += len(data)
        return bool(data)

    def _ended(self) -> Reply:
        """The worker closed the channel: say how it ended."""
        assert self._process is not None
        try:
            status = self._process.wait(2)
        except subprocess.TimeoutExpired:
            return Reply(Outcome.PROTOCOL, detail="closed the channel and went on")
        if status >= 0:
            return Reply(Outcome.MISSING, detail=f"ended with exit code {status} and without an answer")
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        outcome = _BY_SIGNAL.get(-status, Outcome.SIGNAL)
        return Reply(outcome, detail=f"ended by {name}")


_ENDS = {Kind.ERROR: Outcome.ERROR, Kind.MEMORY: Outcome.MEMORY, Kind.ABSENT: Outcome.ABSENT}
"""Answers that are no result, and what they mean."""
_BY_SIGNAL: dict[int, Outcome] = {signal.SIGSYS: Outcome.FORBIDDEN, signal.SIGXCPU: Outcome.HANG}


@dataclass(frozen=True, slots=True)
class _Asked:
    """One question: its nonce and its payload."""

    nonce: int
    parts: list[Buffer]
    room: memoryview | None
    """Where the answer may have put what was returned."""


def _result(reply: Reply, room: memoryview | None) -> Reply:
    """The reply with its payload taken apart, if it is what was asked for."""
    if reply.outcome is not Outcome.OK:
        return reply
    try:
        return Reply(Outcome.OK, Result.unpack(memoryview(reply.payload), room))
    except ProtocolError as error:
        return Reply(Outcome.PROTOCOL, detail=str(error))


class _Exchange:
    """Some frames out and one frame in for each nonce, in order, over a non-blocking socket."""

    def __init__(
        self, connection: socket.socket, frames: Sequence[Buffer], expected: Kind, nonces: Sequence[int], limit: int
    ) -> None:
        self._socket, self._expected, self._nonces, self._limit = connection, expected, nonces, limit
        self._out = [memoryview(part) for part in coalesced(frames)]
        self._in = bytearray(HEADER.size)
        self._at = 0
        self._kind: Kind | None = None
        self.replies: list[Reply] = []

    @property
    def wants(self) -> int:
        """Events that bring it forward."""
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._out else 0)

    def step(self, events: int) -> bool:
        """Move bytes; True once every reply is here. Raises `ProtocolError`, `EOFError`, `OSError`."""
        if events & selectors.EVENT_WRITE and self._out:
            sent = self._socket.send(self._out[0])
            self._out[0] = self._out[0][sent:]
            if not self._out[0]:
                self._out.pop(0)
        if events & selectors.EVENT_READ:
            self._read()
        return len(self.replies) == len(self._nonces)

    def _read(self) -> None:
        while len(self.replies) < len(self._nonces):
            if self._at == len(self._in):
                self._open() if self._kind is None else self._close()
                continue
            try:
                got = self._socket.recv_into(memoryview(self._in)[self._at :])
            except BlockingIOError:
                return
            if not got:
                raise EOFError
            self._at += got

    def _open(self) -> None:
        """The header is here: is it the answer to what was asked?"""
        kind, nonce, length = unpack_header(self._in)
        if nonce != self._nonces[len(self.replies)] or kind not in (self._expected, *_ENDS):
            raise ProtocolError(f"sent {kind.name} where {self._expected.name} was due")
        if length > (self._limit if kind is self._expected else 1 << 16):
            raise ProtocolError(f"declares an answer of {length} bytes")
        self._kind, self._in, self._at = kind, bytearray(length), 0

    def _close(self) -> None:
        """The payload is here too."""
        data = self._in
        if self._kind is self._expected:
            reply = Reply(Outcome.OK, payload=data)
        else:
            assert self._kind is not None
            reply = Reply(_ENDS[self._kind], detail=data.decode("utf-8", "replace"))
        self.replies.append(reply)
        self._kind, self._in, self._at = None, bytearray(HEADER.size), 0
