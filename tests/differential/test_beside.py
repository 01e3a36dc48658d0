"""What means something beside another argument only: the last page of a list of pages, the end of a range."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from validator.differential.cases import Case, build, cases, nameable
from validator.differential.changes import single_changes
from validator.differential.engine import planned_cases, run_cases
from validator.differential.padding import unused_parts
from validator.differential.processes import Trees, runner_for
from validator.differential.results import KernelResult
from validator.manifest.contract import KernelContract
from validator.run.sandbox import Limits

OPS = """
import numpy as np

def sums(k, indptr, indices, last, out):
    size = k.shape[1]
    for row in range(len(out)):
        pages = indices[indptr[row]:indptr[row + 1]]
        used = (len(pages) - 1) * size + last[row] if len(pages) else 0
        slots = k[pages].reshape(-1, k.shape[2])
        out[row] = slots[:used].sum(axis=0)

def by_pages(k, indptr, indices, last, out):
    out[...] = 0
    for row in range(len(out)):
        for at in range(indptr[row], indptr[row + 1]):
            end = last[row] if at + 1 == indptr[row + 1] else k.shape[1]
            out[row] += k[indices[at], :end].sum(axis=0)

def times_nothing(k, indptr, indices, last, out):
    out[...] = 0
    for row in range(len(out)):
        for at in range(indptr[row], indptr[row + 1]):
            end = last[row] if at + 1 == indptr[row + 1] else k.shape[1]
            shown = (np.arange(k.shape[1]) < end).astype(k.dtype)
            out[row] += (k[indices[at]] * shown[:, None]).sum(axis=0)

def embed(ids, w, start, end, out):
    mine = (ids >= start) & (ids < end)
    out[...] = np.where(mine[:, None], w[np.where(mine, ids - start, 0)], 0)

def by_rows(ids, w, start, end, out):
    for row, one in enumerate(ids):
        out[row] = w[one - start] if start <= one < end else 0

def end_included(ids, w, start, end, out):
    by_rows(ids, w, start, end, out)
    out[ids == end] = w[-1]

def start_left_out(ids, w, start, end, out):
    by_rows(ids, w, start, end, out)
    out[ids == start] = 0
"""


def argument(name: str, role: str, dtype: str, shape: list[Any] | None = None, **domain: Any) -> dict[str, Any]:
    return {"name": name, "role": role, "dtype": dtype, "domain": domain, **({"shape": shape} if shape else {})}


def paged(function: str = "by_pages", **last: Any) -> KernelContract:
    args = [
        argument("k", "state", "float32", ["N", "S", "D"]),
        argument("indptr", "index", "int32", ["B + 1"], offsets="indices.0"),
        argument("indices", "index", "int32", ["I"], index="k.0"),
        argument("last", "index", "int32", ["B"], **{"last": "indptr", "slots": "k.1", **last}),
        argument("out", "output", "float32", ["B", "D"]),
    ]
    dims = ["N in 1..12", "S in {1, 4}", "D in 1..4", "B in 1..5", "I in 0..12"]
    return _contract(function, "sums", dims, args)


def ranged(function: str = "by_rows", **end: Any) -> KernelContract:
    args = [
        argument("ids", "activation", "int64", ["T"], low=0, high=1999),
        argument("w", "weight", "float32", ["V", 4]),
        argument("start", "scalar", "int32", low=0, high=1000),
        argument("end", "scalar", "int32", **{"after": "start", "low": "V", "high": "V", **end}),
        argument("out", "output", "float32", ["T", 4]),
    ]
    return _contract(function, "embed", ["T in 0..16", "V in 4..500"], args)


def _contract(function: str, stock: str, dims: list[str], args: list[dict[str, Any]]) -> KernelContract:
    names = {"match": "k", "candidate": f"ops:{function}", "reference": f"ops:{stock}"}
    return KernelContract.model_validate({**names, "dims": dims, "args": args})


def _run(chosen: KernelContract, folder: Path) -> KernelResult:
    """A third of the cases by construction, and all that are for what is meant here; up to the first that fails."""
    (folder / "ops.py").write_text(OPS)
    planned = planned_cases(chosen, 1, 0)
    meant = [c for at, c in enumerate(planned) if at % 3 == 0 or c.padding or ("ids", "in-range") in c.variants]
    with runner_for(chosen, Trees(folder, folder), Limits(wall=30)) as runner:
        return run_cases(runner, tuple(meant), enough=lambda result: bool(result.faults))


PAGES = (("N", 12), ("S", 4), ("D", 2), ("B", 4), ("I", 7))


def test_the_rest_of_the_last_page_is_unused() -> None:
    chosen = paged()
    for seed in range(8):
        inputs = build(chosen, Case("k", PAGES, seed))
        assert inputs["last"].min() >= 1
        assert inputs["last"].max() <= 4
        used = np.zeros((12, 4), bool)
        for row, (begin, end) in enumerate(zip(inputs["indptr"], inputs["indptr"][1:], strict=False)):
            for at in range(begin, end):
                used[inputs["indices"][at], : inputs["last"][row] if at + 1 == end else 4] = True
        unused = unused_parts(chosen, inputs)["k"]
        np.testing.assert_array_equal(unused, np.broadcast_to(~used[:, :, None], unused.shape))


@pytest.mark.parametrize(("function", "right"), [("by_pages", True), ("times_nothing", False)])
def test_what_lies_behind_the_last_slot_does_not_leak(function: str, right: bool, tmp_path: Path) -> None:
    result = _run(paged(function), tmp_path)
    assert bool(result.of("failed")) != right
    assert len(result.of("passed")) > len(result.results) // 2 or not right


def test_a_range_ends_as_far_behind_its_start_as_it_says() -> None:
    chosen, some = ranged(high="V + 5"), ranged()
    for seed in range(8):
        case = Case("k", (("T", 8), ("V", 7)), seed)
        inputs = build(some, case)
        assert inputs["end"] == inputs["start"] + 7
        assert 7 <= build(chosen, case)["end"] - build(chosen, case)["start"] <= 12
        assert "end" not in nameable(some, case)
        named = build(some, Case("k", case.dims, seed, pinned=(("start", (3,)),)))
        assert (named["start"], named["end"]) == (3, 10)
        for changed, told in single_changes(some, case, inputs):
            if not told:  # the inputs as they are
                continue
            assert changed["end"] == changed["start"] + 7, told
    assert any(dict(case.variants).get("ids") == "in-range" for case in cases(some, 1, 0))


@pytest.mark.parametrize(("function", "right"), [("by_rows", True), ("end_included", False), ("start_left_out", False)])
def test_both_ends_of_a_range_are_tried(function: str, right: bool, tmp_path: Path) -> None:
    result = _run(ranged(function), tmp_path)
    assert bool(result.of("failed")) != right
    assert len(result.of("passed")) > len(result.results) * 2 // 3 or not right


@pytest.mark.parametrize(
    ("make", "domain", "told"),
    [
        (paged, {"last": "indpt"}, "domain.last names 'indpt'; did you mean 'indptr'"),
        (paged, {"last": "indices"}, "domain.last names 'indices', which has no domain.offsets"),
        (paged, {"slots": None}, "`last` needs `slots`"),
        (paged, {"slots": "k.0"}, "expected another axis of 'k'"),
        (ranged, {"after": "stat"}, "domain.after names 'stat'; did you mean 'start'"),
        (ranged, {"after": "ids"}, "expected a number passed by value that hangs on no other"),
        (ranged, {"longest": "ids"}, "`longest` and `after` exclude one another"),
    ],
)
def test_what_hangs_on_nothing_is_told(make: Any, domain: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        make(**domain)
