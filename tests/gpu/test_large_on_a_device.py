"""Arrays so large that what has lain in them before is not sent again: nothing hides behind that, and nothing shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from fixtures.gpu.differential import FOLDER, planned
from fixtures.gpu.on_torch import RUNS
from validator.differential.cases import Case
from validator.differential.device import Device
from validator.differential.errors import DifferentialError
from validator.differential.processes import Trees, runner_for
from validator.differential.runner import Runner
from validator.differential.running import run_case
from validator.manifest.load import load_contract

pytestmark = pytest.mark.gpu

SIZES = (("B", 520), ("D", 1032))
"""A little more than a megabyte of bfloat16."""
PLANS = ("repeat", "same-buffer", "other-buffer", "flip", "recheck", "a-b-a", "batch-mates")
TEXTS = {name: text for name, _, text in (*planned(), *planned(*RUNS))}
RIGHT = ("norm", "norm: another stream, joined", "norm: a graph whose buffers are filled in each call", "rmsnorm")
RACE = ("hidden-state", "not-repeatable")
"""What it shows as hangs on when it is lost."""
WRONG: dict[str, str | tuple[str, ...]] = {
    "norm: a graph replays the values of the first call": "hidden-state",
    "norm: another stream, not joined": RACE,
    "norm: results kept by address and shape": "hidden-state",
    "norm: results kept by a sample of the values": "hidden-state",
    "norm: works in the memory of its input": "input-changed",
    "norm: the tail behind the last whole tile is not written": "depends-on-old-contents",
    "rmsnorm: one rounding of the stock path is left out": "wrong-value",
}


RETURNING = """
schema = "validator/manifest/1"
[[kernels]]
match = "scaled"
reference = "large:scaled"
trusted = "torch"
torch = "large:scaled"
returns = "out"
dims = ["B in 1..2000", "D in 1..2000"]
batch = "B"
args = [
    { name = "x", role = "activation", dtype = "bfloat16", shape = ["B", "D"], domain = { low = -4, high = 4 } },
    { name = "w", role = "weight", dtype = "bfloat16", shape = ["D"], domain = { low = -2, high = 2 } },
    { name = "out", role = "output", dtype = "bfloat16", shape = ["B", "D"] },
]
"""
TEXTS |= {
    name: RETURNING.replace('torch = "large:scaled"', f'torch = "large:{name}"')
    for name in ("scaled", "scaled_in_one_place", "scaled_but_for_the_tail", "scaled_from_the_side")
}
RIGHT += ("scaled",)
WRONG |= {
    "scaled_in_one_place": "earlier-result-changed",
    "scaled_but_for_the_tail": "wrong-value",
    "scaled_from_the_side": "wrong-metadata",
}


@contextmanager
def running(name: str) -> Iterator[Runner]:
    """The processes of a run of the records, at sizes that its contract has not."""
    (contract,), _ = load_contract(TEXTS[name].encode(), "contract.toml")
    trees = Trees(FOLDER / "head", FOLDER / ("head" if name.startswith("scaled") else "base"))
    try:
        with runner_for(contract, trees, device=Device.CUDA) as runner:
            yield runner
    except DifferentialError as error:
        pytest.skip(str(error))


def results(name: str) -> Iterator[Any]:
    with running(name) as runner:
        for seed, plan in enumerate(PLANS):
            case = Case(runner.contract.match, SIZES, seed, plan)
            yield run_case(runner, case).result
            yield run_case(runner, replace(case, layouts=(("x", "offset"),))).result
        large: Any = runner.candidate.elsewhere
        assert large._regions, f"they lie where the worker sees them too, but: {large.why}"


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_one_is_right_under_every_plan(name: str):
    found = list(results(name))
    assert [(r.case.plan, r.status, r.faults) for r in found if r.status != "passed"] == []
    assert len(found) == 2 * len(PLANS)


@pytest.mark.parametrize("name", WRONG)
def test_a_planted_bug_shows_as_what_it_is(name: str):
    due = WRONG[name] if isinstance(WRONG[name], tuple) else (WRONG[name],)
    assert {fault.kind.value for result in results(name) for fault in result.faults} & {*due}
