"""`validator diff` and `validator replay`, as a person runs them."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

FIXTURES = Path(__file__).parents[2] / "fixtures" / "differential"

CONTRACT = """
schema = "validator/manifest/1"

[[kernels]]
match = "row_sum"
candidate = "ops.{candidate}"
reference = "ops.stock:row_sum"
dims = ["B in 1..4", "D in 1..20"]
args = [
    {{ name = "x", role = "activation", dtype = "float32", shape = ["B", "D"] }},
    {{ name = "work", role = "workspace", dtype = "float32", shape = ["B", 4] }},
    {{ name = "out", role = "output", dtype = "float32", shape = ["B"] }},
]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the stock operators, the candidates, and a base that has the stock operators alone."""
    for tree in ("base", "head"):
        shutil.copytree(FIXTURES / tree, tmp_path / "tree", dirs_exist_ok=True)
    shutil.copytree(FIXTURES / "base", tmp_path / "base")
    (tmp_path / "good.toml").write_text(CONTRACT.format(candidate="honest:keeps_scratch_of_its_own"))
    (tmp_path / "bad.toml").write_text(CONTRACT.format(candidate="planted:i14_workspace_not_cleared"))
    return tmp_path


def validator(project: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "validator", *args]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=300, check=False)


COMMON = ("--tree", "tree", "--base", "base", "--cases", "5", "--seed", "1", "--quiet")


def test_a_right_candidate_passes_and_the_document_fits_its_schema(project: Path) -> None:
    done = validator(project, "diff", "--manifest", "good.toml", *COMMON, "--format", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    schema = json.loads(validator(project, "schema", "diff").stdout)
    jsonschema.validate(document, schema)
    assert document["verdict"] == "pass"
    assert {c["status"] for c in document["cases"]} <= {"passed", "degenerate", "void"}
    assert all(c["refused"] > c["accepted"] for c in document["controls"])
    again = validator(project, "diff", "good.toml:row_*", "--jobs", "1", *COMMON, "--format", "json")
    assert again.stdout == done.stdout
    assert str(project) not in done.stdout


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- >&- 2>&-"])
def test_a_right_candidate_passes_without_streams(project: Path, closed: str) -> None:
    """What a worker shares with its candidate must not take the number of a stream that is missing."""
    command = [sys.executable, "-m", "validator", "diff", "--manifest", "good.toml", *COMMON, "--jobs", "2"]
    shell = f"exec {shlex.join(command)} --cases 60 {closed}"
    done = subprocess.run(["bash", "-c", shell], cwd=project, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_corpus_that_is_no_folder_is_told_before_anything_runs(project: Path) -> None:
    done = validator(project, "diff", "--manifest", "bad.toml", *COMMON, "--corpus", "bad.toml")
    told = "error: bad.toml: is no folder that cases can be added to; name another one\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)


def test_a_wrong_candidate_fails_is_stored_and_replays(project: Path) -> None:
    done = validator(project, "diff", "--manifest", "bad.toml", *COMMON, "--corpus", "corpus")
    assert done.returncode == 1, done.stderr
    assert "depends-on-old-contents" in done.stdout
    assert len(done.stdout.splitlines()) < 50
    assert "--manifest bad.toml --tree tree --base base\n" in done.stdout  # what is printed runs as printed
    stored = sorted((project / "corpus").glob("*.json"))
    assert stored
    where = ("--tree", "tree", "--base", "base")
    bad = [validator(project, "replay", str(path), "--manifest", "bad.toml", *where) for path in stored]
    assert {one.returncode for one in bad} == {1}
    assert any("depends-on-old-contents" in one.stdout for one in bad)
    good = validator(project, "replay", stored[0].read_text(), "--manifest", "good.toml", *where)
    assert (good.returncode, good.stderr) == (0, "")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("diff", "--manifest", "none.toml"), "No such file"),
        (("diff",), "name a manifest"),
        (("diff", "good.toml:zzz"), "row_sum"),
        (("diff", "good.toml", "bad.toml"), "described in another manifest too"),
        (("diff", "--manifest", "good.toml", "--kernel", "zzz"), "row_sum"),
        (("diff", "--manifest", "good.toml", "--tree", "nowhere"), "no such folder"),
        (("replay", "{}", "--manifest", "good.toml"), "not a case"),
        (("replay", "none.json", "--manifest", "good.toml"), "No such file"),
    ],
)
def test_what_cannot_run_says_why(project: Path, args: tuple[str, ...], told: str) -> None:
    done = validator(project, *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_callable_is_unproven(project: Path) -> None:
    (project / "none.toml").write_text(CONTRACT.format(candidate="honest:no_such_function"))
    done = validator(project, "diff", "--manifest", "none.toml", *COMMON)
    assert done.returncode == 1
    assert done.stdout.startswith("UNPROVEN")
    assert "cannot be imported: AttributeError" in done.stdout


SLOW = """import time

from ops.planted import i14_workspace_not_cleared


def bad(x, work, out):
    time.sleep(0.05)
    i14_workspace_not_cleared(x, work, out)
"""


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_ended_tells_what_it_found_and_leaves_nothing(
    project: Path, tmp_path: Path, by: signal.Signals
) -> None:
    (folder := tmp_path / "temporary").mkdir()
    (project / "tree/ops/slow.py").write_text(SLOW)  # it is still running when it is ended, however slow this test is
    (project / "slow.toml").write_text(CONTRACT.format(candidate="slow:bad"))
    more = ["--cases", "300", "--jobs", "1", "--corpus", "corpus"]
    command = [sys.executable, "-m", "validator", "diff", "--manifest", "slow.toml", *COMMON, *more]
    with subprocess.Popen(
        command, cwd=project, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(folder)}
    ) as running:
        while running.poll() is None and not list(project.glob("corpus/*.json")):
            time.sleep(0.05)
        running.send_signal(by)
        _, told = running.communicate(timeout=60)
    assert running.returncode == 130, told
    assert "found before that: row_sum fails with" in told
    assert "--manifest slow.toml --tree tree --base base" in told
    assert list(folder.iterdir()) == []


KERNEL = """
[[kernels]]
match = "row_sum"
candidate = "fast.kda.model:row_sum"
reference = "stock.decode:row_sum"
dims = ["B in 1..4", "D in 1..20"]
args = [
    { name = "x", role = "activation", dtype = "float32", shape = ["B", "D"] },
    { name = "out", role = "output", dtype = "float32", shape = ["B"] },
]
"""


def test_the_bundle_of_a_check_holds_what_replay_needs(
    cli: Callable[..., Any], repo: Any, manifest: Callable[..., str], tmp_path: Path
) -> None:
    stock = "import numpy as np\n\n\ndef row_sum(x, out):\n    out[...] = np.sum(x, axis=-1)\n"
    repo.write({"stock/decode.py": stock})
    model = stock.replace("np.sum(x,", "np.sum(x[:, : len(x[0]) // 2 * 2],")
    repo.write({"rfcs/kda.toml": manifest(more=KERNEL), "fast/kda/model.py": model}, "kda")
    bundle = tmp_path / "bundle"
    ran = cli("check", "--repo", str(repo.path), "--base", "main", "--head", "kda", "--quiet", "--bundle", str(bundle))
    assert ran.code == 1, ran.err
    folder = bundle / "counterexamples"
    case = next(path for path in sorted(folder.glob("*.json")))
    shared = ("--manifest", str(folder / "manifest.toml"), "--tree", str(repo.path), "--base", "main")
    again = cli("replay", str(case), *shared)
    assert (again.code, again.err) == (1, "")
    assert "D = 1" in again.out
    assert "wrong-value" in again.out
    # The same where there is no repository: everything that it takes lies in the bundle.
    moved = shutil.copytree(bundle, tmp_path / "elsewhere")
    shutil.rmtree(repo.path)
    alone = cli("replay", str(moved / "counterexamples" / case.name))
    assert (alone.code, alone.err, alone.out) == (1, "", again.out)


def test_a_case_without_a_manifest_beside_it_asks_for_one(cli: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "case.json").write_text(CASE)
    ran = cli("replay", str(tmp_path / "case.json"))
    assert ran.code == 2
    assert "--manifest" in ran.err


CASE = '{"schema":"validator/case/1","kernel":"row_sum","dims":[["B",1],["D",1]],"seed":1}'
