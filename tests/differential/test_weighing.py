"""Errors in yardsticks, by compiled code and by numpy: the same numbers, whatever stands in the result."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from validator.differential import numbers, weighing
from validator.differential.numbers import CHUNK, Array, dtype_of, poured
from validator.differential.weighing import Weigher, Weight

_ODD = (0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, math.nan, 6e-8, 1e-30, 3e4)


def _both(got: Array, exact: Array, yard: Array, monkeypatch: pytest.MonkeyPatch) -> tuple[Weight, Weight]:
    """What compiled code says, and numpy."""
    weighed = Weigher(got, exact, yard)(0, got.size)
    with monkeypatch.context() as without:
        without.setattr(weighing, "_compiled", lambda dtype: None)
        return weighed, Weigher(got, exact, yard)(0, got.size)


@pytest.fixture(scope="module")
def compiled() -> None:
    if weighing._compiled("float32") is None:
        pytest.skip("nothing was compiled: there was no C compiler when this was installed")


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("name", weighing._TYPES)
@pytest.mark.parametrize("size", [1, 7, 8, 9, 4097, CHUNK])
def test_compiled_code_says_what_numpy_says(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(size)
    exact = draw.normal(size=size)
    got = (exact * (1 + 1e-3 * draw.normal(size=size))).astype(dtype_of(name))
    fast, slow = _both(got, exact, 1e-3 * np.abs(exact) + 1e-9, monkeypatch)
    assert fast[0] == slow[0] > 0.0
    assert fast[1:] == pytest.approx(slow[1:], rel=1e-12)


@pytest.mark.usefixtures("compiled")
@given(
    st.sampled_from(weighing._TYPES),
    st.lists(
        st.tuples(
            *[st.sampled_from(_ODD) | st.floats(width=16)] * 2, st.sampled_from((0.0, 1e-9, 1.0, math.inf, math.nan))
        ),
        min_size=1,
        max_size=20,
    ),
)
@np.errstate(all="ignore")
def test_what_is_no_number_is_told_by_both(name: str, rows: list[tuple[float, float, float]]) -> None:
    got, exact, yard = (np.array(column) for column in zip(*rows, strict=True))
    with pytest.MonkeyPatch.context() as monkeypatch:
        fast, slow = _both(got.astype(dtype_of(name)), exact, yard, monkeypatch)
    np.testing.assert_allclose(fast, slow, rtol=1e-12)


@pytest.mark.usefixtures("compiled")
@np.errstate(all="ignore")
def test_every_half_precision_number_is_read_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bfloat16", "float16"):
        every = np.arange(1 << 16, dtype=np.uint16).view(dtype_of(name))
        every = every[np.isfinite(every.astype(np.float64))]
        assert Weigher(every, every.astype(np.float64), np.ones(every.size))(0, every.size)[:2] == (0.0, 0.0), name


@np.errstate(all="ignore")
def test_one_wrong_element_shows_wherever_it_is() -> None:
    for size in (5, 16, 1000):
        for at in {0, 4, size // 2, size - 1}:
            exact = np.linspace(1.0, 2.0, size)
            got = exact.astype(np.float32)
            got[at] += 0.5
            worst, error, due = Weigher(got, exact, np.full(size, 0.01))(0, size)
            assert worst == pytest.approx(50, rel=1e-3)
            assert error == pytest.approx(0.25, rel=1e-3)
            assert due == pytest.approx(1e-4 * size)


def test_a_stretch_is_weighed_by_itself() -> None:
    exact = np.ones(100)
    got = exact.astype(np.float32)
    got[60] = 3.0
    weigh = Weigher(got, exact, np.ones(100))
    assert [weigh(0, 60)[0], weigh(60, 61)[0], weigh(61, 100)[0]] == [0.0, 2.0, 0.0]


@np.errstate(all="ignore")
def test_one_element_for_all_is_weighed_too() -> None:
    """An array of no strides, which compiled code does not read."""
    exact = np.broadcast_to(np.ones(()), (5000,))
    assert Weigher(np.full(5000, 3.0, np.float32), exact, exact)(0, 5000) == (2.0, 20000.0, 5000.0)


@pytest.mark.parametrize("name", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("count", [(1 << 17) + 1, (1 << 18) + 1003])
@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("compiled", [True, False])
def test_one_element_is_poured_throughout_and_no_further(
    name: str, count: int, start: int, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From any address on, of any size, with and without compiled code."""
    if not compiled:
        monkeypatch.setattr(numbers, "function", lambda *_: None)
    element = np.arange(1, 9, dtype=np.uint8).view(name)[:1]
    room = np.zeros(count + 2, name)
    poured(room[start : start + count], np.broadcast_to(element, count))
    assert (room[start : start + count] == element).all()
    assert np.count_nonzero(room) == count
