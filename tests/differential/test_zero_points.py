"""Quantisation whose scale and zero point come of the values themselves: ties go either way, bugs do not pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from validator.differential.engine import run_kernel
from validator.differential.expected import Expected
from validator.differential.judge import judge
from validator.differential.processes import Trees, runner_for
from validator.manifest.contract import KernelContract

MODEL = """
import numpy as np

def ends(x):
    wide = x.astype(np.float64 if x.dtype == np.float64 else np.float32)
    return wide, np.minimum(wide.min(-1), 0), np.maximum(wide.max(-1), 0)

def quantise(x, q, scale, zero):
    wide, low, high = ends(x)
    s = np.maximum((high - low) / wide.dtype.type(255), wide.dtype.type(1e-8))
    z = np.clip(np.rint(-128 - low / s), -128, 127)
    scale[...], zero[...] = s, z
    q[...] = np.clip(np.rint(wide / s[:, None]) + z[:, None], -128, 127)

def quantised(x, q, scale, zero, by=np.float32(1 / 255), rounded=np.rint, zero_rounded=np.rint, more=0, inverse=True):
    wide, low, high = ends(x)
    s = np.maximum((high - low) * by, np.float32(1e-8))
    over = (lambda a, b: a * (np.float32(1) / b)) if inverse else np.divide
    z = np.clip(zero_rounded(-128 - over(low, s)), -128, 127)
    scale[...], zero[...] = s, z
    q[...] = np.clip(rounded(over(wide, s[:, None])) + z[:, None] + more, -128, 127)

def times_the_inverse(x, q, scale, zero):
    quantised(x, q, scale, zero)

def divided_by_another_scale(x, q, scale, zero):
    quantised(x, q, scale, zero, inverse=False)

def halves_go_up(x, q, scale, zero):
    quantised(x, q, scale, zero, rounded=lambda a: np.floor(a + np.float32(0.5)))

def cut_off(x, q, scale, zero):
    quantised(x, q, scale, zero, rounded=np.trunc)

def zero_point_cut_off(x, q, scale, zero):
    quantised(x, q, scale, zero, zero_rounded=np.floor)

def one_more_than_its_zero_point(x, q, scale, zero):
    quantised(x, q, scale, zero, more=1)
"""


def _contract(candidate: str) -> KernelContract:
    args: list[dict[str, Any]] = [
        {"name": "x", "role": "activation", "dtype": "bfloat16", "shape": ["T", "D"]},
        {"name": "q", "role": "output", "dtype": "int8", "shape": ["T", "D"]},
        {"name": "scale", "role": "output", "dtype": "float32", "shape": ["T"]},
        {"name": "zero", "role": "output", "dtype": "int32", "shape": ["T"]},
    ]
    dims = ["T in 1..48", "D in 1..256"]
    table = {"match": "q", "reference": "model:quantise", "candidate": f"model:{candidate}", "dims": dims, "args": args}
    return KernelContract.model_validate(table)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("candidate", ["times_the_inverse", "divided_by_another_scale"])
def test_another_order_of_arithmetic_passes(candidate: str, seed: int, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    with runner_for(_contract(candidate), Trees(tmp_path, tmp_path)) as runner:
        result = run_kernel(runner, seed, 0)
    assert [r.faults for r in result.of("failed")] == []
    assert len(result.of("passed")) > 50


@pytest.mark.parametrize("candidate", ["halves_go_up", "cut_off", "zero_point_cut_off", "one_more_than_its_zero_point"])
def test_another_way_to_round_is_found(candidate: str, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    with runner_for(_contract(candidate), Trees(tmp_path, tmp_path)) as runner:
        result = run_kernel(runner, 3, 0, enough=lambda case: bool(case.faults))
    assert result.of("failed")


def _integers(values: Any, may: float) -> Expected:
    native = np.asarray(values, np.int32)
    return Expected(native.astype(np.float64), native, np.full(native.shape, may), np.zeros(native.shape, bool))


@pytest.mark.parametrize(
    ("zero", "row", "right"),
    [
        ([3, 8], [11, 21, 31], True),  # its zero point is one more, and may be
        ([3, 7], [11, 21, 31], False),  # it is not
        ([3, 8], [11, 21, 32], False),
        ([4, 7], [11, 21, 31], False),  # another row's is
        ([3, 9], [12, 22, 32], False),  # it may not be two more
    ],
)
def test_a_row_goes_where_its_zero_point_goes(zero: list[int], row: list[int], *, right: bool) -> None:
    expected = {"zero": _integers([3, 7], 1.0), "q": _integers([[1, 2, 3], [10, 20, 30]], 0.0)}
    got = {"zero": np.asarray(zero, np.int32), "q": np.asarray([[1, 2, 3], row], np.int32)}
    faults = judge(KernelContract.model_validate({"match": "k"}), expected, got)
    assert (faults == []) is right


@pytest.mark.parametrize(("given", "right"), [(4e-18, True), (1e-9, False)])
def test_what_float64_cannot_see_beside_one_is_no_error(given: float, *, right: bool) -> None:
    """`log1p(exp(-40))`, where the reference takes `log(1 + exp(-40))`."""
    zeros = np.zeros((4, 8))
    least = float(np.finfo(np.float32).smallest_subnormal)
    due = Expected(zeros, zeros.astype(np.float32), np.full(zeros.shape, least), np.zeros(zeros.shape, bool))
    got = {"out": np.full(zeros.shape, given, np.float32)}
    assert (judge(KernelContract.model_validate({"match": "k"}), {"out": due}, got) == []) is right
