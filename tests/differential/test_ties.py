"""Equal values: what is chosen between them is judged, and rounding around them excuses no choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from validator.differential.cases import cases
from validator.differential.processes import Trees, runner_for
from validator.differential.running import run_case
from validator.differential.ties import Tied
from validator.manifest.contract import KernelContract

STOCK = """
import numpy as np

def top_p(x, p, out):
    order = np.argsort(-x, axis=-1, kind="stable")
    ranked = np.take_along_axis(x, order, -1)
    kept = np.cumsum(ranked, axis=-1) - ranked < p[:, None]
    kept[:, 0] = True
    mask = np.zeros(x.shape, bool)
    np.put_along_axis(mask, order, kept, -1)
    out[...] = np.where(mask, x, 0)

def centred(x, out):
    out[...] = x - x.mean(-1, keepdims=True)

def greatest(x, out):
    out[...] = x.argmax(-1)

def zero_point(x, out):
    low, high = np.minimum(x.min(-1), 0), np.maximum(x.max(-1), 1)
    out[...] = np.rint(-128 - low / ((high - low) / x.dtype.type(255)))
"""
FAST = """
import numpy as np
from stock import top_p

def one_by_one(x, p, out):
    out[...] = 0
    for b in range(len(x)):
        total = np.float32(0)
        for at in sorted(range(x.shape[1]), key=lambda i: (-x[b, i], i)):
            if total >= p[b] and total:
                break
            out[b, at] = x[b, at]
            total += x[b, at]

def all_that_tie(x, p, out):
    top_p(x, p, out)
    least = np.where(out > 0, out, np.inf).min(-1, keepdims=True)
    out[...] = np.where(x >= least, x, 0)

def one_accumulator(x, out):
    total = np.zeros(len(x), np.float32)
    for column in x.T:
        total += column
    out[...] = x - (total / np.float32(x.shape[1]))[:, None]

def rounded_mean(x, out):
    out[...] = x - x.mean(-1, keepdims=True) * np.float32(1 + 2.0**-15)

def one_more_at_the_bound(x, p, out):
    top_p(x, np.nextafter(p, np.float32(2)), out)

def zero_point_by_the_inverse(x, out):
    low, high = np.minimum(x.min(-1), 0), np.maximum(x.max(-1), 1)
    out[...] = np.rint(-128 - low * (np.float32(1) / ((high - low) / np.float32(255))))

def by_pairs(x, out):
    best = np.zeros(len(x), int)
    for at in range(1, x.shape[1]):
        best = np.where(np.take_along_axis(x, best[:, None], -1)[:, 0] >= x[:, at], best, at)
    out[...] = best

def the_last(x, out):
    out[...] = x.shape[1] - 1 - x[:, ::-1].argmax(-1)
"""
ROWS = ["B", "D"]
ARGS: dict[str, list[tuple[str, str, str, list[str], dict[str, Any]]]] = {
    "top_p": [
        ("x", "activation", "float32", ROWS, {"probability": True}),
        ("p", "activation", "float32", ["B"], {"low": 0, "high": 1}),
        ("out", "output", "float32", ROWS, {}),
    ],
    "centred": [("x", "activation", "float32", ROWS, {}), ("out", "output", "float32", ROWS, {})],
    "zero_point": [("x", "activation", "float32", ROWS, {}), ("out", "output", "int32", ["B"], {})],
    "greatest": [("x", "activation", "float32", ROWS, {}), ("out", "output", "int32", ["B"], {})],
}
OF_TIES = ("integers", "tied", "uniform-rows", "constant-rows", "quarters")


@pytest.fixture
def faults(tmp_path: Path) -> Callable[[str, str], list[Any]]:
    """What is wrong with a candidate in its cases of equal values."""
    (tmp_path / "stock.py").write_text(STOCK)
    (tmp_path / "fast.py").write_text(FAST)

    def run(kernel: str, candidate: str) -> list[Any]:
        keys = ("name", "role", "dtype", "shape", "domain")
        args = [dict(zip(keys, arg, strict=True)) for arg in ARGS[kernel]]
        table = {"match": kernel, "candidate": f"fast:{candidate}", "reference": f"stock:{kernel}", "args": args}
        contract = KernelContract.model_validate({**table, "dims": ["B in 1..8", "D in 1..40"]})
        chosen = [case for case in cases(contract, 1, 0) if {v for _, v in case.variants} & {*OF_TIES}]
        assert chosen
        with runner_for(contract, Trees(tmp_path, tmp_path)) as runner:
            results = [run_case(runner, replace(case, plan="repeat")).result for case in chosen]
        assert not any(result.unusable for result in results)
        return [fault for result in results for fault in result.faults]

    return run


@pytest.mark.parametrize(
    ("kernel", "candidate"),
    [
        ("top_p", "one_by_one"),
        ("centred", "one_accumulator"),
        ("greatest", "by_pairs"),
        ("zero_point", "zero_point_by_the_inverse"),
    ],
)
def test_an_honest_kernel_passes_where_values_are_equal(
    kernel: str, candidate: str, faults: Callable[[str, str], list[Any]]
) -> None:
    assert faults(kernel, candidate) == []


@pytest.mark.parametrize(
    ("kernel", "candidate"),
    [
        ("top_p", "all_that_tie"),
        ("top_p", "one_more_at_the_bound"),
        ("centred", "rounded_mean"),
        ("greatest", "the_last"),
    ],
)
def test_another_choice_between_equal_values_is_found(
    kernel: str, candidate: str, faults: Callable[[str, str], list[Any]]
) -> None:
    assert faults(kernel, candidate)


def test_equal_values_are_moved_alike_and_others_are_not() -> None:
    values = np.array([0.5, 0.25, -1.0, 0.5, 0.3, 0.7])
    moves = Tied(7).bell(values)
    assert len({*moves[:4].tolist()}) == 1
    assert len({*moves.tolist()}) > 1
    many = Tied(8).bell(1.0 + np.arange(1 << 14) / (1 << 14))
    assert {*many.tolist()} <= {*range(-7, 8)}
    assert abs(many.mean()) < 0.1
