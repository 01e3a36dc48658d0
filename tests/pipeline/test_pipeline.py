"""A stage that breaks never passes, and nothing of a run is left behind."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from validator.errors import Problem, ValidatorError
from validator.pipeline import Options, check
from validator.pipeline.stages import STAGES, Entry
from validator.stage import StageContext
from validator.verdict.model import Obligation, StageResult, Status, Verdict

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "r"

    def git(*args: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@t.example"]
        subprocess.run(["git", *identity, *args], cwd=path, check=True, capture_output=True)

    (path / "policies").mkdir(parents=True)
    git("init", "-q", "-b", "main")
    (path / "policies/p.toml").write_text('schema = "validator/policy/1"\nobligations = ["fake"]\n')
    git("add", "-A")
    git("commit", "-q", "-m", "base")
    (path / "x.py").write_text("x = 1\n")
    git("add", "-A")
    git("commit", "-q", "-m", "head")
    return path


def good(context: StageContext) -> StageResult:
    return StageResult((Obligation("fake", "it holds", Status.PROVEN, ""),))


def broken(context: StageContext) -> StageResult:
    raise ZeroDivisionError("division by \x1b zero")


def refused(context: StageContext) -> StageResult:
    raise ValidatorError(Problem("the tool is missing", "nvdisasm", "install it"), Problem("so is the other"))


def interrupted(context: StageContext) -> StageResult:
    (context.workdir / "half").write_text("x")
    raise KeyboardInterrupt


class Fake(Entry):
    """A stage handed in instead of imported."""

    def load(self):  # type: ignore[no-untyped-def]
        return globals()[self.where]


def run(repository: Path, stage: str, **more: object):  # type: ignore[no-untyped-def]
    stages = [Fake("fake", stage, "it holds", "working")]
    return check(Options(repository, "HEAD~1", "HEAD"), clock=lambda: NOW, stages=stages, **more)  # type: ignore[arg-type]


def test_a_proven_obligation_passes(repository: Path) -> None:
    lines: list[str] = []
    result = run(repository, "good", progress=lines.append)
    assert result.verdict is Verdict.PASS
    assert result.environment.started == "2026-11-29T12:00:00+00:00"
    assert lines == ["reading the change", "fake: working"]


def test_an_internal_error_is_unproven_and_says_how_to_report_it(repository: Path) -> None:
    result = run(repository, "broken")
    assert result.verdict is Verdict.UNPROVEN
    (obligation,) = result.obligations
    assert obligation.status is Status.UNPROVEN
    assert "internal error in the fake stage: ZeroDivisionError" in obligation.reason
    assert "report" in obligation.reason
    with pytest.raises(ZeroDivisionError):
        run(repository, "broken", debug=True)


def test_what_a_stage_cannot_examine_is_unproven_with_every_problem(repository: Path) -> None:
    (obligation,) = run(repository, "refused").obligations
    assert obligation.status is Status.UNPROVEN
    assert obligation.reason == "could not be examined: nvdisasm: the tool is missing; install it; so is the other"


def test_a_stage_that_settles_nothing_leaves_the_policy_unsatisfied(repository: Path) -> None:
    result = check(Options(repository, "HEAD~1", "HEAD"), clock=lambda: NOW, stages=[])
    assert [(o.id, o.status) for o in result.obligations] == [("fake", Status.UNPROVEN)]
    assert result.verdict is Verdict.UNPROVEN


def test_an_interrupt_leaves_nothing_behind(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    with pytest.raises(KeyboardInterrupt):
        run(repository, "interrupted")
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("entry", STAGES, ids=lambda e: e.name)
def test_every_stage_is_there(entry: Entry) -> None:
    assert callable(entry.load())
