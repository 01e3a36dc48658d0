"""`validator/check/1`: the check result as JSON. Sorted, ASCII, no absolute path and no time outside `environment`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from validator.policy.model import EvidencePolicy
from validator.report.glance import Kernel, kernels_at_a_glance
from validator.text import well_formed
from validator.verdict.model import Evidence, Finding, Location, Obligation, Status
from validator.verdict.result import CheckResult, where_to_look

if TYPE_CHECKING:
    from validator.change.model import Change, FileChange
    from validator.report.documents import (
        ChangeDocument,
        CheckDocument,
        EvidenceDocument,
        FileDocument,
        FindingDocument,
        KernelDocument,
        LocationDocument,
        ManifestDocument,
        ObligationDocument,
    )

__all__ = ["check_document", "clean", "finding_document", "render_json", "to_json"]


def render_json(result: CheckResult) -> str:
    """The whole document as text that ends in a newline."""
    return to_json(check_document(result))


def to_json(document: Any) -> str:
    """ASCII JSON, whatever the strings hold: no control characters, no lone surrogates."""
    return json.dumps(clean(document), indent=2, ensure_ascii=True).replace("\x7f", "\\u007f") + "\n"


def clean(value: Any) -> Any:
    """The value with every string made encodable."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        return {well_formed(str(k)): clean(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [clean(v) for v in value]
    return value


def check_document(result: CheckResult) -> CheckDocument:
    """The result in the shape of `validator schema check`."""
    policy = result.policy
    return {
        "schema": "validator/check/1",
        "verdict": result.verdict.value,
        "reason": result.reason,
        "change": _change(result.change),
        "policy": {
            "name": policy.name if policy else None,
            "source": result.policy_source,
            "digest": result.policy_digest,
            "evidence_days": policy.evidence.max_days if policy else EvidencePolicy().max_days,
        },
        "manifest": _manifest(result),
        "kernels": [_kernel(k) for k in kernels_at_a_glance(result)],
        "obligations": [_obligation(o) for o in sorted(result.obligations, key=lambda o: o.id)],
        "evidence": [_evidence(e) for e in sorted(result.evidence, key=lambda e: e.id)],
        "findings": [finding_document(f) for f in sorted(result.findings, key=lambda f: f.id)],
        "waivers": [
            {
                "finding": w.finding,
                "owner": w.owner,
                "reason": w.reason,
                "link": w.link,
                "created": w.created.isoformat(),
                "expires": w.expires.isoformat(),
                "applied": w.applied,
                "notes": list(w.notes),
            }
            for w in result.waivers
        ],
        "not_covered": list(result.not_covered),
        "assumptions": list(result.assumptions),
        "look": [{"path": p.path, "line": p.line, "kernel": p.kernel, "why": p.why} for p in where_to_look(result)],
        "seed": result.seed,
        "reproduce": result.reproduce,
        "environment": cast("Any", asdict(result.environment)),
    }


def _change(change: Change) -> ChangeDocument:
    return {
        "base": change.base,
        "head": change.head,
        "merge_base": change.merge_base,
        "tree": change.tree,
        "base_ref": change.base_ref,
        "head_ref": change.head_ref,
        "added": change.added,
        "deleted": change.deleted,
        "files": [_file(f) for f in sorted(change.files, key=lambda f: f.path)],
        "shallow": change.shallow,
        "notes": list(change.notes),
    }


def _file(file: FileChange) -> FileDocument:
    return {
        "path": file.path,
        "status": file.status.value,
        "old_path": file.old_path,
        "kind": file.kind.value,
        "old_mode": f"{file.old_mode:06o}" if file.old_mode else None,
        "new_mode": f"{file.new_mode:06o}" if file.new_mode else None,
        "added": file.added,
        "deleted": file.deleted,
        "binary": file.binary,
        "bytes": file.size,
        "line": file.first_line,
    }


def _manifest(result: CheckResult) -> ManifestDocument | None:
    if result.manifest_path is None:
        return None
    declared = result.manifest.model_dump(mode="json", by_alias=True) if result.manifest else None
    return {"path": result.manifest_path, "digest": result.manifest_digest or "", "declared": declared}


def _kernel(kernel: Kernel) -> KernelDocument:
    return {
        "match": kernel.match,
        "pdl": kernel.pdl,
        "arguments": dict(kernel.arguments),
        "audits": [e.id for e in kernel.audits],
        "status": kernel.status.outcome,
    }


def _obligation(obligation: Obligation) -> ObligationDocument:
    document: ObligationDocument = {
        "id": obligation.id,
        "statement": obligation.statement,
        "status": obligation.status.outcome,
        "reason": obligation.reason,
        "strength": obligation.strength.value if obligation.strength else None,
        "evidence": sorted(obligation.evidence),
        "findings": sorted(obligation.findings),
        "denial": obligation.denial,
    }
    if obligation.status is Status.NOT_ASKED:
        document["asked"] = False
    return document


def _evidence(evidence: Evidence) -> EvidenceDocument:
    return {
        "id": evidence.id,
        "kind": evidence.kind,
        "status": evidence.status.outcome,
        "strength": evidence.strength.value,
        "summary": evidence.summary,
        "inputs": dict(sorted(evidence.inputs.items())),
        "figures": dict(sorted(evidence.figures.items())),
        "not_covered": list(evidence.not_covered),
        "assumptions": list(evidence.assumptions),
        "details": evidence.details,
    }


def _location(where: Location) -> LocationDocument:
    return {
        "path": where.path,
        "line": where.line,
        "end_line": where.end_line,
        "pc": where.pc,
        "kernel": where.kernel,
        "source": where.source or None,
    }


def finding_document(finding: Finding) -> FindingDocument:
    """One finding as every document shows it."""
    return {
        "id": finding.id,
        "rule": finding.rule,
        "severity": finding.severity.value,
        "status": finding.status.outcome,
        "message": finding.message,
        "where": _location(finding.where),
        "why": finding.why,
        "fix": finding.fix,
        "steps": list(finding.steps),
        "count": finding.count,
        "others": [_location(o) for o in finding.others],
        # Only where the document says it as it is: an id has to follow from it.
        "identity": list(finding.identity) if all(well_formed(i) == i for i in finding.identity) else [],
    }
