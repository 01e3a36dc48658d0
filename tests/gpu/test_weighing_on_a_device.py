"""Results weighed on a device: what numpy says, whatever stands in them, and however long they are."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.weight import narrow, weight_of

pytestmark = pytest.mark.gpu

TYPES = {"bfloat16": 2.0**-9, "float16": 2.0**-12, "float32": 2.0**-25}
ODD = {"none": (), "a NaN": (np.nan,), "an infinity": (np.inf,), "zeros": (0.0,) * 40, "too far": ()}


def bits(values: Any) -> Any:
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("size", [1, 7, 8, 4099, 1 << 20])
@pytest.mark.parametrize("once", [False, True], ids=["taken before", "taken as it is weighed"])
def test_a_device_says_what_numpy_says(shelf: Any, dtype: str, odd: str, size: int, once: bool):
    draw = np.random.default_rng(size)
    exact = draw.standard_normal(size)
    trusted = exact.astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))
    off = exact - trusted.astype(np.float64)
    yard = np.hypot(exact * TYPES[dtype], off) + 1e-30
    away = off / yard
    got = (exact + draw.standard_normal(size) * yard).astype(trusted.dtype)
    for at, value in enumerate(ODD[odd][:size]):
        got[at] = value
        if odd == "zeros":
            trusted[at], yard[at], away[at] = 0, 0, 0
    if odd == "too far":
        away[size // 2] = -40
    few = narrow(away), bits(yard)
    region = shelf.region(1, 512 + max(got.nbytes, 1 << 20))
    arena = np.zeros(region.length, np.uint8)
    arena[256 : 256 + got.nbytes] = got.view(np.uint8)
    region.load(memoryview(arena))
    shelf.settle()
    shelf.expect(exact, trusted, *few, once=once)
    taken = region.take((256, got.nbytes), exact)
    assert (taken.place is not None) == once
    shelf.look((), [(taken, exact)])
    here = np.empty(got.nbytes, np.uint8)
    taken.fetch(here)
    assert here.tobytes() == got.tobytes()
    worst, error, due, differing = taken.weight(exact)
    most, off, own, other = weight_of(got, trusted, *few)
    assert np.isinf(most) == (odd in ("a NaN", "an infinity", "too far"))
    assert differing == other
    assert worst == pytest.approx(most, rel=1e-6)
    assert due == pytest.approx(own, rel=1e-9)
    assert error == pytest.approx(off, rel=1e-6, nan_ok=True)
