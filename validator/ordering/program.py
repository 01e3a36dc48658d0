"""The ISA-independent form of one kernel that every front end produces and every analysis reads.

A front end (`ordering.ptx`, `ordering.sass`, others later) turns a kernel into a `Program`:

* instructions numbered 0 … n-1 in text order (which is not execution order: only `blocks` say what follows),
* `events`: the few instructions that touch memory or order it,
* `definitions(i)` and `operation(i, register)`: data flow, asked for lazily: an audit needs only the slices that
  lead to addresses, branch conditions and barrier operands.

Rules and analyses never see PTX or SASS.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum, auto
from typing import NamedTuple, Protocol

from validator.binary.parameter import Parameter

__all__ = [
    "HARMLESS_CALLS",
    "Access",
    "Block",
    "Choice",
    "Const",
    "Direction",
    "Edge",
    "Event",
    "EventKind",
    "Guard",
    "Isa",
    "Level",
    "Line",
    "Op",
    "Operand",
    "Operation",
    "Order",
    "Parameter",
    "Program",
    "Reg",
    "Scope",
    "Space",
    "Special",
]


class Isa(StrEnum):
    PTX = "ptx"
    SASS = "sass"


class Space(StrEnum):
    """State space an access goes to (PTX ISA, "State spaces")."""

    GLOBAL = "global"
    SHARED = "shared"
    """Shared memory of this CTA."""
    CLUSTER = "shared::cluster"
    """Shared memory of any CTA of the cluster; never global memory, whatever the opcode looks like."""
    LOCAL = "local"
    CONST = "const"
    PARAM = "param"
    GENERIC = "generic"
    """Undecided by the instruction; the provenance of its address may decide it."""


class Direction(StrEnum):
    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"
    PREFETCH = "prefetch"


class Order(StrEnum):
    """Memory order of an access or a fence (PTX ISA, "Memory consistency model"); VOLATILE orders nothing."""

    WEAK = "weak"
    VOLATILE = "volatile"
    RELAXED = "relaxed"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"
    SC = "sc"


class Scope(IntEnum):
    """Ordered from narrow to wide, so `<` means narrower."""

    CTA = 1
    CLUSTER = 2
    GPU = 3
    SYS = 4


class EventKind(Enum):
    ACCESS = auto()
    """Plain load, store, atomic, reduction or prefetch: exactly one `Access`."""
    ASYNC_COPY = auto()
    """cp.async, bulk or tensor copy: one `Access` per memory side; `group` says how its completion is waited for."""
    GRID_WAIT = auto()
    """griddepcontrol.wait / ACQBULK."""
    GRID_TRIGGER = auto()
    """griddepcontrol.launch_dependents / PREEXIT."""
    BARRIER = auto()
    """CTA barrier: `barrier` names it, `arrives` and `waits` say which half it is (bar.sync does both)."""
    CLUSTER_BARRIER = auto()
    """barrier.cluster.arrive / .wait."""
    WARP_BARRIER = auto()
    """bar.warp.sync: orders the lanes of a warp."""
    MBARRIER_INIT = auto()
    MBARRIER_ARRIVE = auto()
    """May complete a phase: arrive, arrive.expect_tx, complete_tx, cp.async.mbarrier.arrive, tcgen05.commit."""
    MBARRIER_WAIT = auto()
    """test_wait / try_wait, acquire or relaxed; a loop around it is the wait."""
    ASYNC_COMMIT = auto()
    """Closes the group of asynchronous copies issued since the last commit."""
    ASYNC_WAIT = auto()
    """cp.async.wait_group, cp.async.bulk.wait_group[.read], wgmma.wait_group: `pending` groups may remain."""
    FENCE = auto()
    PROXY_FENCE = auto()
    """fence.proxy.async and its relatives."""
    ASYNC_READ = auto()
    """wgmma or tcgen05 that reads shared memory through the async proxy."""
    TENSOR_LOAD = auto()
    """tcgen05.ld: tensor memory into registers; done behind an ASYNC_WAIT of the same `group`."""
    TENSOR_STORE = auto()
    """tcgen05.st: registers into tensor memory, likewise."""
    CALL = auto()
    """A call whose body the program does not hold; `name` says what is called."""
    EXIT = auto()
    UNKNOWN = auto()
    """An instruction the front end does not know, or knows it cannot model. Never dropped."""


class Level(IntEnum):
    """What the address's bits were loaded from."""

    DIRECT = 1
    LOADED = 2


class Reg(NamedTuple):
    """A virtual register (PTX, its scope made unique) or a 32-bit one of SASS (`R2`, `UR4`, `P0`).

    A tuple, like what else is a key of every table: those are hashed and compared without any Python code.
    """

    name: str


class Const(NamedTuple):
    value: int


class Op(IntEnum):
    """Normalised operations. Anything else is OPAQUE with its operands kept, so that provenance survives it."""

    COPY = auto()
    """Also conversions that keep the bits that matter for an address (cvta, cvt.u64.u32, mov).

    attr == "cvta" when it turns a generic address into a global one (`cvta.to.global`): what goes through is a pointer.
    """
    ADD = auto()
    SUB = auto()
    MUL = auto()
    SHL = auto()
    SHR = auto()
    """Unsigned unless attr == "s"."""
    AND = auto()
    OR = auto()
    XOR = auto()
    NOT = auto()
    NEG = auto()
    MIN = auto()
    MAX = auto()
    DIV = auto()
    REM = auto()
    LOP3 = auto()
    """Three-input logic, attr = the 8-bit truth table."""
    SELECT = auto()
    """args = (if true, if false, predicate)."""
    COMPARE = auto()
    """attr = (relation, signed), relation in eq ne lt le gt ge; args[2] is combined by attr[2]: and, or, xor."""
    PARAM = auto()
    """Read of the parameter block: attr = (byte offset, bytes) in the whole block; args[0], if any, is added to it."""
    PARAM_ADDRESS = auto()
    """Address of the parameter block: attr = byte offset (tensor maps, by-value structs)."""
    SPECIAL = auto()
    """attr = a `Special`."""
    SYMBOL = auto()
    """Address of a variable: attr = (space, name, byte offset). Shared memory at an absolute address: name ""."""
    LOAD = auto()
    """Value loaded by the event at this instruction; attr = byte offset inside the loaded vector."""
    ATOMIC = auto()
    """Old value returned by the atomic at this instruction."""
    SHUFFLE = auto()
    """args = (value, source lane, clamp as PTX has it, absent: the whole warp); attr = mode ("idx", …) or None.

    Warp-uniform if the mode is idx, the source lane a constant and the clamp that of a whole warp.
    """
    VOTE = auto()
    """args = (predicate,): warp-uniform; attr in all any ballot uni."""
    ELECT = auto()
    """True in exactly one lane of the warp."""
    PACK = auto()
    """args from low to high; the value of a 64-bit address is in its parts."""
    EXTRACT = auto()
    """attr = (low bit, bits) of args[0]."""
    HIGH = auto()
    """Upper half of a 64-bit value whose lower half is args[0] (SASS): same provenance, no low bits."""
    MAPA = auto()
    """Shared-window address mapped to another CTA of the cluster."""
    RETURN = auto()
    """Result of a call that is not inlined."""
    OPAQUE = auto()
    """attr = opcode text."""


class Special(StrEnum):
    TID_X = "tid.x"
    TID_Y = "tid.y"
    TID_Z = "tid.z"
    LANE = "laneid"
    WARP = "warpid"
    NTID_X = "ntid.x"
    NTID_Y = "ntid.y"
    NTID_Z = "ntid.z"
    CTA = "ctaid"
    """Any CTA coordinate, grid size, cluster rank: the same for all threads of a CTA."""
    CLOCK = "clock"
    OTHER = "other"
    """Anything else; assume it varies from thread to thread."""


@dataclass(frozen=True, slots=True)
class Operation:
    """What a register was set to."""

    op: Op
    args: tuple[Operand, ...] = ()
    attr: object = None
    width: int = 32
    """Bits of the result, for wrap-around."""


Operand = Reg | Const | Operation


class Guard(NamedTuple):
    """Predicate an instruction executes under."""

    register: Reg
    negated: bool
    uniform: bool = False
    """SASS uniform predicate or PTX `.uni`: all threads of the warp agree."""


@dataclass(frozen=True, slots=True)
class Line:
    """Where an instruction stands."""

    text: int | None = None
    """1-based line of the PTX file."""
    pc: int | None = None
    """Byte offset in the kernel's machine code."""
    file: str | None = None
    """Source file, as the compiler recorded it (untrusted)."""
    line: int | None = None
    inlined_at: tuple[str, int] | None = None
    """Where the inlined function was called, outermost."""

    @property
    def source(self) -> str:
        """`file:line` of the source, with its folder where that is said relative to where it was compiled."""
        if self.file is None or self.line is None:
            return ""
        if self.inlined_at is not None:
            return str(self)
        path = self.file.replace("\\", "/")
        elsewhere = path.startswith("/") or ":" in path or ".." in path.split("/")
        return f"{path.rpartition('/')[2] if elsewhere else path.removeprefix('./')}:{self.line}"

    def __str__(self) -> str:
        """As a person would say it."""
        if self.file is not None and self.line is not None:
            name, called = self.file.replace("\\", "/").rpartition("/")[2], self.inlined_at
            inlined = f", inlined at {called[0].rpartition('/')[2]}:{called[1]}" if called else ""
            return f"{name}:{self.line}{inlined}"
        if self.pc is not None:
            return f"offset 0x{self.pc:x}"
        return f"line {self.text}" if self.text is not None else "an unknown place"


@dataclass(frozen=True, slots=True)
class Access:
    """One memory side of an event."""

    direction: Direction
    space: Space
    address: tuple[Operand, ...]
    """Summed: `[R2.64+UR4+0x10]` is (R2, UR4, Const(16)). Empty: the instruction does not say (treat as unresolved)."""
    bytes: int | None
    """Bytes one thread touches; None when not static."""
    tensormap: bool = False
    """The address is that of a TMA descriptor; the memory is what the descriptor maps."""


HARMLESS_CALLS = frozenset({"vprintf", "__assertfail", "__assert_fail", "malloc", "free", "cnpGetErrorName"})
"""Runtime functions that wait for nothing and touch no argument of the kernel but what they are handed to print."""


@dataclass(slots=True)
class Event:
    """An instruction that touches memory or orders it."""

    kind: EventKind
    index: int
    """Instruction index in the program."""
    opcode: str
    """As the disassembler or the PTX file prints it, without operands."""
    accesses: tuple[Access, ...] = ()
    guard: Guard | None = None
    order: Order = Order.WEAK
    scope: Scope | None = None
    noncoherent: bool = False
    """.nc / .CONSTANT: outside the memory model, ptxas may move it."""
    movable: bool = True
    """False when nothing may move this access across the wait (volatile, relaxed and stronger)."""
    barrier: tuple[Operand, ...] = ()
    """Barrier id (CTA barrier) or shared address (mbarrier), summed like an address; empty: barrier 0 or none."""
    thread_count: Operand | None = None
    """Threads that take part in a CTA barrier, None: all of the CTA. Arrivals that an MBARRIER_INIT asks for, or that
    an MBARRIER_ARRIVE counts as, None: one."""
    arrives: bool = True
    """False: an MBARRIER_ARRIVE that only announces bytes (`expect_tx`)."""
    waits: bool = True
    announces: bool = False
    """MBARRIER_ARRIVE: it adds bytes to what the phase waits for."""
    amount: Operand | None = None
    """Bytes that an MBARRIER_ARRIVE announces, or that a bulk copy brings; None: the instruction does not say."""
    aligned: bool = False
    """Barrier that needs all threads of the warp to execute it together."""
    parity: Operand | None = None
    """Phase parity a test_wait / try_wait asks for, 0 or 1 (SASS: moved down from bit 31); None: uses a token."""
    result: Reg | None = None
    """Predicate or register that says whether the wait succeeded."""
    group: str | None = None
    """`cp.async`, `bulk`, `mbarrier`, `wgmma`, `tcgen05`, `tcgen05.ld`, `tcgen05.st`: how completion of an asynchronous
    operation is observed; in machine code the scoreboards of a load follow, of which any will do (`tcgen05.ld.2.3`)."""
    pending: int | None = None
    """ASYNC_WAIT: groups that may still be in flight afterwards."""
    read_only: bool = False
    """ASYNC_WAIT .read: only the source has been read."""
    proxy: str | None = None
    """PROXY_FENCE: `async`, `async.shared::cta`, `async.global`, `tensormap`, `alias`."""
    name: str = ""
    """CALL: callee; UNKNOWN: what was not understood, in words."""
    value: tuple[Operand, ...] = ()
    """What a store, a reduction or an atomic writes, element by element; empty when the front end does not say."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What an indirect branch picks its target by."""

    operand: Operand
    """The place in its table, as `index` reads it: a number of targets, or of bytes."""
    index: int
    """The instruction that reads it."""
    values: frozenset[int]
    """Places at which the table says this target."""


@dataclass(frozen=True, slots=True)
class Edge:
    target: int
    """Block number."""
    condition: Guard | None = None
    """Taken when the guard holds; None: unconditional or undecided (indirect branch)."""
    also: Guard | None = None
    """A second guard that must hold too (`@P0 BRA P1`)."""
    either: bool = False
    """One of the two guards is enough: the other side of such a branch."""
    choice: Choice | None = None
    """Of an indirect branch whose table is known."""

    @property
    def guards(self) -> tuple[Guard, ...]:
        return tuple(g for g in (self.condition, self.also) if g is not None)


@dataclass(slots=True)
class Block:
    """Instructions [start, stop) with one entry and one exit."""

    start: int
    stop: int
    successors: tuple[Edge, ...] = ()


class Program(Protocol):
    """One kernel. Everything is read-only here; a front end may compute it when it is first asked for."""

    @property
    def isa(self) -> Isa: ...

    @property
    def name(self) -> str:
        """Mangled."""
        ...

    @property
    def arch(self) -> str:
        """`sm_90a`, …"""
        ...

    @property
    def parameters(self) -> Sequence[Parameter]: ...

    @property
    def blocks(self) -> Sequence[Block]:
        """blocks[0] is the entry. Unreachable blocks may be present."""
        ...

    @property
    def events(self) -> Sequence[Event]:
        """In text order."""
        ...

    @property
    def block_size(self) -> tuple[int, int, int] | None:
        """.reqntid or EIATTR_REQNTID, when the binary fixes it."""
        ...

    @property
    def max_block_size(self) -> int | None: ...

    @property
    def unknown(self) -> Mapping[str, int]:
        """Opcodes the front end does not know → count; each occurrence that may matter is also an UNKNOWN event."""
        ...

    def definitions(self, index: int) -> Iterable[Reg]:
        """Registers that instruction `index` writes (guarded writes too)."""
        ...

    def guard(self, index: int) -> Guard | None:
        """Predicate of instruction `index`."""
        ...

    def keeps_under(self, index: int) -> Guard | None:
        """The predicate without which what instruction `index` writes stays as it was; None: it always writes."""
        ...

    def operation(self, index: int, register: Reg) -> Operation:
        """What instruction `index` sets `register` to."""
        ...

    def line(self, index: int) -> Line:
        """Where instruction `index` stands."""
        ...

    def text(self, index: int) -> str:
        """The instruction as the file or the disassembler prints it, one line."""
        ...
