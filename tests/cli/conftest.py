"""Runs the real command line in a scrubbed environment, on small repositories built here."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.command_line import Ran, Warm
from tests.support.golden import compare
from tests.support.repository import RepositoryBuilder

GOLDEN = Path(__file__).parent / "golden"
Cli = Callable[..., Ran]


@pytest.fixture(scope="session")
def cli() -> Iterator[Cli]:
    """`cli("check", "--base", …, cwd=…, env=…)`."""
    warm = Warm()

    def run(*args: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout: float = 60) -> Ran:
        return warm(args, cwd, env, timeout)

    yield run
    warm.close()


class Repo(RepositoryBuilder):
    """A repository with a work tree, for changes that are easier told as files than as trees."""

    def write(self, files: Mapping[str | bytes, str | bytes], branch: str | None = None) -> str:
        """Write the files, commit everything, return the commit's id."""
        if branch:
            self.git("checkout", "-q", "-B", branch)
        for name, content in files.items():
            path = os.path.join(os.fsencode(self.path), os.fsencode(name))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            Path(os.fsdecode(path)).write_bytes(content.encode() if isinstance(content, str) else content)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "change")
        return self.git("rev-parse", "HEAD")


POLICY = """\
schema = "validator/policy/1"
name = "test policy"
"""


def today() -> date:
    return datetime.now(UTC).date()


def manifest_text(
    id_: str = "kda", *, more: str = "", paths: str = '["fast/kda/**"]', created: date | None = None
) -> str:
    """A manifest that is valid today."""
    created = created or today() - timedelta(days=1)
    return f"""\
schema = "validator/manifest/1"
id = "{id_}"
title = "Fused decode step"
owners = ["@ann"]
created = {created}
expires = {created + timedelta(days=60)}
summary = "One fused kernel for one decode step."

[isolation]
paths = {paths}

[switch]
kind = "env"
name = "FAST_KDA"
value = "1"
default = "0"

[scope]
models = ["kimi-k3"]
architectures = ["sm_100a"]
dtypes = ["bfloat16"]
batch = {{ min = 1, max = 8 }}
{more}
"""


@pytest.fixture
def manifest() -> Callable[..., str]:
    """`manifest(id, more=…)`: text of a manifest that is valid today."""
    return manifest_text


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository with a policy on `main`."""
    made = Repo(tmp_path / "repo")
    made.write({"policies/policy.toml": POLICY, "stock/decode.py": "def decode():\n    pass\n"})
    return made


@pytest.fixture
def scrub() -> Callable[[str], str]:
    """Replaces what differs between machines and days by placeholders."""
    return _scrub


def _scrub(text: str) -> str:
    text = re.sub(r"\b[0-9a-f]{64}\b", "<sha256>", text)
    text = re.sub(r"\b[0-9a-f]{40}\b", "<commit>", text)
    text = re.sub(r"\b(?=[0-9a-f]*[0-9])[0-9a-f]{12}\b", "<short>", text)
    return re.sub(r"\b20\d\d-\d\d-\d\d\b", "<date>", text)


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare text with a file of `golden/`."""
    return lambda name, text: compare(GOLDEN / name, text)
