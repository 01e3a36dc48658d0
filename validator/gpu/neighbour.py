"""The adversarial neighbour: the harness plays the kernels before and after a candidate.

The contract says which arguments other launches write, so a neighbour can be made for any kernel:

- *late producer*: buffers hold the previous step's values, a one-CTA grid lets its dependants start at once, waits,
  then writes the true values. The candidate, launched behind it, must not notice: its results are compared bitwise with
  those of an ordinary launch. One argument at a time names the argument that is read (or overwritten) early.
- *late publisher*: flags and mailboxes are set from another CTA than the data, late, and their words out of order.
- *late reader*: the grid before the candidate keeps reading what the candidate writes, until its delay is over.
- *chain*: a dependant of the candidate relies on the candidate's wait for what the grid before the candidate wrote.

A fault that no delay shows is not disproved: the static audit has the last word.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from validator.gpu.driver import Device, Function, Launch, Parameters
from validator.gpu.launch import Buffer, Launchable, pack
from validator.gpu.tensormap import encode
from validator.manifest.contract import Role

__all__ = ["DELAYS_US", "LAUNCHES", "Observation", "Trial", "differing", "observe"]

DELAYS_US = (0, 2, 5, 20, 100, 200)
LAUNCHES = 200
"""For every delay."""

_NAMES = ("gate", "restore", "late_producer", "late_publisher", "late_reader", "compare", "successor")
_PTX = Path(__file__).with_name("neighbour.ptx")
_ORDERS = 4
"""In which a publisher sets the words of a mailbox, in turn."""
_BATCH = 20
"""Launches queued behind one gate."""
_GATE_NS = 200_000_000
"""The longest that the gate holds the stream back."""
_OVERLAPPED = ""
"""A column of marks that belongs to no buffer."""
_ONE = (1, 1, 1)
_ALONE = Launch(_ONE, (1024, 1, 1))
"""A neighbour is one CTA: its dependants find room beside it."""
_TWO = Launch((2, 1, 1), (1024, 1, 1))
_WIDE = Launch((64, 1, 1), (256, 1, 1))


@dataclass(frozen=True, slots=True)
class Trial:
    """One way of launching, many times."""

    arguments: tuple[str, ...]
    """What was written late."""
    delay_us: int
    launches: int
    wrong: int
    """Launches in which any buffer was wrong."""
    buffers: dict[str, int] = field(default_factory=dict)
    """Buffer → launches in which it was wrong; only those that ever were."""
    overlapped: int | None = None
    """Launches in which the successor began before the late values were there; None: not asked."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What the neighbour saw of one kernel."""

    control: Trial
    """Launched ordinarily behind the latest producer: wrong here means that the kernel does not repeat itself."""
    late_producer: tuple[Trial, ...]
    """Everything late, delay by delay."""
    by_argument: tuple[Trial, ...]
    """One argument late, by the longest delay."""
    late_reader: tuple[Trial, ...]
    """`wrong`: launches in which a buffer changed while the grid before the candidate still read it."""
    chain: Trial | None
    """`wrong`: launches in which the candidate's dependant, after its wait, met old values of the grid before the
    candidate. Where the three never overlapped it says nothing."""
    publisher: tuple[Trial, ...]
    """Data and what publishes it from two CTAs, out of order, delay by delay; empty where nothing publishes."""
    blind: tuple[str, ...]
    """Arguments whose values reach no result under this recipe: an early read of them can not show."""

    @property
    def repeatable(self) -> bool:
        return self.control.wrong == 0

    @property
    def shown(self) -> bool:
        """An early access is proven."""
        trials = (*self.late_producer, *self.by_argument, *self.late_reader, *self.publisher)
        return self.repeatable and any(t.wrong for t in trials)

    @property
    def least_delay_us(self) -> int | None:
        """The smallest delay of any neighbour that shows it."""
        if not self.repeatable:
            return None
        trials = (*self.late_producer, *self.late_reader, *self.publisher)
        return min((t.delay_us for t in trials if t.wrong), default=None)

    @property
    def arguments(self) -> tuple[str, ...]:
        """What was read or written early; nothing where the kernel does not repeat itself."""
        if not self.repeatable:
            return ()
        read = [t.arguments[0] for t in self.by_argument if t.wrong]
        written = [name for t in self.late_reader for name in t.buffers]
        # What only another order of publishing shows is read before its own words say that it may be.
        polled = [name for t in self.publisher if t.wrong for name in t.arguments] if not read and not written else []
        return tuple(dict.fromkeys((*read, *written, *polled)))


def observe(
    device: Device,
    candidate: Function,
    launchable: Launchable,
    delays_us: Sequence[int] = DELAYS_US,
    launches: int = LAUNCHES,
    settled: Collection[str] = (),
) -> Observation:
    """Runs every neighbour. `settled`: arguments that in their step no launch touches that may still run.

    Raises DeviceError when the candidate or the driver fails.
    """
    return _Stage(device, candidate, launchable, launches, settled).observe(tuple(delays_us))


def differing(
    device: Device, right: Function, candidate: Function, launchable: Launchable, launches: int = LAUNCHES
) -> Trial:
    """Ordinary launches of `candidate`, compared with what an ordinary launch of `right` made of the same values."""
    return _Stage(device, right, launchable, launches).repeated(candidate)


@dataclass(frozen=True, slots=True)
class _Regions:
    """A table for the neighbour's kernels, on the device."""

    address: int
    names: tuple[str, ...]
    data: int
    """Regions before this one are data, those from here on are flags."""

    @property
    def count(self) -> ctypes.c_uint32:
        return ctypes.c_uint32(len(self.names))


class _Stage:
    """Buffers on the device and the kernels around the candidate."""

    def __init__(
        self,
        device: Device,
        candidate: Function,
        launchable: Launchable,
        launches: int,
        settled: Collection[str] = (),
    ) -> None:
        self._device, self._candidate, self._launches = device, candidate, launches
        self._buffers = {b.name: b for b in launchable.buffers}
        functions = device.functions(_PTX.read_bytes(), *_NAMES)
        self._gate, self._restore, self._producer, self._publisher = functions[:4]
        self._reader, self._compare, self._successor = functions[4:]
        self._live = {b.name: device.allocate(b.size) for b in launchable.buffers}
        self._true = {b.name: self._stored(b, 0) for b in launchable.buffers}
        self._previous = {b.name: self._stored(b, 1) for b in launchable.buffers}
        self._expected = {b.name: device.allocate(b.size) for b in launchable.buffers if self._compared(b)}
        self._open = device.allocate_host(4)
        self._marks = device.allocate(launches * (len(launchable.buffers) + 1) * 4)
        self._done = device.allocate(4)
        self._parameters = pack(launchable, self._live, partial(encode, device))
        published = any(b.role is Role.MAILBOX for b in launchable.buffers)
        guarded = published or any(b.guarded_by in self._buffers for b in launchable.buffers)
        self._pdl = launchable.launch.pdl
        # A kernel that polls a flag runs beside its producer in any case; the attribute makes it so on one stream.
        self._behind = _with_pdl(launchable.launch, self._pdl or guarded)
        self._ordinary = _with_pdl(launchable.launch, False)
        open_ = [b for b in launchable.buffers if b.name not in settled]
        self._late = tuple(b.name for b in open_ if self._may_be_late(b, guarded))
        self._written = tuple(b.name for b in open_ if b.written)
        late = [self._buffers[name] for name in self._late]
        polled = [b for b in late if b.published or b.guarded_by in self._buffers]
        self._published = tuple(b.name for b in polled) if any(b.published for b in late) else ()

    def _compared(self, buffer: Buffer) -> bool:
        return buffer.written or buffer.role is None

    def _may_be_late(self, buffer: Buffer, guarded: bool) -> bool:
        """Without the attribute only what a flag guards may still be on its way."""
        if self._pdl or not guarded:
            return buffer.produced
        return buffer.published or (buffer.guarded_by in self._buffers and not buffer.written)

    def _stored(self, buffer: Buffer, which: int) -> int:
        """Address of a copy of the true (0) or previous (1) values."""
        address = self._device.allocate(buffer.size)
        self._device.upload(address, buffer.contents(which, self._live))
        return address

    def _regions(self, rows: Iterable[tuple[str, int, int]]) -> _Regions:
        """(buffer, other address, bytes) → the table, flags last."""
        rows = sorted(rows, key=lambda row: self._buffers[row[0]].published)
        table = b"".join(struct.pack("<QQQ", self._live[name], other, size // 16) for name, other, size in rows)
        address = self._device.allocate(len(table))
        if table:
            self._device.upload(address, table)
        data = sum(not self._buffers[name].published for name, _, _ in rows)
        return _Regions(address, tuple(name for name, _, _ in rows), data)

    def _results(self) -> _Regions:
        return self._regions((name, other, self._buffers[name].size) for name, other in self._expected.items())

    def _beginning(self, late: Sequence[str]) -> _Regions:
        """Everything as it is before the producer has written `late`."""
        return self._regions(
            (b.name, (self._previous if b.name in late else self._true)[b.name], b.size) for b in self._buffers.values()
        )

    def _windows(self, names: Sequence[str]) -> _Regions:
        return self._regions((name, self._true[name], self._buffers[name].window) for name in names)

    def _run_restore(self, regions: _Regions) -> None:
        self._device.launch(self._restore, _WIDE, Parameters.of(regions.address, regions.count))

    def _run_candidate(self, how: Launch) -> None:
        self._device.launch(self._candidate, how, self._parameters)

    def _run_compare(self, regions: _Regions, marks: int) -> None:
        self._device.launch(self._compare, _WIDE, Parameters.of(regions.address, regions.count, marks))

    def observe(self, delays: tuple[int, ...]) -> Observation:
        self._expect()
        longest = max(delays)
        blind = tuple(name for name in self._late if self._is_blind(name))
        control = self._trial_producer(self._late, longest, self._ordinary)
        late = tuple(self._trial_producer(self._late, d, self._behind) for d in delays)
        single = tuple(self._trial_producer(self._with_guard(n), longest, self._behind) for n in self._late)
        reader = tuple(self._trial_reader(self._written, d) for d in delays) if self._pdl and self._written else ()
        chain = self._trial_chain(longest) if self._pdl else None
        publisher = tuple(self._trial_publisher(d) for d in delays) if self._published else ()
        return Observation(control, late, single, reader, chain, publisher, blind)

    def repeated(self, candidate: Function) -> Trial:
        """`candidate` launched as the stage's own kernel would be, with nothing late."""
        self._expect()
        self._candidate = candidate
        return self._trial_producer((), 0, self._ordinary)

    def _expect(self) -> None:
        """What an ordinary launch makes of the true values."""
        self._run_restore(self._beginning(()))
        self._run_candidate(self._ordinary)
        for name, address in self._expected.items():
            self._device.copy(address, self._live[name], self._buffers[name].size)
        self._device.synchronize()

    def _is_blind(self, name: str) -> bool:
        """The previous values, launched ordinarily, give the same results. Outputs and what is polled are not asked."""
        if self._buffers[name].role is Role.OUTPUT or self._buffers[name].published:
            return False
        regions, marks = self._results(), self._marks
        self._device.clear(marks, 4 * len(regions.names))
        self._run_restore(self._beginning((name,)))
        self._run_candidate(self._ordinary)
        self._run_compare(regions, marks)
        return not any(self._device.download(marks, 4 * len(regions.names)))

    def _with_guard(self, name: str) -> tuple[str, ...]:
        """The argument and the flag without which it may be read at once."""
        guard = self._buffers[name].guarded_by
        return (name, guard) if guard in self._buffers and guard is not None else (name,)

    def _trial_producer(self, late: tuple[str, ...], delay_us: int, how: Launch) -> Trial:
        beginning, written, results = self._beginning(late), self._windows(late), self._results()
        data = ctypes.c_uint32(written.data)
        producer = Parameters.of(written.address, data, written.count, delay_us * 1000)

        def one(marks: int) -> None:
            self._run_restore(beginning)
            self._device.launch(self._producer, _ALONE, producer)
            self._run_candidate(how)
            self._run_compare(results, marks)

        return self._repeat(one, results.names, late, delay_us)

    def _trial_publisher(self, delay_us: int) -> Trial:
        beginning, written, results = self._beginning(self._late), self._windows(self._late), self._results()
        data = ctypes.c_uint32(written.data)
        common = (written.address, data, written.count, delay_us * 1000, self._done)
        orders = itertools.cycle([Parameters.of(*common, ctypes.c_uint32(first)) for first in range(_ORDERS)])

        def one(marks: int) -> None:
            self._run_restore(beginning)
            self._device.clear(self._done, 4)
            self._device.launch(self._publisher, _TWO, next(orders))
            self._run_candidate(self._behind)
            self._run_compare(results, marks)

        return self._repeat(one, results.names, self._published, delay_us)

    def _trial_reader(self, written: Sequence[str], delay_us: int) -> Trial:
        beginning, read = self._beginning(()), self._windows(written)

        def one(marks: int) -> None:
            self._run_restore(beginning)
            how = Parameters.of(read.address, read.count, marks, delay_us * 1000)
            self._device.launch(self._reader, _ALONE, how)
            self._run_candidate(self._behind)

        return self._repeat(one, read.names, (), delay_us)

    def _trial_chain(self, delay_us: int) -> Trial | None:
        late = tuple(n for n in self._late if not (self._buffers[n].written or self._buffers[n].published))
        if not late:
            return None
        beginning, written = self._beginning(late), self._windows(late)
        producer = Parameters.of(written.address, ctypes.c_uint32(written.data), written.count, delay_us * 1000)

        def one(marks: int) -> None:
            self._run_restore(beginning)
            self._device.launch(self._producer, _ALONE, producer)
            self._run_candidate(self._behind)
            after = Parameters.of(written.address, written.count, marks)
            self._device.launch(self._successor, _with_pdl(_WIDE, True), after)

        return self._repeat(one, (*written.names, _OVERLAPPED), late, delay_us)

    def _repeat(
        self, one: Callable[[int], None], names: tuple[str, ...], late: tuple[str, ...], delay_us: int
    ) -> Trial:
        """Queues `one` behind a closed gate, batch by batch: a slow host must not give the producer a head start.

        `one` gets the address of its own row of marks, one for each name.
        """
        row = 4 * len(names)
        self._device.clear(self._marks, row * self._launches)
        gate = ctypes.c_uint32.from_address(self._open)
        for first in range(0, self._launches, _BATCH):
            gate.value = 0
            self._device.launch(self._gate, Launch(_ONE, _ONE), Parameters.of(self._open, _GATE_NS))
            try:
                for i in range(first, min(first + _BATCH, self._launches)):
                    one(self._marks + i * row)
            finally:
                gate.value = 1
            self._device.synchronize()
        raw = self._device.download(self._marks, row * self._launches)
        marks = np.frombuffer(raw, np.uint32).reshape(self._launches, len(names)) != 0
        counts: dict[str, int] = dict(zip(names, marks.sum(axis=0).tolist(), strict=True))
        overlapped = counts.pop(_OVERLAPPED, None)
        wrong = int(marks[:, : len(counts)].any(axis=1).sum())
        seen = {name: n for name, n in counts.items() if n}
        return Trial(late, delay_us, self._launches, wrong, seen, overlapped)


def _with_pdl(launch: Launch, pdl: bool) -> Launch:
    return Launch(launch.grid, launch.block, launch.shared, launch.cluster, pdl)
