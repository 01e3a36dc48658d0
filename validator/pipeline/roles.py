"""Roles over recorded steps: is what is declared fixed fixed where its caller runs, and is the step as declared?

A step of the manifest that names what makes it (`run`) is run three times in a confined worker; the kernels that it
calls are watched there. The same recording, as a `[[steps]]` table, is what the ordering audit takes.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from validator.errors import Problem, ValidatorError
from validator.gpu.recording import Recording, broken_roles, parsed, step_of
from validator.gpu.rules import changing_role
from validator.manifest.contract import KernelContract, Step
from validator.run.adapters import ADAPTERS
from validator.run.channel import Call
from validator.run.sandbox import Limits, Outcome, Worker
from validator.run.tree import write_tree
from validator.stage import StageContext
from validator.verdict.model import Evidence, Finding, Location, Obligation, StageResult, Status, Strength

__all__ = ["FAMILY", "STATEMENT", "NotRecorded", "difference", "record", "roles", "table_of"]

FAMILY = "roles"
STATEMENT = "over the recorded steps, memory that is declared fixed stays as it is"
STEPS = 3
_LIMITS = Limits(wall=300.0, start=120.0, returned=64 << 20)


class NotRecorded(ValidatorError):
    """The steps could not be run, or came to no recording."""


def record(contracts: Sequence[KernelContract], tree: Path, run: str, device: str, steps: int = STEPS) -> Recording:
    """`run` (`module:function` below `tree`) called once a step. Raises `NotRecorded`.

    `device`: `cpu`, or `cuda` where the steps need one.
    """
    watched = [c for c in contracts if c.torch is not None]
    if not watched:
        raise NotRecorded(Problem("no kernel's contract names a `torch` callable, so there is nothing to watch"))
    adapter = ADAPTERS["steps-cuda" if device == "cuda" else "steps"]
    if lacking := adapter.lacking():
        raise NotRecorded(Problem(f"not run here: {lacking}"))
    tables = [c.model_dump(mode="json", exclude_defaults=True) for c in watched]
    options = {"contracts": json.dumps(tables), "steps": str(steps), "device": device}
    with Worker(run, tree, _LIMITS, adapter=adapter, options=options) as worker:
        reply = worker.call(Call((), ()))
    if reply.outcome is Outcome.ABSENT:
        raise NotRecorded(Problem(f"not run here: {reply.detail}"))
    if reply.outcome is not Outcome.OK or reply.result is None or len(reply.result.data) != 1:
        raise NotRecorded(Problem(f"{run}: {reply.outcome.value}: {reply.detail[:300]}".rstrip(": ")))
    try:
        recording = parsed(bytes(reply.result.data[0]).decode("utf-8", "replace"))
    except ValueError as error:
        raise NotRecorded(Problem(f"{run}: {error}")) from None
    known = {contract.match: set(contract.values) for contract in watched}
    if any({a.argument for a in one.arguments} - known.get(one.kernel, set()) for one in recording.launches):
        raise NotRecorded(Problem(f"{run}: came to a recording of kernels or arguments that nobody declared"))
    if not recording.launches:
        raise NotRecorded(Problem(f"{run}: called none of {', '.join(str(c.torch) for c in watched)}"))
    return recording


def roles(context: StageContext) -> StageResult:
    """One obligation for every step of the manifest that names what makes it."""
    manifest = context.manifest
    named = [step for step in manifest.steps if step.run is not None] if manifest else []
    if manifest is None or not named:
        return StageResult()
    device = "cuda" if not ADAPTERS["steps-cuda"].lacking() else "cpu"
    parts = []
    with tempfile.TemporaryDirectory(dir=context.workdir) as folder:
        write_tree(context.change.head_tree, Path(folder))
        for step in named:
            context.progress(f"{FAMILY}: recording {step.name}")
            parts.append(_settled(manifest.kernels, step, Path(folder), device))
    findings = dict.fromkeys(finding for part in parts for finding in part.findings)
    return StageResult(
        tuple(o for part in parts for o in part.obligations),
        tuple(e for part in parts for e in part.evidence),
        tuple(findings),
    )


@dataclass(frozen=True, slots=True)
class _Told:
    status: Status
    said: str
    findings: tuple[Finding, ...] = ()


def _settled(contracts: Sequence[KernelContract], step: Step, tree: Path, device: str) -> StageResult:
    assert step.run is not None
    try:
        recording = record(contracts, tree, step.run, device)
    except NotRecorded as error:
        reason = "; ".join(map(str, error.problems))
        return StageResult((_obligation(step, _Told(Status.UNPROVEN, reason)),))
    told = _judged(step, recording)
    strength = Strength.GPU_RUN if device == "cuda" else Strength.CPU_MODEL
    evidence = Evidence(
        id=f"{FAMILY}/{step.name}",
        kind=FAMILY,
        strength=strength,
        summary=f"{STEPS} steps of {step.run}, {len(recording.launches)} launches: {told.said}",
        status=told.status,
        figures={"steps": STEPS, "launches": len(recording.launches), "fixed buffers": len(recording.first)},
        not_covered=("callers other than the recorded one, and kernels that the manifest does not declare",),
        assumptions=(f"{step.run} runs the kernels as the product does; it comes with the change",),
        details={"step": step_of(recording, name=step.name).model_dump(mode="json", exclude_defaults=True)},
    )
    return StageResult((_obligation(step, told, evidence),), (evidence,), told.findings)


def _judged(step: Step, recording: Recording) -> _Told:
    broken = broken_roles(recording)
    if broken:
        where = Location((step.run or "").partition(":")[0].replace(".", "/") + ".py")
        findings = tuple(changing_role.find(where, b.kernel, b.argument, str(b)) for b in broken)
        return _Told(Status.REFUTED, "; ".join(map(str, broken)), findings)
    if other := difference(step, step_of(recording)):
        return _Told(Status.UNPROVEN, f"the recorded step is not the declared one: {other}")
    return _Told(Status.PROVEN, f"{len(recording.first)} buffers that are declared fixed did not change")


def difference(declared: Step, recorded: Step) -> str:
    """The first way in which a recorded step is not the declared one; empty where they agree.

    Launches, in order, and which arguments share a buffer. What the declaration leaves out is left open.
    """
    if len(declared.launches) != len(recorded.launches):
        return f"{len(recorded.launches)} launches, {len(declared.launches)} are declared"
    one: dict[str, str] = {}
    other: dict[str, str] = {}
    for number, (said, seen) in enumerate(zip(declared.launches, recorded.launches, strict=True), 1):
        if said.kernel != seen.kernel:
            return f"launch {number} is {seen.kernel}, {said.kernel} is declared"
        for argument, buffer in seen.args.items():
            name = said.args.get(argument)
            if name is not None and (one.setdefault(name, buffer), other.setdefault(buffer, name)) != (buffer, name):
                return f"{argument} of launch {number} ({seen.kernel}) is another buffer than {name!r} elsewhere"
    return ""


def _obligation(step: Step, told: _Told, evidence: Evidence | None = None) -> Obligation:
    return Obligation(
        f"{FAMILY}/{step.name}",
        f"{step.name}: {STATEMENT}",
        told.status,
        told.said,
        evidence=(evidence.id,) if evidence else (),
        findings=tuple(f.id for f in told.findings),
        strength=evidence.strength if evidence else None,
        denial=f"{step.name}: memory that is declared fixed changes over the recorded steps",
    )


def table_of(step: Step) -> Iterator[str]:
    """The step as lines of a manifest."""
    yield "[[steps]]"
    yield f"name = {json.dumps(step.name)}"
    yield "launches = ["
    for launch in step.launches:
        args = ", ".join(f"{json.dumps(name)} = {json.dumps(buffer)}" for name, buffer in launch.args.items())
        pdl = "" if launch.pdl is None else f", pdl = {str(launch.pdl).lower()}"
        yield f"    {{ kernel = {json.dumps(launch.kernel)}{pdl}, args = {{ {args} }} }},"
    yield "]"
