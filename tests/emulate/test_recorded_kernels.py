"""Whole kernels of three compilers: run here, they leave what they left on an H200 (`fixtures/gpu/kernels/`)."""

from __future__ import annotations

import json
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fixtures.gpu.kernels.recorded import FOLDER, Recorded, recorded
from validator.emulate.adversary import FRIENDLY
from validator.emulate.launch import with_arrays
from validator.emulate.play import play
from validator.emulate.run import compile_kernel, execute

RECORD: dict[str, Any] = json.loads((FOLDER / "record.json").read_text())
KERNELS = recorded()
IDS = [kernel.name for kernel in KERNELS]
BOUNDED = re.compile(rb"\.approx\b")
"""Instructions whose bits the ISA leaves open."""
RELATIVE = 2.0**-19
"""Difference of an element over its size, or over the middle size of all where it is smaller."""


def numbers(kernel: Recorded, buffer: str, raw: Any) -> Any:
    (dtype,) = kernel.contract.values[buffer][1].dtype
    return np.asarray(raw).view(np.dtype(getattr(ml_dtypes, dtype, dtype))).astype(np.float64)


def test_the_record_says_where_it_comes_from_and_holds_every_kernel():
    assert RECORD["device"].startswith("NVIDIA")
    assert RECORD["driver"]
    assert RECORD["date"]
    assert sorted(RECORD["kernels"]) == IDS
    assert {name.partition("/")[0] for name in IDS} == {"nvcc", "triton", "cutedsl"}
    assert all(row["changed"] and not row["unsteady"] for row in RECORD["kernels"].values())


@pytest.mark.parametrize("kernel", KERNELS, ids=IDS)
def test_a_recorded_kernel_leaves_what_it_left_on_the_gpu(kernel):
    code = compile_kernel(kernel.program, kernel.image)
    outcome = execute(code, with_arrays(kernel.prepared, kernel.contents("before")), FRIENDLY)
    assert (outcome.unexecutable, outcome.hazards) == ("", [])
    after = kernel.contents("after")
    assert set(RECORD["kernels"][kernel.name]["changed"]) <= set(after)
    for buffer, expected in after.items():
        got = outcome.results[buffer][: len(expected)]
        if np.array_equal(got, expected):
            continue
        assert BOUNDED.search(kernel.image), f"{buffer}: not the bits of the GPU"
        ours, theirs = numbers(kernel, buffer, got), numbers(kernel, buffer, expected)
        scale = np.maximum(np.abs(theirs), np.median(np.abs(theirs)))
        assert (np.abs(ours - theirs) <= RELATIVE * scale).all()


@pytest.mark.parametrize("kernel", KERNELS, ids=IDS)
def test_no_schedule_shows_a_hazard_in_a_correct_kernel(kernel):
    prepared = with_arrays(kernel.prepared, kernel.contents("before"))
    report = play(compile_kernel(kernel.program, kernel.image), prepared, schedules=6)
    assert [str(h) for h in report.hazards] == []
    assert report.differences == []
