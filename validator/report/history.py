"""Runs of a manifest over time: what was proven when and with which tools, and what is stale by now.

Evidence ages: the policy says for how many days it counts. A newer run with other tools makes older proofs stale, and
so do other versions of them on the machine that asks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path

from validator.errors import Problem
from validator.policy.model import EvidencePolicy
from validator.report.changes import changes
from validator.report.reading import read_result
from validator.report.words import compact, plural
from validator.text import shorten, visible
from validator.verdict.bundle import MANIFEST, BundleError
from validator.verdict.model import Status
from validator.verdict.result import CheckResult
from validator.verdict.review import ReviewError, read_reviews

__all__ = ["Run", "find_runs", "render_history", "stale_since"]

_CHANGES = 6
"""Sentences about what changed between one run and the next; `validator report --against` says all."""

_DEPTH = 4
"""Folders below the one that was named in which bundles are looked for."""


@dataclass(frozen=True, slots=True)
class Run:
    """One bundle that could be read."""

    folder: Path
    result: CheckResult
    decisions: tuple[str, ...]

    @property
    def manifest(self) -> str:
        return self.result.manifest.id if self.result.manifest else "no readable manifest"

    @property
    def tools(self) -> dict[str, str]:
        """What the evidence was made with: tool → version."""
        environment = self.result.environment
        return {"validator": environment.validator, **environment.tools}


def stale_since(result: CheckResult) -> date | None:
    """The last day on which this result's evidence counts; None when nobody knows when it was made."""
    try:
        made = datetime.fromisoformat(result.environment.started).date()
    except ValueError:
        return None
    days = (result.policy.evidence if result.policy else EvidencePolicy()).max_days
    return made + timedelta(days=days)


def find_runs(folder: Path) -> tuple[list[Run], list[Problem]]:
    """Every bundle at or below a folder, oldest first, and what could not be read. Raises `BundleError` for none."""
    runs: list[Run] = []
    problems: list[Problem] = []
    for path in _bundles(folder):
        try:
            decisions = tuple(f"{r.review.decision} by {r.review.reviewer}" for r in read_reviews(path))
            runs.append(Run(path, read_result(path), decisions))
        except (BundleError, ReviewError) as error:
            problems += error.problems
    if not runs and not problems:
        raise BundleError(Problem("holds no bundle", str(folder), "name a folder with what `--bundle` wrote"))
    return sorted(runs, key=lambda r: (r.manifest, r.result.environment.started, str(r.folder))), problems


def _bundles(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        raise BundleError(Problem("is no folder", str(folder)))
    top = len(folder.parts)
    for root, folders, files in os.walk(folder):
        folders.sort()
        if MANIFEST in files:
            folders.clear()
            yield Path(root)
        elif len(Path(root).parts) - top >= _DEPTH:
            folders.clear()


def render_history(runs: Sequence[Run], today: date, here: Mapping[str, str] | None = None) -> str:
    """One block a manifest: its runs and what changed between them, then what stands proven and what is stale.

    `here`: tool → version on the machine that asks; what it does not name makes nothing stale.
    """
    blocks = [list(_manifest(name, group, today, here or {})) for name, group in _grouped(runs)]
    return "\n\n".join("\n".join(lines) for lines in blocks) + "\n"


def _grouped(runs: Iterable[Run]) -> list[tuple[str, list[Run]]]:
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.manifest, []).append(run)
    return list(groups.items())


def _manifest(name: str, runs: list[Run], today: date, here: Mapping[str, str]) -> Iterator[str]:
    yield f"{visible(shorten(name, 120))}: {plural(len(runs), 'run')}"
    for before, run in zip([None, *runs], runs, strict=False):
        result = run.result
        decided = "; ".join(run.decisions) or "nobody decided"
        yield visible(
            f"  {result.environment.started[:16]}  {compact(result.change.head)}  {result.verdict.value:<8}  "
            f"{shorten(str(run.folder), 120)}: {shorten(decided, 300)}"
        )
        made_with = ", ".join(f"{tool} {version}" for tool, version in run.tools.items())
        yield visible(f"      with {shorten(made_with, 400)}; {_age(result, today)}")
        yield from _since(before, run)
    yield "  proven, by the last run that showed it:"
    for obligation, run in sorted(_proven(runs).items()):
        why = _stale(run, runs[-1], today, here)
        day = run.result.environment.started[:10]
        text = f"    {obligation}: {day}, {compact(run.result.change.head)}" + (f"; STALE: {why}" if why else "")
        yield visible(shorten(text, 500))
    never = {o.id for r in runs for o in r.result.obligations} - _proven(runs).keys()
    for obligation in sorted(never):
        yield visible(shorten(f"    {obligation}: never", 500))


def _age(result: CheckResult, today: date) -> str:
    until = stale_since(result)
    if until is None:
        return "nobody knows when it was made"
    days = (today - datetime.fromisoformat(result.environment.started).date()).days
    return f"{plural(days, 'day')} old, counts until {until}"


def _since(before: Run | None, run: Run) -> Iterator[str]:
    """What changed since the run before it."""
    if before is None:
        return
    found = list(changes(before.result, run.result))
    if before.result.change.head != run.result.change.head:
        heads = [compact(r.result.change.head) for r in (before, run)]
        found.insert(0, f"it is about {heads[1]}, the one before about {heads[0]}")
    shown = found[:_CHANGES] or ["nothing that was examined came out otherwise"]
    yield from (visible(f"      since the run before: {shorten(text, 300)}") for text in shown)
    if len(found) > _CHANGES:
        yield f"      and {len(found) - _CHANGES} more changes: `validator report BUNDLE --against BUNDLE` says all"


def _proven(runs: Iterable[Run]) -> dict[str, Run]:
    """Obligation → the newest run that proved it."""
    return {o.id: run for run in runs for o in run.result.obligations if o.status is Status.PROVEN}


def _stale(run: Run, newest: Run, today: date, here: Mapping[str, str]) -> str:
    """Why a proof counts no longer; empty when it does."""
    until = stale_since(run.result)
    if until is None:
        return "nobody knows when it was made"
    if until < today:
        return f"the policy lets it count until {until}"
    if run.result.change.head != newest.result.change.head:
        return (
            f"it is about {compact(run.result.change.head)}, the newest run about {compact(newest.result.change.head)}"
        )
    if run.tools != newest.tools:
        return f"newer runs use other tools ({_others(run.tools, newest.tools)})"
    other = {tool: version for tool, version in here.items() if run.tools.get(tool, version) != version}
    return f"this machine has other tools ({_others(run.tools, {**run.tools, **other})})" if other else ""


def _others(then: Mapping[str, str], now: Mapping[str, str]) -> str:
    tools = sorted(t for t in then.keys() | now.keys() if then.get(t) != now.get(t))
    return ", ".join(f"{t}: {then.get(t, 'absent')} then, {now.get(t, 'absent')} now" for t in tools[:4])
