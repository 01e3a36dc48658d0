"""What an H200 does not have, from the ISA's text: fp4, fp6, powers of two, binary32 in pairs and reduced."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from validator.emulate.isa import lookup, lookup_warp

E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
E2M3 = [m / 8 if e == 0 else (1 + m / 8) * 2.0 ** (e - 1) for e in range(4) for m in range(8)]
E3M2 = [m / 16 if e == 0 else (1 + m / 4) * 2.0 ** (e - 3) for e in range(8) for m in range(4)]
FORMATS = {"e2m1x2": (E2M1, 4, 4), "e2m3x2": (E2M3, 6, 8), "e3m2x2": (E3M2, 6, 8)}
"""Non-negative numbers in order, bits, bits of the place in a register."""


def run(mnemonic: str, *operands: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    opcode, *modifiers = mnemonic.split(".")
    op = lookup(opcode, tuple(modifiers))
    assert op is not None
    with np.errstate(all="ignore"):
        return op.run(*operands)[0]


def singles(*values: float) -> np.ndarray:  # type: ignore[type-arg]
    return np.array(values, np.float32).view(np.uint32)


@pytest.mark.parametrize("kind", FORMATS)
def test_every_number_of_a_small_format_goes_there_and_back(kind):
    numbers, bits, place = FORMATS[kind]
    signed = [*numbers, *(-n for n in numbers)]
    codes = np.arange(1 << bits)
    registers = (codes << place | codes[::-1]).astype(np.uint8 if place == 4 else np.uint16)
    wide = run(f"cvt.rn.f16x2.{kind}", registers).view(np.float16)
    assert wide[::2].tolist() == signed[::-1]
    assert wide[1::2].tolist() == signed
    back = run(f"cvt.rn.satfinite.{kind}.f32", singles(*signed), singles(*signed[::-1]))
    assert back.tolist() == registers.tolist()


@pytest.mark.parametrize("kind", FORMATS)
def test_between_two_numbers_the_nearer_one_or_the_even_one_is_taken(kind):
    numbers, bits, _place = FORMATS[kind]
    for low, (a, b) in enumerate(itertools.pairwise(numbers)):
        middle = (a + b) / 2
        even = low + low % 2
        values = singles(
            middle, np.nextafter(np.float32(middle), np.float32(0)), np.nextafter(np.float32(middle), np.float32(99))
        )
        got = run(f"cvt.rn.satfinite.{kind}.f32", singles(0, 0, 0), values)
        assert got.tolist() == [even, low, low + 1]
        negative = run(f"cvt.rn.satfinite.{kind}.f32", singles(0, 0, 0), values | np.uint32(1 << 31))
        assert negative.tolist() == [code | 1 << (bits - 1) for code in (even, low, low + 1)]


@pytest.mark.parametrize("kind", FORMATS)
def test_the_greatest_number_takes_all_beyond_and_nan(kind):
    numbers, bits, place = FORMATS[kind]
    top = len(numbers) - 1
    got = run(f"cvt.rn.satfinite.{kind}.f32", singles(1e9, float("nan")), singles(float("inf"), -1e9))
    assert got.tolist() == [top << place | top, top << place | top | 1 << (bits - 1)]
    assert run(f"cvt.rn.satfinite.relu.{kind}.f32", singles(-2.0), singles(1.0))[0] == numbers.index(1.0)


def test_scales_are_powers_of_two_rounded_as_they_say():
    values = singles(1.0, 1.5, 2.0, 2.0**-127, 2.0**-126, 1e-44, 0.0, 3e38, float("nan"))
    down, up = (run(f"cvt.{mode}.satfinite.ue8m0x2.f32", singles(*[1.0] * 9), values) & 0xFF for mode in ("rz", "rp"))
    assert down.tolist() == [127, 127, 128, 0, 1, 0, 0, 254, 255]
    assert up.tolist() == [127, 128, 128, 0, 1, 0, 0, 254, 255]
    halves = run("cvt.rn.bf16x2.ue8m0x2", np.array([0x7F80, 0x00FF], np.uint16))
    assert halves.tolist() == [0x3F804000, 0x00407FFF]


def test_pairs_of_binary32_are_two_operations():
    rng = np.random.default_rng(3)
    a, b, c = (rng.integers(0, 1 << 32, 64, dtype=np.uint32) for _ in range(3))
    for name in ("add.rn.ftz", "mul.rz", "fma.rn", "sub.rn"):
        count = 3 if name.startswith("fma") else 2
        single = run(f"{name}.f32", *(a, b, c)[:count])
        pair = run(f"{name}.f32x2", *(x.view(np.uint64) for x in (a, b, c)[:count]))
        assert pair.view(np.uint32).tolist() == single.tolist()


@pytest.mark.parametrize(("kind", "greatest"), [("f16", 0x7BFF), ("bf16", 0x7F7F)])
def test_satfinite_of_a_half_is_its_conversion_within_the_finite_numbers(kind, greatest):
    values = np.random.default_rng(5).integers(0, 1 << 32, 4096, dtype=np.uint32)
    values[:4] = singles(float("inf"), -float("inf"), 65519.996, -3.4e38)
    plain, finite = (run(f"cvt.rn{words}.{kind}.f32", values) for words in ("", ".satfinite"))
    infinite = (plain & 0x7FFF) == greatest + 1
    assert infinite.sum() >= 2
    assert np.array_equal(finite, np.where(infinite, (plain & 0x8000) | greatest, plain))
    packed = run(f"cvt.rn.satfinite.{kind}x2.f32", values, values)
    assert np.array_equal(packed, finite.astype(np.uint32) * 0x10001)


def test_halves_convert_into_each_other_to_nearest_without_a_word():
    halves = np.arange(1 << 16, dtype=np.uint16)
    for pair in ("bf16.f16", "f16.bf16"):
        assert np.array_equal(run(f"cvt.{pair}", halves), run(f"cvt.rn.{pair}", halves))


@pytest.mark.parametrize("name", ["min", "max"])
@pytest.mark.parametrize("words", ["", ".abs", ".NaN", ".abs.NaN"])
def test_reductions_of_binary32_take_the_least_or_the_greatest_of_each_group(name, words):
    rng = np.random.default_rng(11)
    numbers = rng.standard_normal((6, 32)).astype(np.float32)
    numbers[1, 3], numbers[2], numbers[3, :16] = np.nan, np.nan, np.nan
    mask = np.where(np.arange(32) < 16, np.uint32(0xFFFF), np.uint32(0xFFFF0000))[None].repeat(6, 0)
    op = lookup_warp("redux", ("sync", name, *words.split(".")[1:], "f32"))
    assert op is not None
    got = op.run(np.ones((6, 32), bool), numbers.view(np.uint32), mask)[0]
    values = np.abs(numbers) if "abs" in words else numbers
    choose = {"min": np.minimum, "max": np.maximum} if "NaN" in words else {"min": np.fmin, "max": np.fmax}
    for half in (slice(0, 16), slice(16, 32)):
        expected = choose[name].reduce(values[:, half], axis=1)
        assert (got[:, half] == got[:, half][:, :1]).all()
        found = got[:, half][:, 0]
        assert np.array_equal(found.view(np.float32), expected, equal_nan=True)
        assert (found[np.isnan(expected)] == 0x7FFFFFFF).all()
