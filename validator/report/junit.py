"""The check result as JUnit XML as CI servers read it: one test case an obligation, one a differential case.

`failure`: refuted. `error`: not settled (no evidence is never a pass). `skipped`: waived, not applicable, or a case
that shows nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree import ElementTree as ET

from validator.report.details import DIFFERENTIAL, Case, cases
from validator.report.standing import stands
from validator.report.words import STRENGTHS, evidence_of, place
from validator.text import shorten, visible, visible_block
from validator.verdict.model import Evidence, Obligation, Status
from validator.verdict.result import CheckResult

__all__ = ["render_junit"]

_NOT_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(result: CheckResult) -> str:
    """Suites `obligations` and `differential: KERNEL`, in that order."""
    root = ET.Element("testsuites", {"name": "validator"})
    obligations = sorted(result.obligations, key=lambda o: o.id)
    _suite(root, "obligations", (_obligation(result, o) for o in obligations))
    for evidence in sorted(result.evidence, key=lambda e: e.id):
        if evidence.kind == DIFFERENTIAL:
            _suite(root, evidence.id, (_case(evidence, c) for c in cases(evidence)))
    _count(root, list(root))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, "unicode") + "\n"


def _suite(root: ET.Element, name: str, members: Iterable[ET.Element]) -> None:
    suite = ET.SubElement(root, "testsuite", {"name": _line(name)})
    suite.extend(members)
    for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(key, str(sum(case.find(tag) is not None for case in suite)))
    suite.set("tests", str(len(suite)))


def _count(root: ET.Element, suites: list[ET.Element]) -> None:
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(s.get(key, "0")) for s in suites)))


_OUTCOMES = {
    Status.REFUTED: "failure",
    Status.UNPROVEN: "error",
    Status.WAIVED: "skipped",
    Status.NOT_APPLICABLE: "skipped",
    Status.NOT_ASKED: "skipped",
}


def _obligation(result: CheckResult, obligation: Obligation) -> ET.Element:
    family, _, name = obligation.id.partition("/")
    case = ET.Element("testcase", {"classname": _line(family), "name": _line(name or family), "time": "0"})
    outcome = _OUTCOMES.get(obligation.status)
    if outcome is not None:
        said = ET.SubElement(case, outcome, {"message": _line(f"{obligation.status}: {obligation.reason}")})
        if outcome != "skipped":
            said.set("type", obligation.status.value)
        said.text = _block("\n".join([stands(obligation), *_findings(result, obligation)]))
    seen = [f"{STRENGTHS[e.strength]}: {e.summary}" for e in evidence_of(result, obligation.evidence)]
    if seen:
        ET.SubElement(case, "system-out").text = _block("\n".join(seen))
    return case


def _findings(result: CheckResult, obligation: Obligation) -> list[str]:
    wanted = set(obligation.findings)
    own = [f for f in result.findings if f.id in wanted]
    shown = [f"{f.severity.value} {f.id} at {place(f.where)}: {f.message}" for f in own[:20]]
    return shown + ([f"and {len(own) - 20} more"] if len(own) > 20 else [])


def _case(evidence: Evidence, case: Case) -> ET.Element:
    name = f"{case.id} {case.inputs}" if case.inputs else case.id
    element = ET.Element("testcase", {"classname": _line(evidence.id), "name": _line(name), "time": "0"})
    if case.status == "failed":
        said = ET.SubElement(element, "failure", {"message": _line(case.faults[0] if case.faults else "wrong")})
        said.set("type", "refuted")
        said.text = _block("\n".join((*case.faults, f"made because: {case.origin}")))
    elif case.status in ("void", "degenerate"):
        ET.SubElement(element, "skipped", {"message": "shows nothing: a known-bad result would pass too"})
    elif case.status != "passed":
        ET.SubElement(element, "error", {"message": _line(f"no judgement: {case.status}"), "type": "unproven"})
    return element


def _line(text: str) -> str:
    return _NOT_XML.sub("", visible(shorten(text, 500)))


def _block(text: str) -> str:
    return _NOT_XML.sub("", visible_block(shorten(text, 4000)))
