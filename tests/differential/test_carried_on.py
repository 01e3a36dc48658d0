"""A state that the first call left is gone on from, unless it is no number any more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from validator.differential.cases import Case
from validator.differential.processes import Trees, runner_for
from validator.differential.results import CaseResult
from validator.differential.running import run_case
from validator.manifest.contract import KernelContract

STOCK = """
def scan(x, state):
    state[...] = state * x.dtype.type(1e30) + x
"""
FAST = """
def otherwise(x, state):
    state[...] = (state - state) + state * x.dtype.type(1e30) + x

def once(x, state):
    state[...] = state * x.dtype.type(1e30 if abs(state).max() < 5 else 1e5) + x
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
    assert _ran(contract, tmp_path, Case("k", (("T", 7),), 1)).faults == ()


@pytest.mark.parametrize("contract", ["once"], indirect=True)
def test_what_shows_only_on_the_state_of_the_call_before_is_found(contract: KernelContract, tmp_path: Path) -> None:
    assert _ran(contract, tmp_path, Case("k", (("T", 7),), 1)).faults
