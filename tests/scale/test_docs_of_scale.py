"""The commands of docs/scale.md, run as they stand there on a small change."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scale.small import build

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"<!-- commands: (\w+) -->\n```sh\n(.*?)```", (ROOT / "docs/scale.md").read_text(), re.DOTALL)


def test_there_are_commands() -> None:
    assert [name for name, _ in BLOCKS] == ["plan", "check", "shards"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "commands"), BLOCKS, ids=[name for name, _ in BLOCKS])
def test_the_commands_run_as_they_stand_there(name: str, commands: str, tmp_path: Path) -> None:
    repository = build(tmp_path / "repository")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for line in commands.strip().splitlines():
        words = [sys.executable, "-m", "validator", *line.split()[1:]]
        done = subprocess.run(words, cwd=repository, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, (line, done.stdout[-2000:], done.stderr[-2000:])
        assert done.stdout
