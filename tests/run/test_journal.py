"""The journal: a run that is killed at any moment loses no finished case, does none again, and ends as if unbroken."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.run.conftest import nodes
from tests.support.repository import RepositoryBuilder
from validator.differential.engine import run_kernel
from validator.differential.journal import Journal, JournalError, journal_of, run_seed
from validator.differential.processes import Trees, runner_for
from validator.differential.results import KernelResult
from validator.manifest.contract import KernelContract

PROGRAM = Path(__file__).parents[2] / "validator"
STOCK = "import numpy as np\n\n\ndef total(x, out):\n    out[...] = np.sum(x, axis=-1)\n"
BAD = STOCK.replace("np.sum(x,", "np.sum(x[:, : x.shape[1] // 4 * 4],")
KERNEL = """
[[kernels]]
match = "total"
candidate = "fast.model:total"
reference = "stock.ops:total"
dims = ["B in 1..4", "D in 1..40"]
args = [
    { name = "x", role = "activation", dtype = "float32", shape = ["B", "D"] },
    { name = "out", role = "output", dtype = "float32", shape = ["B"] },
]
"""
CANDIDATES = pytest.mark.parametrize("candidate", [STOCK, BAD], ids=["right", "wrong"])


def tree_of(folder: Path, candidate: str) -> Path:
    for name, text in (("stock/ops.py", STOCK), ("fast/model.py", candidate)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "m.toml").write_text('schema = "validator/manifest/1"\n' + KERNEL)
    return folder


def contract() -> KernelContract:
    return KernelContract.model_validate(tomllib.loads(KERNEL)["kernels"][0])


class Stop(Exception):
    """The run ends here."""


def ran(tree: Path, folder: Path | None, stop: int | None = None) -> tuple[KernelResult, int]:
    """(result, cases that were really run); `stop`: end after that many."""
    done = 0
    with runner_for(contract(), Trees(tree, tree)) as runner, journal_of(folder, runner) as journal:
        add = journal.add

        def counted(finished: object) -> None:
            nonlocal done
            add(finished)  # type: ignore[arg-type]
            done += 1
            if done == stop:
                raise Stop

        journal.add = counted  # type: ignore[method-assign]
        return run_kernel(runner, 11, 10, journal=journal), done


@CANDIDATES
@pytest.mark.parametrize("stop", [1, 17, 40])
def test_a_run_that_was_ended_is_taken_up_where_it_was(tmp_path: Path, candidate: str, stop: int) -> None:
    tree = tree_of(tmp_path / "tree", candidate)
    whole, all_of_them = ran(tree, None)
    with pytest.raises(Stop):
        ran(tree, tmp_path / "journal", stop)
    taken_up, rest = ran(tree, tmp_path / "journal")
    assert taken_up == whole
    assert rest == all_of_them - stop
    again, none = ran(tree, tmp_path / "journal")
    assert (again, none) == (whole, 0)


def test_another_tree_or_contract_has_another_journal(tmp_path: Path) -> None:
    tree = tree_of(tmp_path / "tree", STOCK)
    ran(tree, tmp_path / "journal")
    tree_of(tree, BAD)
    result, done = ran(tree, tmp_path / "journal")
    assert done >= len(result.results)
    assert result.of("failed")


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A whole journal."""
    folder = tmp_path_factory.mktemp("whole")
    ran(tree_of(folder / "tree", BAD), folder / "journal")
    (path,) = (folder / "journal").glob("*.jsonl")
    return path.read_bytes()


def known(path: Path) -> dict[str, object]:
    """What a journal believes: case → what came of it."""
    ids = [json.loads(line.partition(b" ")[2])["result"]["case"] for line in path.read_bytes().splitlines()[1:]]
    assert ids
    with Journal(path) as journal:
        return dict(journal._finished)


def test_a_torn_or_damaged_tail_is_cut_off_and_what_stands_before_it_counts(lines: bytes, tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(lines)
    whole = known(path)
    moments = random.Random(20261129)
    for _ in range(300):
        data = bytearray(lines[: moments.randrange(len(lines) + 1)])
        if data and moments.random() < 0.5:
            data[moments.randrange(len(data))] ^= 1 << moments.randrange(8)
        path.write_bytes(data)
        with Journal(path) as journal:
            found = dict(journal._finished)
        assert found.items() <= whole.items() or all(
            # A failed case is written before the simpler one is known; the later line was cut off.
            f == whole[i] or (f.shrunk is None and f.result == whole[i].result)  # type: ignore[attr-defined]
            for i, f in found.items()
        )
        left = path.read_bytes()
        assert left == b"validator/journal/1\n" or lines.startswith(left)


def test_two_runs_do_not_share_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with Journal(path), pytest.raises(JournalError, match="in use by another run"):
        Journal(path)
    with Journal(path):
        pass


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(JournalError, match="can be written by others"):
        run_seed(folder, None, 1)


def test_a_journal_is_no_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("keep")
    (tmp_path / "j.jsonl").symlink_to(tmp_path / "target")
    with pytest.raises(JournalError, match="cannot be used"):
        Journal(tmp_path / "j.jsonl")
    assert (tmp_path / "target").read_text() == "keep"


def test_the_seed_stays_that_of_the_first_run(tmp_path: Path) -> None:
    folder = tmp_path / "j"
    assert [run_seed(folder, None, 5), run_seed(folder, None, 6), run_seed(folder, 5, 7)] == [5, 5, 5]
    with pytest.raises(JournalError, match="--seed 5"):
        run_seed(folder, 6, 7)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the program that nobody edits meanwhile: a journal counts for one state of it."""
    folder = tmp_path_factory.mktemp("program")
    shutil.copytree(PROGRAM, folder / "validator", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


Command = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def command(program: Path, tmp_path: Path) -> Command:
    """Starts the command line in `tmp_path`."""

    def start(*words: str) -> subprocess.Popen[bytes]:
        where = {**os.environ, "PYTHONPATH": str(program)}
        line = [sys.executable, "-m", "validator", *words]
        return subprocess.Popen(line, cwd=tmp_path, env=where, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    return start


def written(folder: Path) -> dict[str, list[str]]:
    """Journal (of one part of the cases each) → ids of the cases in it, as whole lines say, in order."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_bytes().split(b"\n")[1:-1]:
            record = json.loads(line.partition(b" ")[2])
            told = json.dumps(record["result"]["case"]) + ("" if record["shrunk"] is None else " and simpler")
            found.setdefault(path.name, []).append(told)
    return found


def grew(before: dict[str, list[str]], after: dict[str, list[str]]) -> bool:
    """Whether every journal begins as it was."""
    return all(after.get(name, [])[: len(cases)] == cases for name, cases in before.items())


def killed_at_random_moments(command: Command, words: list[str], journal: Path, moments: random.Random) -> bytes:
    """Kill the command again and again, then let it end; its output. Nothing finished is lost or done again."""
    before: dict[str, list[str]] = {}
    kills = 0
    while kills < 4:
        process = command(*words)
        until = time.monotonic() + moments.uniform(0.5, 2.5)
        while time.monotonic() < until and process.poll() is None:
            time.sleep(0.005)
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
        after = written(journal)
        assert grew(before, after)
        before = after
    assert kills
    output, _ = command(*words).communicate()
    after = written(journal)
    assert grew(before, after)
    told = [case for cases in after.values() for case in cases]
    assert len(told) == len(set(told))
    return output


@CANDIDATES
def test_diff_killed_at_any_moment(tmp_path: Path, command: Command, candidate: str) -> None:
    tree_of(tmp_path / "tree", candidate)
    words = ["diff", "--manifest", "tree/m.toml", "--tree", "tree", "--base", "tree", "--cases", "200"]
    words += ["--format", "json", "--seed", "7"]
    unbroken, _ = command(*words).communicate()
    moments = random.Random(len(candidate))
    output = killed_at_random_moments(command, [*words, "--journal", "j"], tmp_path / "j", moments)
    assert json.loads(output) == json.loads(unbroken)


def test_check_killed_at_any_moment_writes_the_identical_bundle(
    tmp_path: Path, command: Command, manifest: Callable[..., str]
) -> None:
    base = {
        "policies/policy.toml": 'schema = "validator/policy/1"\nname = "p"\n[differential]\nmin_cases = 120\n',
        "stock/ops.py": STOCK,
    }
    head = {"fast/model.py": BAD, "rfcs/kda.toml": manifest(more=KERNEL, paths='["fast/**"]')}
    repository = RepositoryBuilder(tmp_path / "repo", bare=True)
    first = repository.commit(nodes(base), branch="main")
    repository.commit(nodes(base | head), first, branch="change")
    words = ["check", "--base", "main", "--head", "change", "--repo", "repo", "--quiet"]
    command(*words, "--seed", "7", "--bundle", "whole", "--journal", "other").communicate()
    taken_up = [*words, "--seed", "7", "--bundle", "parts", "--journal", "j"]
    killed_at_random_moments(command, taken_up, tmp_path / "j", random.Random(3))
    verified = command("verify", "parts")
    assert b"untouched" in verified.communicate()[0]
    whole, parts = (json.loads((tmp_path / name / "bundle.json").read_bytes()) for name in ("whole", "parts"))
    assert parts["id"] == whole["id"]
    assert parts["verdict"] == "fail"
