"""Large arrays: filled, compared and kept by ways of their own, with the same outcome as small ones."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from validator.differential import numbers, spill
from validator.differential.cases import Case, fill_of
from validator.differential.inputs import LIMITS, VARIANTS
from validator.differential.numbers import Source, beside, each_part, poured, same_bytes
from validator.differential.processes import Trees, runner_for
from validator.differential.runner import Runner
from validator.differential.running import run_case
from validator.manifest.contract import KernelContract
from validator.run.sandbox import Limits


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, ml_dtypes.bfloat16])
@pytest.mark.parametrize("size", [1, 1000, (1 << 18) + 3])
def test_one_element_that_stands_for_all_goes_everywhere(dtype: type, size: int) -> None:
    target: numbers.Array = np.zeros(size, dtype)
    poured(target, np.broadcast_to(np.asarray(3, dtype), (size,)))
    assert (target == 3).all()
    poured(target, np.arange(size).astype(dtype))
    assert (target == np.arange(size).astype(dtype)).all()


def test_one_bit_anywhere_makes_arrays_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "_THREADS", 2)
    one = np.random.default_rng(1).integers(0, 255, (5 << 20) + 1, np.uint8)
    other = one.copy()
    assert same_bytes(one, other)
    for at in (0, 1, len(one) // 2, len(one) - 1):
        other[at] ^= 1
        assert not same_bytes(one, other)
        other[at] ^= 1
    nan, zero = np.full(3000, np.nan), np.zeros(3000)
    assert same_bytes(nan, nan.copy()), "bits, not values"
    assert not same_bytes(zero, -zero)


def test_work_beside_a_candidate_leaves_it_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "_THREADS", 2)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    alone = each_part(lambda part: part, 1 << 24, 1)
    with beside(1):
        together = each_part(lambda part: part, 1 << 24, 1)
    assert [len(alone), len(together)] == [2, 1]
    assert together == [slice(0, 1 << 24)]
    assert alone[0].stop == alone[1].start


def test_shared_work_that_is_shared_again_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "_LARGE", 64)
    sizes = each_part(lambda part: len(each_part(lambda inner: inner, part.stop - part.start, 1)), 1 << 12, 1)
    assert set(sizes) == {1}


def test_what_is_kept_never_lies_where_something_kept_still_lies() -> None:
    array = np.arange(1 << 20, dtype=np.float32)
    first = spill.kept(array)
    for turn in range(4):
        other = spill.kept(array + turn)
        seen = other[5:9]
        del other
        again = spill.kept(array - 1)
        assert np.array_equal(seen, array[5:9] + turn)
        assert np.array_equal(again, array - 1)
        assert np.array_equal(first, array)
        del seen, again


def test_zeros_are_zeros_where_something_else_lay(monkeypatch: pytest.MonkeyPatch) -> None:
    shape, dtype = (1 << 18,), np.dtype(np.float64)
    monkeypatch.setattr(spill, "_SPARE", [])
    monkeypatch.setattr(spill, "_SPARED", 3 << 21)
    several = [spill.room(shape, dtype) for _ in range(5)]
    for array in several:
        array.fill(7.0)
    before = {array.ctypes.data for array in several}
    del array, several
    assert len(spill._SPARE) == 3, "no more than so many bytes stay"
    zeros = spill.spilled(shape, dtype)
    assert zeros.ctypes.data in before
    assert not zeros.any()


@pytest.mark.parametrize(("candidate", "told"), [("same", ""), ("row_off", "only index 3 of the 700")])
def test_a_case_of_some_megabytes_is_judged_as_a_small_one(tmp_path: Path, candidate: str, told: str) -> None:
    """Also the first of a run, in which the reference has to repeat itself."""
    (tmp_path / "ops.py").write_text(
        "def stock(x, out):\n    out[...] = 3 * x\n\ndef same(x, out):\n    out[...] = x + x + x\n\n"
        "def row_off(x, out):\n    same(x, out)\n    out[3] *= 1.001\n"
    )
    sizes = {"dtype": "float32", "shape": ["B", "D"]}
    args = [{"name": "x", "role": "activation", **sizes}, {"name": "out", "role": "output", **sizes}]
    named = {"match": "k", "candidate": f"ops:{candidate}", "reference": "ops:stock"}
    contract = KernelContract.model_validate({**named, "dims": ["B in 1..700", "D in 1..700"], "args": args})
    with runner_for(contract, Trees(tmp_path, tmp_path), Limits(wall=30)) as runner:
        result = run_case(runner, Case("k", (("B", 700), ("D", 700)), 1, "same-buffer")).result
    assert not result.unusable
    assert [told in fault.message for fault in result.faults] == [True] * bool(told)


BF16 = KernelContract.model_validate(
    {
        "match": "k",
        "dims": ["B in 1..2048", "D in 1..2048"],
        "args": [
            {"name": "x", "role": "activation", "dtype": "bfloat16", "shape": ["B", "D"]},
            {"name": "out", "role": "output", "dtype": "bfloat16", "shape": ["B", "D"]},
        ],
    }
)
WIDE = fill_of(BF16, Case("k", (("B", 1024), ("D", 512)), 1), "x")


@pytest.mark.parametrize("name", [n for n, v in VARIANTS.items() if v.applies(WIDE) and n != LIMITS])
def test_filling_an_argument_takes_less_than_three_times_its_case(name: str) -> None:
    """Of which half is the argument: in float64 it is four times as large. `limits` has ordinary values beside them."""
    tracemalloc.start()
    try:
        made = VARIANTS[name].make(WIDE, Source(1))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * 2 * made.nbytes + (1 << 20)


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [
        *((name, {}) for name in ("", "zeros", "huge", "limits", "hot-first")),
        ("hot-first", {"policy": "exact"}),
        ("hot-first", {"policy": "ulp", "ulp": 1}),
        ("hot-first", {"policy": "absolute", "rtol": 1e-5}),
    ],
    ids=str,
)
def test_a_case_filled_on_purpose_takes_less_than_three_times_its_arguments(
    name: str, tolerance: dict[str, object], tmp_path: Path
) -> None:
    """Beside the shared buffers, which take one and a half: what is judged nowhere, and what controls equal, too."""
    (tmp_path / "ops.py").write_text("def stock(x, out):\n    out[...] = x * 3\n")
    sizes = {"dtype": "float32", "shape": ["B", "D"]}
    args = [{"name": "x", "role": "activation", **sizes}, {"name": "out", "role": "output", **sizes}]
    named = {"match": "k", "candidate": "ops:stock", "reference": "ops:stock", "tolerance": tolerance}
    contract = KernelContract.model_validate({**named, "dims": ["B in 1..1024", "D in 1..1024"], "args": args})
    with runner_for(contract, Trees(tmp_path, tmp_path), Limits(wall=30)) as runner:
        tracemalloc.start()
        try:
            variants = (("x", name),) if name else ()
            done = run_case(runner, Case("k", (("B", 1024), ("D", 1024)), 1, variants=variants))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert not done.result.unusable
    assert not done.result.faults
    assert peak < 1.5 * 2 * (4 << 20) + (1 << 20)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("policy", ["relative-to-baseline", "exact", "ulp", "absolute"])
def test_controls_of_a_large_result_are_refused_by_a_stretch_of_them(
    dtype: str, policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ops.py").write_text("def stock(x, out):\n    out[...] = x + x\n")
    sizes = {"dtype": dtype, "shape": ["B", "D"], "domain": {"low": -99, "high": 99}}
    args = [{"name": "x", "role": "activation", **sizes}, {"name": "out", "role": "output", **sizes}]
    named = {
        "match": "k",
        "candidate": "ops:stock",
        "reference": "ops:stock",
        "tolerance": {"policy": policy, "rtol": 1e-4},
    }
    contract = KernelContract.model_validate({**named, "dims": ["B in 1..512", "D in 1..512"], "args": args})
    monkeypatch.setattr(Runner, "accepted", lambda *_: pytest.fail("a whole control was judged"))
    with runner_for(contract, Trees(tmp_path, tmp_path), Limits(wall=30)) as runner:
        controlled = run_case(runner, Case("k", (("B", 512), ("D", 512)), 1)).result.controlled
    assert controlled is not None
    assert len(controlled.refused) >= 5
    assert not controlled.passed
