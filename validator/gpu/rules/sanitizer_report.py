"""compute-sanitizer reports something of a launch of the kernel.

The kernel is launched once from its contract under memcheck, racecheck, initcheck and synccheck; outputs and workspace
hold nothing before. A report of memcheck refutes where the contract says how large everything is and how the kernel is
launched: an access outside of every allocation is wrong then. Where it leaves that open, sizes and values were guessed,
and the report may be of the guess. The other three tools know false alarms (shared memory that an mbarrier or a TMA
copy orders, padding that nobody uses). What is not certain leaves the obligation unproven until somebody has looked.

How to mend it: read the report, mend the access; or, where it is a false alarm, have the base revision waive this
finding with the reason (`validator waive`).
"""

from __future__ import annotations

import re

from validator.rule import Rule
from validator.verdict.model import Finding, Location, Severity

__all__ = ["RULE", "find"]

RULE = Rule(
    id="gpu/sanitizer-report",
    title="compute-sanitizer reports something of the kernel",
    severity=Severity.UNPROVEN,
)
_CERTAIN = ("memcheck",)
_VARYING = re.compile(r"\+?0x[0-9a-f]+|\[\d+ hazards?\]|\(\d+,\d+,\d+\)")
"""What of a report is another one in another run or after another compilation."""


def find(match: str, where: Location, tool: str, report: str, count: int, guessed: bool) -> Finding:
    """`report`: the first line of one; untrusted text. `count`: of all that the tool reports.

    `guessed`: the contract left sizes open, and the launch was made with some.
    """
    severity = Severity.ERROR if tool in _CERTAIN and not guessed else RULE.severity
    return Finding(
        RULE.id,
        severity,
        f"{match}: compute-sanitizer {tool} reports {report}",
        where,
        why="what the tool sees in one launch happened in that launch, though not everything it reports does harm",
        fix="mend the access; if the report is a false alarm, have this finding waived with the reason",
        identity=(match, tool, _VARYING.sub("", report).strip()),
        count=count,
    )
