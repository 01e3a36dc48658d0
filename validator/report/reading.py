"""A check result read back from its document, so that every format renders a bundle as it rendered the run.

The document is untrusted: it is checked against its schema first. What older versions did not write yet is filled in
(`_ADDED`), so that their bundles stay readable; a schema that is not known here is refused, never guessed at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from validator.change.model import Change, ChangeError, ChangeStatus, Entry, FileChange, FileKind, Hunk
from validator.errors import Problem
from validator.manifest.model import Manifest
from validator.policy.model import EvidencePolicy, Policy
from validator.report.documents import (
    ChangeDocument,
    CheckDocument,
    EvidenceDocument,
    FileDocument,
    FindingDocument,
    LocationDocument,
)
from validator.verdict.bundle import ENVIRONMENT, RESULT, BundleError, load_bundle
from validator.verdict.model import Evidence, Finding, Location, Obligation, Severity, Status, Strength, Verdict
from validator.verdict.result import CheckResult, Environment, WaiverUse

__all__ = ["MAX_BYTES", "read_document", "read_result", "result_of"]

MAX_BYTES = 1 << 30
"""Of a result that is read at all."""

SCHEMA = "validator/check/1"

_ADDED: dict[tuple[str, ...], dict[str, Any]] = {
    ("change",): {"tree": ""},
    ("change", "files", "*"): {"line": None},
    ("policy",): {"evidence_days": EvidencePolicy().max_days},
    ("evidence", "*"): {"details": {}},
    ("obligations", "*"): {"denial": ""},
    ("findings", "*"): {"identity": []},
    ("findings", "*", "where"): {"source": None},
    ("findings", "*", "others", "*"): {"source": None},
}
"""Where in a document → keys that the first bundles do not have, and what they mean there."""


def read_result(folder: Path) -> CheckResult:
    """The result that a bundle holds. Raises `BundleError` when there is none that can be read."""
    return result_of(read_document(folder))


def read_document(folder: Path) -> CheckDocument:
    """`validator/check/1` of a bundle, environment included. Raises `BundleError`."""
    load_bundle(folder)
    raw = _load(folder / RESULT)
    if raw.get("schema") != SCHEMA:
        hint = f"this version reads {SCHEMA}; a newer validator may have written it"
        raise BundleError(Problem(f"has schema {raw.get('schema')!r}", str(folder / RESULT), hint))
    raw["environment"] = _load(folder / ENVIRONMENT)
    for path, defaults in _ADDED.items():
        for place in _at(raw, path):
            for key, value in defaults.items():
                place.setdefault(key, value)
    try:
        return TypeAdapter(CheckDocument).validate_python(raw)
    except ValidationError as error:
        raise BundleError(
            *(
                Problem(e["msg"].lower(), f"{folder / RESULT}: {'.'.join(map(str, e['loc']))}")
                for e in error.errors(include_url=False)[:20]
            )
        ) from None


def _load(path: Path) -> dict[str, Any]:
    try:
        if path.is_symlink() or path.stat().st_size > MAX_BYTES:
            raise BundleError(Problem("is a link, or larger than 1 GiB", str(path)))
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise BundleError(Problem(f"cannot be read ({error.strerror})", str(path))) from None
    except (ValueError, RecursionError) as error:
        raise BundleError(Problem(f"is not JSON ({error})", str(path))) from None
    if not isinstance(value, dict):
        raise BundleError(Problem("is no JSON object", str(path)))
    return value


def _at(value: Any, path: Sequence[str]) -> list[dict[str, Any]]:
    """The objects at a path in which `*` means every member of a list."""
    if not path:
        return [value] if isinstance(value, dict) else []
    first, rest = path[0], path[1:]
    if first == "*":
        return [found for item in value for found in _at(item, rest)] if isinstance(value, list) else []
    return _at(value.get(first), rest) if isinstance(value, dict) else []


class _Away:
    """The tree of a revision that is not at hand: only its document is."""

    def __init__(self, revision: str) -> None:
        self.revision = revision

    def entry(self, path: str) -> Entry | None:
        return None

    def list(self, prefix: str = "") -> Sequence[Entry]:
        return ()

    def names(self, folder: str = "") -> Sequence[str]:
        return ()

    def read(self, path: str, limit: int = 0) -> bytes:
        raise ChangeError(Problem("is not part of the bundle", path))


@dataclass(frozen=True, slots=True)
class _Recorded(Finding):
    """A finding of an old document, which kept its id and not what the id is made of."""

    recorded: str = ""

    @property
    def id(self) -> str:
        return self.recorded


def result_of(document: CheckDocument) -> CheckResult:
    """The object behind a document: `check_document` of it gives the same document again."""
    policy, manifest = document["policy"], document["manifest"]
    return CheckResult(
        change=_change(document["change"]),
        policy=_policy(policy["name"], policy["evidence_days"]),
        policy_digest=policy["digest"],
        policy_source=policy["source"],
        manifest=_manifest(manifest["declared"]) if manifest else None,
        manifest_path=manifest["path"] if manifest else None,
        manifest_digest=manifest["digest"] or None if manifest else None,
        obligations=tuple(
            Obligation(
                o["id"],
                o["statement"],
                Status.of(o["status"], o.get("asked", True)),
                o["reason"],
                tuple(o["evidence"]),
                tuple(o["findings"]),
                Strength(o["strength"]) if o["strength"] else None,
                o["denial"],
            )
            for o in document["obligations"]
        ),
        evidence=tuple(map(_evidence, document["evidence"])),
        findings=tuple(map(_finding, document["findings"])),
        waivers=tuple(
            WaiverUse(
                w["finding"],
                w["owner"],
                w["reason"],
                w["link"],
                _day(w["created"]),
                _day(w["expires"]),
                w["applied"],
                tuple(w["notes"]),
            )
            for w in document["waivers"]
        ),
        verdict=Verdict(document["verdict"]),
        reason=document["reason"],
        not_covered=tuple(document["not_covered"]),
        assumptions=tuple(document["assumptions"]),
        seed=document["seed"],
        reproduce=document["reproduce"],
        environment=Environment(**cast("dict[str, Any]", document["environment"])),
    )


def _policy(name: str | None, days: int) -> Policy | None:
    return None if name is None else Policy(name=name, evidence=EvidencePolicy(max_days=days))


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise BundleError(Problem("is no date", text[:40])) from None


def _manifest(declared: Mapping[str, Any] | None) -> Manifest | None:
    if declared is None:
        return None
    try:
        return Manifest.model_validate(declared)
    except ValidationError as error:
        raise BundleError(
            *(
                Problem(e["msg"].lower(), f"manifest: {'.'.join(map(str, e['loc']))}")
                for e in error.errors(include_url=False)[:20]
            )
        ) from None


def _change(change: ChangeDocument) -> Change:
    base, head, merge_base = (_Away(change[key]) for key in ("base", "head", "merge_base"))
    return Change(
        base=change["base"],
        head=change["head"],
        merge_base=change["merge_base"],
        files=tuple(map(_file, change["files"])),
        base_tree=base,
        merge_base_tree=merge_base,
        head_tree=head,
        base_ref=change["base_ref"],
        head_ref=change["head_ref"],
        shallow=change["shallow"],
        notes=tuple(change["notes"]),
        tree=change["tree"],
    )


def _file(file: FileDocument) -> FileChange:
    try:
        status, kind = ChangeStatus(file["status"]), FileKind(file["kind"])
        modes = [int(file[key] or "0", 8) for key in ("old_mode", "new_mode")]
    except ValueError as error:
        raise BundleError(Problem(f"cannot be read ({error})", f"change.files: {file['path'][:200]}")) from None
    line = file["line"]
    return FileChange(
        path=file["path"],
        status=status,
        old_path=file["old_path"],
        old_mode=modes[0],
        new_mode=modes[1],
        added=file["added"],
        deleted=file["deleted"],
        binary=file["binary"],
        kind=kind,
        size=file["bytes"],
        hunks=(Hunk(line, 0, line, 1),) if line else (),
    )


def _evidence(evidence: EvidenceDocument) -> Evidence:
    return Evidence(
        evidence["id"],
        evidence["kind"],
        Strength(evidence["strength"]),
        evidence["summary"],
        Status(evidence["status"]),
        evidence["inputs"],
        evidence["figures"],
        tuple(evidence["not_covered"]),
        tuple(evidence["assumptions"]),
        evidence["details"],
    )


def _location(where: LocationDocument) -> Location:
    return Location(
        where["path"], where["line"], where["end_line"], where["pc"], where["kernel"], where["source"] or ""
    )


def _finding(finding: FindingDocument) -> Finding:
    made = Finding(
        rule=finding["rule"],
        severity=Severity(finding["severity"]),
        message=finding["message"],
        where=_location(finding["where"]),
        why=finding["why"],
        fix=finding["fix"],
        steps=tuple(finding["steps"]),
        identity=tuple(finding["identity"]),
        count=finding["count"],
        others=tuple(map(_location, finding["others"])),
        status=Status(finding["status"]),
    )
    if made.id == finding["id"]:
        return made
    fields: dict[str, Any] = {name: getattr(made, name) for name in Finding.__dataclass_fields__}
    return _Recorded(**fields, recorded=finding["id"])
