"""The machine-readable documents as types: builders are checked against them, JSON Schemas are made from them."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict  # pydantic reads class-level settings from this one only, before Python 3.12

from validator.verdict.model import Outcome

__all__ = [
    "BundleDocument",
    "ChangeDocument",
    "CheckDocument",
    "EnvironmentDocument",
    "EvidenceDocument",
    "FileDocument",
    "FindingDocument",
    "KernelDocument",
    "LocationDocument",
    "ManifestDocument",
    "ObligationDocument",
    "PlaceDocument",
    "PolicyDocument",
    "WaiverDocument",
]

_closed = with_config(ConfigDict(extra="forbid"))

StatusName = Outcome
StrengthName = Literal[
    "proof-on-machine-code",
    "proof-on-ptx",
    "run-on-gpu",
    "ptx-run-on-cpu",
    "run-of-cpu-model",
    "read-from-source",
    "declared-only",
]


@_closed
class FileDocument(TypedDict):
    """One changed path."""

    path: str
    status: str
    old_path: str | None
    kind: str
    old_mode: str | None
    new_mode: str | None
    added: int
    deleted: int
    binary: bool
    bytes: int | None
    line: int | None
    """First changed line at the head."""


@_closed
class ChangeDocument(TypedDict):
    """Resolved commits and what changed between them."""

    base: str
    head: str
    merge_base: str
    tree: str
    """Git tree of the head; empty: not known."""
    base_ref: str
    head_ref: str
    added: int
    deleted: int
    files: list[FileDocument]
    shallow: bool
    notes: list[str]


@_closed
class PolicyDocument(TypedDict):
    """Which policy judged."""

    name: str | None
    source: str
    digest: str
    evidence_days: int
    """How long the policy lets evidence count."""


@_closed
class ManifestDocument(TypedDict):
    """What the change says of itself; `declared` follows `validator schema manifest`, null when it cannot be read."""

    path: str
    digest: str
    declared: dict[str, Any] | None


@_closed
class ObligationDocument(TypedDict):
    id: str
    statement: str
    status: StatusName
    reason: str
    strength: StrengthName | None
    evidence: list[str]
    findings: list[str]
    denial: str
    """What is the case where it is refuted; empty: that the statement does not hold."""
    asked: NotRequired[bool]
    """False: it is unproven and the policy does not ask for it. Absent: it does."""


@_closed
class EvidenceDocument(TypedDict):
    id: str
    kind: str
    status: StatusName
    strength: StrengthName
    summary: str
    inputs: dict[str, str]
    figures: dict[str, int | float | str]
    not_covered: list[str]
    assumptions: list[str]
    details: dict[str, Any]


@_closed
class LocationDocument(TypedDict):
    path: str
    line: int | None
    end_line: int | None
    pc: int | None
    kernel: str | None
    source: str | None


@_closed
class FindingDocument(TypedDict):
    id: str
    rule: str
    severity: Literal["error", "unproven", "warning", "note"]
    status: StatusName
    message: str
    where: LocationDocument
    why: str
    fix: str
    steps: list[str]
    count: int
    others: list[LocationDocument]
    identity: list[str]


@_closed
class WaiverDocument(TypedDict):
    finding: str
    owner: str
    reason: str
    link: str
    created: str
    expires: str
    applied: bool
    notes: list[str]


@_closed
class KernelDocument(TypedDict):
    """One kernel of the manifest at a glance."""

    match: str
    pdl: bool | None
    arguments: dict[str, str]
    audits: list[str]
    status: StatusName


@_closed
class PlaceDocument(TypedDict):
    path: str
    line: int | None
    kernel: str | None
    why: str


@_closed
class EnvironmentDocument(TypedDict):
    """The only part that may differ between two runs over the same input."""

    validator: str
    python: str
    platform: str
    repository: str
    started: str
    seconds: float
    tools: dict[str, str]


@_closed
class CheckDocument(TypedDict):
    schema: Literal["validator/check/1"]
    verdict: Literal["pass", "fail", "unproven"]
    reason: str
    change: ChangeDocument
    policy: PolicyDocument
    manifest: ManifestDocument | None
    kernels: list[KernelDocument]
    obligations: list[ObligationDocument]
    evidence: list[EvidenceDocument]
    findings: list[FindingDocument]
    waivers: list[WaiverDocument]
    not_covered: list[str]
    assumptions: list[str]
    look: list[PlaceDocument]
    seed: int
    reproduce: str
    environment: EnvironmentDocument


@_closed
class BundleFileDocument(TypedDict):
    sha256: str
    bytes: int
    kind: Literal["result", "environment", "summary", "input", "counterexample", "excerpt", "log"]


@_closed
class BundleDocument(TypedDict):
    """`bundle.json`: what lies in a bundle's folder."""

    schema: Literal["validator/bundle/2"]
    id: str
    verdict: Literal["pass", "fail", "unproven"]
    files: dict[str, BundleFileDocument]
