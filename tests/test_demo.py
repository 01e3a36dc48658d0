"""`validator demo`, as the README tells newcomers to run it, and what its results say."""

from __future__ import annotations

import compileall
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import validator.demo
from validator.demo import SCENARIOS, build_repository

ROOT = Path(__file__).parents[1]
KERNEL = ROOT / "fixtures/demo/hoisted/fastpath/kda_decode/kernels/kda_decode.cu"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    folder = tmp_path_factory.mktemp("demo") / "out"
    command = [sys.executable, "-m", "validator", "demo", "--output-dir", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False), folder


def result(folder: Path, scenario: str) -> dict[str, Any]:
    return json.loads((folder / f"bundle-{scenario}" / "result.json").read_text())


def test_every_scenario_comes_out_as_expected(demo: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    done, folder = demo
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    for scenario in SCENARIOS:
        (line,) = (text for text in done.stdout.splitlines() if text.startswith(f"ok         {scenario.name} "))
        assert str(folder / f"summary-{scenario.name}.md") in line
        assert (folder / f"summary-{scenario.name}.md").is_file()
        assert (folder / f"repo-{scenario.name}" / ".git").is_dir()
        assert result(folder, scenario.name)["verdict"] == scenario.expected


def test_the_hoisted_read_is_named_with_its_line(demo: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    _, folder = demo
    (number,) = (n for n, text in enumerate(KERNEL.read_text().splitlines(), 1) if "f[at + column]" in text)
    (finding,) = (f for f in result(folder, "hoisted")["findings"] if f["rule"] == "order/early-read")
    assert "'f' (activation)" in finding["message"]
    assert f"kda_decode.cu:{number}" in json.dumps(finding)
    assert "sm_90a" in json.dumps(finding)
    summary = (folder / "summary-hoisted.md").read_text()
    assert f"kda\\_decode.cu:{number}" in summary.replace("&#8203;", "") or f"kda_decode.cu:{number}" in summary


def test_the_good_change_rests_on_machine_code(demo: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    _, folder = demo
    document = result(folder, "good")
    strengths = {o["id"]: o["strength"] for o in document["obligations"]}
    assert strengths["ordering/kda_decode"] == "proof-on-machine-code"
    assert any("GPU" in text for text in document["not_covered"])


def test_what_stands_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "bundle-good").mkdir()
    command = [sys.executable, "-m", "validator", "demo", "--output-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "bundle-good" in done.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "bundle-good"]


def test_repositories_are_the_same_on_every_machine(tmp_path: Path) -> None:
    first, second = (build_repository(SCENARIOS[0], tmp_path / name) for name in ("one", "two"))
    assert first == second


def test_bytecode_that_pip_wrote_beside_the_fixtures_is_no_part_of_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = build_repository(SCENARIOS[0], tmp_path / "plain")
    installed = tmp_path / "installed"
    shutil.copytree(ROOT / "fixtures/demo", installed)
    assert compileall.compile_dir(installed, quiet=1)
    assert list(installed.rglob("*.pyc"))
    monkeypatch.setattr(validator.demo, "resource", lambda name: installed)
    assert build_repository(SCENARIOS[0], tmp_path / "compiled") == plain
