"""`check` with its cells known, killed, spread, in shards or cut short: the bundle is that of one plain run."""

from __future__ import annotations

import io
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import chdir, closing, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.scale.small import build
from validator import cli

ROOT = Path(__file__).parents[2]
SEED = ("--seed", "5")
FACTS = {"base": "0" * 40, "head": "1" * 40, "rfc": None, "policies": None, "seed": 5, "shard": None}
RUN = json.dumps({"schema": "validator/run/1", **FACTS, "refs": ["a", "b"]})
"""What another run left beside its bundle."""


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("small") / "repo")


def command(name: str, *args: str) -> list[str]:
    return [sys.executable, "-m", "validator", name, *args]


def environment(**more: str) -> dict[str, str]:
    kept = {k: os.environ[k] for k in ("PATH", "HOME", "TMPDIR", "RAY_AUTH_MODE") if k in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8", **more}


def run(name: str, *args: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """The command line in this process: most of what a command takes is to import what it needs."""
    out, err = io.StringIO(), io.StringIO()
    with (
        chdir(cwd),
        patch.dict(os.environ, environment(**more), clear=True),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = cli.command_line([name, *args])
    return subprocess.CompletedProcess([name, *args], code, out.getvalue(), err.getvalue())


def asked(repo: Path, *more: str) -> tuple[str, ...]:
    return ("--base", "main", "--head", "change", "--repo", str(repo), *SEED, *more)


def left(folder: Path) -> list[str]:
    """What is in a folder, but for what hypothesis keeps wherever it runs."""
    return sorted(p.name for p in folder.iterdir() if p.name != ".hypothesis")


def identity(bundle: Path) -> str:
    return str(json.loads((bundle / "bundle.json").read_bytes())["id"])


@pytest.fixture(scope="module")
def plain(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The id of an ordinary run's bundle."""
    folder = tmp_path_factory.mktemp("plain")
    done = run("check", *asked(repo, "--bundle", "b", "--quiet", "--cache", "cache"), cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert left(folder) == ["b", "cache"]  # nothing of the run is left beside it
    again = run("check", *asked(repo, "--bundle", "c", "--quiet", "--cache", "cache"), cwd=folder)
    assert again.returncode == 0, again.stderr
    assert identity(folder / "c") == identity(folder / "b")
    assert run("status", "b", cwd=folder).stdout == f"complete: pass, {identity(folder / 'b')}\n"
    (folder / "b.run").mkdir()  # killed after the bundle was there and before this was taken away
    (folder / "b.run/run.json").write_text(RUN)
    told = run("status", "b", cwd=folder).stdout
    assert told.startswith("complete: pass")
    assert "not running" in told
    shutil.rmtree(folder / "b.run")
    return identity(folder / "b")


def test_a_plan_says_what_a_check_would_run_and_runs_nothing(repo, tmp_path):
    listed = run("plan", *asked(repo), cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert "scale on cpu: 64 cases" in listed.stdout
    assert "shift: 100 combinations of sizes, types, layouts and choices" in listed.stdout
    wanted = asked(repo, "--format", "json", "--cache", "c")  # what was drawn once is not drawn again
    documents = [json.loads(run("plan", *wanted, cwd=tmp_path).stdout) for _ in range(2)]
    assert documents[0] == documents[1]
    ids = [cell["id"] for cell in documents[0]["cells"]]
    # The first cells of both kernels come before the second of either.
    assert ids == [f"differential/cpu/{k}/000{n}" for n in (0, 1) for k in ("scale", "shift")]
    parts = []
    for number in (1, 2):
        part = run("plan", *wanted, "--shard", f"{number}/2", cwd=tmp_path)
        parts += [cell["id"] for cell in json.loads(part.stdout)["cells"]]
    assert sorted(parts) == sorted(ids)
    assert left(tmp_path) == ["c"]


def test_shards_put_together_are_one_run_and_a_missing_one_is_unproven(repo, plain, tmp_path):
    for number in (1, 2):
        done = run("check", *asked(repo, "--shard", f"{number}/2", "--part", f"p{number}"), cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"shard {number}/2" in run("status", f"p{number}", cwd=tmp_path).stdout
    whole = run("merge", "p2", "p1", "--repo", str(repo), "--bundle", "whole", "--quiet", cwd=tmp_path)
    assert whole.returncode == 0, whole.stdout + whole.stderr
    assert identity(tmp_path / "whole") == plain
    partly = run("merge", "p1", "--repo", str(repo), cwd=tmp_path)
    assert partly.returncode == 1
    assert "shard 2/2 is missing" in partly.stdout
    assert run("merge", "p1", "p1", cwd=tmp_path).returncode == 2


def test_parts_of_trusted_runs_are_sealed_and_no_others_are_believed_by_one(tmp_path):
    repo = build(tmp_path / "repo", cases=2)
    (tmp_path / "key").write_text("only trusted runs have this key")
    trusted = {"VALIDATOR_TRUST_KEY": str(tmp_path / "key")}
    whole = ("check", *asked(repo, "--shard", "1/1", "--part"))
    assert run(*whole, "sealed", cwd=tmp_path, **trusted).returncode == 0
    shutil.copytree(tmp_path / "sealed", tmp_path / "open")
    with closing(sqlite3.connect(tmp_path / "open/results/index.db")) as db, db:
        db.execute("UPDATE entries SET seal = NULL")  # as a job without the key writes it
    believed = run("merge", "sealed", "--repo", str(repo), "--quiet", cwd=tmp_path, **trusted)
    assert believed.stdout.startswith("pass"), believed.stdout + believed.stderr
    refused = run("merge", "open", "--repo", str(repo), cwd=tmp_path, **trusted)
    assert refused.returncode == 1
    assert "shard 1/1 did not run it" in refused.stdout


def test_what_a_budget_does_not_reach_is_unproven_with_the_count(repo, tmp_path):
    done = run("check", *asked(repo, "--budget", "0s", "--bundle", "b"), cwd=tmp_path)
    assert done.returncode == 1
    result = json.loads((tmp_path / "b/result.json").read_bytes())
    reasons = {o["id"]: (o["status"], o["reason"]) for o in result["obligations"]}
    status, reason = reasons["differential/scale"]
    assert status == "unproven"
    counts = re.fullmatch(r"(\d+) of (\d+) cases were not run: the budget of 0 s was spent before its turn", reason)
    assert counts is not None, reason
    assert int(counts[1]) == int(counts[2]) > 60
    assert result["verdict"] == "unproven"


def test_a_cache_that_a_pull_request_wrote_is_not_believed_by_a_trusted_run(tmp_path):
    repo = build(tmp_path / "repo", cases=2)
    (tmp_path / "key").write_text("only trusted runs have this key")
    first = run("check", *asked(repo, "--cache", "c", "--quiet"), cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    trusted = {"VALIDATOR_TRUST_KEY": str(tmp_path / "key")}
    plan = ("plan", *asked(repo, "--cache", "c", "--format", "json"))
    assert all(c["known"] for c in json.loads(run(*plan, cwd=tmp_path).stdout)["cells"])
    assert not any(c["known"] for c in json.loads(run(*plan, cwd=tmp_path, **trusted).stdout)["cells"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--shard", "1/2"), "belong together"),
        (("--part", "p"), "belong together"),
        (("--resume",), "name it"),
        (("--budget", "soon", "--bundle", "b"), "no duration"),
        (("--shard", "3/2", "--part", "p"), "no shard"),
        (("--shard", "1/2", "--part", "p", "--bundle", "b"), "merge"),
        (("--journal", "j", "--resume", "--bundle", "b"), "--resume"),
    ],
)
def test_options_that_cannot_be_meant(repo, tmp_path, options, said):
    done = run("check", *asked(repo, *options), cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert not left(tmp_path)


def test_a_shard_without_a_seed_is_refused(repo, tmp_path):
    done = run("check", "--base", "main", "--head", "change", "--repo", str(repo), "--shard", "1/2", "--part", "p",
               cwd=tmp_path)  # fmt: skip
    assert done.returncode == 2
    assert "same --seed" in done.stderr


def test_another_run_is_not_taken_up(repo, tmp_path):
    (tmp_path / "b.run").mkdir()
    (tmp_path / "b.run/run.json").write_text(RUN)
    done = run("check", *asked(repo, "--resume", "--bundle", "b"), cwd=tmp_path)
    assert done.returncode == 2
    assert "begun for another run" in done.stderr


def test_status_of_what_is_none(tmp_path):
    done = run("status", "nothing", cwd=tmp_path)
    assert done.returncode == 2
    assert "neither a bundle" in done.stderr


def killed_and_resumed(repo: Path, folder: Path, kills: int, executor: str, **more: str) -> tuple[int, str]:
    """How often it really was killed, and the id of the bundle that came of it in the end."""
    chance = random.Random(20261129)
    arguments = asked(repo, "--bundle", "b", "--quiet", "--executor", executor)
    killed = 0
    for number in range(kills + 1):
        resume = ("--resume",) if number else ()
        process = subprocess.Popen(
            command("check", *arguments, *resume), cwd=folder, env=environment(**more), start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if number < kills and not (folder / "b").exists():
            try:
                process.wait(chance.uniform(1.0, 9.0))
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
                killed += 1
        out, _ = process.communicate(timeout=400)
        if process.returncode not in (0, -signal.SIGKILL):
            raise AssertionError(out)
        if (folder / "b").exists():
            break
        assert "not running" in run("status", "b", cwd=folder).stdout or not (folder / "b.run/run.json").exists()
    return killed, identity(folder / "b")


@pytest.mark.slow
def test_killed_at_random_moments_and_taken_up_the_bundle_is_that_of_one_run(repo, plain, tmp_path):
    killed, found = killed_and_resumed(repo, tmp_path, 3, "local")
    assert killed
    assert found == plain
    assert left(tmp_path) == ["b"]


@pytest.mark.slow
def test_the_same_on_a_ray_cluster(repo, plain, tmp_path, ray_address):
    done = run("check", *asked(repo, "--bundle", "r", "--quiet", "--executor", "ray"), cwd=tmp_path,
               RAY_ADDRESS=ray_address)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert identity(tmp_path / "r") == plain
    (tmp_path / "killed").mkdir()
    killed, found = killed_and_resumed(repo, tmp_path / "killed", 2, "ray", RAY_ADDRESS=ray_address)
    assert killed
    assert found == plain


def test_what_a_run_left_is_not_left_by_one_that_never_began(repo, tmp_path):
    done = run("check", "--base", "main", "--head", "nowhere", "--repo", str(repo), "--bundle", "b", cwd=tmp_path)
    assert done.returncode == 2
    assert not left(tmp_path)
