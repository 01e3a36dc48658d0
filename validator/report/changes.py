"""What changed between two runs of one manifest, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from validator.errors import Problem
from validator.report.words import compact, plural
from validator.verdict.bundle import BundleError
from validator.verdict.model import Finding, Status
from validator.verdict.result import CheckResult

__all__ = ["changes", "since"]

_NAMED = 5
"""Findings that a sentence names."""


def since(earlier: CheckResult, result: CheckResult) -> CheckResult:
    """The result with what changed since `earlier`. Raises `BundleError` when that was of another manifest."""
    ids = [r.manifest.id if r.manifest else None for r in (earlier, result)]
    if None not in ids and ids[0] != ids[1]:
        raise BundleError(Problem(f"is a run of {ids[0]}, not of {ids[1]}", "--against", "name a run of the same"))
    return replace(result, since=tuple(changes(earlier, result)) or ("nothing that was examined came out otherwise",))


def changes(earlier: CheckResult, result: CheckResult) -> Iterator[str]:
    """Verdict first, then what judges, obligations, findings, tools."""
    if earlier.verdict is not result.verdict:
        yield f"the verdict was {earlier.verdict} for {compact(earlier.change.head)} and is {result.verdict} now"
    if earlier.policy_digest != result.policy_digest:
        yield f"another policy judged: {compact(earlier.policy_digest)} then, {compact(result.policy_digest)} now"
    yield from _obligations(earlier, result)
    then, now = _open(earlier), _open(result)
    yield from _listed("finding is gone", "findings are gone", then.keys() - now.keys())
    yield from _listed("new finding", "new findings", now.keys() - then.keys())
    tools, old = result.environment.tools, earlier.environment.tools
    for tool in sorted(tools.keys() | old.keys()):
        if tools.get(tool) != old.get(tool):
            yield f"{tool}: {old.get(tool, 'absent')} then, {tools.get(tool, 'absent')} now"


def _obligations(earlier: CheckResult, result: CheckResult) -> Iterator[str]:
    then = {o.id: o.status for o in earlier.obligations}
    now = {o.id: o.status for o in result.obligations}
    for name in sorted(then.keys() | now.keys()):
        if name not in now:
            yield f"{name} is no longer asked for; it was {then[name]}"
        elif name not in then:
            yield f"{name} is new: {now[name]}"
        elif then[name] is not now[name]:
            yield f"{name} was {then[name]} and is {now[name]}"


def _open(result: CheckResult) -> dict[str, Finding]:
    return {f.id: f for f in result.findings if f.status is not Status.WAIVED}


def _listed(one: str, many: str, ids: set[str]) -> Iterator[str]:
    if ids:
        names = sorted(ids)
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"{plural(len(names), one, many)}: {', '.join(names[:_NAMED])}{more}"
