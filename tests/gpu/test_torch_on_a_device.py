"""torch callables on a real GPU: compiled when called, on another stream, replayed as a graph. Elsewhere skipped."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import validator.run.adapters as adapters
from fixtures.gpu.differential import FOLDER
from validator.run.worker import _sibling

pytestmark = pytest.mark.gpu

BF16 = np.dtype(ml_dtypes.bfloat16)


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """A callable of `fixtures/gpu/differential/head/called.py`, through the adapter, on memory that stays."""
    if (lacking := adapters.ADAPTERS["torch-cuda"].lacking()) or importlib.util.find_spec("triton") is None:
        pytest.skip(f"not run here: {lacking or 'triton is not installed'}")
    monkeypatch.syspath_prepend(str(FOLDER / "head"))
    adapter = _sibling("torch", "adapters")
    return lambda name: adapter.load(f"called:{name}", str(FOLDER / "head"), {"device": "cuda", "timed": "yes"})


class Norm:
    """Arguments of a norm of 4 rows of 64, in buffers of their own, and what must come out."""

    def __init__(self) -> None:
        self.x, self.w, self.out = (
            np.ndarray(shape, BF16, np.zeros(2 * int(np.prod(shape)) + 64, np.uint8), 32)
            for shape in ((4, 64), (64,), (4, 64))
        )

    def error(self, function: Any, seed: int) -> float:
        """Largest difference from numpy's result, on new values."""
        rng = np.random.default_rng(seed)
        self.x[...] = rng.uniform(-4, 4, self.x.shape)
        self.w[...] = rng.uniform(-2, 2, self.w.shape)
        self.out[...] = np.nan
        function(self.x, self.w, self.out, 1e-6)
        wide = self.x.astype(np.float32)
        due = (wide / np.sqrt(np.mean(wide**2, -1, keepdims=True) + 1e-6)).astype(BF16) * self.w
        found = np.abs(self.out.astype(np.float32) - due.astype(np.float32)).max()
        return float(np.where(np.isnan(found), np.inf, found))


@pytest.mark.parametrize("name", ["rmsnorm", "rmsnorm_waits"])
def test_a_right_kernel_is_right_however_it_is_called(called, name: str):
    """Ordinarily, on another stream with late values, captured, and replayed; `rmsnorm_waits` cannot be captured."""
    function, norm = called(name), Norm()
    assert [norm.error(function, seed) < 0.1 for seed in range(9)] == [True] * 9
    assert 0 < function.milliseconds < 1000


def test_a_kernel_on_the_wrong_stream_is_wrong_where_values_come_late(called):
    function, norm = called("rmsnorm_default_stream"), Norm()
    right = [norm.error(function, seed) < 0.1 for seed in range(9)]
    assert right[0]
    assert not all(right)


def test_a_result_that_is_given_again_is_wrong_on_new_contents(called):
    function, norm = called("rmsnorm_stale"), Norm()
    assert norm.error(function, 0) < 0.1
    assert not all(norm.error(function, seed) < 0.1 for seed in range(1, 6))
