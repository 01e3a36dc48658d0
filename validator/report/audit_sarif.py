"""The findings of an audit as SARIF 2.1.0 for code scanning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from validator.ordering.result import Audit, KernelAudit
from validator.report.audit_words import apart, counted_words, family_name, headline, title_of
from validator.report.json import to_json
from validator.report.sarif import findings_log
from validator.verdict.model import Finding

__all__ = ["render_audit_sarif"]


def render_audit_sarif(audit: Audit) -> str:
    """The audit's findings as one SARIF run; inputs that could not be audited become tool notifications."""
    notes = [f"{s.artifact}: {s.reason}" + (f"; {s.fix}" if s.fix else "") for s in audit.skipped]
    return to_json(findings_log(_findings(audit), "ordering", headline(audit), notes))


def _findings(audit: Audit) -> Iterator[Finding]:
    """Every finding; kernels of which nothing but the launch is open make one alert a template."""
    kept, counted = apart(audit.kernels)
    for kernel in kept:
        yield from kernel.findings
    yield from audit.findings
    members: dict[str, list[KernelAudit]] = {}
    for kernel in counted:
        members.setdefault(family_name(title_of(kernel)), []).append(kernel)
    for name, kernels in sorted(members.items()):
        found = [f for k in kernels for f in k.findings]
        yield replace(
            found[0],
            message=f"{name}: {counted_words(kernels)}",
            identity=("launch", name),
            count=len(found),
            others=tuple(f.where for f in found[1:]),
        )
