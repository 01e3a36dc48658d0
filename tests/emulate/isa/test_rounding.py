"""Single rounding, proved against rational arithmetic: fused operations of every format, directed rounding."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from validator.emulate.isa import lookup
from validator.emulate.isa.numbers import BF16, F16, F32, F64, Format

FORMATS: dict[str, tuple[Format, int, int]] = {
    "f16": (F16, 11, -24),
    "bf16": (BF16, 8, -133),
    "f32": (F32, 24, -149),
    "f64": (F64, 53, -1074),
}
"""Format, bits of its significand, exponent of its least subnormal."""


def value(kind: str, bits: int) -> Fraction:
    form = FORMATS[kind][0]
    return Fraction(float(form.decode(np.array([bits], form.reg.dtype))[0]))


def rounded(kind: str, exact: Fraction, mode: str) -> int:
    """Bits of a non-zero rational number in a format, from the definition alone."""
    form, precision, least = FORMATS[kind]
    size = abs(exact)
    exponent = least
    # The exponent of the last place: the size lies in [2^(p-1), 2^p) of it, or below for subnormals.
    guess = size.numerator.bit_length() - size.denominator.bit_length() - precision
    for candidate in (guess - 1, guess, guess + 1, guess + 2):
        if size >= Fraction(2) ** (candidate + precision - 1):
            exponent = max(least, candidate)
    scaled = size / Fraction(2) ** exponent
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    rest2 = Fraction(rest, scaled.denominator) * 2
    negative = exact < 0
    up = {
        "rn": rest2 > 1 or (rest2 == 1 and whole % 2 == 1),
        "rz": False,
        "rm": rest > 0 and negative,
        "rp": rest > 0 and not negative,
    }[mode]
    whole += up
    bits = whole + ((exponent - least) << (precision - 1))
    if bits >= form.infinity:
        stays = mode == "rz" or (mode == "rm" and not negative) or (mode == "rp" and negative)
        bits = form.finite if stays else form.infinity
    return bits | (int(form.sign) if negative else 0)


def bits_of(kind: str) -> st.SearchStrategy[int]:
    """Finite numbers; often with few fraction bits or exponents close to one another's: ties and cancellation."""
    form, precision, _ = FORMATS[kind]
    top = form.reg.bits - 1
    middle = (form.infinity >> (precision - 1)) // 2
    near = st.builds(
        lambda sign, exponent, fraction: sign << top | exponent << (precision - 1) | fraction,
        st.integers(0, 1),
        st.integers(max(0, middle - precision - 3), middle + precision + 3),
        st.sampled_from([0, 1, (1 << (precision - 1)) - 1, 1 << (precision - 2)])
        | st.integers(0, (1 << (precision - 1)) - 1),
    )
    small = st.builds(lambda sign, size: sign << top | size, st.integers(0, 1), st.integers(0, 3 << (precision - 1)))
    finite = st.builds(lambda sign, size: sign << top | size, st.integers(0, 1), st.integers(0, form.finite))
    return near | small | finite


def run(mnemonic: str, *operands: int) -> int:
    opcode, *modifiers = mnemonic.split(".")
    op = lookup(opcode, tuple(modifiers))
    assert op is not None
    arrays = [np.array([bits], reg.dtype) for bits, reg in zip(operands, op.inputs, strict=True)]
    with np.errstate(all="ignore"):
        return int(op.run(*arrays)[0][0])


@pytest.mark.parametrize(
    "mnemonic",
    ["fma.rn.f16", "fma.rn.bf16"]
    + [f"fma.{mode}.{kind}" for kind in ("f32", "f64") for mode in ("rn", "rz", "rm", "rp")],
)
def test_fused_operations_round_once(mnemonic):
    _, mode, kind = mnemonic.split(".")

    @settings(max_examples=150, deadline=None)
    @given(bits_of(kind), bits_of(kind), bits_of(kind), st.booleans(), st.integers(-2, 2))
    def check(a: int, b: int, c: int, cancel: bool, beside: int) -> None:
        if cancel:
            # An addend beside minus the product: what the first rounding lost is all there is.
            product = value(kind, a) * value(kind, b)
            near = rounded(kind, -product, "rn") if product else 0
            form = FORMATS[kind][0]
            size = min(max((near & ~int(form.sign)) + beside, 0), form.finite)
            c = (near & int(form.sign)) | size
        exact = value(kind, a) * value(kind, b) + value(kind, c)
        if exact:
            assert run(mnemonic, a, b, c) == rounded(kind, exact, mode)

    check()


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_operations_round_as_their_mode_says(name, kind, mode):
    @settings(max_examples=40, deadline=None)
    @given(bits_of(kind), bits_of(kind))
    def check(a: int, b: int) -> None:
        x, y = value(kind, a), value(kind, b)
        if name == "div" and not y:
            return
        exact = {"add": lambda: x + y, "sub": lambda: x - y, "mul": lambda: x * y, "div": lambda: x / y}[name]()
        if exact:
            assert run(f"{name}.{mode}.{kind}", a, b) == rounded(kind, exact, mode)

    check()


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("source", ["u32", "s32", "u64", "s64", "f64"])
@pytest.mark.parametrize("target", ["f16", "bf16", "f32"])
def test_conversions_round_once(target, source, mode):
    width = int(source[1:])
    numbers = bits_of("f64") if source == "f64" else st.integers(0, (1 << width) - 1) | st.integers(0, 1 << 12)

    @settings(max_examples=30, deadline=None)
    @given(numbers)
    def check(bits: int) -> None:
        if source == "f64":
            exact = value("f64", bits)
        else:
            exact = Fraction(bits - (1 << width) if source[0] == "s" and bits >> (width - 1) else bits)
        if exact:
            assert run(f"cvt.{mode}.{target}.{source}", bits) == rounded(target, exact, mode)

    check()
