"""Results of few values, integers and floats of one byte: an honest kernel gives the step that the exact result rounds
to, but where a rounding error takes it over an edge; nothing else passes.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from validator.differential.cases import Case
from validator.differential.engine import run_kernel
from validator.differential.expected import Expected
from validator.differential.faults import FaultKind
from validator.differential.graded import Graded, edges, is_graded
from validator.differential.judge import judge
from validator.differential.numbers import dtype_of
from validator.differential.processes import Trees, runner_for
from validator.differential.running import run_case
from validator.differential.spread import Spread
from validator.differential.ties import Tied
from validator.manifest.contract import KernelContract
from validator.run.sandbox import Limits

STOCK = """
import ml_dtypes
import numpy as np

def narrow(x, s, out):
    top = float(ml_dtypes.finfo(ml_dtypes.float8_e4m3fn).max)
    out[...] = np.clip(x / s[:, None], -top, top)

def narrow_itself(x, s, out):
    top = float(ml_dtypes.finfo(ml_dtypes.float8_e4m3fn).max)
    out[...] = np.clip(x / s[:, None], -top, top).astype(ml_dtypes.float8_e4m3fn)

def whole(x, s, out):
    out[...] = np.clip(np.rint(x / s[:, None]), -128, 127)
"""
FAST = """
import ml_dtypes
import numpy as np

def narrow(x, s, out):
    once = np.float32(1) / s.astype(np.float32)
    out[...] = np.clip(x.astype(np.float32) * once[:, None], -448, 448).astype(out.dtype)

def cut_off(x, s, out):
    bits = np.clip(x.astype(np.float32) / s[:, None], -448, 448).view(np.uint32) & 0xFFF00000
    out[...] = bits.view(np.float32).astype(out.dtype)

def next_scale(x, s, out):
    narrow(x, np.roll(s, 1) if len(s) > 3 else s, out)

def one_step(x, s, out):
    narrow(x, s, out)
    if out.size > 100:
        out.view(np.uint8)[-1, -1] ^= 1

def whole(x, s, out):
    out[...] = np.clip(np.rint(x * (np.float32(1) / s)[:, None]), -128, 127)

def whole_cut_off(x, s, out):
    out[...] = np.clip(np.trunc(x / s[:, None]), -128, 127)
"""


def contract(function: str, stock: str = "narrow", out: str = "float8_e4m3fn", into: str = "float32") -> KernelContract:
    scales = {"low": 0.01, "high": 2}
    args = [
        {"name": "x", "role": "activation", "dtype": into, "shape": ["B", "D"]},
        {"name": "s", "role": "weight", "dtype": "float32", "shape": ["B"], "domain": scales},
        {"name": "out", "role": "output", "dtype": out, "shape": ["B", "D"]},
    ]
    sizes = ["B in 1..2048", "D in 1..512"]
    whole: dict[str, Any] = {
        "match": "k",
        "candidate": f"fast:{function}",
        "reference": f"stock:{stock}",
        "dims": sizes,
        "args": args,
    }
    whole["tiles"] = {"B": 2, "D": 8}
    return KernelContract.model_validate(whole)


@pytest.fixture
def trees(tmp_path: Path) -> Trees:
    (tmp_path / "stock.py").write_text(STOCK)
    (tmp_path / "fast.py").write_text(FAST)
    return Trees(tmp_path, tmp_path)


@pytest.mark.parametrize(("stock", "into"), [("narrow", "bfloat16"), ("narrow_itself", "float32")])
def test_rounding_to_one_byte_is_shown(trees: Trees, stock: str, into: str) -> None:
    """Also where the reference rounds by itself, so that moving its inputs shows edges only."""
    with runner_for(contract("narrow", stock, into=into), trees, Limits(wall=30)) as runner:
        result = run_kernel(runner, seed=1, count=4)
    assert not result.of("failed")
    assert len(result.of("passed")) > 0.9 * len(result.results)


@pytest.mark.parametrize(
    ("bug", "stock", "out"),
    [
        ("cut_off", "narrow", "float8_e4m3fn"),
        ("next_scale", "narrow", "float8_e4m3fn"),
        ("one_step", "narrow", "float8_e4m3fn"),
        ("one_step", "narrow_itself", "float8_e4m3fn"),
        ("whole_cut_off", "whole", "int8"),
    ],
)
def test_a_step_too_far_is_found(trees: Trees, bug: str, stock: str, out: str) -> None:
    with runner_for(contract(bug, stock, out), trees, Limits(wall=30)) as runner:
        faults = run_case(runner, Case("k", (("B", 5), ("D", 40)), 1)).result.faults
    assert {f.kind for f in faults} == {FaultKind.VALUE}


def test_an_integer_at_an_edge_may_be_the_one_beside_it() -> None:
    """A scale's reciprocal is off by a rounding error, and takes a few in ten million the other way."""
    exact, native = np.array([109.0, 5.0, 7.0]), np.array([109, 5, 7], np.int8)
    spread = Spread(exact, native)
    spread.add(exact)
    spread.add_edge(np.array([108.0, 9.0, 7.0]))
    assert spread.ends(4.0) == (None, None)
    assert spread.yardstick().tolist() == [1.0, 0.0, 0.0], "what goes further was not rounded but chosen"


def test_what_is_chosen_among_equals_is_no_value_at_an_edge() -> None:
    """As soon as equal inputs are moved apart another one is chosen: that excuses nothing."""
    exact, chosen = np.array([1.0, 2.0]), np.array([1.0, 448.0])
    spread = Spread(exact, exact.astype(ml_dtypes.float8_e4m3fn))
    spread.add(chosen)
    assert [end.astype(float).tolist() for end in spread.ends(4.0) if end is not None] == [[1, 2], [1, 448]]
    spread.add_barely(chosen)
    spread.forget_jumps()
    assert [end.astype(float).tolist() for end in spread.ends(4.0) if end is not None] == [[1, 2], [1, 2]]


EXACT = np.array([[1.0, 1.03, 1.0624, 1.0626, 300.0, 1e-3]])


def ends(exact: Any, *probes: Any, moved: float = 0.0, kind: str = "float8_e4m3fn") -> tuple[list[float], list[float]]:
    wide = np.asarray(exact, np.float64)
    graded = Graded(wide, wide.astype(dtype_of(kind)))
    for probe in probes:
        graded.add(np.asarray(probe, np.float64))
    return tuple(end.astype(np.float64).ravel().tolist() for end in graded.ends(np.full(wide.shape, moved), 4.0))  # type: ignore[return-value]


def test_an_element_may_be_what_moved_inputs_round_to() -> None:
    assert ends(EXACT, EXACT) == (ends(EXACT, EXACT)[1],) * 2
    least, most = ends(EXACT, EXACT * 1.001, EXACT / 1.001)
    assert (least[0], most[0]) == (1.0, 1.0)
    assert (least[2], most[2]) == (least[3], most[3]) == (1.0, 1.125)
    assert ends([[1.03]], [[1.03]], moved=0.01**2) == ([1.0], [1.125])


def test_without_float64_the_values_beside_it_pass() -> None:
    assert ends([[1.0, -448.0]]) == ([0.9375, -448.0], [1.125, -416.0])
    assert ends([[1.0]], kind="float4_e2m1fn") == ([0.5], [1.5])


def test_what_a_result_of_few_values_is_judged_by() -> None:
    native = EXACT.astype(ml_dtypes.float8_e4m3fn)
    yard = np.abs(EXACT) / 16
    loose = Expected(EXACT, native, yard, np.zeros(EXACT.shape, bool))
    strict = replace(loose, least=native, most=native)
    off = native.copy()
    off[0, 4] = 320
    same = KernelContract.model_validate({"match": "k"})
    assert judge(same, {"out": loose}, {"out": off}) == [], "within what its own rounding may come to anywhere"
    (fault,) = judge(same, {"out": strict}, {"out": off})
    assert "expected 288, got 320" in fault.message
    assert fault.figures["furthest, in steps"] == 1
    assert judge(same, {"out": strict}, {"out": native}) == []


def test_arguments_are_moved_against_each_other() -> None:
    several = {"a": np.ones(3, np.float32), "b": np.ones(3, ml_dtypes.bfloat16), "n": np.ones(3, np.int32)}
    few = edges(several, 2.0**-24, {"out": np.zeros(3, np.int8)})
    assert {(far > 0, signs) for far, signs in few} == {(up, s) for up in (True, False) for s in ((1, 1), (1, -1))}
    assert {abs(far) for far, _ in edges(several, 2.0**-24, {"out": np.zeros(3, ml_dtypes.float8_e5m2)})} == {
        2.0**-21,
        2.0**-6,
    }
    assert edges(several, 2.0**-24, {"out": np.zeros(3, np.float32)}) == []
    assert not is_graded(np.dtype(bool))


def test_a_sum_of_two_rounded_values_may_be_two_steps_off() -> None:
    """A zero point and a quotient, both half way: moves part them, rounding in between need not."""

    def allowed(*probes: list[int], tied: bool = True) -> list[float]:
        native = np.array([-42, 26, 127, 85], np.int8)
        spread = Spread(native.astype(np.float64), native)
        if tied:
            spread.add_barely(native)
        for probe in probes:
            spread.add(np.array(probe, np.int8))
        return [float(step) for step in spread.yardstick()]

    assert allowed([-43, 24, 127, 84]) == [2, 2, 2, 2], "most of a row: all of it"
    assert allowed([-43, 24, 127, 84], tied=False) == [1, 2, 0, 1]
    assert allowed([-42, 26, 127, 84]) == [0, 0, 0, 1]
    assert allowed([-39, 26, 127, 84]) == [0, 0, 0, 1], "what goes further is a position"


def test_the_upper_half_of_a_byte_may_be_a_step_off() -> None:
    """Two values of four bits in a byte: a step of one of them is 16 of the byte."""
    for dtype, allowed in ((np.uint8, [16, 1, 17, 0]), (np.int32, [0, 1, 0, 0])):
        native = np.array([0xC5, 0x31, 0x88, 0x40], dtype)
        spread = Spread(native.astype(np.float64), native)
        spread.add(np.array([0xB5, 0x32, 0x99, 0x20], dtype))
        assert [float(step) for step in spread.yardstick()] == allowed


def test_opposite_values_are_moved_apart_for_integers() -> None:
    values = np.array([3.0, -3.0, 3.0])
    for seed in range(20):
        up, _, again = Tied(seed, signed=True).bell(values)
        assert up == again
        assert np.ptp(Tied(seed).bell(values)) == 0
    assert any(one != other for one, other, _ in (Tied(seed, signed=True).bell(values) for seed in range(20)))


STEPPED = """
import numpy as np

def ends(x):
    return np.minimum(x.min(-1), 0), np.maximum(x.max(-1), 0)

def stock(x, q, s, z):
    low, high = ends(x)
    scale = np.maximum((high - low) / x.dtype.type(255), x.dtype.type(1e-8))
    zero = np.rint(-128 - low / scale)
    s[...], z[...] = scale, zero
    q[...] = np.clip(np.rint(x / scale[:, None]) + zero[:, None], -128, 127)

def by_reciprocal(x, q, s, z, shift=0):
    low, high = ends(x)
    scale = np.maximum((high - low) * np.float32(1 / 255), np.float32(1e-8))
    once = np.float32(1) / scale
    zero = np.rint(-128 - low * once)
    s[...], z[...] = scale, zero
    q[...] = np.clip(np.rint(x * once[:, None]) + zero[:, None] + shift, -128, 127)

def shifted(x, q, s, z):
    by_reciprocal(x, q, s, z, 1)
"""


@pytest.mark.parametrize(("function", "right"), [("by_reciprocal", True), ("shifted", False)])
def test_a_zero_point_half_way_goes_to_either_side(function: str, right: bool, tmp_path: Path) -> None:
    """Rows that are as high as low, and one row alone, whose zero point is no input for being all there is."""
    (tmp_path / "ops.py").write_text(STEPPED)
    shapes = {"x": ["B", "D"], "q": ["B", "D"], "s": ["B"], "z": ["B"]}
    types = {"x": "float32", "q": "int8", "s": "float32", "z": "int32"}
    args = [
        {"name": n, "role": "activation" if n == "x" else "output", "dtype": types[n], "shape": shapes[n]}
        for n in types
    ]
    names = {"match": "k", "candidate": f"ops:{function}", "reference": "ops:stock"}
    kernel = KernelContract.model_validate({**names, "dims": ["B in 1..4", "D in 1..64"], "args": args})
    sizes = [(("B", rows), ("D", columns)) for rows, columns in ((1, 6), (3, 31), (1, 25), (2, 16))]
    with runner_for(kernel, Trees(tmp_path, tmp_path), Limits(wall=30)) as runner:
        results = [
            run_case(runner, Case("k", dims, seed, variants=(("x", variant),))).result
            for seed in range(4 if right else 1)
            for dims in sizes
            for variant in ("integers", "halfway", "tied")
        ]
    assert (not any(r.faults for r in results)) == right
