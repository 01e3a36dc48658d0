"""A differential run for a terminal: what fits on a screen, the failures first."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from validator.differential.faults import FaultKind
from validator.differential.pattern import pattern
from validator.differential.results import WHERE, CaseResult, KernelResult, replay_command
from validator.manifest.contract import KernelContract
from validator.text import shorten, visible
from validator.verdict.model import StageResult

__all__ = ["replay_text", "run_text"]

_SHOWN = 3
"""Failures told in full, and faults of one; the others are counted."""
_STEPS = 6
"""Of a story."""
_WIDTH = 100
"""Columns."""


def run_text(
    kernels: Sequence[tuple[KernelContract, KernelResult | None, StageResult]],
    verdict: str,
    where: str = WHERE,
    again: str = "",
) -> str:
    """The whole report.

    Args:
        where: the options of `validator replay` that find what was run here.
        again: the command that runs all of it again, where no single case can be replayed.
    """
    lines = [verdict.upper(), ""]
    for contract, result, stage in kernels:
        lines += _kernel(contract, result, stage, where, again)
    return "\n".join(lines).rstrip() + "\n"


def _kernel(
    contract: KernelContract, result: KernelResult | None, stage: StageResult, where: str, again: str
) -> Iterator[str]:
    (obligation,) = stage.obligations
    yield f"{visible(contract.match)}: {obligation.status.value}" + (
        f", {visible(obligation.reason)}" if obligation.reason else ""
    )
    for evidence in stage.evidence:
        yield f"  {visible(evidence.summary)}"
        figures = evidence.figures
        yield (
            f"  controls: {figures['controls refused']} refused, {figures['controls accepted']} accepted; "
            f"mutants: {figures['mutants tried']} tried, {figures['mutants not seen']} not seen"
        )
        yield f"  input classes: {figures['input classes']}"
    if result is not None:
        if shared := pattern(result.results, contract.tiles):
            yield f"  {visible(shared)}"
        shown = list(result.shrunk.values()) or result.of("failed")[:1]
        for failed in shown[:_SHOWN]:
            yield ""
            yield from _failure(failed, again or replay_command(failed.case, where))
    for finding in stage.findings:
        if finding.severity.value in ("warning", "unproven"):
            yield f"  {finding.rule}: {visible(finding.message)}"
    for evidence in stage.evidence:
        yield from (f"  not covered: {visible(text)}" for text in evidence.not_covered)
    yield ""


def _failure(result: CaseResult, again: str) -> Iterator[str]:
    """Input in words, expected, got, where, how to replay: what fits on a screen, but for the command to be copied."""
    yield from _told("  input   ", result.words(), 320)
    for fault in result.faults[:_SHOWN]:
        yield from _told(f"  {fault.kind.value}: ", fault.message, 320)
        if fault.figures:
            yield from _told("          ", ", ".join(f"{k} {v}" for k, v in fault.figures.items()), 160)
        for number, step in enumerate(fault.story[:_STEPS], 1):
            yield from _told(f"  {number:6}. ", step, 160)
    if len(result.faults) > _SHOWN:
        yield f"  and {len(result.faults) - _SHOWN} more"
    if any(fault.kind in (FaultKind.HIDDEN, FaultKind.REPEAT) for fault in result.faults):
        yield "  (hangs on earlier calls, or on chance: a replay of this case alone may pass)"
    yield f"  replay  {visible(again)}"


def _told(label: str, text: str, most: int) -> list[str]:
    """So many characters at most, in lines of the screen's width."""
    return textwrap.wrap(
        visible(shorten(text, most)), _WIDTH, initial_indent=label, subsequent_indent=" " * 10, break_on_hyphens=False
    )


def replay_text(result: CaseResult) -> str:
    """One case, replayed."""
    lines = [f"{result.status}: case {result.case.id}"]
    if result.faults:
        lines += _failure(result, replay_command(result.case))
    else:
        lines += _told("  input   ", result.words(), 320)
        if result.unusable:
            lines.append(f"  {visible(result.unusable)}")
        elif result.controlled is not None:
            lines += [f"  accepted although wrong: {visible(name)}" for name in result.controlled.passed]
    return "\n".join(lines) + "\n"
