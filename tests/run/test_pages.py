"""Large regions of shared memory lie where the system can serve them in large pages, here and in a worker."""

from __future__ import annotations

import mmap
import os
import re
from pathlib import Path

import numpy as np
import pytest

from validator.run.channel import DTYPE_NAMES, GIVEN, Array, Call
from validator.run.pages import LARGE, Mapping
from validator.run.pool import Pool
from validator.run.sandbox import Limits, Outcome, Worker

SOURCE = """
import ctypes

def where(x, out):
    out[0], out[1] = x.ctypes.data, out.ctypes.data

def reads_at(x, out):
    ctypes.string_at(x.ctypes.data + int(out[0]), 1)
"""
SIZE = 5 * LARGE + 512
X = 256
"""Bytes before an array of a region, and behind it."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "asked.py").write_text(SOURCE)
    return tmp_path


def in_large_pages() -> int:
    """Bytes of shared memory that this process maps in large pages."""
    return 1024 * sum(map(int, re.findall(r"ShmemPmdMapped: +(\d+)", Path("/proc/self/smaps").read_text())))


def gathers() -> bool:
    """Whether this system does that at all: asked in another way than the pool asks."""
    descriptor = os.memfd_create("tried")
    os.ftruncate(descriptor, 2 * LARGE)
    mapping = Mapping(descriptor, 2 * LARGE)
    os.close(descriptor)
    mapping.view[:] = bytes(2 * LARGE)
    before = in_large_pages()
    mapping.gather(0, 2 * LARGE)
    return in_large_pages() - before == 2 * LARGE


def a_call(w: Worker, number: float = 0.0) -> Call:
    """Of an array in memory that only the gate can write, and another one."""
    slots = (GIVEN | 1, 2)
    for slot in slots:
        w.lend(slot, SIZE)
    elements = (SIZE - 2 * X) // 8
    np.frombuffer(w.lend(2, SIZE)[X:-X], np.float64)[0] = number
    views = tuple(Array(DTYPE_NAMES.index("float64"), (elements,), (8,), at, X) for at in range(2))
    return Call(tuple(map(w.arena, slots)), views)


def test_a_large_region_is_in_large_pages() -> None:
    if not gathers():
        pytest.skip("this system gives no large pages for shared memory (Linux before 6.1, or it is told not to)")
    pool, before = Pool(64 * LARGE), in_large_pages()
    pool.lend(0, SIZE)
    assert in_large_pages() - before == 5 * LARGE
    pool.lend(1, LARGE)  # a part of one
    pool.lend(0, SIZE)[:3] = b"abc"
    pool.lend(2, SIZE, over=0)
    assert (in_large_pages() - before, bytes(pool.lend(2, SIZE, over=0)[:3])) == (5 * LARGE, b"abc")


@pytest.mark.parametrize(("length", "gathered"), [((1 << 30) + 512, True), (SIZE, False)])
def test_what_may_be_mostly_holes_is_not_filled(length: int, gathered: bool) -> None:
    pool = Pool(1 << 32, gathered=gathered)
    pool.lend(0, length)
    assert os.fstat(pool.descriptor).st_blocks == 0


def test_small_regions_fill_the_gaps_that_large_ones_leave() -> None:
    pool = Pool(64 * LARGE)
    pool.lend(0, 100)
    pool.lend(1, SIZE)
    pool.lend(2, 100)
    (first, _), (large, _), (second, _) = map(pool.where, range(3))
    page = mmap.PAGESIZE
    assert (first // page, second // page, large // LARGE, large % LARGE // page) == (0, 1, 1, 0)
    for slot in range(3):
        pool.drop(slot)
    pool.lend(3, 64 * LARGE - page)  # nothing is lost


def test_regions_of_nothing_have_a_place_of_their_own() -> None:
    pool = Pool(8 * mmap.PAGESIZE)
    for slot in range(8):
        pool.lend(slot, 0)
    assert {pool.where(slot)[0] // mmap.PAGESIZE for slot in range(8)} == set(range(8))


def test_gathering_changes_nothing() -> None:
    descriptor = os.memfd_create("gathered")
    os.ftruncate(descriptor, SIZE // 4096 * 4096)
    mapping = Mapping(descriptor, SIZE // 4096 * 4096)
    os.close(descriptor)
    there = np.frombuffer(mapping.view, np.uint8)
    there[::4096] = np.arange(len(there[::4096])) % 251
    before = there.copy()
    mapping.gather(4096, len(there) - 4096)
    np.testing.assert_array_equal(there, before)


def test_what_is_looked_at_stays_mapped() -> None:
    pool = Pool(4 * LARGE)
    there = np.frombuffer(pool.lend(0, LARGE), np.uint8)
    there[...] = 7
    pool.close()
    del pool
    assert int(there.sum()) == 7 * LARGE


def test_what_is_no_file_is_refused() -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        Mapping(-1, LARGE)


def test_a_worker_maps_it_as_it_lies(tree: Path) -> None:
    with Worker("asked:where", tree, Limits(wall=20.0, memory=64 * LARGE)) as w:
        call = a_call(w)
        assert w.call(call).outcome is Outcome.OK
        told = np.frombuffer(w.lend(2, SIZE)[X:-X], np.float64)[:2]
        for address, (_, offset, _) in zip(told, call.arenas, strict=True):
            assert int(address) % LARGE == (offset + X) % LARGE


@pytest.mark.parametrize("at", [-X - mmap.PAGESIZE, SIZE - X, SIZE - X + mmap.PAGESIZE - 1])
def test_around_it_lies_nothing_that_a_worker_could_read(tree: Path, at: int) -> None:
    with Worker("asked:reads_at", tree, Limits(wall=20.0, memory=64 * LARGE)) as w:
        assert w.call(a_call(w, 0)).outcome is Outcome.OK
        assert w.call(a_call(w, at)).outcome is Outcome.SIGNAL
