"""A differential run for a terminal: what fits on a screen, the failures first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from validator.differential.faults import FaultKind
from validator.differential.pattern import pattern
from validator.differential.results import WHERE, CaseResult, KernelResult, replay_command
from validator.manifest.contract import KernelContract
from validator.text import shorten, visible
from validator.verdict.model import StageResult

__all__ = ["replay_text", "run_text"]

_SHOWN = 3
"""Failures told in full; the others are counted."""


def run_text(
    kernels: Sequence[tuple[KernelContract, KernelResult | None, StageResult]],
    verdict: str,
    where: str = WHERE,
) -> str:
    """The whole report. `where`: the options of `validator replay` that find what was run here."""
    lines = [verdict.upper(), ""]
    for contract, result, stage in kernels:
        lines += _kernel(contract, result, stage, where)
    return "\n".join(lines).rstrip() + "\n"


def _kernel(contract: KernelContract, result: KernelResult | None, stage: StageResult, where: str) -> Iterator[str]:
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
            yield from _failure(failed, where)
    for finding in stage.findings:
        if finding.severity.value in ("warning", "unproven"):
            yield f"  {finding.rule}: {visible(finding.message)}"
    for evidence in stage.evidence:
        yield from (f"  not covered: {visible(text)}" for text in evidence.not_covered)
    yield ""


def _failure(result: CaseResult, where: str = WHERE) -> Iterator[str]:
    """Input in words, expected, got, where, how to replay."""
    yield f"  input   {visible(result.case.words())}"
    for fault in result.faults[:_SHOWN]:
        yield f"  {fault.kind.value}: {visible(shorten(fault.message, 400))}"
        if fault.figures:
            yield "          " + ", ".join(f"{visible(k)} {visible(str(v))}" for k, v in fault.figures.items())
        yield from (f"  {n:6}. {visible(step)}" for n, step in enumerate(fault.story, 1))
    if any(fault.kind in (FaultKind.HIDDEN, FaultKind.REPEAT) for fault in result.faults):
        yield "  (hangs on earlier calls, or on chance: a replay of this case alone may pass)"
    yield f"  replay  {visible(replay_command(result.case, where))}"


def replay_text(result: CaseResult) -> str:
    """One case, replayed."""
    lines = [f"{result.status}: case {result.case.id}"]
    if result.faults:
        lines += _failure(result)
    else:
        lines.append(f"  input   {visible(result.case.words())}")
        if result.unusable:
            lines.append(f"  {visible(result.unusable)}")
        elif result.controlled is not None:
            lines += [f"  accepted although wrong: {visible(name)}" for name in result.controlled.passed]
    return "\n".join(lines) + "\n"
