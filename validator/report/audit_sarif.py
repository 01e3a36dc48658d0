"""The findings of an audit as SARIF 2.1.0 for code scanning."""

from __future__ import annotations

from validator.ordering.result import Audit
from validator.report.audit_words import all_findings, headline
from validator.report.json import to_json
from validator.report.sarif import findings_log

__all__ = ["render_audit_sarif"]


def render_audit_sarif(audit: Audit) -> str:
    """The audit's findings as one SARIF run; inputs that could not be audited become tool notifications."""
    notes = [f"{s.artifact}: {s.reason}" + (f"; {s.fix}" if s.fix else "") for s in audit.skipped]
    return to_json(findings_log(all_findings(audit), "ordering", headline(audit), notes))
