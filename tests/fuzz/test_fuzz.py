"""Every reader of untrusted input, fuzzed for a moment under coverage; all that was ever found stays mended.

Longer runs are started by hand: see `README.md` in this folder.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.fuzz.run import PLANTED, ROOT, WORDS, load, stored, targets

README = Path(__file__).with_name("README.md")
RUNS, SECONDS = 1000, 1
fuzzer = pytest.mark.skipif(find_spec("atheris") is None, reason="atheris is not installed (`pip install atheris`)")


def fuzz(name: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.fuzz.run", name, *options]
    where = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=where, capture_output=True, text=True, errors="replace", timeout=300)


@pytest.mark.parametrize("name", targets())
def test_seeds_and_what_was_found_once_are_read(name: str) -> None:
    target = load(name)
    inputs = [*target.seeds(), *(path.read_bytes() for path in stored(name))]
    assert len(inputs) > 1
    for data in inputs:
        target.one(data)


@fuzzer
@pytest.mark.parametrize("name", targets())
def test_a_short_run_finds_nothing(name: str, tmp_path: Path) -> None:
    done = fuzz(name, tmp_path, "--runs", str(RUNS), "--seconds", str(SECONDS), "--seed", "1")
    assert done.returncode == 0, (
        f"{done.stderr[-4000:]}\nput the input into tests/fuzz/found/{name}/ and mend the reader"
    )
    (runs,) = re.findall(r"^Done (\d+) runs", done.stderr, re.M)
    assert int(runs) > 20
    assert not [path for kind in ("crash", "timeout", "oom") for path in tmp_path.glob(f"{kind}-*")]


@fuzzer
def test_the_fuzzer_finds_a_hole(tmp_path: Path) -> None:
    done = fuzz(PLANTED, tmp_path, "--seconds", "60", "--seed", "1")
    assert done.returncode != 0
    assert "IndexError: the hole" in done.stdout + done.stderr
    (crash,) = tmp_path.glob("crash-*")
    assert crash.read_bytes().startswith(b"hole")


def test_every_target_has_its_row_and_its_words() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", README.read_text("utf-8"), re.M)
    assert rows == targets()
    assert {path.stem for path in WORDS.glob("*.dict")} == set(targets())
