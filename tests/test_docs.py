"""What README and CONTRIBUTING say can be run, and what they name is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from validator.cli import cli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
SHOWN = sorted(set(re.findall(r"`validator ([a-z]+)((?: [^`|]*)?)`", README)))


def command(name: str) -> str:
    """The command under `<!-- command: NAME -->`, as `.ci/run` reads it."""
    (text,) = re.findall(rf"<!-- command: {name} -->\n```sh\n(.*?)\n```", README, re.DOTALL)
    return str(text)


@pytest.mark.parametrize(("name", "rest"), SHOWN, ids=[f"{n}{r}" for n, r in SHOWN])
def test_a_command_of_the_readme_exists(name: str, rest: str) -> None:
    shown = CliRunner().invoke(cli, [name, "--help"])
    assert shown.exit_code == 0, shown.output
    for option in re.findall(r"--[a-z-]+", rest):
        assert option in shown.output


def test_every_command_is_in_the_readme() -> None:
    listed = re.findall(r"^  ([a-z]+) ", CliRunner().invoke(cli, ["--help"]).output, re.MULTILINE)
    assert listed
    assert set(listed) <= {name for name, _ in SHOWN}


def test_ci_runs_the_readmes_test_command(tmp_path: Path) -> None:
    """The function that `.ci/run` reads the README with gives the command that the README shows."""
    script = (ROOT / ".ci/run").read_text()
    (function,) = re.findall(r"^readme_command\(\).*$", script, re.MULTILINE)
    read = subprocess.run(
        ["bash", "-c", f"{function}\nreadme_command test"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert read.stdout.strip() == command("test")
    assert ".[test]" in command("test")
    assert "pytest" in command("test")


def test_the_demo_command_ends_in_the_demo() -> None:
    """`tests/test_demo.py` runs the demo itself; here, that the README ends in the same command."""
    assert command("demo").split(" && ")[-1].endswith("validator demo")
    help_text = subprocess.run(
        [sys.executable, "-m", "validator", "demo", "--help"], capture_output=True, text=True, check=True, timeout=60
    )
    assert "--output-dir" in help_text.stdout


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`((?:ordering|validator|tests|fixtures)/[\w/.]+)`", CONTRIBUTING)))
)
def test_a_path_of_the_contributing_guide_is_there(path: str) -> None:
    assert (ROOT / path).exists() or (ROOT / "validator" / path).exists()
