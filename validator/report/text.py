"""The check result for a terminal: the verdict first, what was not shown as visible as what was."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import TextIO

from validator.report import words
from validator.report.brief import brief, decision
from validator.report.gaps import gaps
from validator.report.glance import kernels_at_a_glance
from validator.report.own_code import own_code
from validator.report.standing import by_subject, remark, stands
from validator.text import shorten, visible, visible_block
from validator.verdict.model import Finding, Obligation, Severity, Status, Verdict
from validator.verdict.result import CheckResult, where_to_look

__all__ = ["STYLES", "VERDICTS", "Paint", "for_stdout", "paint_for", "plain", "render_text", "width_of"]

Paint = Callable[[str, str], str]
"""(text, style) → text with or without colour."""

WIDTH = 100
MOST_FINDINGS = 30
"""Findings printed in full; the true total is always said."""
MOST_FILES = 12
"""Own files that are named."""

STYLES = {
    Status.PROVEN: "green",
    Status.REFUTED: "bold red",
    Status.UNPROVEN: "bold yellow",
    Status.WAIVED: "magenta",
    Status.NOT_APPLICABLE: "dim",
    Status.NOT_ASKED: "dim",
}
VERDICTS = {Verdict.PASS: "bold green", Verdict.FAIL: "bold red", Verdict.UNPROVEN: "bold yellow"}
_SEVERITIES = {
    Severity.ERROR: "bold red",
    Severity.UNPROVEN: "bold yellow",
    Severity.WARNING: "yellow",
    Severity.NOTE: "dim",
}


def plain(text: str, _style: str) -> str:
    """No colour."""
    return text


def paint_for(stream: TextIO) -> Paint:
    """Colour on an interactive stream; NO_COLOR and FORCE_COLOR overrule, in that order."""
    forced = bool(os.environ.get("FORCE_COLOR"))
    interactive = stream.isatty() and os.environ.get("TERM") != "dumb"
    if os.environ.get("NO_COLOR") or not (forced or interactive):
        return plain
    from rich.style import Style

    return lambda text, style: Style.parse(style).render(text)


def width_of(stream: TextIO) -> int:
    """Columns to fill: the terminal's own, within reason, and a fixed number everywhere else."""
    return min(max(shutil.get_terminal_size().columns, 60), 120) if stream.isatty() else WIDTH


def render_text(result: CheckResult, paint: Paint = plain, width: int = WIDTH) -> str:
    """The whole report as text that ends in a newline."""
    return "\n".join(_Report(result, paint, width).lines()) + "\n"


def for_stdout(result: CheckResult) -> str:
    """The report fitted to this process's stdout: colour and width of an interactive terminal, plain elsewhere."""
    return render_text(result, paint_for(sys.stdout), width_of(sys.stdout))


class _Report:
    def __init__(self, result: CheckResult, paint: Paint, width: int) -> None:
        self.result, self.paint, self.width = result, paint, width
        self.at_a_glance = kernels_at_a_glance(result)

    def lines(self) -> Iterator[str]:
        result = self.result
        told_first = brief(result)
        limit = f" ({visible(told_first.verdict)})" if told_first.verdict else ""
        head = f"{self.paint(result.verdict.value.upper(), VERDICTS[result.verdict])}{limit}"
        yield f"{head}: {visible(result.reason)}"
        for name, told in told_first.lines():
            yield from self.wrap(f"{name.lower()}: {told}.", "  ", "    ")
        yield ""
        yield from self.what()
        yield from self.section("where to look", self.places())
        yield from self.section("kernels", self.kernels())
        yield from self.section("obligations", self.obligations())
        yield from self.section("not covered", self.gaps())
        yield from self.section("findings", self.findings())
        yield from self.section("assumptions", self.bullets(result.assumptions))
        yield from self.section("waivers", self.bullets(words.waiver_line(w) for w in result.waivers))
        yield from self.section("changes since the earlier run", self.bullets(result.since))
        yield from self.section("reproduce", [f"  {visible(result.reproduce)}"])
        yield from self.section("decide", [f"  {visible(line)}" for line in decision(result)])

    def section(self, title: str, body: Iterator[str] | list[str]) -> Iterator[str]:
        lines = list(body)
        if lines:
            yield ""
            yield self.paint(title, "bold")
            yield from lines

    def wrap(self, text: str, first: str, rest: str, limit: int = 1200) -> list[str]:
        return textwrap.wrap(
            visible(shorten(text, limit)),
            self.width,
            initial_indent=first,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [first.rstrip()]

    def bullets(self, texts: Iterator[str] | tuple[str, ...]) -> Iterator[str]:
        for text in texts:
            yield from self.wrap(text, "  - ", "    ")

    def gaps(self) -> Iterator[str]:
        for group in gaps(self.result):
            yield f"  {group.title}"
            yield from self.bullets(group.texts)

    def what(self) -> Iterator[str]:
        result, change = self.result, self.result.change
        for name, sha, ref in (
            ("base", change.base, change.base_ref),
            ("head", change.head, change.head_ref),
            ("merge base", change.merge_base, ""),
        ):
            yield f"{name:<11}{sha}" + (f"  ({visible(shorten(ref, 80))})" if ref and ref != sha else "")
        yield f"{'change':<11}{words.change_size(change)}"
        for note in change.notes:
            yield from self.wrap(note, "           ", "           ")
        name = visible(result.policy.name) if result.policy else "none"
        yield f"{'policy':<11}{name}, {visible(result.policy_source)}, {words.compact(result.policy_digest)}"
        yield from self.manifest()
        yield from self.own_code()

    def own_code(self) -> Iterator[str]:
        own = own_code(self.result)
        if own.views:
            files = [f"{v.path} +{v.added:,}" for v in own.views[:MOST_FILES]]
            more = f" and {len(own.views) - MOST_FILES} more" if len(own.views) > MOST_FILES else ""
            yield from self.wrap(f"{own.total}: {', '.join(files)}{more}", f"{'own code':<11}", " " * 13)

    def manifest(self) -> Iterator[str]:
        manifest, path = self.result.manifest, self.result.manifest_path
        if manifest is None:
            yield f"{'manifest':<11}" + (f"{visible(shorten(path))}, unreadable" if path else "none")
            return
        yield from self.wrap(f"{path}: {manifest.title}", f"{'manifest':<11}", " " * 11)
        yield from self.wrap(" ".join(manifest.summary.split()), " " * 11, " " * 11, 600)
        owners = ", ".join(manifest.owners) or "nobody"
        yield from self.wrap(f"owned by {owners}, expires {manifest.expires}", " " * 11, " " * 11)
        for name, values in words.scope_rows(manifest):
            yield from self.wrap(f"{name}: {values}", " " * 11, " " * 13, 400)

    def kernels(self) -> Iterator[str]:
        for kernel in self.at_a_glance:
            yield f"  {self.status(kernel.status)}  {visible(shorten(kernel.match, 80))}, {words.launch(kernel)}"
            for role, names in words.roles(kernel.arguments):
                yield from self.wrap(f"{role}: {', '.join(names)}", " " * 18, " " * 20, 400)
            for evidence in kernel.audits:
                yield from self.wrap(words.audit_line(evidence), " " * 18, " " * 20, 400)

    def status(self, status: Status) -> str:
        return self.paint(f"{status.value:<14}", STYLES[status])

    def obligations(self) -> Iterator[str]:
        for obligation in by_subject(self.result.obligations):
            yield from self.obligation(obligation)

    def obligation(self, obligation: Obligation) -> Iterator[str]:
        yield f"  {self.status(obligation.status)}  {visible(shorten(obligation.id, 80))}"
        yield from self.wrap(stands(obligation), " " * 18, " " * 18)
        if but := remark(self.result, obligation):
            yield from self.wrap(f"but {but}", " " * 18, " " * 20)
        if obligation.status is not Status.PROVEN and obligation.reason:
            yield from self.wrap(f"because: {obligation.reason}", " " * 18, " " * 20)
        above = {e.id for kernel in self.at_a_glance for e in kernel.audits}
        listed = [used for used in obligation.evidence if used in above]
        if listed:
            yield f"{' ' * 18}{words.plural(len(listed), 'audit or run', 'audits and runs')}: see kernels"
        for evidence in words.evidence_of(self.result, set(obligation.evidence) - above):
            yield from self.wrap(f"{words.STRENGTHS[evidence.strength]}: {evidence.summary}", " " * 18, " " * 20)

    def findings(self) -> Iterator[str]:
        printed = 0
        for group in words.alike(self.result.findings):
            shown = group[: MOST_FINDINGS - printed]
            if not shown:
                break
            printed += len(shown)
            for same in words.across_files(shown):
                yield from self.finding(same[0])
                for other in same[1:]:
                    yield from self.wrap(f"and at {words.place(other.where)}: {other.id}", " " * 12, " " * 14, 400)
            yield from self.explanation(group[0])
        if printed < len(self.result.findings):
            rest = words.plural(len(self.result.findings) - printed, "more finding")
            yield f"  and {rest} of {len(self.result.findings):,}: `--format json` holds them all"

    def finding(self, finding: Finding) -> Iterator[str]:
        waived = " (waived)" if finding.status is Status.WAIVED else ""
        severity = self.paint(f"{finding.severity.value:<8}", _SEVERITIES[finding.severity])
        yield f"  {severity}  {visible(finding.id)}{waived}"
        where = words.place(finding.where)
        if where:
            kernel = f", kernel {finding.where.kernel}" if finding.where.kernel else ""
            yield from self.wrap(f"at {where}{kernel}", " " * 12, " " * 14, 400)
        yield from self.wrap(finding.message, " " * 12, " " * 12)
        if finding.count > 1:
            yield f"{' ' * 12}{words.plural(finding.count, 'place')} in all"
        for step in finding.steps:
            yield from self.wrap(step, " " * 12 + "> ", " " * 14, 400)

    def explanation(self, finding: Finding) -> Iterator[str]:
        """Why it matters and how to mend it: once for findings that share both."""
        if finding.why:
            yield from self.wrap(f"why: {finding.why}", " " * 12, " " * 14)
        if finding.fix:
            yield from self.fix(finding.fix)

    def fix(self, text: str) -> Iterator[str]:
        command = words.shows_again(text)
        label = "to see it again" if command else "fix"
        if not command and "\n" not in text.strip():
            yield from self.wrap(f"{label}: {text.strip()}", " " * 12, " " * 14)
            return
        yield f"{' ' * 12}{label}:"
        yield from (f"{' ' * 14}{line}" for line in visible_block(shorten(text.strip("\n"), 4000)).split("\n"))

    def places(self) -> Iterator[str]:
        for number, spot in enumerate(where_to_look(self.result), 1):
            line = f":{spot.line}" if spot.line else ""
            yield from self.wrap(f"{spot.path}{line}: {spot.why}", f"  {number}. ", "     ", 500)
