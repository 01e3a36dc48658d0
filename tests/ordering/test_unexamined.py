"""An audit that is stopped: what was not begun is unproven by name, what is done is kept and not done again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from validator.binary.tools import INSTALL_HINT, Tools
from validator.manifest.contract import KernelContract, Launch
from validator.ordering import artifacts, batch
from validator.ordering.artifacts import Artifact, audit_artifacts
from validator.ordering.result import Audit
from validator.ordering.unexamined import NOT_EXAMINED
from validator.report.audit_text import render_audit_text
from validator.report.audit_words import verdict_of
from validator.verdict.model import Status, Verdict

ROOT = Path(__file__).parents[2]
CUBIN = "fixtures/ordering/patterns/older-activation-in-step/sm_90a.cubin"
CONTRACT = (KernelContract(match="*", launch=Launch(pdl=True)),)
WHY = "the budget of 1 s was spent before its turn"


@pytest.fixture
def cubin(monkeypatch: pytest.MonkeyPatch) -> Artifact:
    """The stored cubin with most kernels, each of which is a portion of its own, in a file that counts as large."""
    if Tools.find().nvdisasm is None:
        pytest.skip(f"no disassembler: {INSTALL_HINT}")
    monkeypatch.setattr(artifacts, "_BATCH", 1)
    monkeypatch.setattr("validator.ordering.sass.reader.SMALL", 0)
    path = ROOT / CUBIN
    return Artifact(path.name, path=path)


def after(turns: int) -> Callable[[], str]:
    """Time that is over after so many looks at the clock."""
    left = [turns]

    def over() -> str:
        left[0] -= 1
        return WHY if left[0] < 0 else ""

    return over


def kernels(audit: Audit) -> list[str]:
    return [k.name for k in audit.kernels if not k.reasons[0].startswith(NOT_EXAMINED)]


@pytest.mark.sass
def test_what_was_not_begun_is_unproven_by_name(cubin: Artifact) -> None:
    whole = audit_artifacts([cubin], CONTRACT)
    part = audit_artifacts([cubin], CONTRACT, over=after(1))
    assert len(kernels(whole)) > 2
    assert len(kernels(part)) == 1
    assert [k.name for k in part.kernels] == [k.name for k in whole.kernels]
    left = [k for k in part.kernels if k.reasons == (NOT_EXAMINED + WHY,)]
    assert {k.status for k in left} == {Status.UNPROVEN}
    assert len(left) == len(whole.kernels) - 1
    assert [s.reason for s in part.skipped] == [f"{len(left)} of its kernels were {NOT_EXAMINED}{WHY}"]
    assert verdict_of(part) is not Verdict.PASS
    assert f"{len(left)} kernels: {NOT_EXAMINED}{WHY}" in " ".join(render_audit_text(part).split())


@pytest.mark.sass
def test_the_same_audit_again_goes_on(cubin: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = audit_artifacts([cubin], CONTRACT)
    done = len(kernels(audit_artifacts([cubin], CONTRACT, over=after(2), cache=tmp_path)))
    asked: list[int] = []
    real = batch.audit_batch

    def counted(item: batch.Batch) -> batch.Outcome:
        asked.extend(len(work.portion.places) for work in item.work if isinstance(work, batch.Code))
        return real(item)

    monkeypatch.setattr(artifacts, "audit_batch", counted)
    assert audit_artifacts([cubin], CONTRACT, cache=tmp_path) == whole
    assert sum(asked) == len(whole.kernels) - done
    asked.clear()
    assert audit_artifacts([cubin], CONTRACT, cache=tmp_path) == whole
    assert asked == []


@pytest.mark.sass
def test_what_is_done_is_kept_when_the_audit_is_interrupted(
    cubin: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = batch.audit_batch
    done: list[int] = []

    def interrupted(item: batch.Batch) -> batch.Outcome:
        if done:
            raise KeyboardInterrupt
        done.append(1)
        return real(item)

    monkeypatch.setattr(artifacts, "audit_batch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        audit_artifacts([cubin], CONTRACT, cache=tmp_path)
    asked: list[batch.Batch] = []

    def counted(item: batch.Batch) -> batch.Outcome:
        asked.append(item)
        return real(item)

    monkeypatch.setattr(artifacts, "audit_batch", counted)
    whole = audit_artifacts([cubin], CONTRACT, cache=tmp_path)
    assert len(asked) == len(whole.kernels) - 1


def test_text_that_was_not_begun_is_said() -> None:
    text = b".version 8.8\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n"
    audit = audit_artifacts([("k.ptx", text)], (), over=lambda: WHY)
    assert [s.reason for s in audit.skipped] == [NOT_EXAMINED + WHY]
    assert verdict_of(audit) is Verdict.UNPROVEN
