"""The findings of a check as SARIF 2.1.0 for code scanning; waived ones are suppressed with the waiver's reason."""

from __future__ import annotations

from validator.report.json import to_json
from validator.report.sarif import findings_log
from validator.report.words import waiver_line
from validator.verdict.model import Status
from validator.verdict.result import CheckResult

__all__ = ["render_sarif"]


def render_sarif(result: CheckResult) -> str:
    """One run. What is open and has no finding, and what nothing covers, stands in its notifications."""
    known = {f.id for f in result.findings}
    undecided = [
        f"{o.id} is {o.status}: {o.reason}"
        for o in sorted(result.obligations, key=lambda o: o.id)
        if o.status in (Status.REFUTED, Status.UNPROVEN) and not known.intersection(o.findings)
    ]
    undecided += [f"not covered: {text}" for text in result.not_covered]
    reasons = {w.finding: waiver_line(w) for w in result.waivers if w.applied}
    log = findings_log(result.findings, "check", f"{result.verdict}: {result.reason}", (), reasons, undecided)
    # Not `versionControlProvenance`: that wants the repository's URI, and nobody here knows one.
    log["runs"][0]["properties"] = {"head": result.change.head, "base": result.change.base}
    return to_json(log)
