"""`kill -9` at any moment: of a worker, no case is lost; of the gate, what was stored stays and no worker lives on."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from validator.differential.corpus import stored_cases
from validator.differential.engine import run_kernel
from validator.differential.faults import FaultKind
from validator.differential.processes import Trees, runner_for
from validator.differential.runner import Runner
from validator.manifest.contract import KernelContract
from validator.run.sandbox import Limits, Worker

STOCK = "import numpy as np\n\n\ndef total(x, out):\n    out[...] = np.sum(x, axis=-1)\n"
BAD = STOCK.replace("np.sum(x,", "np.sum(x[:, : x.shape[1] // 4 * 4],")
KERNEL: dict[str, Any] = {
    "match": "total",
    "reference": "stock:total",
    "dims": ["B in 1..4", "D in 1..40"],
    "args": [
        {"name": "x", "role": "activation", "dtype": "float32", "shape": ["B", "D"]},
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["B"]},
    ],
}
MANIFEST = """
schema = "validator/manifest/1"

[[kernels]]
match = "total"
candidate = "bad:total"
reference = "stock:total"
dims = ["B in 1..4", "D in 1..40"]
args = [
    { name = "x", role = "activation", dtype = "float32", shape = ["B", "D"] },
    { name = "out", role = "output", dtype = "float32", shape = ["B"] },
]
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    for name, text in (("stock", STOCK), ("good", STOCK), ("bad", BAD)):
        (folder / f"{name}.py").write_text(text)
    return folder


class Killer(threading.Thread):
    """Kills the candidate's process, whatever it is doing, again and again; one call in two is left alone."""

    def __init__(self, runner: Runner, seed: int) -> None:
        super().__init__(daemon=True)
        self.runner, self.moments, self.ended, self.killed = runner, random.Random(seed), threading.Event(), 0

    def run(self) -> None:
        spared = 0
        while self.killed < 5 and not self.ended.wait(self.moments.uniform(0.02, 0.5)):
            process = self.runner.candidate._process
            if process is not None and process.alive and self.runner.calls >= spared:
                spared = self.runner.calls + 2
                os.kill(process.pid, signal.SIGKILL)
                self.killed += 1


@pytest.mark.parametrize("seed", [1, 2])
def test_a_worker_killed_at_any_moment_costs_the_case_it_was_at_and_no_other(tree: Path, seed: int) -> None:
    contract = KernelContract.model_validate({**KERNEL, "candidate": "good:total"})
    with runner_for(contract, Trees(tree, tree), Limits(wall=30)) as runner:
        assert runner.candidate.start().detail == ""
        killer = Killer(runner, seed)
        killer.start()
        result = run_kernel(runner, seed, 10)
        killer.ended.set()
        killer.join()
    assert killer.killed
    assert result.missing == []
    assert {f.kind for r in result.of("failed") for f in r.faults} <= {FaultKind.WORKER}
    assert len(result.of("failed")) <= killer.killed
    assert len(result.of("passed")) > len(result.planned) // 2


@pytest.mark.parametrize("seed", [1, 2])
def test_the_gate_killed_at_any_moment_leaves_what_it_had_found(tree: Path, tmp_path: Path, seed: int) -> None:
    (tmp_path / "m.toml").write_text(MANIFEST)
    corpus = tmp_path / "corpus"
    command = [sys.executable, "-m", "validator", "diff", "--manifest", "m.toml", "--tree", "tree", "--base", "tree"]
    gate = subprocess.Popen([*command, "--corpus", "corpus", "--quiet"], cwd=tmp_path, stdout=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not list(corpus.glob("*.json")) and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(random.Random(seed).uniform(0, 0.5))
    workers = processes_of(tree)
    gate.kill()
    gate.wait()
    found = stored_cases(corpus)
    assert found
    assert {case.kernel for case in found} == {"total"}
    end = time.monotonic() + 60
    while (left := processes_of(tree)) and time.monotonic() < end:
        time.sleep(0.05)
    assert left == []
    if not workers:
        pytest.skip("its workers had ended when it was killed: what it had found was stored, no more is shown")


def processes_of(tree: Path) -> list[int]:
    """Ids of processes whose command line names this folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            found += [int(entry.name)] if os.fsencode(tree) in words else []
    return found


def test_a_folder_that_is_gone_is_an_outcome_too(tree: Path) -> None:
    with Worker("good:total", tree, Limits(wall=30)) as worker:
        shutil.rmtree(tree)
        assert worker.start().outcome.value == "unloadable"
