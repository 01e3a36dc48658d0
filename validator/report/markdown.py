"""The check result as Markdown for a pull request: one page, ten minutes, nothing overstated.

A comment on GitHub holds 65,536 characters. What does not fit is cut between items, least needed sections first, and
the page says what was cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from validator.report import words
from validator.report.brief import brief, decision
from validator.report.gaps import gaps
from validator.report.glance import Kernel, kernels_at_a_glance
from validator.report.standing import by_subject, remark, stands
from validator.report.story import Excerpt, marked, of_findings, shared_lines
from validator.text import code, fenced, markdown, shorten
from validator.verdict.model import Finding, Obligation, Severity, Status, Verdict
from validator.verdict.result import CheckResult, Place, where_to_look

__all__ = ["BUDGET", "SIGNS", "VERDICTS", "render_markdown"]

BUDGET = 65_536
"""Characters of a comment on GitHub."""

MARKER = "<!-- validator:check -->"
"""Lets a bot find its own comment again and replace it."""

_ALIKE = 20
"""Findings with one explanation that are listed one by one."""

_RESERVE = 600
"""Characters kept for the sentences that say what was cut."""

SIGNS = {
    Status.PROVEN: "✅ proven",
    Status.REFUTED: "❌ refuted",
    Status.UNPROVEN: "⚠️ unproven",
    Status.WAIVED: "🟣 waived",
    Status.NOT_APPLICABLE: "➖ not applicable",
    Status.NOT_ASKED: "❔ unproven, not asked for",
}
VERDICTS = {Verdict.PASS: "✅ pass", Verdict.FAIL: "❌ fail", Verdict.UNPROVEN: "⚠️ unproven"}


@dataclass(frozen=True, slots=True)
class _Section:
    title: str
    items: tuple[str, ...]
    """Parts that are cut whole; each ends without a newline."""
    need: int
    """Sections with a smaller number are given room first."""
    head: str = ""
    """Stands before the items (a table's header)."""
    foot: str = ""
    separator: str = "\n"

    def text(self, shown: int) -> str:
        body = [self.head] if self.head else []
        body.append(self.separator.join(self.items[:shown]))
        if shown < len(self.items):
            body.append(f"\n*{len(self.items) - shown:,} of {len(self.items):,} not shown here.*")
        if self.foot:
            body.append(self.foot)
        return f"## {self.title}\n\n" + "\n".join(body) + "\n"


def render_markdown(result: CheckResult, budget: int = BUDGET) -> str:
    """The page, at most `budget` characters long."""
    head = _head(result)
    sections = [s for s in _sections(result) if s.items]
    shown = _share(sections, budget - len(head) - _RESERVE)
    cut = [s.title for s in sections if shown[s.title] < len(s.items)]
    parts = [head, *(s.text(shown[s.title]) for s in sections if shown[s.title])]
    if cut:
        parts.append(
            f"*This page is limited to {budget:,} characters; cut short: {', '.join(cut)}. The bundle and "
            "`--format json` hold everything. The verdict counts everything.*\n"
        )
    return "\n".join(parts)


def _share(sections: list[_Section], room: int) -> dict[str, int]:
    """Items shown of each section: whole sections by need while they fit, then as many items as do."""
    shown: dict[str, int] = {}
    for section in sorted(sections, key=lambda s: s.need):
        count = len(section.items)
        if len(section.text(count)) + 1 > room:
            frame = len(section.text(0)) + 1
            used, count = frame, 0
            for item in section.items:
                used += len(item) + len(section.separator)
                if used > room:
                    break
                count += 1
        shown[section.title] = count
        if count:
            room -= len(section.text(count)) + 1
    return shown


def _head(result: CheckResult) -> str:
    change = result.change
    manifest = result.manifest
    title = markdown(shorten(manifest.title, 200)) if manifest else "a change without a readable manifest"
    first = brief(result)
    told = "".join(f"- **{name}**: {markdown(shorten(text, 900))}.\n" for name, text in first.lines())
    limit = f" ({markdown(shorten(first.verdict, 300))})" if first.verdict else ""
    return (
        f"{MARKER}\n# {VERDICTS[result.verdict]}{limit}: {title}\n\n{told}\n{markdown(result.reason)}.\n\n"
        f"{code(words.compact(change.base))} to {code(words.compact(change.head))}, seen from merge base "
        f"{code(words.compact(change.merge_base))}: {markdown(words.change_size(change))}. Judged by policy "
        f"{code(result.policy.name if result.policy else 'none')} from {code(shorten(result.policy_source, 120))} "
        f"({code(words.compact(result.policy_digest))}).\n"
    )


def _sections(result: CheckResult) -> Iterator[_Section]:
    yield _Section("What this change is", tuple(_what(result)), 1)
    yield _Section("What it may touch", tuple(_reach(result)), 2)
    shared = (fenced(shorten(x.text, 6000), "diff") for x in shared_lines(result.evidence))
    yield _Section("What it changes in files that others use", tuple(shared), 5, separator="\n\n")
    places = enumerate(where_to_look(result), 1)
    yield _Section("Where to look", tuple(_place(n, p) for n, p in places), 5)
    yield _Section("Kernels at a glance", tuple(map(_kernel, kernels_at_a_glance(result))), 6, head=_KERNEL_HEAD)
    obligations = by_subject(result.obligations)
    yield _Section("Obligations", tuple(_obligation(result, o) for o in obligations), 3, head=_OBLIGATION_HEAD)
    yield _Section("What is not covered", tuple(_gaps(result)), 4)
    trust = [*_bullets(result.assumptions), *_bullets(words.waiver_line(w) for w in result.waivers)]
    yield _Section("Assumptions and waivers", tuple(trust), 7)
    yield _Section("Changes since the earlier run", tuple(_bullets(result.since)), 11)
    findings = words.alike(result.findings)
    around = of_findings(result.evidence)
    yield _Section("Findings", tuple(_alike(group, around) for group in findings), 8, separator="\n\n")
    yield _Section("Claims of the author, not checked here", tuple(_claims(result)), 9)
    yield _Section("Changed files", tuple(_files(result)), 10, head=_FILE_HEAD)
    commands = (fenced(result.reproduce, "sh"), fenced("\n".join(decision(result)), "sh"))
    yield _Section("How to reproduce, and how to decide", commands, 0, separator="\n\n")


def _bullets(texts: Iterable[str]) -> Iterator[str]:
    return (f"- {markdown(shorten(text, 1000))}" for text in texts)


def _gaps(result: CheckResult) -> Iterator[str]:
    """Heaviest first, each with what leaves it open."""
    return (f"- {markdown(shorten(text, 1000))} *({group.title})*" for group in gaps(result) for text in group.texts)


def _prose(text: str) -> str:
    """What the author wrote over several lines, as one paragraph."""
    return markdown(shorten(" ".join(text.split()), 2000))


def _what(result: CheckResult) -> Iterator[str]:
    manifest = result.manifest
    if manifest is None:
        said = f"Its manifest {code(result.manifest_path)} cannot be read." if result.manifest_path else "No manifest."
        yield f"{said} What it is for and where it may run is not declared."
        return
    yield f"{_prose(manifest.summary)}\n"
    owners = ", ".join(code(shorten(o, 80)) for o in manifest.owners) or "nobody"
    yield (
        f"Manifest {code(shorten(result.manifest_path or '', 200))}, id {code(manifest.id)}. Owned by {owners}. "
        f"Created {manifest.created}, expires **{manifest.expires}**."
    )
    for reference in manifest.references:
        note = f": {_prose(reference.note)}" if reference.note else ""
        yield f"- Reference {code(shorten(reference.name, 80))} at {code(shorten(reference.path, 200))}{note}"


def _reach(result: CheckResult) -> Iterator[str]:
    if result.manifest is None:
        yield "Nothing is declared, so nothing bounds it."
        return
    for what, values in words.scope_rows(result.manifest):
        yield f"- **{what}**: {code(shorten(values, 600))}"


_KERNEL_HEAD = "| kernel | launched | arguments by role | examined | status |\n| --- | --- | --- | --- | --- |"


def _kernel(kernel: Kernel) -> str:
    arguments = "<br>".join(
        f"{markdown(role)}: {code(shorten(', '.join(names), 300))}" for role, names in words.roles(kernel.arguments)
    )
    examined = "<br>".join(markdown(shorten(words.audit_line(e), 300)) for e in kernel.audits) or "nothing"
    return (
        f"| {code(shorten(kernel.match, 120))} | {words.launch(kernel)} | {arguments or 'none declared'} | {examined} "
        f"| {SIGNS[kernel.status]} |"
    )


_OBLIGATION_HEAD = "| status | obligation | what was examined | strength | reason |\n| --- | --- | --- | --- | --- |"


def _obligation(result: CheckResult, obligation: Obligation) -> str:
    examined = "<br>".join(markdown(shorten(e.summary, 300)) for e in words.evidence_of(result, obligation.evidence))
    strength = words.STRENGTHS[obligation.strength] if obligation.strength else "none"
    but = remark(result, obligation)
    beside = f" **But {markdown(shorten(but, 500))}.**" if but else ""
    return (
        f"| {SIGNS[obligation.status]} | {code(shorten(obligation.id, 120))}<br>"
        f"{markdown(shorten(stands(obligation), 400))}{beside} | {examined or 'nothing'} | {strength} "
        f"| {markdown(shorten(obligation.reason, 600))} |"
    )


def _place(number: int, spot: Place) -> str:
    where = f"{spot.path}:{spot.line}" if spot.line else spot.path
    return f"{number}. {code(shorten(where, 200))}: {markdown(shorten(spot.why, 400))}"


def _alike(findings: list[Finding], around: Mapping[str, Excerpt]) -> str:
    """Findings with one explanation: it stands once, the places are listed; the code of what decides stands by it."""
    first = findings[0]
    lines = [f"{_label(first)}  ", f"{_message(first)}  "]
    lines += [f"{n}. {markdown(shorten(step, 300))}" for n, step in enumerate(first.steps, 1)]
    if first.steps:
        lines.append("")
    if len(findings) > 1:
        lines = [f"**{first.severity.value}** {code(first.rule)}, {len(findings)} findings:", ""]
        items = words.across_files(findings)
        lines += map(_item, items[:_ALIKE])
        if len(items) > _ALIKE:
            lines.append(f"- and {sum(map(len, items[_ALIKE:])):,} more")
        lines.append("")
    seen = around.get(first.id) if first.severity in (Severity.ERROR, Severity.UNPROVEN) else None
    shown = [fenced(shorten(marked(seen), 3000)), ""] if seen else []
    return "\n".join([*lines, *shown, *_explanation(first)])


def _item(same: list[Finding]) -> str:
    first = same[0]
    kernel = f", kernel {code(shorten(first.where.kernel, 160))}" if len(same) > 1 and first.where.kernel else ""
    places = "".join(f"<br>{code(f.id)}{_at(f)}" for f in same[1:])
    return f"- {code(first.id)}{_at(first)}{kernel}: {_message(first)}{places}"


def _label(finding: Finding) -> str:
    waived = " (waived)" if finding.status is Status.WAIVED else ""
    kernel = f", kernel {code(shorten(finding.where.kernel, 160))}" if finding.where.kernel else ""
    return f"**{finding.severity.value}**{waived} {code(finding.id)}{_at(finding)}{kernel}"


def _at(finding: Finding) -> str:
    where = words.place(finding.where)
    return f" at {code(shorten(where, 200))}" if where else ""


def _message(finding: Finding) -> str:
    count = f" ({words.plural(finding.count, 'place')} in all)" if finding.count > 1 else ""
    return markdown(shorten(finding.message, 1000)) + count


def _explanation(finding: Finding) -> Iterator[str]:
    if finding.why:
        yield f"*Why it matters*: {markdown(shorten(finding.why, 1000))}  "
    fix = finding.fix.strip("\n")
    if "\n" in fix or words.shows_again(fix):
        yield from (f"*{words.fix_title(fix)}*:", "", fenced(shorten(fix, 3000)))
    elif fix:
        yield f"*{words.fix_title(fix)}*: {markdown(shorten(fix, 1000))}"


def _claims(result: CheckResult) -> Iterator[str]:
    for claim in result.manifest.claims if result.manifest else ():
        base = f" against {claim.baseline:g}" if claim.baseline is not None else ""
        source = f" (source: {code(shorten(claim.source, 200))})" if claim.source else ""
        yield f"- {code(claim.metric)}: {claim.value:g}{base}; {_prose(claim.conditions)}{source}"


_FILE_HEAD = "| file | change | lines |\n| --- | --- | --- |"


def _files(result: CheckResult) -> Iterator[str]:
    for file in sorted(result.change.files, key=lambda f: f.path):
        old = f" from {code(shorten(file.old_path, 200))}" if file.old_path else ""
        size = "binary" if file.binary else f"+{file.added:,} -{file.deleted:,}"
        yield f"| {code(shorten(file.path, 200))} | {file.status.name.lower().replace('_', ' ')}{old} | {size} |"
