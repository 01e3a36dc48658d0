"""Digests made on a device: what Python says, wherever the bytes stand, and another one for any bit that is another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.digest import KEY, added
from validator.gpu.digested import Digests

pytestmark = pytest.mark.gpu

SIZES = (1, 15, 16, 17, 4095, 4096, 4097, (1 << 20) + 3, (1 << 24) + 5, 16 * 2112 * 4096 // 8 + 100)


def drawn(size: int) -> Any:
    return np.random.default_rng(size).integers(0, 256, size, np.uint8)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("offset", [256, 257, 258, 264, 269])
def test_a_device_says_what_python_says_and_sees_every_bit(shelf: Any, size: int, offset: int):
    data, draw = drawn(size), np.random.default_rng(offset)
    region = shelf.region(1, (1 << 20) + size + 600)
    arena = np.full(region.length, 0xEE, np.uint8)
    arena[offset : offset + size] = data
    region.hold(data, (offset, size), memoryview(arena), 0xEE)
    (row, *_) = rows = region.held((offset, size), 0xEE)
    assert shelf.look(rows) == [0, 0, 0]
    if offset == 256 and size < 1 << 22:
        key = shelf.device.download(shelf.digests._key, KEY)
        assert row.due == Digests.said(added(data.tobytes(), 0, key), size)
    for at in (0, size - 1, *draw.integers(0, size, 3)):
        changed = data.copy()
        changed[at] ^= 1 << int(draw.integers(0, 8))
        shelf.device.upload(region.address + offset, changed)
        shelf.device.synchronize()
        assert shelf.look([row]) == [1]
        assert shelf.look(rows) == [0, 0, 0], "it was laid again"


def test_pieces_that_change_places_are_seen(shelf: Any):
    data = drawn(1 << 24)
    parts = data.reshape(-1, 4096)
    swapped = parts[[1, 0, *range(2, len(parts))]].reshape(-1)
    shelf.enter()
    one, other = (shelf.digests.send(each, each, None).result() for each in (data, swapped))
    assert one != other
    assert shelf.digests.send(data, data, None).result() == one
