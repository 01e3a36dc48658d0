"""`validator/audit/1` as types: the builder is checked against them, the JSON Schema is made from them."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict  # pydantic reads class-level settings from this one only, before Python 3.12

from validator.report.documents import FindingDocument, StatusName

__all__ = [
    "AccessDocument",
    "AuditDocument",
    "AuditEnvironmentDocument",
    "DriftDocument",
    "KernelAuditDocument",
    "ParamDocument",
    "SkippedDocument",
    "SourceDocument",
    "WaitDocument",
]

_closed = with_config(ConfigDict(extra="forbid"))

AccessName = Literal["read", "write", "atomic", "async-copy", "prefetch"]


@_closed
class ParamDocument(TypedDict):
    """A kernel parameter that an address came from."""

    index: int
    offset: int
    """Byte offset inside the parameter."""
    name: str
    chain: list[int | None]
    """Byte offsets at which further pointers were loaded."""


@_closed
class SourceDocument(TypedDict):
    file: str
    line: int


@_closed
class AccessDocument(TypedDict):
    """Static instructions that do the same thing to the same memory."""

    access: AccessName
    param: ParamDocument | list[ParamDocument] | None
    """A list when several sources are possible, null when none is known."""
    role: str | None
    allowed: bool
    count: int
    level: int
    pc: int | None
    """Byte offset of the first one in the machine code."""
    line: int | None
    """Line of the first one in the PTX."""
    source: SourceDocument | None
    instruction: str
    reason: str


@_closed
class WaitDocument(TypedDict):
    kind: str
    text: str
    pc: int | None
    line: int | None
    source: SourceDocument | None


@_closed
class KernelAuditDocument(TypedDict):
    name: str
    demangled: str
    artifact: str
    isa: Literal["ptx", "sass"]
    arch: str
    status: StatusName
    reasons: list[str]
    pdl: bool | None
    grid_waits: int
    triggers: int
    waits: list[WaitDocument]
    early: list[AccessDocument]
    movable: list[AccessDocument]
    findings: list[FindingDocument]
    unresolved: int
    unknown: dict[str, int]
    assumptions: list[str]
    digest: str


@_closed
class SkippedDocument(TypedDict):
    artifact: str
    reason: str
    fix: str


@_closed
class DriftDocument(TypedDict):
    """What changed since an earlier audit, each a sentence; all lists empty: nothing did."""

    appeared: list[str]
    vanished: list[str]
    status: list[str]
    new_early: list[str]
    gone_early: list[str]
    lost_prefetch: list[str]


@_closed
class AuditEnvironmentDocument(TypedDict):
    """The only part that may differ between two runs over the same input."""

    validator: str
    tools: dict[str, str]


@_closed
class AuditDocument(TypedDict):
    schema: Literal["validator/audit/1"]
    verdict: Literal["pass", "fail", "unproven"]
    reason: str
    totals: dict[str, int]
    """Outcome → kernels."""
    kernels: list[KernelAuditDocument]
    skipped: list[SkippedDocument]
    findings: list[FindingDocument]
    """Findings over the whole set."""
    not_covered: list[str]
    drift: DriftDocument | None
    environment: AuditEnvironmentDocument
