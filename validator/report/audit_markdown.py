"""An ordering audit as Markdown for a job summary or a comment: one page within GitHub's limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from validator.ordering.result import Audit, KernelAudit
from validator.report import audit_words as words
from validator.report.markdown import BUDGET, SIGNS, VERDICTS
from validator.report.words import by_weight, plural
from validator.text import code, fenced, markdown, shorten
from validator.verdict.model import Finding, Severity, Status

if TYPE_CHECKING:
    from validator.report.audit_document import DriftDocument

__all__ = ["render_audit_markdown"]

_CAPS = (40, 20, 10, 5, 2, 1)
"""Items shown of each list; the first number with which the page fits is taken."""


_NAMES = 10
"""Templates named of kernels that are only counted."""


def render_audit_markdown(audit: Audit, drift: DriftDocument | None = None, budget: int = BUDGET) -> str:
    """The page, at most `budget` characters long; totals are true, only what is printed is cut."""
    for cap in _CAPS:
        page = "\n".join(_lines(audit, drift, cap)) + "\n"
        if len(page) <= budget:
            return page
    return f"# {VERDICTS[words.verdict_of(audit)]}: ordering audit\n\n{markdown(words.headline(audit))}.\n"


def _lines(audit: Audit, drift: DriftDocument | None, cap: int) -> Iterator[str]:
    yield f"# {VERDICTS[words.verdict_of(audit)]}: ordering audit"
    yield ""
    yield f"{markdown(words.headline(audit))}."
    groups = words.by_status(audit)
    for status in (Status.REFUTED, Status.UNPROVEN):
        kernels = groups.pop(status, [])
        kept, counted = words.apart(kernels)
        title = f"{SIGNS[status]}: {plural(len(kernels), 'kernel')}, by template and rule"
        pages = [*map(_kernel, words.alike(kept)), *([_counted(counted)] if counted else [])]
        yield from _section(title, len(pages), pages, cap)
    over = by_weight(f for f in audit.findings if f.severity is not Severity.NOTE)
    yield from _section("Over the whole set", len(over), map(_finding, over), cap)
    notes = by_weight(f for f in audit.findings if f.severity is Severity.NOTE)
    noted = (f"- {markdown(shorten(f.message, 400))}" for f in notes)
    yield from _section("Noted over the whole set", len(notes), noted, cap)
    skipped = (
        f"- {code(shorten(s.artifact))}: {markdown(shorten(s.reason, 400))} {markdown(s.fix)}" for s in audit.skipped
    )
    yield from _section("Not audited", len(audit.skipped), skipped, cap)
    yield from _drift(drift, cap)
    for status, kernels in groups.items():
        rows = words.families(kernels)
        items = (f"- {g.kernels:,} x {code(shorten(g.name))} ({', '.join(map(code, g.archs))})" for g in rows)
        yield from _section(f"{SIGNS[status]}: {plural(len(kernels), 'kernel')}, by name", len(rows), items, cap)
    own = [f for k in audit.kernels for f in k.findings if f.severity is Severity.WARNING]
    warnings = (f"- {code(f.rule)} {markdown(shorten(f.message, 400))}" for f in by_weight(own))
    yield from _section("Warnings", len(own), warnings, cap)
    assumed = sorted({a for k in audit.kernels for a in k.assumptions})
    yield from _section("Assumed, not proven", len(assumed), (f"- {markdown(shorten(a, 400))}" for a in assumed), cap)
    missing = words.not_covered(audit)
    yield from _section("Not covered", len(missing), (f"- {markdown(m)}" for m in missing), cap)


def _section(title: str, total: int, items: Iterable[str], cap: int) -> Iterator[str]:
    if not total:
        return
    yield ""
    yield f"## {title} ({total:,})"
    yield ""
    for shown, item in enumerate(items):
        if shown == cap:
            yield ""
            yield f"*{total - cap:,} of {total:,} not shown here; `--format json` holds them all.*"
            return
        yield item


def _counted(kernels: list[KernelAudit]) -> str:
    """Kernels of which nothing but the launch is open."""
    groups = words.families(kernels)
    named = ", ".join(f"{g.kernels:,} x {code(shorten(g.name, 100))}" for g in groups[:_NAMES])
    if len(groups) > _NAMES:
        named += f", {sum(g.kernels for g in groups[_NAMES:]):,} of {len(groups) - _NAMES:,} other names"
    fix = markdown(words.blocking(kernels[0])[0].fix)
    return f"**{markdown(words.counted_words(kernels))}**\n\n{named}\n\n*How to mend it*: {fix}\n"


def _kernel(group: list[KernelAudit]) -> str:
    kernel = group[0]
    lines = [
        f"### {code(shorten(words.title_of(kernel), 160))}",
        "",
        f"{code(shorten(kernel.artifact, 160))}, {markdown(words.isa_words(kernel))}",
        "",
    ]
    if len(group) > 1:
        lines += [markdown(shorten(words.rest_of(group), 300)), ""]
    found = words.blocking(kernel)
    lines += [_finding(f) for f in found[:3]]
    if len(found) > 3:
        lines.append(f"and {plural(len(found) - 3, 'more finding')} in this kernel")
    if not found:
        lines += [f"- {markdown(shorten(r, 400))}" for r in kernel.reasons[:3]]
    return "\n".join([*lines, ""])


def _finding(finding: Finding) -> str:
    lines = [f"**{markdown(shorten(finding.message, 600))}**  "]
    spot = words.spot_words(finding.where)
    lines.append(f"{code(finding.id)}" + (f" at {code(shorten(spot, 200))}" if spot else ""))
    lines += [""] + [f"{n}. {markdown(shorten(s, 300))}" for n, s in enumerate(finding.steps[:12], 1)]
    if len(finding.steps) > 12:
        lines.append(f"\n… {plural(len(finding.steps) - 12, 'more step')}")
    if finding.count > 1:
        lines.append(f"\nThe same pattern stands in {finding.count:,} places.")
    if finding.why:
        lines.append(f"\n*Why it matters*: {markdown(shorten(finding.why, 600))}")
    fix = finding.fix.strip("\n")
    if "\n" in fix:
        lines += ["\n*How to mend it*:\n", fenced(shorten(fix, 2000))]
    elif fix:
        lines.append(f"\n*How to mend it*: {markdown(shorten(fix, 600))}")
    return "\n".join([*lines, ""])


def _drift(drift: DriftDocument | None, cap: int) -> Iterator[str]:
    if drift is None:
        return
    items = [(k.replace("_", " "), text) for k, v in drift.items() if isinstance(v, list) for text in v]
    if not items:
        yield from ("", "## Since the earlier audit", "", "Nothing changed.")
    rows = (f"- **{name}**: {markdown(shorten(text, 300))}" for name, text in items)
    yield from _section("Since the earlier audit", len(items), rows, cap)
