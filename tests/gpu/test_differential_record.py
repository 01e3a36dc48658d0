"""The stored runs of `validator diff --device cuda` and of delays, roles and overhead say what they must."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fixtures.gpu.delayed import names
from fixtures.gpu.differential import FOLDER, planned
from fixtures.gpu.on_torch import RUNS as ON_TORCH
from validator.manifest.load import load_contract
from validator.run.adapters import ADAPTERS

HERE = FOLDER.parent


def stored(name: str) -> dict[str, Any]:
    return json.loads((HERE / f"{name}.json").read_text())


RUNS = stored("differential")["runs"]
TORCH_RUNS = stored("on_torch")["runs"]
ALL_RUNS = [*RUNS, *TORCH_RUNS]
BUGS = tomllib.loads((FOLDER / "planted.toml").read_text())["bugs"]


@pytest.mark.parametrize(("runs", "files"), [(RUNS, ()), (TORCH_RUNS, ON_TORCH)], ids=["compiled", "on torch"])
def test_every_contract_was_run(runs: list[dict[str, Any]], files: tuple[str, ...]):
    assert [(run["name"], run["class"]) for run in runs] == [(name, kind) for name, kind, _ in planned(*files)]


def test_every_class_is_planted_and_every_compiler_is_there():
    assert {bug["class"] for bug in BUGS} == {"I1", "I2", "I6", "I7", "I12", "I14", "I15", "I16", "I20", "I22"}
    file = FOLDER / "contracts.toml"
    contracts, _ = load_contract(file.read_bytes(), str(file))
    artifacts = {c.compiled.artifact for c in contracts if c.compiled}
    assert artifacts == {
        "kernels/kda.cu",
        "kernels/weights.cu",
        "kernels/rmsnorm.sm_90a.cubin",
        "kernels/gemv.sm_90a.cubin",
        "kernels/tma.cu",
    }
    assert {c.trusted for c in contracts} == {"torch"}
    named = {bug["compiled"]["artifact"] for bug in BUGS} | artifacts
    assert all((FOLDER / "head" / artifact).is_file() for artifact in named)


@pytest.mark.parametrize("run", [r for r in ALL_RUNS if not r["class"]], ids=lambda run: run["name"])
def test_right_kernels_pass(run: dict[str, Any]):
    assert (run["code"], run["verdict"]) == (0, "pass")
    assert set(run["cases"]) <= {"passed", "void", "degenerate"}
    assert run["cases"]["passed"] >= 40


KINDS = {
    "I1": "no-result", "I2": None, "I6": "wrong-nan-or-infinity", "I7": "wrong-nan-or-infinity", "I12": "no-result",
    "I14": "depends-on-old-contents", "I15": None, "I16": None, "I20": "no-result", "I22": "wrong-value",
}  # fmt: skip
"""How a bug of this class shows first, where there is one way."""


PLANTED = [r for r in ALL_RUNS if r["class"]]


@pytest.mark.parametrize("run", PLANTED, ids=lambda run: run["name"])
def test_planted_bugs_are_found(run: dict[str, Any]):
    assert (run["code"], run["verdict"]) == (1, "fail")
    assert run["cases"]["failed"] > 0


@pytest.mark.parametrize("run", [r for r in PLANTED if r in RUNS], ids=lambda run: run["name"])
def test_a_bug_of_a_compiled_kernel_shows_as_its_class_does(run: dict[str, Any]):
    kinds = {error["kind"] for error in run["first"]["error"]}
    assert KINDS[run["class"]] is None or KINDS[run["class"]] in kinds, kinds


SHOWN_AS = {
    "tf32": "wrong-value", "bfloat16": "wrong-value", "tail of K": "wrong-value", "not masked": "wrong-value",
    "fp8": "wrong-value", "nobody cleared": "depends-on-old-contents", "launches it later": "depends-on-old-contents",
    "not written": "depends-on-old-contents", "of its input": "input-changed",
}  # fmt: skip
"""Words of a planted torch callable's name → how it shows. All others are right in a new process, and wrong later;
those that run beside their stream, or later, when they are called again with the same values already."""


@pytest.mark.parametrize("run", [r for r in PLANTED if r in TORCH_RUNS], ids=lambda run: run["name"])
def test_a_bug_of_a_torch_callable_shows_as_what_it_is(run: dict[str, Any]):
    due = {kind for words, kind in SHOWN_AS.items() if words in run["name"]} or {"hidden-state"}
    due |= {"not-repeatable"} if "stream" in run["name"] or "later" in run["name"] else set()
    assert due & {error["kind"] for error in run["first"]["error"]}


def test_delays_show_what_a_barrier_does_not_order_and_no_fixed_twin():
    cases = stored("delayed")["cases"]
    assert sorted(cases) == sorted(names())
    shown = {name: case for name, case in cases.items() if case["shown"]}
    assert set(shown) == {"h11_bad", "h19_bad"}
    assert all(case["wrong"] == case["launches"] and len(case["where"]) == 1 for case in shown.values())
    assert not any(case["wrong"] or case["undelayed"] for name, case in cases.items() if name.endswith("_ok"))


def test_a_weight_that_another_kernel_writes_is_refuted_with_the_launch():
    runs = stored("roles")["runs"]
    assert runs["own weights"]["broken"] == []
    (broken,) = runs["the output of the kernel before"]["broken"]
    assert broken.endswith("`weight`, and launch 1 of step 2 (attention_weights) changed its contents")
    first, second = runs["the output of the kernel before"]["step"]["launches"]
    assert first["args"]["out"] == second["args"]["w"]


def _sizes(row: dict[str, Any]) -> str:
    return f"`{row['kernel']}` {'×'.join(map(str, row['dims'].values()))}"


def test_the_time_of_a_call_is_quoted_beside_a_launch():
    rows = stored("overhead")["rows"]
    assert {row["kernel"] for row in rows} == {run["name"] for run in RUNS if not run["class"]}
    assert all(0 < row["direct_ms"] <= row["call_ms"] <= row["call_wall_ms"] for row in rows)
    text = (HERE / "README.md").read_text()
    for row in rows:
        assert f"| {_sizes(row)} | {1000 * row['direct_ms']:.1f} | {row['call_ms']:.2f} |" in text


def test_what_a_call_of_a_case_costs_is_quoted_small_and_large():
    rows = stored("overhead")["cases"]
    contracts, _ = load_contract((FOLDER / "large.toml").read_bytes(), "large.toml")
    launched = {"B": 8192, "D": 8192}  # by the driver; the others are torch callables
    due = [("rmsnorm", launched), *((c.match, d) for c in contracts for d in c.production)]
    assert [(row["kernel"], row["dims"]) for row in rows] == due
    assert all(row["status"] == "passed" and row["call_ms"] > row["direct_ms"] for row in rows)
    text = (HERE / "README.md").read_text()
    for row in rows:
        parts = " | ".join(f"{row[part]:.2f}" for part in ("call_ms", "wait_ms", "look_ms", "lay_ms"))
        assert f"| {_sizes(row)} | {row['direct_ms']:.3f} | {parts} |" in text


def test_the_cross_check_of_the_demo_names_delay_and_argument():
    scenarios = stored("crosscheck")["scenarios"]
    good, hoisted = (
        {o["id"]: o for o in scenarios[name]["obligations"] if not o["id"].endswith("artifacts")}
        for name in ("good", "hoisted")
    )
    assert hoisted["neighbour/kda_decode"]["reason"] == (
        "refuted statically (f), shown dynamically at ≥ 0 µs delay, argument f"
    )
    families = ("ordering", "neighbour", "delays", "sanitizer")
    assert {name: o["status"] for name, o in good.items()} == {f"{f}/kda_decode": "proven" for f in families}
    assert {name for name, o in hoisted.items() if o["status"] == "refuted"} == {
        "ordering/kda_decode",
        "neighbour/kda_decode",
    }
    assert "gpu/shown-early-access" in scenarios["hoisted"]["findings"]
    assert not [rule for rule in scenarios["good"]["findings"] if rule.startswith("gpu/")]


def test_kernels_that_are_compiled_when_called_pass():
    contracts, _ = load_contract((FOLDER / "called.toml").read_bytes(), "called")
    rows = {row["kernel"]: row for row in stored("called")["runs"]}
    assert set(rows) == {c.match for c in contracts if c.torch}
    assert all(row["code"] == 0 and row["said"][0] == "PASS" for row in rows.values())
    assert all(" 0 wrong, " in row["said"][2] for row in rows.values())


def test_racecheck_sees_one_fault_that_is_there():
    rows = stored("sanitized")["rows"]
    assert {row["case"] for row in rows if row["tool"] == "racecheck" and row["errors"]} == {"h17_bad"}
    assert {row["errors"] for row in rows if row["tool"] != "racecheck"} == {0}


@pytest.mark.parametrize("name", sorted(file.stem for file in HERE.glob("*.json")))
def test_every_record_says_when_and_on_what(name: str):
    said = stored(name)
    assert said["date"] >= "2026-11-29"
    assert said["device"].startswith("NVIDIA")
    assert said["driver"]


def test_without_a_gpu_the_command_says_that_nothing_ran(tmp_path: Path):
    if ADAPTERS["cuda"].lacking() == "":
        pytest.skip("there is a GPU here")
    command = [
        sys.executable,
        "-m",
        "validator",
        "diff",
        "--manifest",
        str(FOLDER / "contracts.toml"),
        "--device",
        "cuda",
    ]
    command += ["--tree", str(FOLDER / "head"), "--base", str(FOLDER / "base"), "--cases", "1", "--kernel", "rmsnorm"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert "UNPROVEN" in done.stdout
    assert "not run here: " in done.stdout


def test_the_readme_names_every_record():
    text = (Path(HERE) / "README.md").read_text()
    for file in HERE.glob("*.json"):
        assert f"`{file.name}`" in text
