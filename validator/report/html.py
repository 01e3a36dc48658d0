"""The page a reviewer judges: one HTML file that needs no network and runs no script.

Every expression of the template passes through one function that makes hidden characters visible, and through Jinja's
escaping; only pictures, which are made of escaped text already, are markup.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from validator.report import details, standing, story, words
from validator.report.brief import brief, decision
from validator.report.gaps import gaps
from validator.report.glance import Kernel, kernels_at_a_glance
from validator.report.own_code import own_code, spot
from validator.report.pictures.blast import blast_radius
from validator.report.pictures.canvas import Picture
from validator.report.pictures.charts import architectures, claims, errors, shapes
from validator.report.pictures.lanes import happened, measured
from validator.report.pictures.pipeline import pipelines
from validator.report.pictures.timeline import timeline
from validator.text import html, shorten, visible, visible_block
from validator.verdict.model import Evidence, Finding, Obligation, Status, Verdict
from validator.verdict.result import CheckResult, where_to_look

__all__ = ["render_html"]

_EXCERPTS = 100
"""Pieces of code that the page shows; the bundle holds all."""

_CHARTED = 40
"""Kernels whose cases are drawn: pictures of 200 would make a page that no phone opens."""

_FOLDER = Path(__file__).parent / "templates"

SIGNS = {
    Status.PROVEN: "✓ proven",
    Status.REFUTED: "✕ refuted",
    Status.UNPROVEN: "? unproven",
    Status.WAIVED: "~ waived",
    Status.NOT_APPLICABLE: "– not applicable",
    Status.NOT_ASKED: "? unproven, not asked for",
}
VERDICTS = {Verdict.PASS: "✓ pass", Verdict.FAIL: "✕ fail", Verdict.UNPROVEN: "? unproven"}


class _Block(str):
    """Text of several lines that is shown as such."""


@dataclass(frozen=True, slots=True)
class _KernelView:
    kernel: Kernel
    timeline: Picture | None
    charts: tuple[Picture, ...]
    runs: tuple[tuple[Evidence, tuple[details.Case, ...], tuple[details.Covered, ...]], ...]
    others: tuple[Evidence, ...]
    """Evidence of kinds that this page knows nothing about, but what `validator.report.story` lets them bring."""
    rows: tuple[tuple[tuple[Evidence, ...], tuple[details.Access, ...]], ...]
    """Audits that found the same before the wait, and what they found."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Findings that one explanation covers, and of these, what is one item across builds."""

    first: Finding
    count: int
    items: tuple[tuple[Finding, ...], ...]


def render_html(result: CheckResult) -> str:
    """The whole page."""
    kernels = kernels_at_a_glance(result)
    scope = result.manifest.scope if result.manifest else None
    ranked = standing.by_subject(result.obligations)
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            result=result,
            change=result.change,
            manifest=result.manifest,
            scope_rows=words.scope_rows(result.manifest) if result.manifest else [],
            brief=brief(result),
            decision=decision(result),
            gaps=gaps(result),
            obligations=_by_outcome(ranked),
            remarks={o.id: standing.remark(result, o) for o in ranked},
            excerpts=_excerpts(result),
            shared=story.shared_lines(result.evidence)[:_EXCERPTS],
            own=own_code(result),
            spot=functools.partial(spot, result),
            homes=_homes(ranked, {story.SHARED, *(e.id for k in kernels for e in k.audits)}),
            unused=[e for e in result.evidence if not any(e.id in o.evidence for o in ranked)],
            measured=[e for e in result.evidence if story.series(e)],
            evidence={o.id: words.evidence_of(result, o.evidence) for o in result.obligations},
            kernels=_kernels(result),
            pipelines=pipelines(result),
            examined=architectures(kernels, scope.architectures if scope else ()),
            blast=blast_radius(result),
            claims=claims(result),
            places=where_to_look(result),
            groups=_groups(result),
            css=Markup((_FOLDER / "page.css").read_text("utf-8")),
        )
    )


@dataclass(frozen=True, slots=True)
class _Obligations:
    """Every obligation once, by what came of it."""

    shown: tuple[Obligation, ...]
    open: tuple[Obligation, ...]
    not_asked: tuple[Obligation, ...]
    not_applicable: tuple[Obligation, ...]
    total: int


def _by_outcome(ranked: Sequence[Obligation]) -> _Obligations:
    def those(*statuses: Status) -> tuple[Obligation, ...]:
        return tuple(o for o in ranked if o.status in statuses)

    return _Obligations(
        those(Status.PROVEN, Status.WAIVED),
        those(Status.REFUTED, Status.UNPROVEN),
        those(Status.NOT_ASKED),
        those(Status.NOT_APPLICABLE),
        len(ranked),
    )


def _homes(ranked: Iterable[Obligation], elsewhere: Collection[str]) -> dict[str, str]:
    """Evidence → the obligation beneath which the page shows what it brings: the first that rests on it."""
    homes: dict[str, str] = {}
    for obligation in ranked:
        for used in obligation.evidence:
            if used not in elsewhere:
                homes.setdefault(used, obligation.id)
    return homes


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters |= {"block": _Block, "prose": _prose, "cut": shorten, "short_id": words.compact}
    environment.globals |= {
        "signs": SIGNS,
        "verdicts": VERDICTS,
        "strengths": words.STRENGTHS,
        "words": words,
        "standing": standing,
        "brought": _brought,
        "case_rows": _case_rows,
        "confinement": details.confinement,
        "resources": details.resources,
        "fixed_dims": _fixed,
    }
    return environment


def _prose(text: str) -> Markup:
    """Text in which backticks come in pairs, as code; every part of it is escaped here."""
    parts = visible(text).split("`")
    if len(parts) % 2 == 0:
        return Markup(html(text))
    return Markup("".join(f"<code>{html(p)}</code>" if n % 2 else html(p) for n, p in enumerate(parts)))


def _shown(value: Any) -> Any:
    """What an expression of the template comes to: hidden characters spelt out, bytes that were not UTF-8 too."""
    if isinstance(value, Markup | int | float):
        return value
    if isinstance(value, _Block):
        return visible_block(value)
    return visible(str(value))


@dataclass(frozen=True, slots=True)
class _Brought:
    """What a piece of evidence brings for whoever drills down, of whatever kind it is."""

    steps: tuple[story.Step, ...]
    pictures: tuple[Picture, ...]
    tables: tuple[story.Table, ...]
    excerpts: tuple[story.Excerpt, ...]
    """Those that no finding shows."""
    logs: tuple[story.Log, ...]


def _brought(evidence: Evidence) -> _Brought:
    lanes = story.lanes(evidence)
    return _Brought(
        story.steps(evidence),
        (*([happened(lanes)] if lanes else []), *map(measured, story.series(evidence))),
        story.tables(evidence),
        tuple(e for e in story.excerpts(evidence) if not e.finding)[:_EXCERPTS],
        story.logs(evidence),
    )


def _excerpts(result: CheckResult) -> dict[str, tuple[story.Excerpt, list[tuple[bool, str]]]]:
    """Finding → the code around it, line by line, with the one that is meant; the first ones alone where many are."""
    found = story.of_findings(result.evidence)
    wanted = [f.id for f in words.by_weight(result.findings) if f.id in found][:_EXCERPTS]
    return {
        i: (found[i], [(n == found[i].mark, line) for n, line in enumerate(found[i].text.split("\n"))]) for i in wanted
    }


def _groups(result: CheckResult) -> list[_Group]:
    found = words.alike(result.findings, apart=False)
    return [_Group(g[0], len(g), tuple(tuple(same) for same in words.across_files(g))) for g in found]


def _kernels(result: CheckResult) -> list[_KernelView]:
    """In the manifest's order; the first to be looked at get their charts, which the others' captions say in words."""
    kernels = kernels_at_a_glance(result)
    charted = {k.match for k in sorted(kernels, key=lambda k: standing.RANKS.index(k.status))[:_CHARTED]}
    batch = {c.match: c.batch for c in (result.manifest.kernels if result.manifest else ())}
    return [_kernel(k, batch.get(k.match), k.match in charted) for k in kernels]


def _kernel(kernel: Kernel, batch: str | None, charted: bool) -> _KernelView:
    audits = sorted(
        (e for e in kernel.audits if e.kind == details.ORDERING), key=lambda e: standing.RANKS.index(e.status)
    )
    runs = [(e, details.cases(e), details.coverage(e)) for e in kernel.audits if e.kind == details.DIFFERENTIAL]
    charts = [picture for e, cases, _ in runs if charted for picture in _charts(e, cases, batch) if picture]
    known = (details.ORDERING, details.DIFFERENTIAL)
    early: dict[tuple[details.Access, ...], list[Evidence]] = {}
    for audit in audits:
        early.setdefault(details.accesses(audit, "early"), []).append(audit)
    return _KernelView(
        kernel,
        timeline(audits[0]) if audits else None,
        tuple(charts),
        tuple(runs),
        tuple(e for e in kernel.audits if e.kind not in known),
        tuple((tuple(same), rows) for rows, same in early.items()),
    )


def _charts(run: Evidence, cases: Sequence[details.Case], batch: str | None) -> tuple[Picture | None, ...]:
    limits = details.limits(run)
    said = f"A case counts as wrong beyond: {limits}." if limits else ""
    how = words.STRENGTHS[run.strength]
    return errors(cases, how, said), shapes(cases, batch, how)


def _case_rows(cases: Sequence[details.Case], fixed: Mapping[str, int]) -> Markup:
    """Rows of a table of cases: written here, because a template takes several times as long for ten thousand."""
    return Markup("\n".join(_case_row(c, fixed) for c in cases))  # every cell is escaped below


def _case_row(case: details.Case, fixed: Mapping[str, int]) -> str:
    dims = " ".join(f"{k}={v}" for k, v in case.dims.items() if k not in fixed)
    wrong = f"{' '.join(case.faults)} ({case.inputs})" if case.faults else ""
    cells = (case.id, case.status, dims, case.input_class, "" if case.error is None else f"{case.error:g}", wrong)
    return "<tr>" + "".join(f"<td>{html(shorten(cell, 700))}" for cell in cells)


def _fixed(cases: Sequence[details.Case]) -> dict[str, int]:
    """Dimensions that are the same in every case: said once."""
    first = cases[0].dims if len(cases) > 1 else {}
    return {k: v for k, v in first.items() if all(c.dims.get(k) == v for c in cases)}
