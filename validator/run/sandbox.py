"""The gate's side of a worker: start it confined, ask, wait no longer than agreed, and name whatever happened.

Every exchange ends in one `Outcome`. Only `OK` and `ERROR` leave the worker alive; after any other the process group is
killed and the next question starts a fresh one.
"""

from __future__ import annotations

import json
import mmap
import os
import secrets
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from validator.run.adapters import ADAPTERS, Adapter
from validator.run.channel import GIVEN, Call, Kind, Place, pack_frame
from validator.run.elsewhere import Elsewhere, Region
from validator.run.exchange import Asked, Exchange, unpacked
from validator.run.limits import Limits
from validator.run.outcome import Outcome, Reply, RunError
from validator.run.pool import Pool
from validator.run.process import Process

__all__ = ["Begun", "Limits", "Outcome", "Reply", "RunError", "Worker"]

_NOTHING = Reply(Outcome.MISSING)
_TRIES = 2
"""Starts that may fail one after another for a reason other than the source (killed, out of time)."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A call that a worker has, or why it has none."""

    process: Process | None
    """The life of the worker that has it."""
    exchange: Exchange | None = None
    room: memoryview | None = None
    reply: Reply = _NOTHING


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
    spilled: bool = False
    """Its buffers lie on disk, where there is room."""
    enforced: dict[str, str] = field(default_factory=dict)
    """What confinement this machine gives ("yes", or "no: why"), known after the first start."""
    bound: tuple[str, ...] = ()
    """Those of `forbidden` and `idle` that exist there and were replaced."""
    starts: int = 0
    elsewhere: Elsewhere | None = field(init=False, default=None)
    """Where its large buffers lie, if not here."""

    def __post_init__(self) -> None:
        self._process: Process | None = None
        self._pools: tuple[Pool, Pool] | None = None
        self._broken: Reply | None = None
        self._failures = 0
        self._told: Process | None = None
        """Knows where buffers lie that do not lie here."""
        self._on_their_way = 0
        """Calls that are begun."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
        for memory in (*(self._pools or ()), *((self.elsewhere,) if self.elsewhere is not None else ())):
            memory.close()

    def call(self, call: Call, nonce: int | None = None) -> Reply:
        """Run the callable, as often as the call says. `nonce`: for a later `recall`."""
        asked = self._asked(call, secrets.randbits(63) if nonce is None else nonce)
        return self._ask(Kind.CALL, [asked], call.times)[0]

    def call_many(self, calls: Sequence[Call]) -> list[Reply]:
        """Run the callable several times, all arguments known beforehand: one round trip."""
        return self._ask(Kind.CALL, [self._asked(call, secrets.randbits(63)) for call in calls])

    def begin(self, call: Call, nonce: int) -> Begun:
        """Hand over a call; the worker makes it as soon as it has answered the ones before. `finish` in that order."""
        reply = self.start()
        if reply.outcome is not Outcome.OK:
            return Begun(None, reply=reply)
        assert self._process is not None
        self._tell_all()
        asked = self._asked(call, nonce)
        frames = pack_frame(Kind.CALL, nonce, asked.parts)
        self._on_their_way += 1
        return Begun(self._process, self._process.begin(frames, Kind.RESULT, [nonce]), asked.room)

    def coming(self, call: Call) -> None:
        """Have the arenas of a later call mapped, if the worker runs and has nothing else to do: their contents may
        change until then."""
        if self._process is not None:
            self._tell_all()
            self._process.tell(pack_frame(Kind.COMING, 0, call.pack()))

    def finish(self, begun: Begun) -> Reply | None:
        """Wait for the answer to a call. None: it never came to it, because the process was ended before."""
        if begun.process is None or begun.exchange is None:
            return begun.reply
        if begun.process is not self._process:
            return None
        self._on_their_way -= 1
        return self._taken(begun.process.finish(begun.exchange, self.limits.wall), [begun.room])[0]

    def recall(self, nonce: int, room: memoryview | None = None) -> Reply:
        """What a kept call returned, as it is now; its buffers are in their places. `room`: as in that call."""
        return self._ask(Kind.RECALL, [Asked(secrets.randbits(63), [struct.pack("<Q", nonce)], room)])[0]

    @property
    def protects(self) -> bool:
        """It cannot write to slots that bear the bit `GIVEN`; elsewhere they are like the others."""
        return self._memory(GIVEN).protected

    def lend(self, slot: int, length: int, over: int | None = None) -> memoryview:
        """A buffer of the worker: what is written here it sees, what it writes is seen here. Raises `PoolFull`.

        The same address, there too, as long as the slot is asked for with the same length; its contents stay. `over`: a
        slot whose contents it replaces, at another address, where both are of one length.
        """
        return self._memory(slot).lend(slot, length, over)

    def drop(self, slot: int) -> None:
        """Nobody asks for a buffer any more: another may lie there."""
        self._memory(slot).drop(slot)

    def arena(self, slot: int) -> tuple[int, int, int]:
        """The slot as a `Call` names it."""
        return (slot, *self._memory(slot).where(slot))

    def empty(self, slots: Iterable[int]) -> None:
        """What stands in these buffers is not needed any more."""
        for slot in slots:
            self._memory(slot).empty(slot)

    def start(self) -> Reply:
        """Make sure that the callable is imported."""
        if self._broken is not None:
            return self._broken
        if self._process is not None and self._process.alive:
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
            self._process.close()
            if self.elsewhere is not None:
                self.elsewhere.doubt()
        self._process = None

    def brought_here(self, why: str) -> bool:
        """The device that some of its buffers lay on is of no use to this process any more: all of them lie here from
        now on, and a fresh worker makes the next call. False: none lay there."""
        if self.elsewhere is None or not self.elsewhere.usable:
            return False
        self.elsewhere.refuse(why)
        self.close()
        return True

    def region(self, slot: int, beside: int | None = None) -> Region | None:
        """Where the slot's buffer lies on a device; None: it lies here. `beside`: see `Elsewhere.region`."""
        if self.elsewhere is None:
            return None
        length = self._memory(slot).where(slot)[1]
        if length < self.elsewhere.least or self.start().outcome is not Outcome.OK:
            return None
        return self.elsewhere.region(slot, length, beside) if self._shares() else None

    def _memory(self, slot: int = 0) -> Pool:
        """Where a slot lies."""
        if self._pools is None:
            size = self.limits.memory // mmap.PAGESIZE * mmap.PAGESIZE
            here = self.elsewhere is None  # of what lies on a device, what is here stays mostly untouched
            ours, given = Pool(size, spilled=self.spilled, gathered=here), Pool(size, given=True, gathered=here)
            self._pools = ours, given
        return self._pools[bool(slot & GIVEN)]

    def _descriptors(self) -> tuple[int, ...]:
        """Of the memory that it can write, and of what it can only read."""
        return tuple(self._memory(slot).descriptor for slot in (0, GIVEN))

    def _start(self) -> Reply:
        self._on_their_way = 0
        self._process = process = Process(self.adapter, self.tree, self.limits, self._descriptors())
        self.starts += 1
        (ready,) = process.exchange([], Kind.READY, [0], self.limits.start)
        if ready.outcome is not Outcome.OK:
            return ready
        lines = ready.payload.decode("utf-8", "replace").splitlines()
        self.enforced = {k: v for k, _, v in (line.partition("=") for line in lines)}
        nonce = secrets.randbits(63)
        frame = pack_frame(Kind.LOAD, nonce, [self._order()])
        (loaded,) = process.exchange(frame, Kind.LOADED, [nonce], self.limits.start)
        if loaded.outcome is Outcome.ERROR:
            return Reply(Outcome.UNLOADABLE, detail=loaded.detail)
        self.bound = tuple(filter(None, loaded.payload.decode("utf-8", "replace").split("\0")))
        return loaded

    def _shares(self) -> bool:
        """Whether this process maps memory of a device; a new one is asked, as soon as no call is on its way."""
        assert self._process is not None
        assert self.elsewhere is not None
        self._tell_all()
        if self._told is self._process or not self.elsewhere.usable:
            return self.elsewhere.usable
        if self._on_their_way or (region := self.elsewhere.probe()) is None:
            return False
        nonce = secrets.randbits(63) | 1
        self._tell(region, nonce)
        (reply,) = self._process.exchange([], Kind.PLACED, [nonce], self.limits.start)
        region.close()
        self._tell(region)
        if reply.outcome is not Outcome.OK:
            self.elsewhere.refuse(f"the worker maps no memory of the device: {reply.outcome.value}, {reply.detail}")
        self._told = self._process
        return self.elsewhere.usable

    def _tell_all(self) -> None:
        """Everything that this process does not know of regions."""
        if self.elsewhere is not None:
            for region in self.elsewhere.news(everything=self._told is not self._process):
                self._tell(region)
                self._told = self._process

    def _tell(self, region: Region, nonce: int = 0) -> None:
        assert self._process is not None
        place = Place(region.slot, region.length, region.size, region.start, region.device)
        descriptor = region.export() if region.size else None
        try:
            self._process.hand_over(pack_frame(Kind.PLACE, nonce, [place.pack()]), descriptor)
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _asked(self, call: Call, nonce: int) -> Asked:
        room = self._memory().lend(call.arenas[-1][0], call.arenas[-1][2]) if call.room else None
        return Asked(nonce, call.pack(), room)

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

    def _ask(self, kind: Kind, asked: Sequence[Asked], times: int = 1) -> list[Reply]:
        reply = self.start()
        if reply.outcome is not Outcome.OK:
            return [reply] * len(asked)
        self._tell_all()
        frames = [part for a in asked for part in pack_frame(kind, a.nonce, a.parts)]
        assert self._process is not None
        seconds = self.limits.wall * len(asked) * times
        replies = self._process.exchange(frames, Kind.RESULT, [a.nonce for a in asked], seconds)
        return self._taken(replies, [a.room for a in asked])

    def _taken(self, replies: Sequence[Reply], rooms: Sequence[memoryview | None]) -> list[Reply]:
        """The replies taken apart; a worker that is no longer to be believed is ended."""
        judged = [unpacked(reply, room) for reply, room in zip(replies, rooms, strict=True)]
        if any(reply.outcome not in (Outcome.OK, Outcome.ERROR, Outcome.ABSENT) for reply in judged):
            self.close()
        return judged
