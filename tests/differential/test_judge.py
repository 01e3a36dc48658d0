"""Judgement: what passes, what does not, and what is said about it."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import validator.differential.judge as judge_module
from validator.differential import numbers
from validator.differential.elements import judges_elements, ulp_distance
from validator.differential.expected import Expected
from validator.differential.faults import Fault, FaultKind
from validator.differential.judge import accepts, judge
from validator.differential.numbers import dtype_of, is_float
from validator.differential.plain import plainly_right, plainly_wrong
from validator.differential.spread import Undecided, yardstick
from validator.differential.told import where
from validator.manifest.contract import KernelContract


def contract(**tolerance: Any) -> KernelContract:
    return KernelContract.model_validate({"match": "k", "tolerance": tolerance} if tolerance else {"match": "k"})


def expected(exact: Any, native: Any = None, noise: float = 0.0) -> dict[str, Expected]:
    wide = np.asarray(exact, np.float64)
    own = wide.astype(np.float32) if native is None else np.asarray(native)
    rng = np.random.default_rng(0)
    probes = [wide * (1 + noise * rng.standard_normal(wide.shape)) for _ in range(8)]
    return {"out": Expected(wide, own, yardstick(wide, own, probes), np.zeros(own.shape, bool))}


def faults(got: Any, want: dict[str, Expected], **tolerance: Any) -> list[Fault]:
    return judge(contract(**tolerance), want, {"out": np.asarray(got)})


X = np.random.default_rng(1).standard_normal((16, 32))


def test_rounding_passes_and_a_wrong_row_does_not() -> None:
    want = expected(X, noise=6e-8)
    good = (X * (1 + 1e-7 * np.sin(np.arange(32)))).astype(np.float32)
    assert faults(good, want) == []
    bad = good.copy()
    bad[3] *= np.float32(1.0001)
    (fault,) = faults(bad, want)
    assert fault.kind is FaultKind.VALUE
    assert "only index 3 of the 16 along axis 0" in fault.message


def test_a_small_wrong_row_cannot_hide_behind_large_ones() -> None:
    exact = X * np.where(np.arange(16) == 5, 1e-6, 1e3)[:, None]
    bad = exact.astype(np.float32)
    bad[5] = 0
    assert [f.kind for f in faults(bad, expected(exact, noise=6e-8))] == [FaultKind.VALUE]
    np.testing.assert_allclose(bad, exact, atol=8e-2)


@pytest.mark.parametrize("shape", [(8,), (8, 1), (1, 8)])
def test_one_column_is_judged_as_a_vector_is(shape: tuple[int, ...]) -> None:
    """What the trusted result happens to be off by at one element is no measure of what others may be off by there."""
    exact, yard = np.ones(shape), np.full(shape, 1e-6)
    yard.reshape(-1)[3] = 1e-9
    want = {"out": Expected(exact, exact.astype(np.float32), yard, np.zeros(shape, bool))}
    off, far = exact.astype(np.float32), exact.astype(np.float32)
    off.reshape(-1)[3] += 2e-6
    far.reshape(-1)[3] += 3e-5
    assert judge(contract(), want, {"out": off}) == []
    assert judge(contract(), want, {"out": far})


def test_a_gain_is_seen_although_the_cosine_is_one() -> None:
    assert faults((X * 1.001).astype(np.float32), expected(X, noise=6e-8))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_classes_must_match_and_nan_is_no_wildcard(wrong: float) -> None:
    bad = X.astype(np.float32)
    bad[2, 7] = wrong
    assert [f.kind for f in faults(bad, expected(X, noise=6e-8))] == [FaultKind.CLASS]
    special = X.copy()
    special[2, 7] = wrong
    want = expected(special, noise=6e-8)
    assert faults(bad, want) == []
    assert [f.kind for f in faults(X.astype(np.float32), want)] == [FaultKind.CLASS]


def test_form_comes_before_values() -> None:
    want = expected(X)
    for wrong in (X.astype(np.float32)[:, :1], X, X.astype(np.float32)[None]):
        assert [f.kind for f in faults(wrong, want)] == [FaultKind.METADATA]
    assert judge(contract(), want, {})[0].kind is FaultKind.METADATA


def test_elements_that_the_reference_leaves_alone_are_not_judged() -> None:
    want = expected(X)["out"]
    skipped = np.zeros(X.shape, bool)
    skipped[0] = True
    got = X.astype(np.float32)
    got[0] = 99
    assert judge(contract(), {"out": Expected(want.exact, want.native, want.yardstick, skipped)}, {"out": got}) == []


def test_integers_are_exact() -> None:
    whole = np.arange(6).reshape(2, 3)
    want = expected(whole, whole.astype(np.int32))
    assert faults(whole.astype(np.int32), want) == []
    assert faults((whole + (whole == 5)).astype(np.int32), want)[0].figures["bad elements"] == 1


def test_fixed_policies() -> None:
    want = expected(X)
    near = (X + 1e-3).astype(np.float32)
    assert faults(near, want, policy="absolute", atol=2e-3) == []
    assert faults(near, want, policy="absolute", atol=5e-4)
    one_off = np.nextafter(X.astype(np.float32), np.float32(np.inf))
    assert faults(one_off, want, policy="ulp", ulp=1) == []
    assert faults(one_off, want, policy="ulp", ulp=0)
    assert faults(one_off, want, policy="exact")
    assert faults(X.astype(np.float32), want, policy="exact") == []


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float32", "float64"])
def test_ulp_distance_counts_representable_values(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else name)
    a = np.asarray([1.0, -1.0, 0.0, 2.0]).astype(dtype)
    unsigned = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[dtype.itemsize]
    b = (a.view(unsigned) + unsigned(1)).view(dtype)
    assert ulp_distance(a, b).tolist() == [1, 1, 1, 1]
    assert ulp_distance(np.asarray([0.0]).astype(dtype), np.asarray([-0.0]).astype(dtype)).tolist() == [0]


def test_places_are_told_in_words() -> None:
    bad = np.zeros((4, 32), bool)
    bad[:, 30:] = True
    assert where(bad) == "8 of 128 elements are wrong, only the last 2 of the 32 along axis 1"


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([0], "only index 0 of the 8 along axis 0"),
        ([7], "only index 7 of the 8 along axis 0"),
        ([0, 1, 2], "only indices 0 to 2 of the 8 along axis 0"),
        ([0, 5], "only indices 0 and 5 of the 8 along axis 0"),
        ([0, 1, 3, 4, 6], "5 of the 8 indices along axis 0"),
    ],
)
def test_an_index_is_never_read_as_a_count(rows: list[int], told: str) -> None:
    bad = np.zeros((8, 4), bool)
    bad[rows] = True
    assert where(bad).endswith(f"are wrong, {told}")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("chunk", [7, 1 << 16])
def test_the_short_way_of_right_results_judges_as_the_long_way_does(
    dtype: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors on both sides of every limit, NaN, infinities, values at the end of the type, elements left free."""
    rng = np.random.default_rng(5)
    short = 0
    for _ in range(150):
        exact = rng.standard_normal((5, 9)) * 10.0 ** rng.uniform(-6, 5)
        if rng.random() < 0.4:
            exact[rng.integers(5), rng.integers(9)] = rng.choice([np.nan, np.inf, -np.inf, 1e39, 65519.0, 447.0])
        with np.errstate(all="ignore"):
            native = exact.astype(dtype_of(dtype))
            want = expected(exact, native, noise=1e-3)["out"]
            away = want.yardstick * rng.standard_normal(exact.shape) * rng.choice([0.3, 2.0, 20.0])
            got = (exact + away).astype(native.dtype)
        want = replace(want, unspecified=rng.random(exact.shape) < rng.choice([0.0, 0.2]))
        monkeypatch.setattr(numbers, "CHUNK", chunk)
        quick = judge(contract(), {"out": want}, {"out": got})
        assert accepts(contract(), {"out": want}, {"out": got}) is (quick == [])
        with np.errstate(all="ignore"):
            short += plainly_right(contract().tolerance, want, got)
        with monkeypatch.context() as patched:
            patched.setattr(judge_module, "plainly_right", lambda *_: False)
            assert judge(contract(), {"out": want}, {"out": got}) == quick
    assert 20 < short < 130


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"])
def test_ulp_distance_is_the_number_of_values_in_between(name: str) -> None:
    dtype = dtype_of(name)
    codes = np.arange(16 if name == "float4_e2m1fn" else 1 << 8 * dtype.itemsize)
    every = codes.astype(f"u{dtype.itemsize}").view(dtype)
    with np.errstate(invalid="ignore"):
        values = every.astype(np.float64)
    every, values = every[np.isfinite(values)], values[np.isfinite(values)]
    places = np.searchsorted(np.unique(values), values)
    one, other = np.random.default_rng(1).integers(0, len(every), (2, 1 << 14))
    assert np.array_equal(ulp_distance(every[one], every[other]), np.abs(places[one] - places[other]))


POLICIES = {
    "exact": {"policy": "exact"},
    "ulp": {"policy": "ulp", "ulp": 2},
    "absolute": {"policy": "absolute", "atol": 0.01, "rtol": 0.003},
    "relative": {},
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float8_e5m2", "int8", "int64", "uint8", "bool"])
def test_elements_that_are_judged_by_themselves_are_judged_alike_in_the_short_way(
    dtype: str, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right ones, wrong ones by little and by much, NaN, infinities, values that only one type can hold, free ones."""
    rng, kind = np.random.default_rng(7), dtype_of(dtype)
    tolerance = contract(**POLICIES[policy]).tolerance
    if not judges_elements(tolerance, kind):
        pytest.skip("judged as a whole")
    short: list[bool] = []
    for _ in range(120):
        exact = rng.standard_normal((5, 9)) * 10.0 ** rng.uniform(-1, 2)
        if is_float(kind) and rng.random() < 0.3:
            exact[rng.integers(5), rng.integers(9)] = rng.choice([np.nan, np.inf, -np.inf, 1e39, 65519.0])
        with np.errstate(all="ignore"):
            exact = exact if is_float(kind) else np.abs(np.rint(exact)) % 100
            native = exact.astype(kind)
            moved = exact + rng.choice([0.0, 0.0, 1e-6, 0.02, 1.0]) * rng.standard_normal(exact.shape)
            got = (moved if is_float(kind) else np.abs(np.rint(moved)) % 100).astype(kind)
        free = rng.random(exact.shape) < rng.choice([0.0, 0.2])
        want = Expected(exact, native, np.full(exact.shape, rng.choice([0.0, 1e-5, 1.0])), free)
        with np.errstate(all="ignore"):
            right, wrong = plainly_right(tolerance, want, got), plainly_wrong(tolerance, want, got.reshape(-1))
            late = plainly_wrong(tolerance, want, got.reshape(-1)[20:], 20)
        with monkeypatch.context() as patched:
            patched.setattr(judge_module, "plainly_right", lambda *_: False)
            patched.setattr(judge_module, "plainly_wrong", lambda *_: False)
            slow = judge(contract(**POLICIES[policy]), {"out": want}, {"out": got})
        assert judge(contract(**POLICIES[policy]), {"out": want}, {"out": got}) == slow
        assert not (right and slow)
        assert not ((wrong or late) and not slow)
        assert wrong or not late
        short += [right, wrong]
    assert True in short[::2] or kind.itemsize == 1  # whose own rounding errors may be more than is allowed
    assert True in short[1::2] or kind == np.dtype(bool)


def test_a_spread_takes_one_result_after_the_other() -> None:
    native = X.astype(np.float32)
    probes = [X * (1 + 1e-6 * np.random.default_rng(seed).standard_normal(X.shape)) for seed in range(4)]
    moved = np.mean([(p - X) ** 2 for p in probes], axis=0)
    own, rounding = native - X, 0.5 * np.finfo(np.float32).eps * np.abs(X)
    np.testing.assert_allclose(yardstick(X, native, iter(probes)), np.sqrt(moved + own**2 + rounding**2), rtol=1e-9)
    whole = np.rint(X * 10)
    edges = [whole, whole + (np.arange(32) % 4 == 0), whole + 2 * (np.arange(32) % 8 == 0)]
    steps = yardstick(whole, whole.astype(np.int8), edges)
    assert np.array_equal(steps[0] == 1, (np.arange(32) % 4 == 0) & (np.arange(32) % 8 != 0))


def test_an_integer_may_be_what_the_reference_gives_at_its_own_types_or_in_float64() -> None:
    """Two probabilities underflow and tie; in float64 they do not."""
    native = np.array([0, 2, 5], np.int32)
    exact = np.array([0.0, 3.0, 5.0])
    want = {"out": Expected(exact, native, np.zeros(3), np.zeros(3, bool))}
    integers = KernelContract.model_validate({"match": "k"})
    for right in (native, exact.astype(np.int32)):
        assert judge(integers, want, {"out": right}) == []
    assert judge(integers, want, {"out": np.array([0, 4, 5], np.int32)})


def test_integers_of_64_bits_are_compared_to_their_last_bit() -> None:
    for dtype, value in (("int64", (1 << 60) + 1), ("int64", -(1 << 62) - 1), ("uint64", (1 << 63) + 5)):
        native = np.array([3, value], dtype)
        exact = native.astype(np.float64)
        want = {"out": Expected(exact, native, yardstick(exact, native, [native]), np.zeros(2, bool))}
        assert faults(native, want) == []
        (fault,) = faults(native ^ np.array([0, 1], dtype), want)
        assert f"expected {value}, got {value ^ 1}" in fault.message


def test_an_integer_on_an_edge_may_be_a_step_off_unless_it_must_be_exact() -> None:
    native = np.array([4, 7], np.int8)
    exact = native.astype(np.float64)
    want = {"out": Expected(exact, native, np.array([1.0, 0.0]), np.zeros(2, bool))}
    near = np.array([5, 7], np.int8)
    assert faults(near, want) == []
    assert faults(near, want, policy="exact")
    assert faults(near, want, policy="ulp", ulp=1) == []
    assert faults(np.array([6, 7], np.int8), want, policy="ulp", ulp=1)


def test_digits_that_rounding_errors_decide_are_nobodys_rounding_point() -> None:
    chain = KernelContract.model_validate({"match": "k", "rounding": "as-baseline"})
    native = np.full((8, 32), 1, ml_dtypes.bfloat16)
    got = np.full((8, 32), 1 + 2.0**-7, ml_dtypes.bfloat16)
    want = expected(np.full((8, 32), 1 + 2.0**-8), native, noise=1e-3)["out"]
    assert judge(chain, {"out": want}, {"out": got})
    noisy = Undecided(want.exact, native.dtype)
    noisy.add(want.exact * (1 + 2.0**-12))
    assert judge(chain, {"out": replace(want, undecided=noisy.where)}, {"out": got}) == []
    quiet = Undecided(want.exact, native.dtype)
    quiet.add(want.exact * (1 + 2.0**-20))
    assert not quiet.where.any()


@pytest.mark.parametrize("shape", [(40,), (16, 32), (3, 7, 20), (4, 1), (1, 50)])
def test_the_short_way_over_a_few_elements_finds_what_the_long_one_finds(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some elements beyond the narrowest limit, alone, along a row or down a column, by little and by much."""
    rng = np.random.default_rng(5)
    want = expected(rng.standard_normal(shape), noise=6e-8)
    yard, verdicts = want["out"].yardstick, []
    for turn in range(120):
        out = want["out"].exact.copy()
        at = tuple(slice(None) if axis == turn % (len(shape) + 1) else rng.integers(n) for axis, n in enumerate(shape))
        out[at] += rng.choice([1.5, 2.5, 5.0, 9.0, 15.0, 17.0]) * yard[at] * rng.choice([-1, 1], out[at].shape)
        got = out.astype(np.float32)
        short = faults(got, want)
        with monkeypatch.context() as patched:
            patched.setattr(judge_module, "plainly_right", lambda *_: False)
            assert short == faults(got, want)
        verdicts.append(bool(short))
    assert {True, False} == set(verdicts)


def test_a_few_elements_of_a_good_result_make_nothing_as_large_as_it() -> None:
    want = expected(np.random.default_rng(2).standard_normal((512, 1024)), noise=6e-8)
    good = want["out"].native.copy()
    good[5, 7] += np.float32(2.5 * want["out"].yardstick[5, 7])
    tracemalloc.start()
    assert faults(good, want) == []
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < good.nbytes


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("wrong", ["a row", "everything", "nothing of it a number"])
def test_judging_a_large_wrong_result_takes_less_memory_than_two_of_it(dtype: str, wrong: str) -> None:
    exact = np.rint(1000 * np.random.default_rng(2).standard_normal((1 << 10, 1 << 10)))
    native = exact.astype(dtype_of(dtype))
    want = Expected(exact, native, np.abs(exact) / 200 + 1e-3, np.zeros(exact.shape, bool))
    bad = native.copy()
    rows = slice(7, 8) if wrong == "a row" else slice(None)
    bad[rows] = (exact[rows] + 7777).astype(bad.dtype)
    if wrong == "nothing of it a number" and dtype != "int32":
        bad[...] = np.nan
    tracemalloc.start()
    (fault,) = faults(bad, {"out": want})
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert fault.figures["bad elements"] == bad[rows].size
    assert most < 2 * 4 * bad.size
