"""The adapter on a real device: CuTe DSL and CUDA C++ source against numpy, and what lies far apart."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fixtures.gpu.differential import FOLDER
from validator.differential.device import Device, candidate_of
from validator.differential.errors import DifferentialError
from validator.gpu.adapter import NotRunHere, load
from validator.manifest.load import load_contract

pytestmark = pytest.mark.gpu


@pytest.fixture
def kernel():
    """The callable of a contract of `fixtures/gpu/differential`; skips where nothing can run."""
    file = FOLDER / "contracts.toml"
    contracts, _ = load_contract(file.read_bytes(), str(file))

    def loaded(name: str) -> Any:
        try:
            chosen = candidate_of(next(c for c in contracts if c.match == name), Device.CUDA)
            return load(chosen.target, str(FOLDER / "head"), {**chosen.options, "timed": "yes"})
        except (NotRunHere, DifferentialError) as error:
            pytest.skip(str(error))

    return loaded


def test_a_kernel_with_struct_arguments_computes(kernel):
    norm = kernel("rmsnorm")
    x = np.array([[1, -2, 0.5, 1, 1, 2, -1, 0.5]] * 3, ml_dtypes.bfloat16)
    w, out = np.full(8, 1.5, ml_dtypes.bfloat16), np.zeros((3, 8), ml_dtypes.bfloat16)
    launch = {"grid": (3, 1, 1), "block": (128, 1, 1), "shared": 1024, "cluster": None}
    wide = x.astype(np.float32)
    due = (wide / np.sqrt(np.mean(wide**2, -1, keepdims=True) + 1e-6)).astype(ml_dtypes.bfloat16) * w
    for _ in range(4):  # launched, replayed from a graph, and both again
        out[...] = np.nan
        norm(x, 3, 8, 8, w, 8, out, 3, 8, 8, 1e-6, launch=launch)
        assert out.tobytes() == due.tobytes()
    assert norm.milliseconds > 0


def test_source_is_compiled_and_state_lies_far_apart(kernel):
    decode = kernel("kda_decode")
    rng = np.random.default_rng(1)
    q, k = (rng.uniform(-1, 1, (1, 1, 64)).astype(ml_dtypes.bfloat16) for _ in range(2))
    v, g = rng.uniform(-1, 1, (1, 1, 32)).astype(ml_dtypes.bfloat16), np.zeros((1, 1, 64), np.float32)
    beta, out = np.ones((1, 1), ml_dtypes.bfloat16), np.zeros((1, 1, 32), ml_dtypes.bfloat16)
    state = np.zeros((3, 1, 64, 32), np.float32)
    launch = {"grid": (1, 1, 1), "block": (32, 1, 1), "shared": 0, "cluster": None}
    decode(q, k, v, g, beta, state, np.array([2], np.int32), out, 1, 1.0, launch=launch)
    due = k.astype(np.float32)[0, 0][:, None] * v.astype(np.float32)[0, 0]
    np.testing.assert_allclose(state[2, 0], due, rtol=1e-6)
    assert not state[:2].any()
