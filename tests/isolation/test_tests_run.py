"""The base's tests, run over the head's code in a sandbox, with the switch off and on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.isolation_case import context_of
from tests.support.repository import Node
from validator.isolation.proof import run
from validator.verdict.model import Obligation, StageResult, Status

POLICY = """\
schema = "validator/policy/1"
[isolation]
roots = ["fast/**"]
run_tests = true
"""
MANIFEST = """\
schema = "validator/manifest/1"
id = "fast"
title = "Fast"
owners = ["@a"]
created = 2026-11-01
expires = 2027-03-01
summary = "Fast."
[isolation]
paths = ["fast/**"]
entry_points = ["fast.run:double"]
shared = ["ops.py"]
[switch]
kind = "{kind}"
name = "{name}"
value = "1"
default = "0"
[scope]
models = ["m"]
architectures = ["sm_100a"]
dtypes = ["bfloat16"]
batch = {{ max = 8 }}
"""
OPS = "import os\n\n\ndef double(x):\n    return x + x\n"
FAST = """\
import os


def double(x):
    if os.environ.get("FAST", "0") == "1":
        from fast.run import double as run

        return run(x)
    return x + x
"""
TEST = """\
from ops import double


def test_double():
    assert double(2) == 4


def test_zero():
    assert double(0) == 0
"""


def _run(
    folder: Path,
    *,
    test: str = TEST,
    ops: str = FAST,
    fast: str = "def double(x):\n    return 2 * x\n",
    kind: str = "env",
    policy: str = POLICY,
    more: dict[str, str] | None = None,
) -> StageResult:
    base = {"policies/p.toml": policy, "ops.py": OPS, "tests/test_ops.py": test, "fast_later.txt": ""}
    name = "FAST" if kind == "env" else "config.fast"
    head = base | {"ops.py": ops, "fast/__init__.py": "", "fast/run.py": fast}
    head |= {"rfcs/fast.toml": MANIFEST.format(kind=kind, name=name)} | (more or {})
    nodes = [{path.encode(): Node(text.encode()) for path, text in tree.items()} for tree in (base, head)]
    return run(context_of(nodes[0], nodes[1], folder))


def _obligations(result: StageResult) -> tuple[Obligation, Obligation]:
    found = {o.id: o for o in result.obligations if o.id.startswith("isolation/tests-run")}
    return found["isolation/tests-run/off"], found["isolation/tests-run/on"]


def test_they_pass_both_ways(tmp_path: Path) -> None:
    result = _run(tmp_path)
    off, on = _obligations(result)
    assert (off.status, on.status) == (Status.PROVEN, Status.PROVEN), (off.reason, on.reason)
    figures = next(e.figures for e in result.evidence if e.id == "isolation/tests-run/on")
    assert (figures["passed"], figures["failed"]) == (2, 0)


def test_the_new_path_is_wrong(tmp_path: Path) -> None:
    result = _run(tmp_path, fast="def double(x):\n    return 3 * x\n")
    off, on = _obligations(result)
    assert (off.status, on.status) == (Status.PROVEN, Status.REFUTED)
    (found,) = (f for f in result.findings if f.rule == "isolation/test-fails")
    assert "test_double fails" in found.message
    assert found.where.path == "tests/test_ops.py"


def test_shared_code_is_wrong(tmp_path: Path) -> None:
    off, on = _obligations(_run(tmp_path, ops=FAST.replace("return x + x", "return x * 3")))
    assert (off.status, on.status) == (Status.REFUTED, Status.PROVEN)


@pytest.mark.parametrize(
    "more",
    [
        {"tests/test_ops.py": "def test_double():\n    pass\n"},
        {"conftest.py": "def pytest_collection_modifyitems(items):\n    del items[:]\n"},
        {"tests/conftest.py": "import pytest\n\n\n@pytest.fixture(autouse=True)\ndef skip():\n    pytest.skip('no')\n"},
        {"pytest.ini": "[pytest]\naddopts = --deselect tests/test_ops.py\n"},
        {"pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-k nothing'\n"},
    ],
)
def test_the_head_cannot_choose_its_judge(more: dict[str, str], tmp_path: Path) -> None:
    off, _ = _obligations(_run(tmp_path, ops=FAST.replace("return x + x", "return x * 3"), more=more))
    assert off.status is Status.REFUTED


@pytest.mark.parametrize(
    ("test", "says"),
    [
        ("import no_such_library\nfrom ops import double\n\n\ndef test_it():\n    pass\n", "no_such_library"),
        ("from ops import double\n\n\ndef test_it():\n    assert double(1) == 7\n", "at the base neither"),
        ("import pytest\nfrom ops import double\n\n\n@pytest.mark.skip\ndef test_it():\n    pass\n", "skipped"),
        ("from ops import double\n", "no test was found"),
        ("import os\nfrom ops import double\n\n\ndef test_it():\n    os._exit(3)\n", "could not be run here"),
    ],
)
def test_what_cannot_be_run_here_is_unproven(test: str, says: str, tmp_path: Path) -> None:
    off, _ = _obligations(_run(tmp_path, test=test))
    assert off.status is Status.UNPROVEN
    assert says in off.reason


def test_a_switch_that_only_the_code_can_turn_on(tmp_path: Path) -> None:
    off, on = _obligations(_run(tmp_path, kind="config"))
    assert off.status is Status.PROVEN
    assert on.status is Status.UNPROVEN
    assert "only the code itself" in on.reason


def test_nothing_runs_unless_policy_asks(tmp_path: Path) -> None:
    off, on = _obligations(_run(tmp_path, policy=POLICY.replace("run_tests = true\n", "")))
    assert {off.status, on.status} == {Status.NOT_ASKED}
    assert "1 test file of the base not run: `run_tests = true` under `[isolation]`" in off.reason


def test_tests_that_nobody_touched(tmp_path: Path) -> None:
    off, on = _obligations(_run(tmp_path, test="def test_it():\n    pass\n"))
    assert {off.status, on.status} == {Status.NOT_APPLICABLE}
