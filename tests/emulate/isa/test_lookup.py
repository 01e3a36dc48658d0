"""What is known, what is not, and the shapes of what comes back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.gpu.vectors.forms import forms
from fixtures.gpu.vectors.warps import warp_forms
from validator.emulate.isa import Op, RegType, lookup, lookup_warp, matrix_copy

KNOWN = [form.words for form in (*forms(), *warp_forms())]
OPCODES = sorted({opcode for opcode, _ in KNOWN} | {"ldmatrix", "stmatrix", "ld", "wgmma"})
WORDS = sorted({word for _, words in KNOWN for word in words} | {"x4", "trans", "e2m1x2", "ue8m0x2", "f32x2", "b128"})


@st.composite
def mnemonics(draw: st.DrawFn) -> tuple[str, tuple[str, ...]]:
    """Known ones with a word or two taken out, put in or exchanged."""
    opcode, modifiers = draw(st.sampled_from(KNOWN))
    words = list(modifiers)
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(words)))
        words[at : at + draw(st.integers(0, 1))] = draw(st.lists(st.sampled_from(WORDS), max_size=1))
    return draw(st.sampled_from(OPCODES)) if draw(st.integers(0, 9)) == 0 else opcode, tuple(words)


@settings(max_examples=600, deadline=None)
@given(mnemonics())
def test_any_words_are_an_answer_or_none(mnemonic):
    op = lookup(*mnemonic)
    lookup_warp(*mnemonic)
    matrix_copy(*mnemonic)
    if op is not None:
        with np.errstate(all="ignore"):
            results = op.run(*arrays(op, [3] * 5))
        assert [r.dtype for r in results] == [reg.dtype for reg in op.outputs]


@pytest.mark.parametrize(
    ("opcode", "modifiers"),
    [
        ("add", ("f32", "bogus")),
        ("add", ()),
        ("fma", ("f32",)),
        ("cvt", ("f16", "f32")),
        ("setp", ("lt", "b32")),
        ("mul", ("wide", "u64")),
        ("wgmma", ("mma_async", "sync")),
        ("ld", ("global", "f32")),
    ],
)
def test_what_is_no_instruction_or_not_known_is_none(opcode, modifiers):
    assert lookup(opcode, modifiers) is None


def arrays(op: Op, lengths: list[int]) -> list[np.ndarray]:  # type: ignore[type-arg]
    rng = np.random.default_rng(7)
    return [
        rng.integers(0, 2, n).astype(bool) if reg is RegType.P else rng.integers(0, 1 << reg.bits, n, dtype=reg.dtype)
        for reg, n in zip(op.inputs, lengths, strict=False)
    ]


def test_immediates_broadcast_inputs_stay_and_types_are_as_declared():
    seen = 0
    for form in {f.mnemonic: f for f in forms()}.values():
        op = form.op
        for lengths in ([9] * 5, [9, 1, 1, 1, 1], [1, 9, 9, 1, 9], [1] * 5):
            given_ = arrays(op, lengths)
            kept = [a.copy() for a in given_]
            with np.errstate(all="ignore"):
                results = op.run(*given_)
            assert len(results) == len(op.outputs)
            for result, reg in zip(results, op.outputs, strict=True):
                assert result.dtype == reg.dtype, form.name
                assert result.shape in ((max(len(a) for a in given_),), (1,)), form.name
            for a, b in zip(given_, kept, strict=True):
                assert np.array_equal(a, b), form.name
            seen += 1
    assert seen > 3000


def test_one_lane_at_a_time_gives_the_same_as_all_together():
    differ = []
    for form in {f.mnemonic: f for f in forms() if not f.immediates and f.mnemonic != "lop3.b32"}.values():
        op = form.op
        whole = arrays(op, [6] * 5)
        with np.errstate(all="ignore"):
            together = op.run(*whole)
            alone = [op.run(*(a[i : i + 1] for a in whole)) for i in range(6)]
        for number, result in enumerate(together):
            if not np.array_equal(result, np.concatenate([row[number] for row in alone])):
                differ.append(form.name)
    assert differ == []
