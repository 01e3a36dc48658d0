"""Obligations on running the base's tests of the touched shared files: with the switch off, and on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from validator.change.model import Tree
from validator.errors import ValidatorError
from validator.isolation.analysis import Analysis
from validator.isolation.offpath.switch import SwitchSpec
from validator.isolation.rules import test_fails
from validator.isolation.suite import Suite, Tests
from validator.stage import StageContext
from validator.verdict.model import Evidence, Obligation, StageResult, Status, Strength

__all__ = ["run_tests"]

_FAMILY = "isolation/tests-run"
_NOT_SHOWN = (
    "tests that need what this machine lacks",
    "code that sets out to deceive the tests: they run in its own process",
)


def run_tests(context: StageContext, analysis: Analysis) -> StageResult:
    """One obligation with the switch off and one with it on; unproven and not asked for unless the policy asks."""
    files = sorted(test.path for test in analysis.coverage)
    if not context.policy.isolation.run_tests:
        count = f"{len(files)} test file" + ("s" if len(files) != 1 else "")
        reason = f"{count} of the base not run: `run_tests = true` under `[isolation]` in the policy runs them"
        return StageResult(tuple(_obligation(way, Status.NOT_ASKED, reason, ()) for way in ("off", "on") if files))
    if not files:
        reason = "no test of the base imports a touched shared file"
        return StageResult(tuple(_obligation(way, Status.NOT_APPLICABLE, reason, ()) for way in ("off", "on")))
    context.progress(f"isolation: running {len(files)} test files of the base")
    change = context.change
    suite = Suite(context.workdir, change.base_tree, files)
    session = _Session(suite, change.base_tree, change.head_tree, tuple(_judges(analysis, change.base_tree)), files)
    parts = [session.settled(way, _environment(analysis.switch, way)) for way in ("off", "on")]
    return StageResult(
        tuple(o for p in parts for o in p.obligations),
        tuple(e for p in parts for e in p.evidence),
        tuple(f for p in parts for f in p.findings),
    )


def _judges(analysis: Analysis, base: Tree) -> Iterator[str]:
    """Tests of the base, and what configures them."""
    for entry in base.list(""):
        if analysis.is_test(entry.path) or entry.path.rpartition("/")[2] == "conftest.py":
            yield entry.path


def _environment(switch: SwitchSpec | None, way: str) -> Mapping[str, str] | str:
    """Variables that put the switch so; or why nothing outside the code can."""
    if switch is None:
        return {} if way == "off" else "the manifest names no switch"
    if not switch.environment:
        return {} if way == "off" else "the switch is no environment variable: only the code itself can turn it on"
    value = switch.value if way == "on" else switch.default
    if value is None:
        return {}
    return {switch.name: {True: "1", False: "0"}[value] if isinstance(value, bool) else str(value)}


@dataclass(frozen=True)
class _Session:
    suite: Suite
    base: Tree
    head: Tree
    judges: tuple[str, ...]
    files: list[str]

    def settled(self, way: str, environment: Mapping[str, str] | str) -> StageResult:
        if isinstance(environment, str):
            return StageResult((_obligation(way, Status.UNPROVEN, environment, ()),))
        now = self.run(self.head, environment)
        broken = [*now.of("failed"), *now.of("error")]
        known: frozenset[str] = frozenset()
        if broken:
            before = self.run(self.base, environment)
            known = frozenset([*before.of("failed"), *before.of("error")])
        fails = tuple(name for name in broken if name not in known)
        findings = tuple(test_fails.failed(name, way) for name in fails)
        status, reason = _outcome(now, broken, fails)
        evidence = _evidence(way, status, now, self.files)
        ids = tuple(finding.id for finding in findings)
        return StageResult((_obligation(way, status, reason, ids, evidence.id),), (evidence,), findings)

    def run(self, tree: Tree, environment: Mapping[str, str]) -> Tests:
        try:
            return self.suite.run(tree, self.judges, environment)
        except ValidatorError as error:
            return Tests(problem="; ".join(map(str, error.problems)))
        except OSError as error:
            return Tests(problem=f"the tree cannot be written out: {error.strerror}")


def _outcome(now: Tests, broken: list[str], fails: tuple[str, ...]) -> tuple[Status, str]:
    if now.problem:
        return Status.UNPROVEN, f"could not be run here: {now.problem}"
    if fails:
        return Status.REFUTED, f"{fails[0]} fails" + (f" (and {len(fails) - 1} more)" if len(fails) > 1 else "")
    if broken:
        return Status.UNPROVEN, f"could not be run here, at the base neither: {broken[0]}"
    if not now.of("passed"):
        return Status.UNPROVEN, "no test ran: all were skipped" if now.outcomes else "no test was found"
    return Status.PROVEN, ""


def _obligation(
    way: str, status: Status, reason: str, findings: tuple[str, ...], evidence: str | None = None
) -> Obligation:
    statement = f"With the switch {way}, the base's tests of the touched shared files pass."
    shown = () if evidence is None else (evidence,)
    return Obligation(
        f"{_FAMILY}/{way}", statement, status, reason, evidence=shown, findings=findings, strength=Strength.SOURCE
    )


def _evidence(way: str, status: Status, now: Tests, files: list[str]) -> Evidence:
    figures = {"test files": len(files)} | {
        name: len(now.of(name)) for name in ("passed", "failed", "error", "skipped")
    }
    looked = ", ".join(f"{count:,} {name}" for name, count in figures.items())
    return Evidence(
        id=f"{_FAMILY}/{way}",
        kind="tests",
        strength=Strength.SOURCE,
        summary=looked,
        status=status,
        figures=dict(figures),
        not_covered=_NOT_SHOWN,
    )
