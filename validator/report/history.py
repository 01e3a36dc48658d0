"""Runs of a manifest over time: what was proven when and with which tools, and what is stale by now.

Evidence ages: the policy says for how many days it counts, and a newer run with other tools makes older proofs stale.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path

from validator.errors import Problem
from validator.policy.model import EvidencePolicy
from validator.report.reading import read_result
from validator.report.words import compact, plural
from validator.text import shorten, visible
from validator.verdict.bundle import MANIFEST, BundleError
from validator.verdict.model import Status
from validator.verdict.result import CheckResult
from validator.verdict.review import ReviewError, read_reviews

__all__ = ["Run", "find_runs", "render_history", "stale_since"]

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
    def tools(self) -> str:
        """What the evidence was made with."""
        environment = self.result.environment
        return ", ".join([f"validator {environment.validator}", *(f"{k} {v}" for k, v in environment.tools.items())])


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


def render_history(runs: Sequence[Run], today: date) -> str:
    """One block a manifest: its runs, then what stands proven and what is stale."""
    blocks = [list(_manifest(name, group, today)) for name, group in _grouped(runs)]
    return "\n\n".join("\n".join(lines) for lines in blocks) + "\n"


def _grouped(runs: Iterable[Run]) -> list[tuple[str, list[Run]]]:
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.manifest, []).append(run)
    return list(groups.items())


def _manifest(name: str, runs: list[Run], today: date) -> Iterator[str]:
    yield f"{visible(shorten(name, 120))}: {plural(len(runs), 'run')}"
    for run in runs:
        result = run.result
        decided = "; ".join(run.decisions) or "nobody decided"
        yield visible(
            f"  {result.environment.started[:16]}  {compact(result.change.head)}  {result.verdict.value:<8}  "
            f"{shorten(str(run.folder), 120)}: {shorten(decided, 300)}"
        )
        yield visible(f"      with {shorten(run.tools, 400)}")
    yield "  proven, by the last run that showed it:"
    for obligation, run in sorted(_proven(runs).items()):
        why = _stale(run, runs[-1], today)
        day = run.result.environment.started[:10]
        text = f"    {obligation}: {day}, {compact(run.result.change.head)}" + (f"; STALE: {why}" if why else "")
        yield visible(shorten(text, 500))
    never = {o.id for r in runs for o in r.result.obligations} - _proven(runs).keys()
    for obligation in sorted(never):
        yield visible(shorten(f"    {obligation}: never", 500))


def _proven(runs: Iterable[Run]) -> dict[str, Run]:
    """Obligation → the newest run that proved it."""
    return {o.id: run for run in runs for o in run.result.obligations if o.status is Status.PROVEN}


def _stale(run: Run, newest: Run, today: date) -> str:
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
        return "newer runs use other tools"
    return ""
