"""Candidates that are right call by call: what they do to earlier results, and what many calls make of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from validator.differential import runner as runner_module
from validator.differential.cases import Case
from validator.differential.processes import Trees, runner_for
from validator.differential.running import run_case
from validator.manifest.contract import KernelContract

SOURCE = """
import numpy as np
known, pair, ring, wide_ring = {}, *([np.empty((2, 8), np.float32) for _ in range(size)] for size in (2, 4, 7))

def double(x, out):
    out[...] = x + x

def doubled(x):
    return x + x

def own_scratch(x, out):
    scratch = known.setdefault(x.shape, np.empty_like(x))
    scratch[...] = 2 * x
    out[...] = scratch

def into_the_first(x, out):
    first = known.setdefault(x.shape, out)
    first[...] = 2 * x
    out[...] = first

def ring_of_two(x):
    pair.append(pair.pop(0))
    np.add(x, x, out=pair[-1])
    return pair[-1]

def ring_of_four(x):
    ring.append(ring.pop(0))
    np.add(x, x, out=ring[-1])
    return ring[-1]

def ring_of_seven(x):
    wide_ring.append(wide_ring.pop(0))
    np.add(x, x, out=wide_ring[-1])
    return wide_ring[-1]

def stale_at_last(x, out):
    count, last = known.get("seen", (0, x))
    out[...] = 2 * (x if count < 600 else last)
    known["seen"] = count + 1, (x.copy() if count < 600 else last)
"""


def _kinds(candidate: str, plan: str, folder: Path) -> set[str]:
    (folder / "stock.py").write_text(SOURCE)
    returned = candidate.startswith(("doubled", "ring"))
    contract = KernelContract.model_validate(
        {
            "match": "k",
            "reference": "stock:doubled" if returned else "stock:double",
            "candidate": f"stock:{candidate}",
            "returns": ["out"] if returned else [],
            "dims": ["B in 2..2", "D in 8..8"],
            "args": [
                {"name": "x", "role": "activation", "dtype": "float32", "shape": ["B", "D"]},
                {"name": "out", "role": "output", "dtype": "float32", "shape": ["B", "D"]},
            ],
        }
    )
    with runner_for(contract, Trees(folder, folder)) as runner:
        cases = [Case("k", (("B", 2), ("D", 8)), seed, plan=plan) for seed in range(1 if plan == "many-calls" else 4)]
        return {fault.kind.value for case in cases for fault in run_case(runner, case).result.faults}


@pytest.mark.parametrize(
    ("candidate", "plan", "found"),
    [
        ("doubled", "recheck", set()),
        ("ring_of_four", "recheck", {"earlier-result-changed"}),
        ("ring_of_seven", "recheck", {"earlier-result-changed"}),
        ("own_scratch", "other-buffer", set()),
        ("into_the_first", "other-buffer", {"earlier-result-changed"}),
        ("double", "many-calls", set()),
        ("stale_at_last", "many-calls", {"hidden-state"}),
    ],
)
def test_calls_after_a_call(candidate: str, plan: str, found: set[str], tmp_path: Path) -> None:
    assert _kinds(candidate, plan, tmp_path) == found


@pytest.mark.parametrize(("candidate", "found"), [("doubled", set()), ("ring_of_two", {"earlier-result-changed"})])
def test_results_of_large_calls_are_not_two_buffers_by_turns(
    candidate: str, found: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "_LARGE", 0)
    assert _kinds(candidate, "recheck", tmp_path) == found


ADVANCE = """
import os

def advance(at, table, out):
    out[...] = table[at]
    at += 1

def advance_or_abort(at, table, out):
    if at.max() >= len(table):
        os.abort()
    out[...] = table[at]
    at += 1
"""


@pytest.mark.parametrize("plan", ["recheck", "many-calls"])
def test_what_is_changed_in_place_is_laid_anew_for_every_call(plan: str, tmp_path: Path) -> None:
    """What a call leaves there may be beyond what the contract promises the next one."""
    (tmp_path / "stock.py").write_text(ADVANCE)
    at = {"name": "at", "role": "index", "dtype": "int32", "shape": ["B"], "inplace": True}
    contract = KernelContract.model_validate(
        {
            "match": "k",
            "reference": "stock:advance",
            "candidate": "stock:advance_or_abort",
            "dims": ["B in 2..2", "M in 3..3"],
            "args": [
                {**at, "domain": {"low": 0, "high": "M - 1"}},
                {"name": "table", "role": "weight", "dtype": "float32", "shape": ["M"]},
                {"name": "out", "role": "output", "dtype": "float32", "shape": ["B"]},
            ],
        }
    )
    with runner_for(contract, Trees(tmp_path, tmp_path)) as runner:
        cases = [Case("k", (("B", 2), ("M", 3)), seed, plan=plan) for seed in range(3)]
        assert [run_case(runner, case).result.faults for case in cases] == [()] * 3
