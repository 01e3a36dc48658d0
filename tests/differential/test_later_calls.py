"""Candidates that are right call by call: what they do to earlier results, and what many calls make of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from validator.differential.cases import Case
from validator.differential.engine import run_case
from validator.differential.processes import Trees, runner_for
from validator.manifest.contract import KernelContract

SOURCE = """
import numpy as np
known, ring = {}, [np.empty((2, 8), np.float32) for _ in range(4)]

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

def ring_of_four(x):
    ring.append(ring.pop(0))
    np.add(x, x, out=ring[-1])
    return ring[-1]

def stale_at_last(x, out):
    count, last = known.get("seen", (0, x))
    out[...] = 2 * (x if count < 600 else last)
    known["seen"] = count + 1, (x.copy() if count < 600 else last)
"""


def _kinds(candidate: str, plan: str, folder: Path) -> set[str]:
    (folder / "stock.py").write_text(SOURCE)
    returned = candidate in ("doubled", "ring_of_four")
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
        ("own_scratch", "other-buffer", set()),
        ("into_the_first", "other-buffer", {"earlier-result-changed"}),
        ("double", "many-calls", set()),
        ("stale_at_last", "many-calls", {"hidden-state"}),
    ],
)
def test_calls_after_a_call(candidate: str, plan: str, found: set[str], tmp_path: Path) -> None:
    assert _kinds(candidate, plan, tmp_path) == found
