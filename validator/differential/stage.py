"""The differential stage: one obligation per kernel that has a CPU callable, settled by running it."""

from __future__ import annotations

import fnmatch
import hashlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from validator.differential.cases import case_text
from validator.differential.coverage import coverage, not_covered
from validator.differential.details import kernel_details
from validator.differential.engine import CaseResult, KernelResult, run_kernel
from validator.differential.errors import DifferentialError
from validator.differential.judge import Fault
from validator.differential.rules import BY_FAULT, blind_tolerance, tolerance_too_wide
from validator.differential.runner import Runner
from validator.errors import ValidatorError
from validator.manifest.contract import KernelContract, Tolerance
from validator.policy.model import DifferentialPolicy
from validator.run.sandbox import Limits, TreeReader, Worker, write_tree
from validator.stage import StageContext
from validator.verdict.model import Evidence, Finding, Location, Obligation, StageResult, Status, Strength

__all__ = ["Trees", "granted", "run", "runner_for", "settle", "unsettled"]

STATEMENT = "every kernel's new path computes what its reference computes, on inputs that the contract allows"
_VOID_SHARE = 0.5
"""Share of cases that may show nothing before a kernel counts as not examined."""


@dataclass(frozen=True, slots=True)
class Trees:
    """Where callables are imported from."""

    head: Path
    base: Path

    def below(self, root: str) -> Trees:
        """The same trees, from a folder in them on."""
        return Trees(self.head / root, self.base / root)


def run(context: StageContext) -> StageResult:
    """Run every kernel's candidate against its reference. No callable, no evidence: `unproven`."""
    contracts = context.manifest.kernels if context.manifest is not None else ()
    if not contracts:
        reason = "the change has no manifest" if context.manifest is None else "the manifest declares no kernels"
        return StageResult((Obligation("differential", STATEMENT, Status.UNPROVEN, reason),))
    obligations: list[Obligation] = []
    evidence: list[Evidence] = []
    findings: list[Finding] = []
    written: dict[str, Trees] = {}
    for contract in contracts:
        try:
            result = _kernel(context, contract, written)
        except ValidatorError as error:
            reason = "could not be examined: " + "; ".join(map(str, error.problems))
            result = StageResult((unsettled(contract, reason),))
        obligations += result.obligations
        evidence += result.evidence
        findings += result.findings
    return StageResult(tuple(obligations), tuple(evidence), tuple(findings))


def _kernel(context: StageContext, contract: KernelContract, written: dict[str, Trees]) -> StageResult:
    if contract.candidate is None:
        return StageResult((unsettled(contract, "the manifest names no CPU callable (`candidate`), nothing was run"),))
    root = contract.import_root
    if root not in written:
        written[root] = _write_trees(context, root, len(written))
    where = context.manifest_path or f"{context.manifest.id if context.manifest else 'manifest'}"
    capped, findings = granted(contract, context.policy.differential, where)
    count = context.policy.differential.min_cases
    result = run_trees(capped, written[root], context.seed, count, context.progress)
    inputs = {
        f"candidate {contract.candidate}": _module_digest(context.change.head_tree, root, contract.candidate),
        f"reference {contract.reference}": _module_digest(context.change.base_tree, root, contract.reference or ":"),
    }
    return settle(capped, result, count, inputs, findings)


def _write_trees(context: StageContext, root: str, index: int) -> Trees:
    # Names that say nothing: the candidate can see the path it was imported from.
    folders = [context.workdir / hashlib.sha256(f"{side}{index}".encode()).hexdigest()[:12] for side in "hb"]
    for folder, tree in zip(folders, (context.change.head_tree, context.change.base_tree), strict=True):
        folder.mkdir(parents=True)
        write_tree(tree, folder, root)
    return Trees(*folders)


def run_trees(
    contract: KernelContract,
    trees: Trees,
    seed: int,
    count: int,
    progress: Callable[[str], None] = lambda line: None,
) -> KernelResult:
    """Run one contract with the candidate from `trees.head` and everything trusted from `trees.base`."""
    with runner_for(contract, trees) as runner:
        return run_kernel(runner, seed, count, progress=progress)


@contextmanager
def runner_for(contract: KernelContract, trees: Trees, limits: Limits | None = None) -> Iterator[Runner]:
    """The processes of one contract, ended when the block ends."""
    if contract.candidate is None or contract.reference is None:
        raise DifferentialError(f"{contract.match}: needs `candidate` and `reference`")
    limits = limits or Limits()
    trusted = tuple(t for t in (contract.reference, contract.baseline) if t is not None)
    forbidden = tuple(t for t in trusted if t != contract.candidate)
    with ExitStack() as stack:
        candidate = stack.enter_context(Worker(contract.candidate, trees.head, limits, forbidden))
        reference = stack.enter_context(Worker(contract.reference, trees.base, limits))
        baseline = reference
        if contract.baseline is not None:
            baseline = stack.enter_context(Worker(contract.baseline, trees.base, limits))
        checker = generator = None
        if contract.tolerance.policy == "property" and contract.tolerance.checker is not None:
            checker = stack.enter_context(Worker(contract.tolerance.checker, trees.base, limits))
        if contract.generator is not None:
            generator = stack.enter_context(Worker(contract.generator, trees.base, limits))
        yield Runner(contract, candidate, reference, baseline, checker, generator)


def granted(
    contract: KernelContract, policy: DifferentialPolicy, where: str
) -> tuple[KernelContract, tuple[Finding, ...]]:
    """The contract with a tolerance no wider than policy grants, and a finding where it asked for more."""
    grant = next((t for glob, t in policy.tolerances.items() if fnmatch.fnmatchcase(contract.match, glob)), None)
    asked = contract.tolerance
    cap = Tolerance() if grant is None else _as_contract(grant, asked)
    if _within(asked, cap):
        return contract, ()
    message = f"{contract.match} asks for {_words(asked)}; policy grants {_words(cap)}, which was used"
    finding = Finding(
        tolerance_too_wide.RULE.id,
        tolerance_too_wide.RULE.severity,
        message,
        Location(where, kernel=contract.match),
        fix="drop `tolerance` from the manifest, or change the policy first, in a change of its own",
        identity=(contract.match,),
    )
    return contract.model_copy(update={"tolerance": cap}), (finding,)


def _as_contract(grant: object, asked: Tolerance) -> Tolerance:
    keys = {k: v for k in ("rms_ratio", "max_ratio", "atol", "rtol", "ulp") if (v := getattr(grant, k)) is not None}
    return Tolerance.model_construct(policy=str(getattr(grant, "kind", asked.policy)), checker=asked.checker, **keys)


def _within(asked: Tolerance, cap: Tolerance) -> bool:
    if asked.policy == "exact":
        return True
    if asked.policy != cap.policy:
        return False
    keys = {"relative-to-baseline": ("rms_ratio", "max_ratio"), "absolute": ("atol", "rtol"), "ulp": ("ulp",)}
    return all(getattr(asked, k) <= getattr(cap, k) for k in keys.get(asked.policy, ()))


def _words(tolerance: Tolerance) -> str:
    match tolerance.policy:
        case "absolute":
            return f"absolute (atol {tolerance.atol:g}, rtol {tolerance.rtol:g})"
        case "ulp":
            return f"{tolerance.ulp} ulp"
        case "relative-to-baseline":
            return f"{tolerance.rms_ratio:g} times the baseline's error ({tolerance.max_ratio:g} for single elements)"
        case _:
            return tolerance.policy


def _module_digest(tree: TreeReader, root: str, target: str) -> str:
    """Digest of the source file of a callable's module; `sha256:` of nothing when it is not there."""
    stem = target.partition(":")[0].replace(".", "/")
    prefix = "" if root in ("", ".") else root.strip("/") + "/"
    for path in (f"{prefix}{stem}.py", f"{prefix}{stem}/__init__.py"):
        if any(entry.path == path for entry in tree.list(path)):
            return "sha256:" + hashlib.sha256(tree.read(path)).hexdigest()
    return "absent"


def settle(
    contract: KernelContract,
    result: KernelResult,
    needed: int,
    inputs: dict[str, str],
    findings: Sequence[Finding] = (),
) -> StageResult:
    """What a kernel's run means: its obligation, the evidence, and a finding for every kind of fault."""
    found = (*findings, *_findings(contract, result))
    status, reason = _status(contract, result, needed, found)
    rows = coverage(contract, [r.case for r in result.results])
    ident = f"differential/{contract.match}"
    statuses = {s: len(result.of(s)) for s in ("passed", "failed", "void", "degenerate", "unusable")}
    figures: dict[str, int | float | str] = {
        "cases planned": len(result.planned),
        **{f"cases {name}": count for name, count in statuses.items()},
        "cases without a result": len(result.missing),
        "calls of the candidate": result.calls,
        "controls refused": sum(len(r.controlled.refused) for r in result.results if r.controlled),
        "controls accepted": sum(len(r.controlled.passed) for r in result.results if r.controlled),
        "mutants tried": result.mutated,
        "mutants not seen": len(result.blind),
        "input classes": ", ".join(r.input_class for r in rows if r.cases),
    }
    judged = len(result.results) - statuses["unusable"]
    evidence = Evidence(
        id=ident,
        kind="differential",
        strength=Strength.CPU_MODEL,
        summary=(
            f"{judged} of {len(result.planned)} cases run against {contract.reference}: {statuses['passed']} right, "
            f"{statuses['failed']} wrong, {statuses['void'] + statuses['degenerate']} show nothing"
        ),
        status=status,
        inputs=inputs,
        figures=figures,
        not_covered=(
            "the CPU callable was run, not the compiled kernel: that both compute the same is not shown",
            *not_covered(rows),
            *_unenforced(result),
            *(() if result.wide else (f"{contract.reference} refuses float64: it was its own exact result",)),
        ),
        assumptions=(f"{contract.reference} at the base revision is right",),
        details=kernel_details(result, rows),
    )
    obligation = Obligation(
        ident,
        f"{contract.match}: the new path computes what {contract.reference} computes",
        status,
        reason,
        (evidence.id,),
        tuple(f.id for f in found),
        Strength.CPU_MODEL,
    )
    return StageResult((obligation,), (evidence,), found)


def unsettled(contract: KernelContract, reason: str) -> Obligation:
    return Obligation(
        f"differential/{contract.match}",
        f"{contract.match}: the new path computes what its reference computes",
        Status.UNPROVEN,
        reason,
    )


def _status(
    contract: KernelContract, result: KernelResult, needed: int, found: Sequence[Finding]
) -> tuple[Status, str]:
    failed, passed = result.of("failed"), result.of("passed")
    unusable = result.of("unusable")
    if failed:
        return Status.REFUTED, f"{len(failed)} of {len(result.results)} cases fail"
    if not result.sound:
        return Status.UNPROVEN, "a candidate that does nothing was accepted after the others: the run is void"
    if unusable:
        return Status.UNPROVEN, f"{len(unusable)} cases cannot be judged: {unusable[0].unusable}"
    if result.missing:
        return Status.UNPROVEN, f"{len(result.missing)} cases have no result"
    shows_nothing = len(result.results) - len(passed)
    if shows_nothing > _VOID_SHARE * len(result.results):
        return Status.UNPROVEN, f"{shows_nothing} of {len(result.results)} cases show nothing: known-bad results pass"
    if len(passed) < needed:
        return Status.UNPROVEN, f"{len(passed)} cases were judged, policy asks for {needed}"
    if any(f.rule == tolerance_too_wide.RULE.id for f in found):
        return Status.UNPROVEN, "the manifest asks for a wider tolerance than policy grants"
    return Status.PROVEN, ""


def _unenforced(result: KernelResult) -> Iterator[str]:
    for name, state in sorted(result.enforced.items()):
        if state != "yes":
            yield f"the candidate ran without confinement of {name} on this machine ({state})"


def _findings(contract: KernelContract, result: KernelResult) -> Iterator[Finding]:
    """One finding per rule and output, told by the smallest case that shows it."""
    groups: dict[tuple[str, str], list[tuple[CaseResult, Fault]]] = {}
    for failed in result.of("failed"):
        for fault in failed.faults:
            groups.setdefault((BY_FAULT[fault.kind].id, fault.output), []).append((failed, fault))
    for (rule, output), shown in groups.items():
        first, fault = _clearest(result, rule, output, shown)
        figures = ", ".join(f"{k} {v}" for k, v in fault.figures.items())
        yield Finding(
            rule,
            BY_FAULT[fault.kind].severity,
            f"{contract.match}: {fault.message}",
            Location((contract.candidate or "").partition(":")[0].replace(".", "/") + ".py", kernel=contract.match),
            why=f"{len(shown)} of {len(result.results)} cases show it" + (f" ({figures})" if figures else ""),
            fix=f"validator replay {shlex.quote(case_text(first.case))} --manifest FILE",
            steps=(f"input: {first.case.words()}", f"made because: {first.case.origin}", f"case {first.case.id}"),
            identity=(contract.match, output),
            count=len(shown),
        )
    if result.blind:
        shown_mutants = ", ".join(result.blind[:6]) + (f" and {len(result.blind) - 6} more" if result.blind[6:] else "")
        yield Finding(
            blind_tolerance.RULE.id,
            blind_tolerance.RULE.severity,
            f"{contract.match}: no case tells these mistakes from the right result: {shown_mutants}",
            Location(contract.match, kernel=contract.match),
            why=f"{len(result.blind)} of {result.mutated} mutants of the reference pass every case",
            fix="narrow the tolerance, or widen the domain so that the term dominates, or set the other terms to zero",
            identity=(contract.match,),
        )


def _clearest(
    result: KernelResult, rule: str, output: str, shown: list[tuple[CaseResult, Fault]]
) -> tuple[CaseResult, Fault]:
    """The shrunk case that shows the same, or else the first that failed."""
    for small in result.shrunk.values():
        for fault in small.faults:
            if (BY_FAULT[fault.kind].id, fault.output) == (rule, output):
                return small, fault
    return shown[0]
