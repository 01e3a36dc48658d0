"""What lies in a call's arenas has a number: the same one for the same bytes, and never for others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from validator.differential.arena import PATTERNS
from validator.differential.book import Book
from validator.differential.buffers import Placed, place
from validator.differential.poison import poisoned
from validator.run.channel import EDGE
from validator.run.sandbox import Worker

SHAPE = (1 << 9, 1 << 9)
"""A megabyte of float32."""


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    with Worker("nothing:run", tmp_path) as worker:
        if not worker.protects:
            pytest.skip("not run here: this system cannot keep a worker from writing to its inputs")
        yield worker


class Calls:
    """Calls of `out = f(x, w)`, of which nobody answers any."""

    def __init__(self, worker: Worker) -> None:
        self.worker, self.book = worker, Book()
        self.held: dict[int, bytes] = {}
        """Number → what lay there, its ends aside."""

    def numbers(self, x: Any, *, second: bool = False, layout: str = "contiguous") -> tuple[int, ...]:
        out = poisoned(np.empty(SHAPE, np.float32), second)
        slot, over = (500, 0) if second else (0, None)
        placed = place(
            self.worker,
            {"x": x, "w": np.ones(8, np.float32), "out": out},
            {"x": layout},
            first_slot=slot,
            over=over,
            pattern=PATTERNS[second],
            given={"x"},
            book=self.book,
        )
        placed.guard()
        self.look(placed)
        return placed.call().numbers

    def look(self, placed: Placed) -> None:
        """The promise itself."""
        for arena, number in zip(placed.arenas, placed.call().numbers, strict=True):
            if number:
                inside = bytes(arena[EDGE:-EDGE])
                assert self.held.setdefault(number, inside) == inside


def values(seed: int) -> Any:
    return np.random.default_rng(seed).random(SHAPE, np.float32)


def test_the_same_values_have_one_number_wherever_they_lie(worker: Worker) -> None:
    calls, x = Calls(worker), values(1)
    first, second, third = calls.numbers(x), calls.numbers(x, second=True), calls.numbers(x)
    assert first[0] == second[0] == third[0] > 0
    assert first[1] == 0, "an argument that the worker can write may hold anything"
    assert 0 < first[2] == third[2] != second[2] > 0, "two poisons"


def test_other_values_have_another_number(worker: Worker) -> None:
    calls, x, other = Calls(worker), values(1), values(2)
    assert len({calls.numbers(v)[0] for v in (x, other, x)}) == 3, "what was laid anew may be anything else, too"


def test_a_change_in_place_is_another_number(worker: Worker) -> None:
    """As plans make it: where the array was drawn, seen through another array."""
    calls = Calls(worker)
    x = calls.book.home(worker, SHAPE, np.dtype(np.float32))
    x[...] = values(3)
    before = calls.numbers(x)[0]
    x[5, 5] += 1
    changed = x.view()
    assert calls.numbers(changed)[0] != before
    assert calls.numbers(changed, second=True)[0] == calls.numbers(changed)[0]
    x[5, 5] -= 1
    del changed
    assert calls.numbers(x)[0] != before


def test_gaps_between_rows_belong_to_what_lies_there(worker: Worker) -> None:
    calls, x = Calls(worker), values(4)
    first, second = calls.numbers(x, layout="strided")[0], calls.numbers(x, layout="strided", second=True)[0]
    assert first != second
    assert calls.numbers(x)[0] not in (first, second)
