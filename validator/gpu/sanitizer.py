"""compute-sanitizer over a command that launches kernels: further evidence where the tool is present.

It watches the launches that are made, so that what it does not report is not shown to be absent; and it reports what is
harmless (`initcheck` of padding that nobody uses), so that a finding of its is for a policy to waive with a reason.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from validator.gpu.driver import NotHere

__all__ = ["TOOLS", "Sanitized", "Tool", "sanitized"]

Tool = Literal["memcheck", "racecheck", "initcheck", "synccheck"]
TOOLS: tuple[Tool, ...] = ("memcheck", "racecheck", "initcheck", "synccheck")

_SUMMARY = re.compile(r"^=+ (?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)", re.MULTILINE)
_REPORT = re.compile(r"^=+ ((?:Error|Warning|Invalid|Uninitialized|Barrier|Program hit|Race).*)$", re.MULTILINE)
_KEPT = 10
_ALWAYS = ("--print-limit", "100", "--report-api-errors", "no")
"""A driver call that fails is its caller's to handle, and says nothing about a kernel."""


@dataclass(frozen=True, slots=True)
class Sanitized:
    """What one tool said."""

    tool: Tool
    errors: int
    reports: tuple[str, ...]
    """The first lines of its reports, each once; untrusted text, kernels' names stand in them."""

    def __str__(self) -> str:
        return f"compute-sanitizer {self.tool}: {self.errors} errors" + "".join(
            f"; {line}" for line in self.reports[:1]
        )


def sanitized(
    command: Sequence[str], tool: Tool, seconds: float = 120.0, environment: Mapping[str, str] | None = None
) -> Sanitized | NotHere:
    """Run `command` under a tool. `NotHere` where there is no tool, no device, or no summary came of it.

    `environment`: all that the command sees; None: what this process does.
    """
    program = shutil.which("compute-sanitizer")
    if program is None:
        return NotHere("compute-sanitizer is not installed")
    try:
        done = subprocess.run(
            [program, "--tool", tool, *_ALWAYS, *command],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return NotHere(f"compute-sanitizer {tool} took longer than {seconds:g} s")
    said = done.stdout + done.stderr
    summary = _SUMMARY.search(said)
    if summary is None:
        last = next((line for line in reversed(said.splitlines()) if line.strip()), "nothing")
        return NotHere(f"compute-sanitizer {tool} gave no summary, it said last: {last[:300]}")
    reports = tuple(dict.fromkeys(match[1].strip()[:300] for match in _REPORT.finditer(said)))
    return Sanitized(tool, int(summary[1]), reports[:_KEPT])
