"""From a git change to a verdict: opens the inputs, runs every stage, applies waivers, computes the verdict.

A stage that fails in a way nobody expected leaves its obligations unproven and says so; it never passes.
"""

from __future__ import annotations

import platform
import shlex
import tempfile
import traceback
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from validator import __version__
from validator.change.kernels import not_compiled as not_compiled_sources
from validator.change.model import Tree
from validator.errors import ValidatorError
from validator.pipeline import emulated, roles
from validator.pipeline.asked import as_policy_asks
from validator.pipeline.crosscheck import FAMILY, STATEMENT, cross_check
from validator.pipeline.inputs import Inputs, Options, open_inputs
from validator.pipeline.stages import STAGES, Entry
from validator.policy.waivers import judge_waivers
from validator.rules import aliases_of, unwaivable
from validator.scale.cell import InPlace, Work
from validator.stage import StageContext, Store
from validator.verdict.compute import apply_waivers, compute, verdict_reason
from validator.verdict.model import Evidence, Obligation, StageResult, Status, Strength
from validator.verdict.provenance import not_built_here, not_compiled
from validator.verdict.result import CheckResult, Environment, WaiverUse

__all__ = ["Options", "check"]

Clock = Callable[[], datetime]


def _utc_now() -> datetime:
    return datetime.now(UTC)


def check(
    options: Options,
    *,
    progress: Callable[[str], None] = lambda line: None,
    clock: Clock = _utc_now,
    stages: Iterable[Entry] | None = None,
    store: Store | None = None,
    kernels: tuple[Tree, Tree] | None = None,
    work: Work | None = None,
    debug: bool = False,
) -> CheckResult:
    """Judge one change. Raises `ValidatorError` when it cannot be judged at all; Ctrl-C leaves nothing behind.

    `work` runs what takes long; None: here and now. With `debug`, an unexpected exception of a stage ends the run with
    its traceback.
    """
    started = clock()
    progress("reading the change")
    inputs = open_inputs(options)
    with tempfile.TemporaryDirectory(prefix="validator-") as workdir:
        context = StageContext(
            change=inputs.change,
            policy=inputs.policy,
            manifest=inputs.manifest,
            today=started.date(),
            seed=options.seed,
            workdir=Path(workdir),
            progress=progress,
            store=store,
            kernels=kernels,
            work=InPlace() if work is None else work,
            manifest_path=options.rfc,
            journal=options.journal,
        )
        combined = _run(STAGES if stages is None else stages, context, debug)
        launched = _safely(FAMILY, STATEMENT, lambda: cross_check(context, combined), debug)
        recorded = _safely(roles.FAMILY, roles.STATEMENT, lambda: roles.roles(context), debug)
        run = _safely(emulated.FAMILY, emulated.STATEMENT, lambda: emulated.compare_runs(context, combined), debug)
        combined = _combine([combined, launched, recorded, run])
    judged, uses = _waive(as_policy_asks(combined, inputs.policy), inputs, started)
    obligations = tuple(sorted(judged.obligations, key=lambda o: o.id))
    return CheckResult(
        change=inputs.change,
        policy=inputs.policy,
        policy_digest=inputs.policy_digest,
        policy_source=inputs.policy_source,
        manifest=inputs.manifest,
        manifest_path=inputs.manifest_path,
        manifest_digest=inputs.manifest_digest,
        obligations=obligations,
        evidence=tuple(sorted(judged.evidence, key=lambda e: e.id)),
        findings=tuple(sorted(judged.findings, key=lambda f: f.id)),
        waivers=uses,
        verdict=compute(obligations),
        reason=verdict_reason(obligations),
        not_covered=_not_covered(judged, inputs),
        assumptions=_distinct(a for e in judged.evidence for a in e.assumptions),
        seed=options.seed,
        reproduce=_reproduce(options, inputs),
        environment=_environment(options, started, clock(), judged),
    )


def _run(stages: Iterable[Entry], context: StageContext, debug: bool) -> StageResult:
    results = []
    for entry in stages:
        context.progress(f"{entry.name}: {entry.doing}")
        results.append(_safely(entry.name, entry.statement, partial(_run_one, entry, context), debug))
    return _combine(results)


def _run_one(entry: Entry, context: StageContext) -> StageResult:
    return entry.load()(context)


def _safely(name: str, statement: str, run: Callable[[], StageResult], debug: bool) -> StageResult:
    """What `run` gives; where it fails, `name` is unproven and says why."""
    try:
        return run()
    except ValidatorError as error:
        reason = "could not be examined: " + "; ".join(map(str, error.problems))
    except Exception as error:
        if debug:
            raise
        last = traceback.extract_tb(error.__traceback__)[-1]
        reason = (
            f"internal error in the {name} stage: {type(error).__name__}: {error} "
            f"({Path(last.filename).name}:{last.lineno}); this is a fault of validator, please report it with the "
            "output of the same command under VALIDATOR_DEBUG=1"
        )
    return StageResult((Obligation(name, statement, Status.UNPROVEN, reason),))


def _combine(results: Iterable[StageResult]) -> StageResult:
    parts = list(results)
    return StageResult(
        tuple(o for r in parts for o in r.obligations),
        tuple(e for r in parts for e in r.evidence),
        tuple(f for r in parts for f in r.findings),
    )


def _waive(result: StageResult, inputs: Inputs, now: datetime) -> tuple[StageResult, tuple[WaiverUse, ...]]:
    if not inputs.waivers:
        return result, ()
    known: dict[str, str] = {}
    for finding in result.findings:
        known[finding.id] = finding.id
        for alias in aliases_of(finding.rule):
            known.setdefault(replace(finding, rule=alias).id, finding.id)
    barred = {written for written, actual in known.items() if _is_barred(actual)}
    judged = judge_waivers(inputs.waivers, inputs.policy, now.date(), set(known), barred)
    after = apply_waivers(result, {known[written] for written in judged.active})
    uses = tuple(
        WaiverUse(
            w.finding,
            w.owner,
            w.reason,
            w.link,
            w.created,
            w.expires,
            w.finding in judged.active,
            tuple(n.message for n in judged.notices if n.waiver is w),
        )
        for w in sorted(inputs.waivers, key=lambda w: w.finding)
    )
    return after, uses


def _is_barred(finding_id: str) -> bool:
    rule = finding_id.rpartition(":")[0]
    return rule.startswith("gate/") or rule in unwaivable()


def _not_covered(result: StageResult, inputs: Inputs) -> tuple[str, ...]:
    """Every gap once, the heaviest first: what did not run, what the runs did not show, then what reading left open."""
    said = []
    if not any(e.strength is Strength.GPU_RUN for e in result.evidence):
        said.append("nothing was run on a GPU")
    said += (*not_compiled(result.evidence), *not_built_here(result.evidence))
    said += _sources_not_compiled(inputs)
    said += [text for e in sorted(result.evidence, key=_gap_weight) for text in e.not_covered]
    claims = inputs.manifest.claims if inputs.manifest else ()
    if claims:
        said.append(f"what the author claims and nobody measured here: {', '.join(c.metric for c in claims)}")
    if inputs.other_manifests:
        said.append(f"manifests of this change that were not judged: {', '.join(inputs.other_manifests)}")
    said += [f"the view of the change is limited: {note}" for note in inputs.change.notes]
    return _distinct(said)


def _sources_not_compiled(inputs: Inputs) -> list[str]:
    """A kernel that is declared and examined may stand beside one that is compiled when it is called."""
    if inputs.manifest is None or not inputs.manifest.kernels:
        return []
    compiled = {build.source for build in inputs.manifest.builds if build.toolchain != "prebuilt"}
    found = not_compiled_sources(inputs.change, compiled, inputs.policy.trusted.tests)
    listed = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    told = f"kernels compiled from {listed}: no [[builds]] table names that, and only what ships compiled was examined"
    return [told] if found else []


def _gap_weight(evidence: Evidence) -> int:
    """Position among the gaps: kernels before sources, runs before proofs."""
    runs = (Strength.GPU_RUN, Strength.PTX_RUN, Strength.CPU_MODEL)
    proofs = (Strength.MACHINE_CODE, Strength.PTX)
    return 0 if evidence.strength in runs else 1 if evidence.strength in proofs else 2


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _reproduce(options: Options, inputs: Inputs) -> str:
    words = ["validator", "check", "--base", inputs.change.base, "--head", inputs.change.head]
    if options.rfc is not None:
        words += ["--rfc", options.rfc]
    if options.policies is not None:
        words += ["--policies", options.policies]
    return shlex.join([*words, "--seed", str(options.seed)])


def _environment(options: Options, started: datetime, ended: datetime, result: StageResult) -> Environment:
    suffix = " version"
    figures = [figure for e in result.evidence for figure in e.figures.items()]
    return Environment(
        validator=__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        repository=str(options.repository.absolute()),
        started=started.isoformat(timespec="seconds"),
        seconds=round((ended - started).total_seconds(), 3),
        tools={name.removesuffix(suffix): str(value) for name, value in sorted(figures) if name.endswith(suffix)},
    )
