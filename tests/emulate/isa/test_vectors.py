"""The semantics against what an H200 gave: `fixtures/gpu/vectors/`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.gpu.vectors import forms as recorded
from fixtures.gpu.vectors.forms import Form
from fixtures.gpu.vectors.inputs import COUNT, operands
from fixtures.gpu.vectors.results import (
    WARPS_KEPT,
    computed,
    digest,
    ends,
    excess,
    magnitudes,
    normal,
    product_errors,
)
from fixtures.gpu.vectors.warps import copies, copy_operands, copy_results, warp_forms, warp_operands, warp_results

FOLDER = Path(__file__).parents[3] / "fixtures/gpu/vectors"
RECORD: dict[str, Any] = json.loads((FOLDER / "vectors.json").read_text())
RESULTS: dict[str, str] = RECORD["results"]
GROUPS: dict[str, Callable[[], Iterator[Form]]] = {
    "integers": recorded.integers,
    "logic": recorded.logic,
    "reals": recorded.reals,
    "halves": recorded.halves,
    "order": recorded.order,
    "conversions": recorded.conversions,
    "joined": recorded.joined,
    "saturating": recorded.saturating,
}
ADDITION_BITS = {"f16": 10, "f32": 22, "f64": 51}
"""Precision that the sums of `mma` keep on an H200, relative to the sum of the absolute products, at least."""


@pytest.fixture(scope="module")
def kept() -> Any:
    return np.load(FOLDER / "vectors.npz")


def test_the_record_says_where_it_comes_from_and_leaves_no_instruction_out():
    assert RECORD["device"].startswith("NVIDIA")
    assert RECORD["driver"]
    assert RECORD["date"]
    assert RECORD["threads"] == COUNT
    named = {f.name for f in (*recorded.forms(), *warp_forms())} | {mnemonic for mnemonic, _ in copies()}
    assert set(RESULTS) <= named
    assert len(RESULTS) > 1500
    waiting = named - set(RESULTS)
    if waiting:
        pytest.skip(f"{len(waiting)} instructions wait for a recording, {min(waiting)} the first")


@pytest.mark.parametrize("group", GROUPS)
def test_bits_that_the_isa_defines_are_those_of_the_gpu(group):
    chosen = [form for form in GROUPS[group]() if form.name in RESULTS]
    if not chosen:
        pytest.skip("none of these is recorded yet")
    assert [f.name for f in chosen if digest(normal(f, computed(f, operands(f)))) != RESULTS[f.name]] == []


def test_approximations_are_within_their_documented_error_of_the_gpu(kept):
    beyond = {}
    for form in recorded.approximate():
        arrays = operands(form)
        (ours,) = normal(form, computed(form, arrays))
        source = arrays[1] if form.mnemonic.startswith("div") else arrays[0]
        assert form.bound is not None
        worst = excess(form, form.bound, ends(source), ends(ours), kept[form.name]).max()
        if worst > 1:
            beyond[form.name] = worst
    assert beyond == {}


def test_collectives_give_the_bits_of_the_gpu():
    exact = [form for form in warp_forms() if form.bound is None]
    assert [f.name for f in exact if digest(warp_results(f, *warp_operands(f))) != RESULTS[f.name]] == []


def products(kept: Any) -> Iterator[tuple[Form, list[Any], list[Any], Any, Any]]:
    """Recorded `mma` with floating-point results: active threads, operands, our results and the GPU's."""
    for form in warp_forms():
        if form.bound is not None:
            active, arrays = warp_operands(form)
            active, arrays = active[:WARPS_KEPT], [a[:WARPS_KEPT] for a in arrays]
            with np.errstate(all="ignore"):
                ours = form.warp_op.run(active, *arrays)
            yield form, active, arrays, np.stack(ours), kept[form.name]


def test_floating_point_products_keep_the_precision_of_the_gpu(kept):
    beyond = {}
    for form, active, arrays, ours, theirs in products(kept):
        with np.errstate(all="ignore"):
            weights = form.warp_op.run(active, *magnitudes(form, arrays))
        worst = product_errors(form, ours, theirs, weights).max()
        if worst > 2.0 ** -ADDITION_BITS[form.words[1][5]]:
            beyond[form.name] = worst
    assert beyond == {}


def test_sums_of_halves_and_tf32_are_those_of_the_gpus_tensor_cores(kept):
    equal = {form.name for form, _, _, ours, theirs in products(kept) if np.array_equal(ours, theirs)}
    assert equal >= {
        f"mma.sync.aligned.m16n8k{k}.row.col.{out}.{kind}.{kind}.{out}"
        for kind, depths, outs in (
            ("f16", (8, 16), ("f16", "f32")),
            ("bf16", (8, 16), ("f32",)),
            ("tf32", (4, 8), ("f32",)),
        )
        for k in depths
        for out in outs
    }


@pytest.mark.parametrize(("mnemonic", "copy"), list(copies()))
def test_matrix_copies_move_the_bytes_of_the_gpu(mnemonic, copy):
    assert digest(copy_results(mnemonic, copy, copy_operands(mnemonic))) == RESULTS[mnemonic]
