"""A state that the first call left is gone on from, unless it is no number any more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from validator.differential.cases import Case, cases
from validator.differential.engine import run_case
from validator.differential.processes import Trees, runner_for
from validator.differential.results import CaseResult
from validator.manifest.contract import KernelContract

STOCK = """
def scan(x, state):
    state[...] = state * 3 + x
"""
FAST = """
def otherwise(x, state):
    state[...] = state * 4 - state + x

def once(x, state):
    state[...] = state * 3 + x * (1 if abs(state).max() < 5 else 1.01)
"""


@pytest.fixture
def contract(request: pytest.FixtureRequest) -> KernelContract:
    args = [
        {"name": "x", "role": "activation", "dtype": "float32", "shape": ["T"]},
        {"name": "state", "role": "state", "dtype": "float32", "shape": ["T"]},
    ]
    table = {"match": "k", "candidate": f"fast:{request.param}", "reference": "stock:scan", "dims": ["T in 4..40"]}
    return KernelContract.model_validate({**table, "args": args})


def _ran(contract: KernelContract, folder: Path, case: Case) -> CaseResult:
    (folder / "stock.py").write_text(STOCK)
    (folder / "fast.py").write_text(FAST)
    with runner_for(contract, Trees(folder, folder)) as runner:
        return run_case(runner, replace(case, plan="carried-on")).result


@pytest.mark.parametrize("contract", ["otherwise"], indirect=True)
def test_nobody_is_held_to_what_comes_of_a_state_that_overflowed(contract: KernelContract, tmp_path: Path) -> None:
    (case,) = [c for c in cases(contract, 1, 0) if c.origin == "all at once: limits"]
    assert _ran(contract, tmp_path, case).faults == ()


@pytest.mark.parametrize("contract", ["once"], indirect=True)
def test_what_shows_only_on_the_state_of_the_call_before_is_found(contract: KernelContract, tmp_path: Path) -> None:
    case = Case("k", (("T", 7),), 1)
    assert _ran(contract, tmp_path, case).faults
