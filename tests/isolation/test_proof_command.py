"""`validator isolate` on real repositories: exit codes, what it prints, the same result twice."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from tests.support.isolation_case import context_of, edited, honest
from validator.cli.isolate import isolate


def _run(folder: Path, *words: str) -> int:
    code: int = isolate.main(
        ["--repo", str(folder), "--base", "main", "--head", "change", *words], standalone_mode=False
    )
    return code


def test_the_honest_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, head = honest()
    context_of(base, head, tmp_path, own=True)
    assert _run(tmp_path, "--format", "json") == 0
    first = json.loads(capsys.readouterr().out)
    assert first["verdict"] == "pass"
    assert {o["id"].split("/")[0] for o in first["obligations"]} == {"isolation"}
    assert any("`.fused_executor` is None" in text for text in first["assumptions"])
    _run(tmp_path, "--format", "json")
    second = json.loads(capsys.readouterr().out)
    for document in (first, second):
        document.pop("environment")
    assert first == second


def test_a_dropped_guard(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, head = honest()
    guard = "if self.fused_executor is not None and self.fused_executor.admits(input_ids, metadata):"
    head = edited(head, [{"path": "engine/models/k3.py", "old": guard, "new": "if input_ids.shape[0] == 1:"}])
    context_of(base, head, tmp_path, own=True)
    assert _run(tmp_path) == 1
    text = capsys.readouterr().out
    assert "isolation/default-path-changed" in text
    assert "if input_ids.shape[0] == 1:" in text


def test_nonsense_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError):
        isolate.main(["--repo", str(tmp_path)], standalone_mode=False)
