"""Checkers of the base revision: where no element has one right value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from validator.differential.engine import run_kernel
from validator.differential.faults import FaultKind
from validator.differential.processes import Trees, runner_for
from validator.differential.results import KernelResult
from validator.differential.settle import Demands, settle
from validator.manifest.contract import KernelContract
from validator.run.sandbox import Limits
from validator.verdict.model import Status

STOCK = '''
import numpy as np

def top(x, out):
    out[...] = np.argsort(-x, axis=-1, kind="stable")[:, : out.shape[1]]

def is_top(x, chosen):
    """Any order among equals; the values must be the largest, and no place may occur twice."""
    best = -np.sort(-x, axis=-1)[:, : chosen.shape[1]]
    inside = np.all((chosen >= 0) & (chosen < x.shape[1]))
    if not inside:
        return np.bool_(False)
    got = -np.sort(-np.take_along_axis(x, chosen.astype(np.int64), axis=-1), axis=-1)
    distinct = all(len(set(row)) == len(row) for row in chosen.tolist())
    return np.bool_(np.array_equal(got, best) and distinct)

def takes_one(x):
    return np.bool_(True)

def asserts_top(x, chosen):
    assert is_top(x, chosen)
    return np.bool_(True)
'''
FAST = """
import numpy as np

def from_behind(x, out):
    order = x.shape[1] - 1 - np.argsort(-x[:, ::-1], axis=-1, kind="stable")
    out[...] = order[:, : out.shape[1]]

def repeats_the_best(x, out):
    out[...] = np.argmax(x, axis=-1)[:, None]

def asks_for_much(x, out):
    open("/etc/shadow", "rb")

def second_best(x, out):
    out[...] = np.argsort(-x, axis=-1, kind="stable")[:, 1 : out.shape[1] + 1]
"""


def judged(tmp_path: Path, function: str, **changes: Any) -> KernelResult:
    for side, name, text in (("head", "fast", FAST), ("base", "stock", STOCK)):
        (tmp_path / side).mkdir()
        (tmp_path / side / f"{name}.py").write_text(text)
    trees = Trees(tmp_path / "head", tmp_path / "base")
    with runner_for(top(function, **changes), trees, Limits(wall=30)) as runner:
        return run_kernel(runner, 3, 5)


def top(function: str, **changes: Any) -> KernelContract:
    return KernelContract.model_validate(
        {
            "match": "top",
            "candidate": f"fast:{function}",
            "reference": "stock:top",
            "dims": ["B in 1..4", "K in 1..4", "D in 5..20"],
            "tolerance": {"policy": "property", "checker": "stock:is_top"},
            "args": [
                {"name": "x", "role": "activation", "dtype": "float32", "shape": ["B", "D"]},
                {"name": "out", "role": "output", "dtype": "int32", "shape": ["B", "K"]},
            ],
            **changes,
        }
    )


def test_another_order_of_ties_passes_where_the_checker_allows_it(tmp_path: Path) -> None:
    result = judged(tmp_path, "from_behind")
    assert [r.faults for r in result.of("failed")] == []
    assert result.of("unusable") == []
    assert result.of("passed")
    assert result.sound


def test_another_order_of_ties_fails_where_the_reference_decides(tmp_path: Path) -> None:
    result = judged(tmp_path, "from_behind", tolerance={"policy": "exact"})
    assert any(v == "tied" for r in result.of("failed") for _, v in r.case.variants)


@pytest.mark.parametrize("function", ["repeats_the_best", "second_best"])
def test_what_breaks_the_property_is_refused(tmp_path: Path, function: str) -> None:
    result = judged(tmp_path, function)
    assert len(result.of("failed")) > len(result.planned) // 2
    assert any("is_top" in f.message for r in result.of("failed") for f in r.faults)


def test_a_checker_that_raises_for_right_results_refutes_nobody(tmp_path: Path) -> None:
    """It takes too few parameters, say: the candidate may be right."""
    result = judged(tmp_path, "from_behind", tolerance={"policy": "property", "checker": "stock:takes_one"})
    assert not result.of("failed")
    (first, *_) = result.of("unusable")
    assert "stock:takes_one raises for what the trusted implementation gives: TypeError" in first.unusable
    assert "in the contract's order, then the results" in first.unusable


def test_a_checker_that_raises_for_wrong_results_refuses_them(tmp_path: Path) -> None:
    assertive = {"policy": "property", "checker": "stock:asserts_top"}
    result = judged(tmp_path, "second_best", tolerance=assertive)
    assert "AssertionError" in result.of("failed")[0].faults[0].message


def test_what_the_confinement_refuses_is_told_as_that(tmp_path: Path) -> None:
    (fault, *_) = judged(tmp_path, "asks_for_much").of("failed")[0].faults
    assert "PermissionError" in fault.message
    assert "its process is confined: no files but its own" in fault.message


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            "out[...] = x[:, : out.shape[1]].argmax() + np.random.randint(1 << 20)",
            "gives another out when it is called",
        ),
        ("while True: pass", "gives no result within its deadline"),
    ],
)
def test_a_reference_that_shows_nothing_ends_the_run_early(tmp_path: Path, body: str, told: str) -> None:
    (tmp_path / "stock.py").write_text(f"import numpy as np\n\ndef top(x, out):\n    {body}\n")
    (tmp_path / "fast.py").write_text(FAST)
    contract = top("from_behind", tolerance={"policy": "exact"})
    with runner_for(contract, Trees(tmp_path, tmp_path), Limits(wall=0.5 if "while" in body else 30)) as runner:
        result = run_kernel(runner, 3, 5)
    assert told in result.results[0].unusable
    assert len(result.results) <= 8 < len(result.planned)
    stage = settle(contract, result, Demands(cases=1), runner.chosen)
    assert stage.obligations[0].status is Status.UNPROVEN
    assert stage.evidence[0].figures["input classes"] == ""


def test_a_candidate_that_hides_a_state_does_not_hold_the_gate(tmp_path: Path) -> None:
    """It is wrong in every case but the first of a process; a few processes show that."""
    (tmp_path / "stock.py").write_text(STOCK)
    (tmp_path / "fast.py").write_text(
        "import numpy as np\nSEEN = []\n\ndef once(x, out):\n"
        '    out[...] = np.argsort(-x, axis=-1, kind="stable")[:, : out.shape[1]] if len(SEEN) < 3 else 0\n'
        "    SEEN.append(0)\n"
    )
    with runner_for(top("once", candidate="fast:once"), Trees(tmp_path, tmp_path), Limits(wall=30)) as runner:
        result = run_kernel(runner, 3, 5)
        assert runner.candidate.starts < len(result.of("failed"))
    told = [f.message for r in result.of("failed") for f in r.faults if f.kind is FaultKind.HIDDEN]
    assert any(text.startswith("right in a new process, but ") for text in told)
    assert told[-1].startswith("as in 8 cases that were right in a new process, ")
