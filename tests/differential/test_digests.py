"""A large result is known by its digest: any bit that differs is seen, whoever set it."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from validator.differential import digests
from validator.differential.digests import is_known, noted
from validator.differential.numbers import Array

_SIZES = [1 << 20, (1 << 20) + 1, (1 << 22) - 8, (1 << 22) + 4096 + 3, 3 << 22]


def _bytes(size: int) -> Array:
    return np.random.default_rng(size).integers(0, 256, size, np.uint8)


@pytest.fixture(params=[True, False], ids=["compiled", "without a compiler"], autouse=True)
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(digests, "_compiled", lambda: None)
    elif digests._compiled() is None:
        pytest.skip("nothing was compiled: there was no C compiler when this was installed")


@pytest.mark.parametrize("size", _SIZES)
def test_one_bit_anywhere_is_seen(size: int) -> None:
    known = _bytes(size)
    there = known.copy()
    assert is_known(there, known)
    for at in (0, 1, 4095, 4096, size // 2, size - 1):
        there[at] ^= 1 << at % 8
        assert not is_known(there, known)
        there[at] ^= 1 << at % 8
    assert is_known(there, known)


def test_what_sums_alike_is_not_alike() -> None:
    """Words that change places, one more here and one less there, other signs: none of them hides."""
    known = _bytes(1 << 20).view(np.uint32)
    for at, other in ((0, 1), (0, 2), (8, 1032), (0, 1024)):  # in one pair, in one lane, a block further
        swapped = known.copy()
        swapped[[at, other]] = swapped[[other, at]]
        assert not is_known(swapped, known)
        moved = known.copy()
        moved[at] += 1
        moved[other] -= 1
        assert not is_known(moved, known)
    assert not is_known(known ^ np.uint32(1 << 31), known)


@given(st.integers(0, (1 << 18) - 1), st.integers(1, (1 << 32) - 1))
def test_any_other_word_is_seen(at: int, flips: int) -> None:
    known = np.zeros(1 << 18, np.uint32)
    there = known.copy()
    there[at] ^= np.uint32(flips)
    assert not is_known(there, known)


def test_other_shapes_and_types_are_not_known() -> None:
    known = np.zeros((1 << 10, 1 << 10), np.float32)
    assert is_known(np.zeros_like(known), known)
    assert not is_known(known.reshape(-1), known)
    assert not is_known(known.view(np.int32), known)
    assert not is_known(-known, known)  # minus zero has other bits


def test_rows_that_lie_apart_are_compared_as_they_are() -> None:
    wide = np.ones((1 << 10, (1 << 10) + 3), np.float32)
    there, known = wide[:, :-3], np.ones((1 << 10, 1 << 10), np.float32)
    assert is_known(there, known)
    wide[5, 7] = 2
    assert not is_known(there, known)


def test_a_digest_ends_with_its_array() -> None:
    gc.collect()
    before = len(digests._KNOWN)
    known = _bytes(1 << 20)
    noted(known)
    assert len(digests._KNOWN) == before + (digests._compiled() is not None)
    del known
    gc.collect()
    assert len(digests._KNOWN) == before
