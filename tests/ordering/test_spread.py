"""Work over processes: in order, bounded, and nothing left behind."""

from __future__ import annotations

import operator
import os
import tempfile
import time
from multiprocessing import active_children
from pathlib import Path

import pytest

from validator.ordering.spread import SpreadError, spread


def one(item):
    return 1


def test_results_come_in_order_from_other_processes():
    assert list(spread(operator.neg, range(20), 2, one)) == [-n for n in range(20)]


def test_one_item_alone_starts_no_process():
    assert list(spread(lambda n: (n, os.getpid()), iter([7]), 8, one)) == [(7, os.getpid())]
    assert list(spread(operator.neg, iter(()), 8, one)) == []


def test_little_is_taken_before_it_is_asked_for():
    taken = []

    def items():
        for n in range(1000):
            taken.append(n)
            yield n

    work = spread(operator.neg, items(), 2, lambda item: 1 << 30)  # each is more than may wait
    assert next(work) == 0
    assert len(taken) <= 2
    work.close()


def test_what_is_interrupted_leaves_neither_process_nor_file(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = set(active_children())
    work = spread(time.sleep, [0.0, 100.0, 100.0, 0.0], 2, one)
    assert next(work) is None
    start = time.monotonic()
    work.close()
    assert time.monotonic() - start < 30
    assert not set(active_children()) - before
    assert not list(Path(tmp_path).iterdir())


def test_a_process_that_is_killed_is_an_error_that_says_so():
    with pytest.raises(SpreadError, match="a process was killed"):
        list(spread(os._exit, [1, 1, 1], 2, one))
