"""`validator demo`: three small changes, each in a real git repository, judged by the real pipeline.

The day the demo plays on is fixed, as its commits and its manifest are: the same input gives the same summaries
whenever and wherever it runs.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import git

from validator.errors import Problem, ValidatorError
from validator.pipeline import Options, check
from validator.report.bundle import save_bundle
from validator.report.markdown import render_markdown
from validator.resources import resource
from validator.text import visible
from validator.verdict.model import Severity, Status, Verdict
from validator.verdict.result import CheckResult

__all__ = ["SCENARIOS", "DemoError", "Scenario", "build_repository", "run_demo"]

DAY = datetime(2026, 12, 1, 12, tzinfo=UTC)
SEED = 20261201


class DemoError(ValidatorError):
    """The demo cannot be built where it was asked for."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One change and what has to come of it."""

    name: str
    layers: tuple[str, ...]
    """Folders of `fixtures/demo`, laid over `base` in this order."""
    title: str
    expected: Verdict
    rule: str = ""
    """Family of the rule that must refute it; empty for a pass."""


SCENARIOS = (
    Scenario("good", ("good",), "a fused decode step behind a switch", Verdict.PASS),
    Scenario(
        "hoisted", ("good", "hoisted"), "the same; ptxas moved an activation above the wait", Verdict.FAIL, "order/"
    ),
    Scenario("loosened", ("good", "loosened"), "the same; loosens the policy that judges it", Verdict.FAIL, "gate/"),
)


def run_demo(output_dir: Path | None) -> int:
    """Judge every scenario and print a line for each; 0 when all came out as expected, else 1.

    With `output_dir`, repositories (`repo-<scenario>/`), bundles (`bundle-<scenario>/`) and summaries
    (`summary-<scenario>.md`) stay there. Raises `DemoError` when something of that name is there already.
    """
    with _workplace(output_dir) as place:
        outcomes = [_play(scenario, place, kept=output_dir is not None) for scenario in SCENARIOS]
    wrong = outcomes.count(False)
    print("all came out as expected" if not wrong else f"{wrong} of {len(outcomes)} did not come out as expected")
    return 1 if wrong else 0


def build_repository(scenario: Scenario, folder: Path) -> tuple[str, str]:
    """A repository with the branch `main` (before) and `change` (after) in `folder`; returns both commit ids."""
    source = resource("fixtures/demo")
    author = git.Actor("Demo", "demo@example.invalid")
    repository = git.Repo.init(folder, initial_branch="main")

    def commit(message: str) -> str:
        # GitPython's own index stores files as they are: no filter, attribute or hook of this machine takes part.
        paths = [p.relative_to(folder).as_posix() for p in sorted(folder.rglob("*")) if p.is_file()]
        repository.index.add([p for p in paths if not p.startswith(".git/")])
        when = f"{int(DAY.timestamp())} +0000"
        made = repository.index.commit(
            message, author=author, committer=author, author_date=when, commit_date=when, skip_hooks=True
        )
        return made.hexsha

    with repository:
        _lay(source / "base", folder)
        base = commit("The service as it is")
        repository.head.reference = repository.create_head("change")
        for layer in scenario.layers:
            _lay(source / layer, folder)
        head = commit(f"Demo change: {scenario.title}")
    return base, head


def _lay(source: Path, folder: Path) -> None:
    """Copy what ships; pip compiles the Python files of whatever it installs, and that bytecode is no part of it."""
    shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))


@contextmanager
def _workplace(output_dir: Path | None) -> Iterator[Path]:
    if output_dir is None:
        with tempfile.TemporaryDirectory(prefix="validator-demo-") as folder:
            yield Path(folder)
        return
    if output_dir.exists() and not output_dir.is_dir():
        raise DemoError(Problem("is not a folder", f"--output-dir {output_dir}", "name a folder"))
    names = [
        f"{kind}-{s.name}{end}" for s in SCENARIOS for kind, end in (("repo", ""), ("bundle", ""), ("summary", ".md"))
    ]
    there = [name for name in names if (output_dir / name).exists()]
    if there:
        raise DemoError(
            *(Problem("is there already", str(output_dir / name), "remove it or name another folder") for name in there)
        )
    output_dir.mkdir(parents=True, exist_ok=True)
    yield output_dir


def _play(scenario: Scenario, place: Path, *, kept: bool) -> bool:
    repository = place / f"repo-{scenario.name}"
    build_repository(scenario, repository)
    result = check(Options(repository, "main", "change", seed=SEED), clock=lambda: DAY)
    summary = place / f"summary-{scenario.name}.md"
    summary.write_text(render_markdown(result), encoding="utf-8")
    save_bundle(result, place / f"bundle-{scenario.name}")
    as_expected = result.verdict is scenario.expected and _refuted_by(result, scenario.rule)
    where = f"summary: {summary}" if kept else "keep its summary with --output-dir DIR"
    mark = "ok" if as_expected else "UNEXPECTED"
    line = (
        f"{mark:<10} {scenario.name:<9} {result.verdict:<9} (expected {scenario.expected})  {scenario.title}; {where}"
    )
    print(visible(line))
    for finding in _errors(result):
        print(f"           {visible(finding)}")
    sys.stdout.flush()
    return as_expected


def _errors(result: CheckResult) -> list[str]:
    errors = [f for f in result.findings if f.severity is Severity.ERROR and f.status is Status.REFUTED]
    return [f"{f.rule}: {f.message}" + (f" ({f.where.source})" if f.where.source else "") for f in errors[:3]]


def _refuted_by(result: CheckResult, family: str) -> bool:
    """A verdict for the wrong reason is not the expected one."""
    rules = {f.rule for f in result.findings if f.severity is Severity.ERROR}
    return any(rule.startswith(family) for rule in rules) if family else not rules
