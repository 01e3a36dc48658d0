"""Inputs and expectations, bit for bit: by compiled code or numpy, one process or two, today and tomorrow."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from validator.differential import asking, numbers, passes
from validator.differential.cases import Case, Inputs
from validator.differential.expected import Expected
from validator.differential.numbers import Array, Source, bell_of, dtype_of
from validator.differential.processes import Trees, runner_for
from validator.differential.runner import Runner
from validator.differential.spread import Spread
from validator.manifest.contract import KernelContract
from validator.run.sandbox import Limits

OPS = """
import numpy as np

def wide(x):
    return np.asarray(x, np.float64 if x.dtype.itemsize == 8 else np.float32)

def add(x, w, out):
    out[...] = (wide(x) + wide(w) * 3).astype(out.dtype)

def rows(x, w, out):
    total = np.zeros(x.shape[1], wide(x).dtype)
    for row in wide(x):
        total += row
    out[...] = (wide(x) * wide(w) + total).astype(out.dtype)

def steps(x, w, out):
    out[...] = np.clip(np.rint(wide(x) * 20), -127, 127).astype(out.dtype)

def single(x, w, out):
    if x.dtype == np.float64:
        raise TypeError("float32 alone")
    add(x, w, out)

def half(x, w, out):
    out[::2] = (wide(x) + wide(w))[::2].astype(out.dtype)

def launched(x, w, step, out):
    if x.dtype == np.float64 and step == 0:
        raise TypeError("float32 alone")
    out[step::2] = (wide(x) + wide(w))[step::2].astype(out.dtype)

def ends(x, w, out):
    if x.dtype == np.float64 and x[0, 0] != np.float32(x[0, 0]):
        raise SystemExit
    add(x, w, out)
"""
"""Nothing that is rounded otherwise on another machine."""

CHOICES = (
    ("add", "float32", "float32", "float32", {}),
    ("add", "bfloat16", "float32", "bfloat16", {}),
    ("add", "float16", "float16", "float16", {"compute_dtype": "float16"}),
    ("add", "float64", "float64", "float64", {"compute_dtype": "float64"}),
    ("rows", "float32", "bfloat16", "float32", {"rounding": "as-baseline"}),
    ("steps", "float32", "float32", "int8", {}),
    ("add", "bfloat16", "bfloat16", "float8_e4m3fn", {}),
    ("single", "float32", "float32", "float32", {}),
    ("half", "float32", "float32", "float32", {}),
)


def contract(function: str, x: str, w: str, out: str, more: Mapping[str, Any]) -> KernelContract:
    types = {"x": ("activation", x), "w": ("weight", w), "out": ("output", out)}
    args = [{"name": n, "role": role, "dtype": dtype, "shape": ["M", "N"]} for n, (role, dtype) in types.items()]
    named = {"match": "k", "candidate": f"ops:{function}", "reference": f"ops:{function}", "args": args}
    return KernelContract.model_validate({**named, "dims": ["M in 0..2000", "N in 1..2000"], **more})


def asked(folder: Path, chosen: KernelContract, cases: list[Case]) -> Iterator[tuple[Runner, Inputs, Expected]]:
    (folder / "ops.py").write_text(OPS)
    with runner_for(chosen, Trees(folder, folder), Limits(wall=30)) as runner, np.errstate(all="ignore"):
        for case in cases:
            inputs = runner.build(case)
            yield runner, inputs, runner.expect(case, inputs)["out"]


def digest(folder: Path, chosen: KernelContract, cases: list[Case]) -> str:
    """Of what is drawn for the cases, and of all that is right for them."""
    total = hashlib.sha256()
    for _, inputs, want in asked(folder, chosen, cases):
        for value in (*inputs.values(), *(getattr(want, field.name) for field in fields(want))):
            if isinstance(value, np.ndarray):
                total.update(f"{value.shape} {value.dtype.name}".encode() + value.tobytes())
            else:
                total.update(repr(value).encode())
    return total.hexdigest()[:16]


def some_cases(*sizes: tuple[int, int]) -> list[Case]:
    variants = ((), (("x", "peaked"),), (("x", "tied"), ("w", "one")), (("x", "tiny"),), (("x", "large"),))
    return [Case("k", (("M", m), ("N", n)), m + n + at, variants=v) for m, n in sizes for at, v in enumerate(variants)]


SMALL = some_cases((0, 3), (1, 1), (5, 13), (130, 67))
KNOWN = [
    "773be7bb53cd0ca8",
    "e85a41235ad4712f",
    "fde97ab60baed0a5",
    "5dff47821b63aa4c",
    "d2187f3cf257d9f2",
    "eecc8987550fdae6",
    "df0201cc5c3693e0",
    "3098a39d08682b98",
    "36230ca0563cd4b5",
]


@pytest.mark.parametrize("which", range(len(CHOICES)))
def test_a_case_is_what_it_was(which: int, tmp_path: Path) -> None:
    """On every machine. A change of what is drawn, or of what is right, must be meant; then these are others."""
    assert digest(tmp_path, contract(*CHOICES[which]), SMALL) == KNOWN[which]


@pytest.mark.parametrize("which", range(len(CHOICES)))
def test_compiled_code_and_threads_change_no_bit(which: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, cases = contract(*CHOICES[which]), some_cases((301, 263))
    with monkeypatch.context() as several:
        several.setattr(numbers, "_LARGE", 1 << 16)
        several.setattr(numbers, "_THREADS", 2)
        compiled = digest(tmp_path, chosen, cases)
    for module in (numbers, passes):
        monkeypatch.setattr(module, "function", lambda *_: None)
    assert digest(tmp_path, chosen, cases) == compiled


@pytest.mark.parametrize("which", [0, 5, 7])
def test_a_second_process_changes_no_bit(which: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, cases = contract(*CHOICES[which]), some_cases((301, 263))
    alone = digest(tmp_path, chosen, cases)
    monkeypatch.setattr(asking, "_AT_ONCE", 1 << 12)
    monkeypatch.setattr(asking, "_PATIENCE", {"numpy": -1.0})
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert digest(tmp_path, chosen, cases) == alone
    twins = {runner.reference.twin.starts for runner, _, _ in asked(tmp_path, chosen, cases) if runner.reference.twin}
    assert twins
    assert 0 not in twins


def test_large_ones_are_not_kept_where_they_were_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, cases = contract(*CHOICES[0]), some_cases((301, 263), (263, 301))
    alone = digest(tmp_path, chosen, cases)
    monkeypatch.setattr(asking, "_AT_ONCE", 1 << 12)
    monkeypatch.setattr(asking, "_STAYS", 1 << 16)
    monkeypatch.setattr(asking, "_PATIENCE", {"numpy": -1.0})
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert digest(tmp_path, chosen, cases) == alone
    for runner, _, _ in asked(tmp_path, chosen, cases):
        assert runner.reference.twin is not None
        assert not runner.reference.twin.starts, "nor in two processes"
        assert runner.reference.worker._pools is not None
        assert not runner.reference.worker._pools[0]._slots


def test_a_process_that_ends_leaves_no_answer_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was asked beside it is not taken for the answer to what is asked next."""
    monkeypatch.setattr(asking, "_AT_ONCE", 1 << 12)
    monkeypatch.setattr(asking, "_PATIENCE", {"numpy": -1.0})
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    chosen = contract("ends", "float32", "float32", "float32", {})
    wanted = [want for _, _, want in asked(tmp_path, contract("single", *CHOICES[0][1:]), SMALL[-5:])]
    for (runner, _, want), right in zip(asked(tmp_path, chosen, SMALL[-5:]), wanted, strict=True):
        assert not runner.reference.wide
        assert np.array_equal(want.native, right.native)
        assert np.array_equal(want.yardstick, right.yardstick)


def test_a_launch_that_raises_leaves_no_answer_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_AT_ONCE", 1 << 12)
    types = {"x": "activation", "w": "weight", "out": "output"}
    args = [{"name": n, "role": role, "dtype": "float32", "shape": ["M", "N"]} for n, role in types.items()]
    args.insert(2, {"name": "step", "role": "scalar", "dtype": "int32"})
    named = {"match": "k", "candidate": "ops:launched", "reference": "ops:launched", "args": args}
    several = {"dims": ["M in 1..2000", "N in 1..2000"], "launches": {"argument": "step", "count": 2}}
    chosen = KernelContract.model_validate({**named, **several})
    for runner, inputs, want in asked(tmp_path, chosen, SMALL[-5:]):
        assert not runner.reference.wide
        assert np.array_equal(want.native, inputs["x"] + inputs["w"])


needs_compiler = pytest.mark.skipif(
    passes._compiled("below", (), ()) is None, reason="nothing was compiled: there was no C compiler"
)


@needs_compiler
@pytest.mark.parametrize("name", ["float64", "float32", "bfloat16", "float16", "float8_e4m3fn"])
@pytest.mark.parametrize("seed", [0, 1, 20261130, (1 << 64) - 1])
def test_a_stream_is_the_same_from_wherever_it_is_taken(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for before in (0, 1, 2, 3, 4, 5, 7, 8, 33):
        for count in (0, 1, 3, 4, 7, 8, 9, 16, 257, (1 << 15) + 3):
            source, plain = Source(seed), np.random.Philox(key=seed)
            assert np.array_equal(source.raw(before), plain.random_raw(before))
            found = np.zeros(count, dtype_of(name))
            source.bell_into(found)
            assert np.array_equal(found, bell_of(plain.random_raw(count)).astype(dtype_of(name)))
            assert np.array_equal(source.raw(5), plain.random_raw(5))


ODD = (0.0, -0.0, 1.0, -1.5, 3e4, 6e-8, 1e-42, 1e-300, 1e300, np.inf, -np.inf, np.nan)
rows_of = st.lists(st.tuples(*[st.sampled_from(ODD) | st.floats(width=16)] * 4, st.booleans()), min_size=1, max_size=20)


@needs_compiler
@settings(deadline=None)
@given(st.sampled_from(["float64", "float32", "bfloat16", "float16"]), rows_of, st.sampled_from([0.0, 2.0**-11]))
@np.errstate(all="ignore")
def test_every_pass_says_what_numpy_says(name: str, rows: list[Any], outweighed: float) -> None:
    exact, native, one, other, jumps = (np.array(column) for column in zip(*rows, strict=True))

    def wanted() -> Iterator[Array]:
        spread = Spread(exact, native.astype(dtype_of(name)))
        spread.add(one, 0.5)
        yield spread._moved.copy()
        spread._jumps = jumps if jumps.any() else spread._jumps
        spread.add_halves(one, other, 4, 0.25, outweighed=outweighed)
        yield spread._moved.copy()
        yard = spread.yardstick()
        yield yard
        want = Expected(exact, native.astype(dtype_of(name)), np.where(exact == 1.0, np.nan, yard), jumps)
        yield np.array([want.beyond, want.widest])

    compiled = list(wanted())
    with pytest.MonkeyPatch.context() as without:
        without.setattr(passes, "function", lambda *_: None)
        for fast, slow in zip(compiled, wanted(), strict=True):
            assert fast.tobytes() == slow.tobytes()
    small = (np.abs(exact) < 1e-38) & (exact != 0)
    assert passes.below(exact, 1e-38) is bool(small.any())


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float64, np.float32, ml_dtypes.bfloat16, np.float16])
def test_moved_elements_are_those_of_numpy(dtype: type) -> None:
    with np.errstate(all="ignore"):
        every = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(dtype)
    for count in (1, 7, 8, 1 << 16):
        array, found = every[-count:].copy(), np.zeros(count)
        with np.errstate(all="ignore"):
            assert passes.moved(found, array, 2.0**-24, Source(5))
            due = array.astype(np.float64) * (1.0 + 2.0**-24 * Source(5).bell((count,)))
        assert np.array_equal(found, due, equal_nan=True)


def test_what_compiled_code_does_not_read_is_left_to_numpy() -> None:
    wide, other = np.ones((6, 4)), np.ones((6, 4), np.float32)
    assert not passes.added(wide, other, wide, 1.0)
    assert not passes.added(wide, wide[:, ::-1], wide, 1.0)
    assert not passes.measured(wide, wide, other.astype(ml_dtypes.float8_e4m3fn), 1.0, 1.0)
    assert not passes.moved(other, wide, 1.0, Source(1))
    assert passes.ends(wide, wide, np.broadcast_to(np.ones((), bool), wide.shape), 2.0) is None
    assert passes.below(wide[:0], 1.0) is None
