"""An ordering audit for a terminal: one screen first, every number a true total, faults before proofs.

A library of thousands of kernels stays a page: what is proven is counted by template family, what is not is printed in
full for the first few and in one line each for some more.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from validator.ordering.result import Audit, KernelAudit
from validator.ordering.unexamined import GO_ON
from validator.report import audit_words as words
from validator.report.text import STYLES, VERDICTS, Paint, plain
from validator.report.words import by_weight, plural
from validator.text import shorten, visible, visible_block
from validator.verdict.model import Finding, Severity, Status

if TYPE_CHECKING:
    from validator.report.audit_document import DriftDocument

__all__ = ["render_audit_text"]

WIDTH = 100
FULL = 5
"""Kernels of one outcome that are printed with everything."""
LINES = 15
"""Further kernels that get one line each."""
FINDINGS = 3
"""Findings of one kernel that are printed."""
STEPS = 12
"""Steps of one path that are printed."""
FAMILIES = 12
NAMES = 5
"""Templates named of kernels that are only counted."""


def render_audit_text(
    audit: Audit, drift: DriftDocument | None = None, paint: Paint = plain, width: int = WIDTH
) -> str:
    """The whole report as text that ends in a newline."""
    return "\n".join(_Report(audit, drift, paint, width).lines()) + "\n"


class _Report:
    def __init__(self, audit: Audit, drift: DriftDocument | None, paint: Paint, width: int) -> None:
        self.audit, self.drift, self.paint, self.width = audit, drift, paint, width

    def lines(self) -> Iterator[str]:
        verdict = words.verdict_of(self.audit)
        yield from self.wrap(
            words.headline(self.audit), f"{self.paint(verdict.value.upper(), VERDICTS[verdict])}: ", "  "
        )
        groups = words.by_status(self.audit)
        for status in (Status.REFUTED, Status.UNPROVEN):
            if kernels := groups.pop(status, None):
                yield from self.open_kernels(status, kernels)
        yield from self.set_findings()
        yield from self.skipped()
        yield from self.changes()
        for status, kernels in groups.items():
            yield from self.settled(status, kernels)
        yield from self.warnings()
        yield from self.footer()

    def wrap(self, text: str, first: str, rest: str, limit: int = 600) -> list[str]:
        return textwrap.wrap(
            visible(shorten(text, limit)),
            self.width,
            initial_indent=first,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [first.rstrip()]

    def heading(self, status: Status, count: int) -> Iterator[str]:
        yield ""
        yield f"{self.paint(status.value, STYLES[status])}  {plural(count, 'kernel')}"

    def open_kernels(self, status: Status, kernels: list[KernelAudit]) -> Iterator[str]:
        yield from self.heading(status, len(kernels))
        examined, unseen = words.unexamined_apart(kernels)
        kept, counted = words.apart(examined)
        groups = words.alike(kept)
        for same in groups[:FULL]:
            yield from self.kernel(same)
        rest = groups[FULL:]
        if rest:
            yield ""
        for same in rest[:LINES]:
            yield from self.line(same)
        if len(rest) > LINES:
            left = sum(map(len, rest[LINES:]))
            yield f"  and {plural(left, 'more kernel')}: `--format json` holds them all"
        if counted:
            yield from self.counted(counted, words.counted_words(counted), words.blocking(counted[0])[0].fix)
        if unseen:
            yield from self.counted(unseen, f"{plural(len(unseen), 'kernel')}: {unseen[0].reasons[0]}", GO_ON)

    def line(self, group: list[KernelAudit]) -> Iterator[str]:
        """A group of kernels in a line or two."""
        found = words.blocking(group[0])
        why = found[0].message if found else (group[0].reasons[0] if group[0].reasons else "")
        count = f"{len(group):,} x " if len(group) > 1 else ""
        archs = ", ".join(sorted({k.arch for k in group}))
        name = shorten(words.group_name(group), 100)
        yield from self.wrap(f"{count}{name} ({shorten(archs, 60)}): {shorten(why, 200)}", "  ", "    ")

    def counted(self, kernels: list[KernelAudit], said: str, fix: str) -> Iterator[str]:
        """Kernels that have nothing of their own to be shown."""
        yield ""
        yield from self.wrap(said, "  ", "    ")
        groups = words.families(kernels)
        named = [f"{g.kernels:,} x {shorten(g.name, 100)}" for g in groups[:NAMES]]
        if len(groups) > NAMES:
            named.append(f"{sum(g.kernels for g in groups[NAMES:]):,} of {len(groups) - NAMES:,} other names")
        yield from self.wrap(", ".join(named), "    ", "      ", 1000)
        yield from self.fix(fix)

    def kernel(self, group: list[KernelAudit]) -> Iterator[str]:
        kernel = group[0]
        yield ""
        yield "  " + self.paint(visible(shorten(words.title_of(kernel), 160)), "bold")
        yield f"    {visible(f'{shorten(kernel.artifact, 160)}, {words.isa_words(kernel)}')}"
        if len(group) > 1:
            yield from self.wrap(words.rest_of(group), "    ", "      ", 300)
        found = words.blocking(kernel)
        for finding in found[:FINDINGS]:
            yield from self.finding(finding)
        if len(found) > FINDINGS:
            yield f"    and {plural(len(found) - FINDINGS, 'more finding')} in this kernel"
        if not found:
            for reason in kernel.reasons[:FINDINGS]:
                yield from self.wrap(reason, "    ", "    ")

    def finding(self, finding: Finding) -> Iterator[str]:
        style = "red" if finding.severity is Severity.ERROR else "yellow"
        yield from self.wrap(finding.message, "    ", "      ")
        spot = words.spot_words(finding.where)
        if spot:
            yield from self.wrap(f"at {spot}", "      ", "        ", 300)
        for step in finding.steps[:STEPS]:
            yield from self.wrap(step, "      > ", "        ", 300)
        if len(finding.steps) > STEPS:
            yield f"      > … {plural(len(finding.steps) - STEPS, 'more step')}"
        if finding.count > 1:
            yield from self.others(finding)
        if finding.why:
            yield from self.wrap(f"why: {finding.why}", "      ", "        ")
        yield from self.fix(finding.fix)
        yield f"      {self.paint(finding.id, style)}"

    def others(self, finding: Finding) -> Iterator[str]:
        kernels = sorted({o.kernel or o.path for o in finding.others})
        named = f", among them {', '.join(kernels[:3])}" if kernels else ""
        yield from self.wrap(f"the same pattern stands in {finding.count:,} places{named}", "      ", "        ", 300)

    def fix(self, text: str) -> Iterator[str]:
        text = text.strip("\n")
        if "\n" in text:
            yield "      fix:"
            yield from (f"        {line}" for line in visible_block(shorten(text, 3000)).split("\n"))
        elif text:
            yield from self.wrap(f"fix: {text}", "      ", "        ")

    def set_findings(self) -> Iterator[str]:
        ordered = by_weight(f for f in self.audit.findings if f.severity is not Severity.NOTE)
        if ordered:
            yield ""
            yield self.paint("over the whole set", "bold") + f"  {plural(len(ordered), 'finding')}"
        for finding in ordered[:FULL]:
            yield ""
            yield from self.finding(finding)
        if len(ordered) > FULL:
            yield f"    and {plural(len(ordered) - FULL, 'more finding')}: `--format json` holds them all"
        notes = by_weight(f for f in self.audit.findings if f.severity is Severity.NOTE)
        yield from self.bullets("noted over the whole set", (f.message for f in notes))

    def skipped(self) -> Iterator[str]:
        skipped = self.audit.skipped
        if skipped:
            yield ""
            yield f"{self.paint('not audited', 'bold yellow')}  {plural(len(skipped), 'input')}"
        for item in skipped[:LINES]:
            yield from self.wrap(f"{item.artifact}: {item.reason}", "  ", "    ", 400)
            if item.fix:
                yield from self.wrap(f"fix: {item.fix}", "    ", "      ")
        if len(skipped) > LINES:
            yield f"  and {plural(len(skipped) - LINES, 'more input')}"

    def settled(self, status: Status, kernels: list[KernelAudit]) -> Iterator[str]:
        yield from self.heading(status, len(kernels))
        groups = words.families(kernels)
        for group in groups[:FAMILIES]:
            count = f"{group.kernels:,} x " if group.kernels > 1 else ""
            files = f", {group.files:,} files" if group.files > 1 else ""
            yield from self.wrap(f"{count}{group.name} ({', '.join(group.archs)}{files})", "  ", "    ", 200)
            if group.kernels == 1 or len(groups) == 1:
                yield from self.proof(next(k for k in kernels if words.family_name(words.title_of(k)) == group.name))
        if len(groups) > FAMILIES:
            rest = sum(g.kernels for g in groups[FAMILIES:])
            yield f"  and {plural(rest, 'more kernel')} of {plural(len(groups) - FAMILIES, 'other name')}"

    def proof(self, kernel: KernelAudit) -> Iterator[str]:
        """What the first kernel's outcome rests on."""
        for reason in kernel.reasons[:2]:
            yield from self.wrap(reason, "    ", "      ", 300)
        for row in kernel.early[:3]:
            yield from self.wrap(f"early: {words.row_words(row)}", "    ", "      ", 300)
        if len(kernel.early) > 3:
            yield f"    early: {plural(len(kernel.early) - 3, 'more row')}"

    def warnings(self) -> Iterator[str]:
        found = [f for f in by_weight(words.all_findings(self.audit)) if f.severity is Severity.WARNING]
        own = [f for f in found if f not in self.audit.findings]
        if own:
            yield ""
            yield f"{self.paint('warnings', 'yellow')}  {len(own):,}"
        for finding in own[:FULL]:
            kernel = f" ({finding.where.kernel})" if finding.where.kernel else ""
            yield from self.wrap(f"{finding.rule}: {finding.message}{kernel}", "  ", "    ", 300)
        if len(own) > FULL:
            yield f"  and {len(own) - FULL:,} more"

    def changes(self) -> Iterator[str]:
        if self.drift is None:
            return
        yield ""
        lists: dict[str, list[str]] = {k.replace("_", " "): v for k, v in self.drift.items() if isinstance(v, list)}
        total = sum(map(len, lists.values()))
        yield self.paint("since the earlier audit", "bold") + f"  {plural(total, 'difference')}"
        for name, items in lists.items():
            yield from self.capped(name, items)

    def capped(self, name: str, items: list[str]) -> Iterator[str]:
        for item in items[:LINES]:
            yield from self.wrap(f"{name}: {item}", "  ", "    ", 300)
        if len(items) > LINES:
            yield f"  {name}: {len(items) - LINES:,} more"

    def footer(self) -> Iterator[str]:
        assumptions = sorted({a for k in self.audit.kernels for a in k.assumptions})
        yield from self.bullets("assumed, not proven", assumptions)
        yield from self.bullets("not covered", words.not_covered(self.audit))
        tools = ", ".join(f"{tool} {version}" for tool, version in sorted(self.audit.tools.items()))
        if tools:
            yield ""
            yield from self.wrap(f"examined with {tools}", "", "  ")

    def bullets(self, title: str, items: Iterable[str]) -> Iterator[str]:
        listed = list(items)
        if listed:
            yield ""
            yield self.paint(title, "bold") + f"  {len(listed):,}"
        for item in listed[:LINES]:
            yield from self.wrap(item, "  - ", "    ")
        if len(listed) > LINES:
            yield f"  and {len(listed) - LINES:,} more"
