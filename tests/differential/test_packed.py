"""Results that are judged where they lie, by less exact numbers: never right there and wrong here."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.weight import weight_of, wide
from validator.differential import native as native_code
from validator.differential import packed as packed_module
from validator.differential.closeness import error_of
from validator.differential.expected import Expected
from validator.differential.judge import judge
from validator.differential.lying import Lying, There
from validator.differential.packed import packed
from validator.manifest.contract import KernelContract
from validator.manifest.load import load_contract

BF16 = np.dtype(ml_dtypes.bfloat16)
SHAPE = (48, 80)
STEP = {"bfloat16": 2.0**-9, "float16": 2.0**-12, "float32": 2.0**-25}
TEXT = """
schema = "validator/manifest/1"
[[kernels]]
match = "k"
reference = "a:b"
candidate = "c:d"
{more}
args = [{{ name = "out", role = "output", dtype = "{dtype}", shape = [48, 80] }}]
"""


def contract(dtype: str, more: str = "") -> KernelContract:
    (found,), _ = load_contract(TEXT.format(dtype=dtype, more=more).encode(), "k.toml")
    return found


def expected(dtype: str, seed: int, **keys: Any) -> Expected:
    """Rows of sizes far apart; the yardstick is what the type leaves of each, and the same of its row."""
    draw = np.random.default_rng(seed)
    exact = draw.standard_normal(SHAPE) * 10.0 ** draw.integers(-3, 4, (SHAPE[0], 1))
    native = exact.astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))
    yard = np.maximum(np.abs(exact), np.sqrt(np.mean(exact**2, -1, keepdims=True))) * STEP[dtype]
    return Expected(exact, native, yard, np.broadcast_to(np.zeros((), bool), SHAPE), **keys)


class Played:
    """A result that lies on a device."""

    def __init__(self, array: Any, want: Expected, by: KernelContract) -> None:
        self.array, self.fetched, self.want, self.by = array, 0, want, by

    def fetch(self, into: Any, start: int = 0) -> None:
        self.fetched += len(into)
        into[...] = self.array.reshape(-1).view(np.uint8)[start : start + len(into)]

    def weight(self, right: Any) -> Any:
        assert right is self.want.exact
        few = packed(self.by, self.want)
        return None if few is None else weight_of(self.array, few.trusted, few.away, few.yard)


def there(array: Any, want: Expected, by: KernelContract) -> tuple[Played, Lying]:
    taken = Played(array, want, by)
    return taken, Lying({"out": There(taken, array.shape, array.dtype)})


def mutants(want: Expected, seed: int) -> list[Any]:
    """Results between plainly right and plainly wrong, as wholes, in rows, in columns and in single elements."""
    draw, found = np.random.default_rng(seed), []
    for scale in (0.3, 0.9, 1.5, 1.9, 1.99, 2.0, 2.01, 2.1, 3.0, 6.0):
        noise = draw.standard_normal(SHAPE)
        found.append(want.exact + scale * want.yardstick * noise)
        found.append(want.exact + scale * want.yardstick * np.sign(noise))
        row, column, one = noise.copy(), noise.copy(), noise.copy()
        row[7] *= 5 * scale
        column[:, 3] *= 5 * scale
        one[5, 5] = 5 * scale
        found += [want.exact + want.yardstick * moved for moved in (row, column, one)]
    odd = want.exact.copy()
    odd[2, 2] = np.nan
    endless = want.exact.copy()
    endless[4, 4] = np.inf
    swapped = want.exact.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    found += [odd, endless, swapped, np.zeros_like(odd), want.exact * 1.01, -want.exact]
    return [array.astype(want.native.dtype) for array in found]


@pytest.mark.parametrize("dtype", STEP)
def test_what_is_right_there_is_right_here_and_no_other(dtype: str):
    by, stayed = contract(dtype), 0
    for seed in range(4):
        want = expected(dtype, seed)
        for array in mutants(want, seed):
            taken, found = there(array, want, by)
            faults = judge(by, {"out": want}, found)
            here = judge(by, {"out": want}, {"out": array})
            assert [f.message for f in faults] == [f.message for f in here]
            stayed += not taken.fetched
            assert taken.fetched or not here, "wrong, and nobody looked"
    assert stayed > 20


@pytest.mark.parametrize("scale", [0.0, 0.5, 1.0, 1.5])
@pytest.mark.parametrize("dtype", STEP)
def test_an_honest_result_stays_there(dtype: str, scale: float):
    want, by = expected(dtype, 11), contract(dtype)
    noise = np.random.default_rng(12).standard_normal(SHAPE)
    taken, found = there((want.exact + scale * want.yardstick * noise).astype(want.native.dtype), want, by)
    assert judge(by, {"out": want}, found) == []
    assert not taken.fetched


def test_a_weight_is_never_less_than_it_is():
    for dtype in STEP:
        want, by = expected(dtype, 7), contract(dtype)
        for array in mutants(want, 7)[:-6]:
            error = np.abs(array.astype(np.float64) - want.exact)
            worst, off, due, _ = Played(array, want, by).weight(want.exact)
            assert worst >= np.max(error / want.yardstick)
            assert off >= np.sum(error**2) * (1 - 1e-12)
            assert due <= np.sum(want.yardstick**2) * (1 + 1e-12)
            assert worst <= np.max(error / want.yardstick) * 1.04 + 0.05, "nor much more"


def test_a_byte_says_how_far_the_exact_result_is_or_that_it_does_not():
    by, base = contract("bfloat16"), expected("bfloat16", 3)
    far = np.geomspace(1e-6, 1e4, SHAPE[0] * SHAPE[1]).reshape(SHAPE)
    far *= np.where(np.arange(far.size).reshape(SHAPE) % 2, -1, 1)
    yard = np.full(SHAPE, 2.0**-9)
    want = Expected(base.native.astype(np.float64) + far * yard, base.native, yard, base.unspecified)
    few = packed(by, want)
    assert few is not None
    assert few.away.dtype == np.uint8
    told = wide(few.away).reshape(SHAPE)
    off = far * yard / few.yard.view(BF16).astype(np.float64).reshape(SHAPE)
    said = ~np.isnan(told)
    assert np.array_equal(said, np.abs(off) < 31.5)
    lost = np.maximum(2.0**-7, np.abs(told) * 2.0**-5)
    assert np.all((np.abs(told - off) <= lost * (1 + 1e-6))[said])
    assert np.ptp(told[said]) == 62


@pytest.mark.parametrize(
    "more",
    [
        'tolerance = { policy = "exact" }',
        'tolerance = { policy = "ulp", ulp = 2 }',
        'tolerance = { policy = "absolute", rtol = 0.01 }',
        'rounding = "as-baseline"',
    ],
)
def test_where_yardsticks_do_not_say_what_is_right_it_is_looked_at_here(more: str):
    by, want = contract("bfloat16", more), expected("bfloat16", 1)
    assert packed(by, want) is None
    array = want.exact.astype(BF16)
    taken, found = there(array, want, by)
    assert judge(by, {"out": want}, found) == []
    assert taken.fetched == array.nbytes


def test_elements_of_which_the_reference_says_nothing_are_looked_at_here():
    base, by = expected("bfloat16", 2), contract("bfloat16")
    free = np.zeros(SHAPE, bool)
    assert packed(by, Expected(base.exact, base.native, base.yardstick, free)) is not None
    free[3, 3] = True
    assert packed(by, Expected(base.exact, base.native, base.yardstick, free)) is None
    assert packed(by, expected("bfloat16", 2, least=base.native, most=base.native)) is None
    large = Expected(base.exact * 1e39, base.native, base.yardstick, base.unspecified)
    assert packed(by, large) is None


def test_no_yardstick_means_equal_and_an_endless_one_excuses_no_other_element():
    by, base = contract("bfloat16"), expected("bfloat16", 3)
    exact = base.native.astype(np.float64)
    none = Expected(exact, base.native, np.zeros(SHAPE), base.unspecified)
    for array, fetched in ((base.native.copy(), 0), ((exact * 1.05).astype(BF16), base.native.nbytes)):
        taken, found = there(array, none, by)
        judge(by, {"out": none}, found)
        assert taken.fetched == fetched
    yard = base.yardstick.copy()
    yard[0, 0] = np.inf
    endless = Expected(base.exact, base.native, yard, base.unspecified)
    far = (base.exact + 3 * base.yardstick).astype(BF16)
    taken, found = there(far, endless, by)
    judge(by, {"out": endless}, found)
    assert taken.fetched == far.nbytes


def test_how_far_it_is_off_is_told_from_a_few_stretches():
    draw = np.random.default_rng(5)
    exact = draw.standard_normal((64, 1 << 14))
    want = Expected(
        exact, exact.astype(BF16), np.full_like(exact, 2.0**-8), np.broadcast_to(np.zeros((), bool), exact.shape)
    )
    array = (exact * 1.004).astype(BF16)
    taken, found = there(array, want, contract("bfloat16"))
    assert error_of({"out": want}, found) == error_of({"out": want}, {"out": array})
    assert 0 < taken.fetched < array.nbytes


def test_results_are_brought_once_and_only_when_somebody_asks():
    want, by = expected("float32", 1), contract("float32")
    taken, found = there(want.native, want, by)
    assert ("out" in found, "other" in found, len(found), list(found)) == (True, False, 1, ["out"])
    assert not taken.fetched
    assert np.array_equal(found["out"], want.native)
    assert found["out"] is found["out"]
    assert taken.fetched == want.native.nbytes


@pytest.mark.parametrize("dtype", STEP)
@pytest.mark.parametrize("size", [1, 8, 77, (1 << 15) + 3])
def test_compiled_code_packs_the_same_bits(dtype: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is no number, or no yardstick, too."""
    if native_code._library() is None:
        pytest.skip("nothing was compiled: there was no C compiler when this was installed")
    draw = np.random.default_rng(size)
    exact, odd = draw.standard_normal(size), np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-300, 1e300])
    yard = np.abs(exact) * STEP[dtype]
    exact[draw.random(size) < 0.1] = draw.choice(odd)
    yard[draw.random(size) < 0.1] = draw.choice(odd)
    native = exact.astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))
    want = Expected(exact, native, yard, np.broadcast_to(np.zeros((), bool), size))
    monkeypatch.setattr(packed_module, "is_packable", lambda *_: True)
    fast = packed(contract(dtype), want)
    monkeypatch.setattr(packed_module.passes, "packed", lambda *_, **__: False)
    slow = packed(contract(dtype), want)
    assert fast is not None
    assert slow is not None
    assert np.array_equal(fast.yard, slow.yard)
    assert np.array_equal(fast.away, slow.away)
