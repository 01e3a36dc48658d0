"""Where a contract and its callables do not fit together: said as what it is, and not as a fault of the kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from validator.differential.cases import cases
from validator.differential.processes import Trees
from validator.differential.session import Ran, run_contracts
from validator.differential.text import run_text
from validator.manifest.contract import KernelContract
from validator.verdict.model import Status

SOURCE = """
import functools

import numpy as np

FACTOR = 2

def helper_of_wrapped(x):
    pass

def double(x, out):
    out[...] = x + x

def doubled(x, out):
    return x + x

def scaled(x, factor, out):
    out[...] = x * factor

def named(x, out, *, factor):
    out[...] = x * factor

unnamed = lambda x: x

@functools.wraps(helper_of_wrapped)
def wrapped(*arguments):
    return helper_of_wrapped(*arguments)

applied = functools.partial(helper_of_wrapped)

@functools.wraps(double)
def wrong_inside_but_wrapped(x, out):
    out[...] = 0

class Kernel:
    def __call__(self, x):
        pass

instance = Kernel()

def helper(x):
    pass

def wrong_inside(x, out):
    helper(x, out)

def short_rows_only(x, out):
    if x.shape[1] > 6:
        raise NotImplementedError("more than six")
    out[...] = x + x

def no_number(x, out):
    out[...] = np.nan

def imports_what_is_not_here(x, out):
    from a_package.that_is_not_here import double
    double(x, out)

def imports_what_its_tree_lacks(x, out):
    import beside_it.missing

def imports_it_later(x, out):
    if x.shape == (1, 1):
        import a_package
    out[...] = x + x
"""
KERNEL: dict[str, Any] = {
    "match": "k",
    "reference": "ops:double",
    "candidate": "ops:double",
    "dims": ["B in {1, 3}", "D in {1, 5, 6, 40, 41, 42, 64}"],
    "args": [
        {"name": "x", "role": "activation", "dtype": "float32", "shape": ["B", "D"]},
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["B", "D"]},
    ],
}


def _ran(folder: Path, **changes: Any) -> list[Ran]:
    (folder / "ops.py").write_text(SOURCE)
    (folder / "needs.py").write_text(
        "import a_package.part\n\ndef double(x, out):\n    a_package.part.double(x, out)\n"
    )
    (folder / "beside_it").mkdir()
    return run_contracts([KernelContract.model_validate({**KERNEL, **changes})], Trees(folder, folder), 1, 0)


@pytest.mark.parametrize(
    ("changes", "status", "told"),
    [
        ({"candidate": "ops:FACTOR"}, Status.UNPROVEN, "ops:FACTOR is no function"),
        ({"candidate": "ops:scaled"}, Status.UNPROVEN, "the contract passes 2 arguments: x, out"),
        ({"candidate": "ops:named"}, Status.UNPROVEN, "the contract passes 2 arguments: x, out"),
        ({"candidate": "ops:unnamed"}, Status.UNPROVEN, "the contract passes 2 arguments: x, out"),
        ({"candidate": "ops:instance"}, Status.UNPROVEN, "the contract passes 2 arguments: x, out"),
        ({"candidate": "ops:wrapped"}, Status.UNPROVEN, "the contract passes 2 arguments: x, out"),
        ({"candidate": "ops:applied"}, Status.UNPROVEN, "the contract passes 2 arguments: x, out"),
        ({"candidate": "ops:wrong_inside_but_wrapped"}, Status.REFUTED, "cases fail"),
        ({"candidate": "ops:wrong_inside"}, Status.REFUTED, "cases fail"),
        ({"candidate": "needs:double"}, Status.UNPROVEN, "not run here: needs:double imports a_package, which is not"),
        (
            {"candidate": "ops:imports_what_is_not_here"},
            Status.UNPROVEN,
            "not run here: ops:imports_what_is_not_here imp",
        ),
        ({"candidate": "ops:imports_what_its_tree_lacks"}, Status.REFUTED, "cases fail"),
        ({"candidate": "ops:imports_it_later"}, Status.REFUTED, "cases fail"),
        ({"reference": "ops:duoble"}, Status.UNPROVEN, "reference ops:duoble cannot be imported from the base tree"),
        ({"reference": "opps:double"}, Status.UNPROVEN, "reference opps:double cannot be imported from the base tree"),
        ({"reference": "ops:scaled"}, Status.UNPROVEN, "'out'; the contract passes 2 arguments: x, out"),
        ({"reference": "ops:wrong_inside"}, Status.UNPROVEN, "cases cannot be judged"),
        ({"reference": "ops:doubled"}, Status.UNPROVEN, 'leaves out as it was: say `returns = ["out"]`'),
        ({"reference": "ops:short_rows_only"}, Status.UNPROVEN, "with D >= 40, in 0 of"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, Any], status: Status, told: str, tmp_path: Path) -> None:
    ((_, _, stage),) = _ran(tmp_path, **changes)
    (obligation,) = stage.obligations
    assert obligation.status is status
    assert told in obligation.reason


def test_a_reference_that_gives_no_number_is_mentioned(tmp_path: Path) -> None:
    ran = _ran(tmp_path, reference="ops:no_number")
    text = " ".join(run_text(ran, "fail").split())
    assert "the reference gives NaN throughout" in text
    assert "made smaller from: " in " ".join(step for finding in ran[0][2].findings for step in finding.steps)


def test_sizes_that_nobody_makes_are_not_covered_and_no_reason_against_the_kernel(tmp_path: Path) -> None:
    dims = ["B in {1}", "D in 1..10000000000"]
    (tmp_path / "ops.py").write_text(SOURCE)
    contract = KernelContract.model_validate({**KERNEL, "dims": dims})
    assert max(dict(case.dims)["D"] for case in cases(contract, 1, 0)) < 1 << 30
    asked = KernelContract.model_validate({**KERNEL, "dims": dims, "production": [{"B": 1, "D": 10**10}]})
    assert dict(cases(asked, 1, 0)[0].dims)["D"] == 10**10
    few = KernelContract.model_validate({**KERNEL, "dims": ["B in {1}", "D in {1, 10000000000}"]})
    ((_, _, stage),) = run_contracts([few], Trees(tmp_path, tmp_path), 1, 0)
    assert stage.obligations[0].status is Status.PROVEN
    assert any("more than 2 GiB (D = 10000000000 for one)" in text for text in stage.evidence[0].not_covered)
