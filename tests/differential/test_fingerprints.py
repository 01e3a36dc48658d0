"""Candidates that remember results by what does not tell all values apart, and one that writes where it can."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.scaling import contract, written
from validator.differential import runner as runner_module
from validator.differential.cases import Case
from validator.differential.faults import FaultKind
from validator.differential.poison import surroundings_of
from validator.differential.processes import Trees, runner_for
from validator.differential.running import run_case

MODEL = """
import os
import numpy as np

def scale(x, w, out):
    out[...] = x * w

def remembering(key):
    def candidate(x, w, out, last=[None, None]):
        now = (x.shape, w.tobytes(), key(x))
        if last[0] != now:
            last[:] = now, x * w
        out[...] = last[1]
    return candidate

by_sorted = remembering(lambda x: np.sort(x, axis=None).tobytes())
by_exact_sum = remembering(lambda x: np.rint(x.astype(np.float64) * 2.0**40).sum())
by_every_second = remembering(lambda x: x.reshape(-1)[::2].tobytes())
by_all = remembering(lambda x: x.tobytes())

def where_it_can(x, w, out, pipe=[]):
    scale(x, w, out)
    if not pipe:
        pipe[:] = os.pipe()
    os.write(pipe[1], b"\\0" * 4)
    try:
        os.readv(pipe[0], [memoryview(x.reshape(-1)[:1]).cast("B")])
    except (OSError, TypeError, ValueError, BufferError):
        os.read(pipe[0], 4)
        import ctypes
        os.write(pipe[1], b"\\0" * 4)
        if ctypes.CDLL(None, use_errno=True).read(pipe[0], ctypes.c_void_p(x.ctypes.data), ctypes.c_size_t(4)) < 0:
            os.read(pipe[0], 4)
"""


@pytest.fixture(params=[False, True], ids=["small", "as large"])
def large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        monkeypatch.setattr(runner_module, "_LARGE", 0)


@pytest.fixture
def trees(tmp_path: Path) -> Trees:
    return written(tmp_path, MODEL)


def failures(trees: Trees, candidate: str, seeds: range, plan: str = "flip") -> list[bool]:
    with runner_for(contract(candidate), trees) as runner:
        return [
            bool(run_case(runner, Case("scale", (("B", 4), ("D", 24)), seed, plan)).result.faults) for seed in seeds
        ]


@pytest.mark.parametrize("candidate", ["by_sorted", "by_exact_sum"])
@pytest.mark.usefixtures("large")
def test_who_remembers_one_call_by_what_sees_no_places_is_found_nearly_always(trees: Trees, candidate: str) -> None:
    """Unless the weights change both times, which it looks at one by one."""
    assert sum(failures(trees, candidate, range(24))) >= 17


@pytest.mark.usefixtures("large")
def test_who_samples_every_second_element_is_found_often(trees: Trees) -> None:
    assert sum(failures(trees, "by_every_second", range(24))) >= 6


def test_who_samples_every_second_element_of_large_arrays_is_found(
    trees: Trees, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few cases are large."""
    monkeypatch.setattr(runner_module, "_LARGE", 0)
    assert all(failures(trees, "by_every_second", range(12)))


@pytest.mark.usefixtures("large")
def test_who_looks_at_all_values_may_remember(trees: Trees) -> None:
    assert not any(failures(trees, "by_all", range(12)))


def test_who_writes_to_an_input_where_that_is_possible_is_found_where_it_is(trees: Trees) -> None:
    """One small case in eight."""
    seeds = range(40)
    open_to_it = [surroundings_of(seed).writable for seed in seeds]
    assert 2 <= sum(open_to_it) <= 12
    assert failures(trees, "where_it_can", seeds, "repeat") == open_to_it
    with runner_for(contract("where_it_can"), trees) as runner:
        case = Case("scale", (("B", 4), ("D", 24)), open_to_it.index(True), "repeat")
        assert {f.kind for f in run_case(runner, case).result.faults} == {FaultKind.INPUT}
