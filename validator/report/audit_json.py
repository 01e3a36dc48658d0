"""`validator/audit/1`: an ordering audit as JSON, streamed kernel by kernel.

Sorted, ASCII, no absolute path and no time; only `environment` may differ between two runs over the same input.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from validator import __version__
from validator.ordering.program import Line
from validator.ordering.result import AccessRow, Audit, KernelAudit, ParamRef, WaitRow
from validator.report.audit_words import headline, not_covered, verdict_of
from validator.report.json import clean, finding_document
from validator.verdict.model import Finding

if TYPE_CHECKING:
    from validator.report.audit_document import (
        AccessDocument,
        AuditDocument,
        DriftDocument,
        KernelAuditDocument,
        ParamDocument,
        SourceDocument,
        WaitDocument,
    )
    from validator.report.documents import FindingDocument

__all__ = ["audit_document", "stream_audit_json"]


def stream_audit_json(audit: Audit, drift: DriftDocument | None = None) -> Iterator[str]:
    """The document in pieces, one kernel at a time: a library of thousands is never held as text."""
    frame = _frame(audit, drift)
    yield "{"
    separator = "\n"
    for key, value in frame.items():
        yield f"{separator}  {json.dumps(key)}: "
        separator = ",\n"
        if key == "kernels":
            yield from _list(_kernel(k) for k in _sorted(audit))
        else:
            yield _indented(value, 2)
    yield "\n}\n"


def audit_document(audit: Audit, drift: DriftDocument | None = None) -> AuditDocument:
    """The audit in the shape of `validator schema audit`."""
    return cast("AuditDocument", _frame(audit, drift) | {"kernels": [_kernel(k) for k in _sorted(audit)]})


def _frame(audit: Audit, drift: DriftDocument | None) -> dict[str, Any]:
    totals = Counter(k.status.value for k in audit.kernels)
    return {
        "schema": "validator/audit/1",
        "verdict": verdict_of(audit).value,
        "reason": headline(audit),
        "totals": {status: totals[status] for status in sorted(totals)},
        "kernels": [],
        "skipped": [
            {"artifact": s.artifact, "reason": s.reason, "fix": s.fix}
            for s in sorted(audit.skipped, key=lambda s: (s.artifact, s.reason))
        ],
        "findings": _findings(audit.findings),
        "not_covered": not_covered(audit),
        "drift": drift,
        "environment": {"validator": __version__, "tools": dict(sorted(audit.tools.items()))},
    }


def _list(items: Iterator[KernelAuditDocument]) -> Iterator[str]:
    empty = True
    for item in items:
        yield f"{'[' if empty else ','}\n    {_indented(item, 4)}"
        empty = False
    yield "[]" if empty else "\n  ]"


def _indented(value: Any, by: int) -> str:
    text = json.dumps(clean(value), indent=2, ensure_ascii=True).replace("\x7f", "\\u007f")
    return text.replace("\n", "\n" + " " * by)


def _sorted(audit: Audit) -> list[KernelAudit]:
    return sorted(audit.kernels, key=lambda k: (k.artifact, k.name, k.isa.value, k.arch, k.digest))


def _kernel(kernel: KernelAudit) -> KernelAuditDocument:
    return {
        "name": kernel.name,
        "demangled": kernel.demangled,
        "artifact": kernel.artifact,
        "isa": kernel.isa.value,
        "arch": kernel.arch,
        "status": kernel.status.outcome,
        "reasons": list(kernel.reasons),
        "pdl": kernel.pdl,
        "grid_waits": kernel.wait_count,
        "triggers": kernel.trigger_count,
        "waits": [_wait(w) for w in kernel.waits],
        "early": _rows(kernel.early),
        "movable": _rows(kernel.movable),
        "findings": _findings(kernel.findings),
        "unresolved": kernel.unresolved,
        "unknown": dict(sorted(kernel.unknown.items())),
        "assumptions": list(kernel.assumptions),
        "digest": kernel.digest,
    }


def _findings(findings: tuple[Finding, ...]) -> list[FindingDocument]:
    return [finding_document(f) for f in sorted(findings, key=lambda f: f.id)]


def _rows(rows: tuple[AccessRow, ...]) -> list[AccessDocument]:
    documents = [_row(row) for row in rows]
    return sorted(documents, key=lambda d: (json.dumps(d["param"]), d["access"], d["level"], d["instruction"]))


def _row(row: AccessRow) -> AccessDocument:
    first = row.lines[0] if row.lines else Line()
    params = [_param(p) for p in sorted(row.params, key=lambda p: (p.index, p.offset, p.name))]
    return {
        "access": cast("Any", row.access),
        "param": params[0] if len(params) == 1 else params or None,
        "role": row.role.value if row.role else None,
        "allowed": row.allowed,
        "count": row.count,
        "level": row.level,
        "pc": first.pc,
        "line": first.text,
        "source": _source(first),
        "instruction": row.instruction,
        "reason": row.reason,
    }


def _param(ref: ParamRef) -> ParamDocument:
    return {"index": ref.index, "offset": ref.offset, "name": ref.name, "chain": list(ref.chain)}


def _source(line: Line) -> SourceDocument | None:
    return {"file": line.file, "line": line.line} if line.file is not None and line.line is not None else None


def _wait(row: WaitRow) -> WaitDocument:
    return {
        "kind": row.kind,
        "text": row.text,
        "pc": row.line.pc,
        "line": row.line.text,
        "source": _source(row.line),
    }
