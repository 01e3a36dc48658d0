"""The machine: register file, memories, threads in groups by where they are, and the loop that runs them.

Threads that stand before the same segment run it together, whatever warp or CTA they belong to. Of the groups of the
running class the one first in the text goes first, so that diverged threads meet again where the branches join; a
group that only polls is put off until no other can run. A thread that has to wait is kept by what it waits for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from validator.emulate.adversary import Adversary, Plan
from validator.emulate.barriers import Barriers
from validator.emulate.copies import Copies
from validator.emulate.groups import Groups, merged
from validator.emulate.happens_before import HappensBefore
from validator.emulate.hazard import Hazard, HazardKind, Hazards, Place
from validator.emulate.lanes import Array, Lanes
from validator.emulate.lent import Lent
from validator.emulate.mbarrier import Mbarriers
from validator.emulate.memory import OTHER_POISON, SHARED_NAME, WINDOW_BITS, Region
from validator.emulate.published import Published
from validator.emulate.special import special_row
from validator.emulate.story import Story
from validator.emulate.tensor_map import TensorMap
from validator.manifest.contract import Role
from validator.ordering.program import Space

if TYPE_CHECKING:
    from validator.emulate.translate import Code

__all__ = ["DTYPES", "Limits", "Machine", "Memory", "Shape", "Stopped", "Unexecutable"]

DTYPES = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64, 128: np.uint64}
POISONED_REGISTER, OTHER_REGISTER = 0xA5A5A5A5A5A5A5A5, 0x5B5B5B5B5B5B5B5B
_RETRIES = 2_000
"""Rounds in which all polling threads found nothing new before the machine calls it a livelock, whatever they count."""
_PAUSE = 5
"""Segments between two looks of eager polling."""


class Unexecutable(Exception):
    """An instruction was reached that cannot be executed; says which and why."""


class Stopped(Exception):
    """The run cannot go on: a trap, or a limit."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How many threads there are."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    shared: int = 0
    """Bytes of dynamic shared memory."""
    pdl: bool = False

    @property
    def ctas(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        """Of one CTA."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def per_cta(self) -> int:
        """Places for threads of one CTA: whole warps."""
        return -(-self.threads // 32) * 32


@dataclass(frozen=True, slots=True)
class Limits:
    instructions: int = 400_000_000
    """Thread-instructions of one run."""
    segments: int = 400_000
    """Segments executed by groups of threads, however small."""


@dataclass(slots=True)
class Memory:
    """What the launch brings: fresh for every run."""

    buffers: list[Region]
    parameters: bytes
    flags: list[Region] = field(default_factory=list)
    """Flags that other launches set, with the bytes they then hold."""
    published: dict[str, bytes] = field(default_factory=dict)
    """Flag → its bytes once set."""
    flag_bits: dict[str, int] = field(default_factory=dict)
    """Flag → the event that seeing it set is."""
    tensor_maps: dict[int, TensorMap] = field(default_factory=dict)
    """Byte of the parameter block → what the descriptor there maps."""
    numbers: tuple[int, ...] = ()
    """Small numbers among the parameters: a flag whose value the contract does not give may be compared with them."""


class Machine:
    def __init__(
        self,
        code: Code,
        shape: Shape,
        memory: Memory,
        plan: Plan,
        limits: Limits | None = None,
        unset_differ: bool = True,
    ) -> None:
        """`unset_differ`: registers that nobody wrote hold something else than in the friendly run."""
        self.code, self.shape, self.plan = code, shape, plan
        self.limits = limits or Limits()
        self.per_cta, self.ctas = shape.per_cta, shape.ctas
        self.total = total = self.per_cta * self.ctas
        self.cluster_size = shape.cluster[0] * shape.cluster[1] * shape.cluster[2]
        self.adversary = Adversary(plan)
        self.order = HappensBefore(self.ctas, self.per_cta, code.fine)
        self.published = Published()
        self.hazards = Hazards()
        self.story = Story()
        self.version = 0
        """Moves on whenever something happens that a polling thread might see."""
        self.seen = np.zeros(total, np.uint64)
        """Events that each thread is ordered behind, as bits; bit 0: completion of the launches before."""
        self.seen_pending = np.zeros(total, np.uint64)
        self.seen_released = np.zeros(total, np.uint64)
        self.triggered = np.zeros(total, bool)
        self.waited = False
        """Whether any thread has executed griddepcontrol.wait."""
        self.flag_bits = memory.flag_bits
        self.published_bytes = memory.published
        self.unpublished = list(memory.flags)
        self.half_filled: set[str] = set()
        self.numbers = list(memory.numbers)
        self.memory = memory
        self.globals: dict[int, Region] = {r.base >> WINDOW_BITS: r for r in memory.buffers}
        self._module_variables()
        self.shared = self._partitioned(SHARED_NAME, Space.SHARED, self._shared_end(), self.ctas)
        self.local = self._partitioned("local memory", Space.LOCAL, code.layout.local_size, total)
        if not plan.friendly:
            # Reads of it are not checked: what nobody wrote shows where it reaches a result.
            self.local.data[:] = OTHER_POISON
        self.unset = POISONED_REGISTER if plan.friendly or not unset_differ else OTHER_REGISTER
        """What registers hold that nobody wrote."""
        self._name_parts()
        if code.shares:
            for region in self.globals.values():
                if region.tracked:
                    region.earlier()
        self.barriers = Barriers(self)
        self.mbarriers = Mbarriers()
        self.lent = Lent()
        self.copies = Copies()
        self.rows: list[Array] = [self._row(bits) for bits in code.registers]
        self.carry = np.zeros(total, bool)
        self._specials: dict[str, Array] = {}
        self._parameters: dict[tuple[int, int], Array] = {}
        self.alive = np.zeros(total, bool)
        self.alive.reshape(self.ctas, self.per_cta)[:, : shape.threads] = True
        self.living = int(self.alive.sum())
        """Threads that have not left."""
        self.classes = self.adversary.classes(self.ctas, self.per_cta)
        self.groups = [Groups() for _ in range(int(self.classes.max()) + 1)]
        self.ranks = list(range(len(self.groups)))
        """Classes, the running one first."""
        self.parked: dict[int, list[Array]] = {}
        """Threads before a collective of their warp that others have not reached."""
        self.warp_barriers: set[int] = set()
        """Keys of `parked` at which a barrier of the warp stands."""
        self._tried, self._fruitless, self._registers = -1, 0, 0
        """The version that polling threads last saw, and how often they found nothing new since."""
        self.impatience = plan.impatient
        self._noticed, self._soon = 0, 0
        """Eager polling: the version that it last saw, and the segment before which it does not look again."""
        self.running = 0
        """The segment that is executed now."""
        self.executed = 0
        self.segments_run = 0

    # --- set-up -----------------------------------------------------------------------------------------------------

    def _row(self, bits: int) -> Array:
        if bits == 1:
            return np.full(self.total, self.unset == OTHER_REGISTER)
        shape = (self.total, 2) if bits == 128 else (self.total,)
        return np.full(shape, self.unset & ((1 << min(bits, 64)) - 1), DTYPES[bits])

    def _shared_end(self) -> int:
        layout = self.code.layout
        # What a launch brings is there for a kernel that has dynamic shared memory; else its own end counts.
        brought = layout.has_dynamic and self.shape.shared
        return layout.dynamic + self.shape.shared if brought else layout.shared_size

    def _partitioned(self, name: str, space: Space, size: int, parts: int) -> Region:
        stride = max(-(-size // 128) * 128, 16)
        region = Region(name, stride * parts, space, initialised=False, tracked=space is Space.SHARED)
        region.stride, region.limit = stride, size
        if space is Space.SHARED:
            region.begin = min(1024, size)
            if self.code.fine or self.code.shares:
                region.earlier()
        return region

    def _name_parts(self) -> None:
        layout = self.code.layout
        sizes = [(at, size or self.shape.shared, name) for name, (at, size) in layout.shared.items()]
        self.shared.variables = [(at, size, name.partition("#")[0]) for at, size, name in sizes]
        self.local.variables = [(at, size, name) for name, (at, size) in layout.local.items()]

    def _module_variables(self) -> None:
        layout = self.code.layout
        for name, (address, size) in layout.globals.items():
            region = Region(name, size, base=address, tracked=True)
            region.data[:] = 0
            region.fill(layout.initial.get(name, b"")[:size])
            self.globals[address >> WINDOW_BITS] = region
        self.const = Region("constant memory", layout.const_size, Space.CONST)
        for name, (at, size) in layout.const.items():
            raw = layout.initial.get(name, b"")[:size].ljust(size, b"\0")
            self.const.data[at : at + size] = np.frombuffer(raw, np.uint8)
        self.param = Region("kernel parameters", len(self.memory.parameters), Space.PARAM)
        self.param.fill(self.memory.parameters)

    # --- what instructions ask for --------------------------------------------------------------------------------

    def special(self, name: str) -> Array:
        """A special register, one value a thread."""
        if name.startswith(("clock", "globaltimer")):
            return np.full(self.total, self.segments_run * 16 + 1, np.uint64)
        found = self._specials.get(name)
        if found is None:
            found = self._specials[name] = special_row(name, self.shape)
        return found

    def parameter(self, offset: int, size: int) -> Array:
        """Bytes of the parameter block as one element that broadcasts."""
        found = self._parameters.get((offset, size))
        if found is None:
            raw = self.memory.parameters[offset : offset + size].ljust(size, b"\0")
            found = np.frombuffer(raw, {1: np.uint8, 2: np.uint16, 4: np.uint32}.get(size, np.uint64))
            self._parameters[offset, size] = found
        return found

    def rank_to_cta(self, ctas: Array, rank: Array) -> Array:
        """CTA of each rank in the cluster of the given CTAs."""
        x, y, z = self.shape.cluster
        gx, gy, _ = self.shape.grid
        cx, rest = ctas % gx // x * x, ctas // gx
        cy, cz = rest % gy // y * y, rest // gy // z * z
        rx, rr = rank % x, rank // x
        found: Array = (cz + rr // y) * gx * gy + (cy + rr % y) * gx + cx + rx
        return np.minimum(found, self.ctas - 1)

    def place(self, index: int, thread: int) -> Place:
        return Place(index, thread // self.per_cta, thread % self.per_cta)

    def tensor_map(self, address: int) -> TensorMap | None:
        """The tensor map at a generic or parameter address."""
        return self.memory.tensor_maps.get(address & ((1 << WINDOW_BITS) - 1))

    def unexecutable(self, what: str, index: int) -> Unexecutable:
        return Unexecutable(what, index)

    def report(
        self, kind: HazardKind, index: int, threads: Array, memory: str, offset: int | None, detail: str
    ) -> None:
        self.hazards.add(
            Hazard(kind, self.place(index, int(threads[0])), memory, offset, detail=detail, count=len(threads))
        )

    # --- the loop -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run to the end, or until nothing can go on. Raises `Unexecutable`."""
        if self.plan.flags_at_once:
            while self.publish_flag():
                pass
        if not self.shape.pdl or self.plan.friendly:
            self.seen |= np.uint64(1)
        self.push(0, np.flatnonzero(self.alive))
        with np.errstate(all="ignore"):
            try:
                self._loop()
                self.copies.finish(self)
                self._check_chain()
            except Stopped:
                pass

    def push(self, key: int, threads: Array) -> None:
        """These threads stand before segment `key >> 1`, behind its gate if the lowest bit is set."""
        if len(self.groups) == 1:
            self.groups[0].push(key, threads)
            return
        classes = self.classes[threads]
        for number in np.unique(classes).tolist():
            self.groups[number].push(key, threads[classes == number])

    def send(self, segment: int, threads: Array) -> None:
        """Threads that part from their group go on here; back into a polling loop only when nothing else can run."""
        back = segment <= self.running and self.code.segments[self.running].polls
        if back and self.impatience > 0:
            self.impatience -= 1
            self.push(segment << 1, threads)
        elif back:
            self.defer(segment << 1, threads)
        else:
            self.push(segment << 1, threads)

    def defer(self, key: int, threads: Array) -> None:
        classes = self.classes[threads]
        for number in np.unique(classes).tolist():
            self.groups[number].defer(key, threads[classes == number])

    def _loop(self) -> None:
        switches = set(self.plan.switches)
        while (group := self._next()) is not None:
            self._segment(*group)
            if self.segments_run in switches:
                self.ranks.append(self.ranks.pop(0))
                self._retry()
            elif self.plan.eager and self.segments_run >= self._soon and self._noticed != self.version:
                self._noticed, self._soon = self.version, self.segments_run + _PAUSE
                self._retry()
            if self.segments_run > self.limits.segments or self.executed > self.limits.instructions:
                self._endless(group[1], group[0])

    def _next(self) -> tuple[int, Lanes] | None:
        """The group that runs now. Where only waiting is left: what polls tries again once anything changed, then held
        back copies arrive one by one, then the world outside moves on; None when all of that is over."""
        while True:
            for number in self.ranks:
                group = self.groups[number].pop()
                if group is not None:
                    return group
            if self._tried != self.version:
                self._tried, self._fruitless = self.version, 0
                if self._retry():
                    continue
            if self._wake() or self.environment():
                continue
            if self._may_change() and self._retry():
                continue
            self._report_waiting()
            return None

    def _retry(self) -> bool:
        """Let everything that polls run again; False when nothing does."""
        retried = [group.retry() for group in self.groups]
        return any(retried)

    def _may_change(self) -> bool:
        """Whether polling again can end: not if all registers are what they were when nothing had changed either."""
        self._fruitless += 1
        if self._fruitless > _RETRIES:
            return False
        check = 0
        for row in (*self.rows, self.carry):
            check = crc32(row.tobytes(), check)
        before, self._registers = self._registers, check
        return self._fruitless < 2 or check != before

    def _segment(self, key: int, lanes: Lanes) -> None:
        """Run one segment for one group, and whatever follows it as long as the group stays together alone."""
        code = self.code.segments
        alone = not any(g.heap for g in self.groups)
        while True:
            self.running = key >> 1
            segment = code[self.running]
            self.segments_run += 1
            if segment.gate is not None and not key & 1:
                passed = segment.gate(self, lanes, key)
                if passed is None:
                    return
                lanes = passed
            for step in segment.steps:
                step(self, lanes)
            self.executed += lanes.count * segment.weight
            follow = segment.leave(self, lanes)
            if follow is None:
                return
            if not alone or self.segments_run & 0x3FF == 0 or segment.polls:
                self.send(follow, lanes.threads)
                return
            key = follow << 1

    # --- ends -----------------------------------------------------------------------------------------------------

    def leave(self, threads: Array) -> None:
        """These threads are done."""
        self.alive[threads] = False
        self.living -= len(threads)
        self.version += 1
        self.barriers.left(self, threads)
        self.copies.left(self, threads)
        self.lent.left(self, threads)
        parked, self.parked = self.parked, {}
        for key, groups in parked.items():
            self.push(key, merged(groups))

    def _check_chain(self) -> None:
        """A grid of which any thread has waited is not complete before the launches before it are."""
        if self.shape.pdl and not self.plan.friendly and not self.waited and self.triggered.any():
            self.story.leaves(self, np.flatnonzero(self.triggered))

    def environment(self) -> bool:
        """Something outside moves on: a flag is set, or set to another number. False when nothing is left to happen."""
        return self.publish_flag() or self._renumber_flags()

    def _renumber_flags(self) -> bool:
        """Flags of which the contract gives no value: every number among the parameters is tried in turn."""
        if not self.numbers:
            return False
        number = self.numbers.pop(0)
        for region in self.memory.flags:
            region.data.view(np.uint32)[:] = number
        self.version += 1
        return True

    def publish_flag(self) -> bool:
        if not self.unpublished:
            return False
        region = self.unpublished.pop(0)
        raw = np.frombuffer(self.published_bytes[region.name], np.uint8)
        if region.role is Role.MAILBOX and region.name not in self.half_filled:
            # Every word of a mailbox arrives by itself: one of four comes last.
            self.half_filled.add(region.name)
            self.unpublished.insert(0, region)
            words = raw[: len(raw) // 4 * 4].view(np.uint32)
            first = np.flatnonzero(np.arange(len(words)) % 4 != self.plan.last_word)
            region.views[4][first] = words[first]
        else:
            region.data[: len(raw)] = raw
        self.version += 1
        return True

    def _wake(self) -> bool:
        """What was held back as long as possible happens now; False when nothing was."""
        return self.copies.deliver_next(self)

    def waiting(self) -> list[tuple[int, Array, str]]:
        """(program index, threads, what for) of everything that is held."""
        held = [
            (self.code.segments[key >> 1].start, merged(g), "the other lanes of its warp")
            for key, g in self.parked.items()
        ]
        return [*held, *self.barriers.waiting(self)]

    def _report_waiting(self) -> None:
        """Threads that nobody will ever wake: deadlock where they are held, livelock where they poll."""
        polling = [
            (self.code.segments[key >> 1].start, merged(groups), "a value that never comes")
            for g in self.groups
            for key, groups in g.deferred.items()
        ]
        for kind, held in ((HazardKind.LIVELOCK, polling), (HazardKind.DEADLOCK, self.waiting())):
            for index, threads, what in held:
                self.report(kind, index, threads, "", None, f"waits for {what}")

    def _endless(self, lanes: Lanes, key: int) -> None:
        self.report(
            HazardKind.ENDLESS, self.code.segments[key >> 1].start, lanes.threads, "", None,
            f"still running after {self.executed:,} thread-instructions in {self.segments_run:,} steps",
        )  # fmt: skip
        raise Stopped
