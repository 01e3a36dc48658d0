"""Findings as SARIF 2.1.0 for code scanning: what every command's log shares.

Written for what GitHub accepts: at most 25,000 results, fingerprints under `primaryLocationLineHash` alone, relative
URIs, no reliance on embedded links. What is cut is said in the log itself, never silently.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from validator import __version__
from validator.report.rule_pages import help_uri
from validator.report.words import by_weight, fix_title
from validator.rule import Rule
from validator.rules import NoPage, all_rules, page
from validator.text import fenced, shorten, visible
from validator.verdict.model import Finding, Location, Severity, Status, octets

__all__ = ["MAX_RESULTS", "findings_log"]

MAX_RESULTS = 25_000
"""Results of one run that GitHub accepts."""
_MAX_STEPS = 100
_MAX_RELATED = 50
_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_SOURCE = re.compile(r"([^/]+/.+):(\d{1,9})")
"""A bare file name is not enough: nobody knows which folder it lies in."""

_LEVELS = {Severity.ERROR: "error", Severity.UNPROVEN: "warning", Severity.WARNING: "warning", Severity.NOTE: "note"}


def findings_log(
    findings: Iterable[Finding],
    category: str,
    summary: str,
    problems: Iterable[str],
    reasons: Mapping[str, str] | None = None,
    undecided: Iterable[str] = (),
) -> dict[str, Any]:
    """A whole log. `category` keeps runs of different commands apart.

    `problems` is what kept the tool from working, `undecided` what it left open without a finding; `reasons` is why a
    finding (by id) was waived.
    """
    ordered = by_weight(findings)
    kept = ordered[:MAX_RESULTS]
    notes = [_notification("error", text) for text in problems]
    notes += [_notification("warning", text) for text in undecided]
    if len(kept) < len(ordered):
        left = len(ordered) - len(kept)
        notes.append(
            _notification("warning", f"{left:,} of {len(ordered):,} findings are left out, least severe first")
        )
    rules = _rules(kept)
    index = {rule["id"]: number for number, rule in enumerate(rules)}
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "validator", "version": __version__, "rules": rules}},
                "automationDetails": {"id": f"validator/{category}/", "description": {"text": _plain(summary)}},
                "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notes}],
                "columnKind": "utf16CodeUnits",
                "results": [_result(finding, index[finding.rule], reasons or {}) for finding in kept],
            }
        ],
    }


def _notification(level: str, text: str) -> dict[str, Any]:
    return {"level": level, "message": {"text": _plain(text)}}


def _rules(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    known = {rule.id: rule for rule in all_rules()}
    return [_rule(known.get(id_) or Rule(id_, id_, Severity.WARNING)) for id_ in sorted({f.rule for f in findings})]


def _rule(rule: Rule) -> dict[str, Any]:
    told = page(rule.id)
    text = f"validator explain {rule.id}" if isinstance(told, NoPage) else told
    address = help_uri(rule.id)
    return {
        "id": rule.id,
        "shortDescription": {"text": _plain(rule.title)},
        "help": {"text": _plain(text), "markdown": fenced(text)},
        **({"helpUri": address} if address else {}),
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": [rule.id.partition("/")[0]]},
    }


def _result(finding: Finding, rule: int, reasons: Mapping[str, str]) -> dict[str, Any]:
    text = _plain(finding.message) + (f" ({_plain(finding.where.source)})" if finding.where.source else "")
    if finding.count > 1:
        text += f"\n{finding.count:,} places in all."
    for title, more in (("Why it matters", finding.why), (fix_title(finding.fix), finding.fix)):
        text += f"\n\n{title}: {_plain(more)}" if more else ""
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [_location(finding.where)],
        "partialFingerprints": {"primaryLocationLineHash": f"{_hash(finding)}:1"},
        "properties": {
            "id": finding.id,
            "severity": finding.severity.value,
            "artifact": visible(finding.where.path),
        },
    }
    if finding.steps:
        result["codeFlows"] = [{"threadFlows": [{"locations": _steps(finding)}]}]
    if finding.others:
        others = enumerate(finding.others[:_MAX_RELATED], 1)
        result["relatedLocations"] = [{"id": n, **_location(where)} for n, where in others]
    if finding.status is Status.WAIVED:
        suppression = {"kind": "external", "status": "accepted"}
        if finding.id in reasons:
            suppression["justification"] = _plain(reasons[finding.id])
        result["suppressions"] = [suppression]
    return result


def _hash(finding: Finding) -> str:
    """Stable over runs: of names alone, so that moved lines do not open the same alert again."""
    return hashlib.sha256(octets(finding.id)).hexdigest()[:16]


def _steps(finding: Finding) -> list[dict[str, Any]]:
    home = _physical(finding.where)
    return [
        {"location": {"physicalLocation": home, "message": {"text": _plain(step)}}}
        for step in finding.steps[:_MAX_STEPS]
    ]


def _location(where: Location) -> dict[str, Any]:
    location: dict[str, Any] = {"physicalLocation": _physical(where)}
    if where.kernel:
        location["logicalLocations"] = [{"fullyQualifiedName": visible(shorten(where.kernel)), "kind": "function"}]
    return location


def _physical(where: Location) -> dict[str, Any]:
    """The source line where it is known and lies below the root, which is what reviewers see; else the artifact."""
    source = _SOURCE.fullmatch(where.source)
    if source and ".." not in source[1].split("/"):
        return {"artifactLocation": {"uri": _uri(source[1])}, "region": {"startLine": max(int(source[2]), 1)}}
    region: dict[str, Any] = {"startLine": where.line or 1}
    if where.line and where.end_line and where.end_line >= where.line:
        region["endLine"] = where.end_line
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(where.path)}, "region": region}
    if where.pc is not None:
        physical["address"] = {"relativeAddress": where.pc, "kind": "instruction"}
    return physical


def _uri(path: str) -> str:
    """A relative reference: percent-encoded bytes, no scheme, no leading slash."""
    raw = octets(path).lstrip(b"/")
    return quote(raw, safe="/-._~") or "."


def _plain(text: str) -> str:
    """Plain text in which nothing is a placeholder or an embedded link (SARIF 2.1.0, 3.11.5 and 3.11.6)."""
    lines = (visible(line) for line in shorten(text, 4000).split("\n"))
    return "\n".join(lines).replace("{", "{{").replace("}", "}}").replace("](", "] (")
