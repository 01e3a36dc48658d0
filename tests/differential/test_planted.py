"""Planted bugs are found, cheats are refused, honest look-alikes pass; ordinary tests see nothing of the bugs."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from validator.differential.cases import Case, build, judged_arguments
from validator.differential.coverage import CLASSES
from validator.differential.poison import poisoned
from validator.differential.results import KernelResult
from validator.differential.rules import BY_FAULT
from validator.differential.shapes import Space
from validator.manifest.contract import KernelContract, Role

ORDINARY = {"B": 4, "D": 64, "H": 8, "G": 2, "T": 32, "M": 16, "K": 64, "N": 16, "S": 8, "W": 4}
"""Sizes that a hand-written test would use."""


def rules_of(result: KernelResult) -> set[str]:
    return {BY_FAULT[fault.kind].id for failed in result.of("failed") for fault in failed.faults}


def test_a_planted_bug_is_found_and_shrunk(planted_candidate: Any, engine: Callable[..., KernelResult]) -> None:
    result = engine(planted_candidate)
    assert planted_candidate.found in rules_of(result)
    last = result.results[-1]
    shrunk = result.shrunk.get(last.case.id, last)
    assert shrunk.faults
    assert sum(v for _, v in shrunk.case.dims) <= sum(v for _, v in last.case.dims)


def test_every_input_class_has_two_bugs_that_only_it_shows(overlay: Any) -> None:
    """By name: `i7_…` is a bug that inputs of class I7 show, and a hundred ordinary tests do not (see below)."""
    source = (overlay / "ops" / "planted.py").read_text()
    counts = Counter(name.upper() for name in re.findall(r"^def (i\d+)_", source, re.M))
    assert counts.keys() == CLASSES.keys()
    assert min(counts.values()) >= 2


def test_a_bug_in_a_part_of_a_model_is_found(model_bugs_candidate: Any, engine: Callable[..., KernelResult]) -> None:
    """Written after the engine, by nobody who had its inputs in mind."""
    assert model_bugs_candidate.found in rules_of(engine(model_bugs_candidate, count=40))


@pytest.mark.parametrize("seed", range(3))
def test_what_cancels_far_from_zero_is_found_by_construction(
    seed: int, fixtures_of: Callable[[str], Any], engine: Callable[..., KernelResult]
) -> None:
    """Not by luck: no case is drawn here, and any seed will do."""
    bug = fixtures_of("model_bugs")["variance_as_a_difference_of_means"]
    assert bug.found in rules_of(engine(bug, seed=seed, count=0))


def test_a_cheat_is_refused(cheats_candidate: Any, engine: Callable[..., KernelResult]) -> None:
    result = engine(cheats_candidate)
    assert cheats_candidate.found in rules_of(result)


def test_an_honest_candidate_passes(honest_candidate: Any, engine: Callable[..., KernelResult]) -> None:
    result = engine(honest_candidate, count=10)
    assert [r.faults for r in result.of("failed")] == []
    assert result.of("unusable") == []
    assert len(result.of("passed")) > len(result.planned) // 2
    assert result.missing == []


def test_a_part_of_a_model_as_fast_kernels_compute_it_passes(
    model_variants_candidate: Any, engine: Callable[..., KernelResult]
) -> None:
    result = engine(model_variants_candidate, count=10)
    assert [r.faults for r in result.of("failed")] == []
    assert len(result.of("passed")) > len(result.planned) // 2


@pytest.fixture
def modules(overlay: Any) -> Iterator[Callable[[str], ModuleType]]:
    """Import a fixture module in this process: the bugs are ours."""
    sys.path.insert(0, str(overlay))

    def load(name: str) -> ModuleType:
        return importlib.import_module(f"ops.{name}")

    yield load
    sys.path.remove(str(overlay))
    for name in [n for n in sys.modules if n == "ops" or n.startswith("ops.")]:
        del sys.modules[name]


def _ordinary(contract: KernelContract, seed: int) -> dict[str, Any]:
    """Random numbers as a hand-written test draws them: usual sizes, first type, contiguous, zeroed outputs."""
    space = Space(contract)
    dims = {n: ORDINARY[n] if ORDINARY[n] in space.values[n] else 4 for n in space.names}
    if contract.match == "softmax":
        dims["D"] = 64
    rng = np.random.default_rng(seed)
    inputs = build(contract, Case(contract.match, tuple(dims.items()), seed))
    for name, (role, values) in contract.values.items():
        array = inputs[name]
        if role in (Role.OUTPUT, Role.WORKSPACE):
            inputs[name] = np.zeros_like(array)
        elif isinstance(array, np.ndarray) and not values.domain.index and not values.domain.lengths:
            inputs[name] = rng.standard_normal(array.shape).astype(array.dtype)
        elif values.domain.lengths:
            inputs[name] = rng.integers(1, dims["T"] + 1, array.shape).astype(array.dtype)
    return inputs


def _called(
    contract: KernelContract, function: Callable[..., Any], inputs: dict[str, Any], *, configured: bool = False
) -> list[np.ndarray[Any, Any]]:
    passed = {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in inputs.items() if n not in contract.returns}
    # As a hand-written test calls it: the first of every choice, launches one after another.
    chosen = [values[0] for values in contract.configurations.values()] if configured else []
    returned = function(*passed.values(), *chosen)
    for number in range(1, ORDINARY["W"] if contract.launches is not None else 1):
        assert contract.launches is not None
        function(*{**passed, contract.launches.argument: number}.values(), *chosen)
    return [returned] if contract.returns else [passed[n] for n in judged_arguments(contract)]


def test_a_hundred_ordinary_tests_see_nothing(
    planted_candidate: Any, modules: Callable[[str], ModuleType], contract_for: Callable[[Any], KernelContract]
) -> None:
    contract = contract_for(planted_candidate)
    candidate = getattr(modules("planted"), planted_candidate.name)
    reference = getattr(modules("stock"), (contract.reference or "").partition(":")[2])
    for seed in range(100):
        inputs = _ordinary(contract, seed)
        found = _called(contract, candidate, inputs, configured=True)
        for got, want in zip(found, _called(contract, reference, inputs), strict=True):
            np.testing.assert_allclose(
                got.astype(np.float64), want.astype(np.float64), rtol=3e-2, atol=8e-2, err_msg=planted_candidate.name
            )


def test_poisons_differ_for_every_type() -> None:
    for name in ("float32", "int8", "int64", "bool", "uint16"):
        array = np.zeros((2, 3), name)
        assert np.all(poisoned(array, 0) != poisoned(array, 1))
