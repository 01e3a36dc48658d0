"""What an ordering audit says: one object, rendered by every format, computed before any of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from validator.binary.skipped import Skipped
from validator.manifest.roles import Role
from validator.ordering.program import Isa, Line, Parameter
from validator.verdict.model import Finding, Status

__all__ = ["AccessRow", "Audit", "Excerpt", "KernelAudit", "ParamRef", "Skipped", "WaitRow"]


@dataclass(frozen=True, slots=True)
class ParamRef:
    """Where a pointer came from."""

    index: int
    """Kernel parameter, from 0."""
    offset: int
    """Byte offset inside that parameter, 0 for a plain pointer."""
    name: str
    """Name from the contract (field name included), else from the artifact, else `arg<index>+<offset>`."""
    chain: tuple[int | None, ...] = ()
    """Byte offsets (None: not constant) at which further pointers were loaded; empty for level 1."""
    block_offset: int = 0
    """Byte offset in the whole parameter block, as `EIATTR_KPARAM_INFO` counts it."""


@dataclass(frozen=True, slots=True)
class AccessRow:
    """A group of static instructions that do the same thing to the same memory."""

    access: str
    """read, write, atomic, async-copy, prefetch."""
    params: tuple[ParamRef, ...]
    """Several when several sources are possible, empty when unresolved."""
    role: Role | None
    allowed: bool
    count: int
    """Static instructions."""
    level: int
    """1: the parameter is the pointer; 2: through a pointer loaded from memory; and so on."""
    instruction: str
    """Opcode as printed."""
    lines: tuple[Line, ...]
    """Where, one per static instruction."""
    noncoherent: bool = False
    reason: str = ""
    """Why it is allowed, or why not."""


@dataclass(frozen=True, slots=True)
class WaitRow:
    """One thing that orders this kernel behind its predecessors."""

    kind: str
    """grid-wait, barrier, cluster-barrier, mbarrier, flag, mailbox, async-group."""
    line: Line
    text: str
    """In words: "all threads", "threads 0 to 31, the others through barrier 1"."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The code around a finding."""

    finding: str
    """Its id."""
    at: str
    """Where, in words."""
    text: str
    """Instructions in text order, one a line, each behind its offset or line."""
    mark: int
    """Which line is meant, from 0."""


@dataclass(frozen=True, slots=True)
class KernelAudit:
    """The audit of one kernel in one artifact."""

    name: str
    """Mangled."""
    demangled: str
    artifact: str
    """Path as given, `!`-separated inside archives; untrusted text."""
    isa: Isa
    arch: str
    status: Status
    reasons: tuple[str, ...]
    """Why it is unproven or refuted, or what the proof rests on; first the one that decides."""
    waits: tuple[WaitRow, ...] = ()
    wait_count: int = 0
    """Static grid waits."""
    trigger_count: int = 0
    early: tuple[AccessRow, ...] = ()
    """Everything reachable before an ordering wait, allowed or not."""
    movable: tuple[AccessRow, ...] = ()
    """Non-coherent loads of memory that is not static and that stand behind the wait here."""
    accesses: tuple[AccessRow, ...] = ()
    """All global accesses by parameter, for the summary."""
    findings: tuple[Finding, ...] = ()
    unresolved: int = 0
    """Static global accesses whose address has no known source."""
    unknown: dict[str, int] = field(default_factory=dict)
    """Opcodes not understood → count."""
    assumptions: tuple[str, ...] = ()
    digest: str = ""
    """sha256 of the kernel's own text (PTX) or machine code."""
    pdl: bool | None = None
    """As the contract says the kernel is launched."""
    parameters: tuple[Parameter, ...] = ()
    """As the artifact declares them, in order: what a contract has to name."""
    resources: dict[str, int] = field(default_factory=dict)
    """What the kernel takes of the hardware, where the artifact says so: registers, stack bytes, shared bytes."""
    always_waits: bool = False
    """Every path of every block passes a grid wait: the grid cannot complete before its predecessor has."""
    triggers_early: bool = False
    """A trigger can be reached before the wait: the successor may overlap with launches further back."""
    excerpts: tuple[Excerpt, ...] = ()
    """Of the first findings that decide something."""


@dataclass(frozen=True, slots=True)
class Audit:
    """Everything one `validator audit` run found, sorted by artifact and kernel."""

    kernels: tuple[KernelAudit, ...]
    skipped: tuple[Skipped, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Findings over the whole set: steps, moved accesses, patterns that stand elsewhere too."""
    tools: dict[str, str] = field(default_factory=dict)
    """Tool → version that took part."""
