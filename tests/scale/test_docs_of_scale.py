"""The commands of docs/scale.md, run as they stand there on a small change."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.scale.small import build
from tests.scale.test_check import run

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"<!-- commands: (\w+) -->\n```sh\n(.*?)```", (ROOT / "docs/scale.md").read_text(), re.DOTALL)


def test_there_are_commands() -> None:
    assert [name for name, _ in BLOCKS] == ["plan", "check", "shards"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "commands"), BLOCKS, ids=[name for name, _ in BLOCKS])
def test_the_commands_run_as_they_stand_there(name: str, commands: str, tmp_path: Path) -> None:
    repository = build(tmp_path / "repository", cases=2)
    for line in commands.strip().splitlines():
        done = run(*line.split()[1:], cwd=repository)
        assert done.returncode == 0, (line, done.stdout[-2000:], done.stderr[-2000:])
        assert done.stdout
