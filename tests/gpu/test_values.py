"""The bytes that a candidate's buffers hold: true values and the previous step's."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from validator.gpu.values import PUBLISHED, SMALL, draw_pair, element_size
from validator.manifest.contract import DTYPES, Domain, Role, Values

FLOATS = {
    "float64": np.float64,
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}


def draw(role: Role | None, values: Values, size: int = 4096, window: int = 1024) -> tuple[bytes, bytes]:
    return draw_pair(role, values, size, window, np.random.default_rng(7))


@pytest.mark.parametrize("dtype", [None, *DTYPES])
@pytest.mark.parametrize("role", [Role.ACTIVATION, Role.INDEX, Role.STATE, Role.FLAG, None])
def test_every_element_of_the_window_differs_and_nothing_behind_it(role: Role | None, dtype: str | None):
    values = Values(dtype=(dtype,)) if dtype else Values()
    true, previous = draw(role, values)
    unsigned = np.dtype(f"u{element_size(values)}")
    first, second = np.frombuffer(true, unsigned), np.frombuffer(previous, unsigned)
    inside = 1024 // unsigned.itemsize
    assert len(true) == len(previous) == 4096
    assert (first[:inside] != second[:inside]).all()
    assert (first[inside:] == second[inside:]).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_values_without_a_type_are_moderate_numbers_of_every_type(dtype: str):
    for raw in draw(Role.ACTIVATION, Values()):
        numbers = np.frombuffer(raw, FLOATS[dtype]).astype(np.float64)
        assert np.isfinite(numbers).all()
        assert (numbers >= 0).all()
        assert (numbers < 2).all()
        assert numbers.max() > (0.1 if dtype != "float64" else 0)


def test_positions_keep_to_their_domain():
    for raw in draw(Role.INDEX, Values(domain=Domain(low=3, high=6))):
        numbers = np.frombuffer(raw, "<i4")
        assert (numbers >= 3).all()
        assert (numbers <= 6).all()
    for raw in draw(Role.WORKSPACE, Values()):
        assert np.frombuffer(raw, "<i4").max() < SMALL


def test_the_only_values_there_are():
    true, previous = draw(Role.INDEX, Values(dtype=("int64",), domain=Domain(values=(4, 9))))
    assert set(np.frombuffer(true, "<i8")) == {4}
    assert set(np.frombuffer(previous, "<i8")[:128]) == {9}


def test_a_flag_is_not_set_before_it_is_published():
    true, previous = draw(Role.FLAG, Values())
    assert set(np.frombuffer(true, "<u4")) == {PUBLISHED}
    assert not any(previous[:1024])


def test_a_narrow_flag_is_set_as_far_as_it_goes():
    true, _ = draw(Role.FLAG, Values(dtype=("int8",)))
    assert set(true) == {127}


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_numbers_keep_to_declared_bounds(dtype: str):
    for raw in draw(Role.ACTIVATION, Values(dtype=(dtype,), domain=Domain(low=-0.4, high=0.4))):
        numbers = np.frombuffer(raw, FLOATS[dtype]).astype(np.float64)
        assert abs(numbers).max() < 0.4005
        assert numbers.min() < -0.3
        assert numbers.max() > 0.3


def test_slots_that_must_be_unique_are_and_none_stays_where_it_was():
    true, previous = draw(Role.INDEX, Values(domain=Domain(low=0, high=99, unique=True)), size=4 * 100)
    for raw in (true, previous):
        assert sorted(np.frombuffer(raw, "<i4")) == list(range(100))
    assert (np.frombuffer(true, "<i4") != np.frombuffer(previous, "<i4")).all()


def test_offsets_that_must_ascend_do():
    for raw in draw(Role.INDEX, Values(domain=Domain(sorted=True)), window=4096):
        assert (np.diff(np.frombuffer(raw, "<i4")) >= 0).all()
