"""The plugin, in a project of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
from contextlib import nullcontext
from hypothesis import settings
import ops
import pytest
import validator.pytest

def here(x, out):
    out[...] = x + x + x

KERNEL = dict(
    match="scale", reference="ops:scale", dims=["B in 1..3", "D in 1..40"],
    args=[
        dict(name="x", role="activation", dtype="float32", shape=["B", "D"]),
        dict(name="out", role="output", dtype="float32", shape=["B", "D"]),
    ],
)

SMALL = dict(KERNEL, dims=["B in {1}", "D in {1, 8}"])

@validator.pytest.contract(**KERNEL)
def test_right(differential):
    assert differential("ops:right", cases=2).of("passed")

@validator.pytest.contract(**KERNEL)
def test_wrong(differential):
    differential("ops:wrong", cases=2)

def test_unmarked(differential):
    pass

@validator.pytest.contract(**SMALL)
@pytest.mark.parametrize(
    "candidate, tree, told",
    [
        (ops.right, "", None),
        ("ops2:right", "sub", None),
        ("right", "", "'right' is not `module:function`"),
        ("ops:missing", "", "cannot be imported: AttributeError"),
        (here, "", "move the function to a module without them"),
        ("ops:right", "nowhere", "no such folder"),
    ],
)
def test_what_is_asked_for(differential, candidate, tree, told):
    with nullcontext() if told is None else pytest.raises(pytest.fail.Exception, match=told):
        differential(candidate, tree=tree, base=".", cases=0)

def random(result):
    return sum(r.case.input_class == "random" for r in result.results)

@validator.contract(**SMALL)
def test_profile(differential):
    settings.register_profile("few", max_examples=3)
    settings.load_profile("few")
    try:
        assert random(differential("ops:right")) <= 3
    finally:
        settings.load_profile("default")
    assert random(differential("ops:right", cases=9)) > 3
    with pytest.raises(pytest.fail.Exception, match="not negative"):
        differential("ops:right", cases=-1)

@validator.pytest.contract(**SMALL)
def test_ran_nothing(differential):
    for candidate in ():
        differential(candidate)

@validator.pytest.contract(**SMALL)
def test_asked_for_nothing():
    pass

@validator.pytest.contract(**SMALL)
def test_skipped(differential):
    pytest.skip("not here")

@validator.pytest.contract(**SMALL)
class TestSeveral:
    def test_of_the_same_contract(self, differential):
        differential("ops:right", cases=0)

    def test_of_something_else(self):
        assert True

def test_contract():
    with pytest.raises(pytest.fail.Exception, match="referenc: Extra inputs"):
        validator.contract(**KERNEL, referenc="ops:scale")
"""
OPS = """
def scale(x, out):
    out[...] = x * x.dtype.type(3)

def right(x, out):
    out[...] = x + x + x

def wrong(x, out):
    out[...] = x + x + x
    out[:, 32:] = 0
"""


FEW = "test_right or test_wrong or test_unmarked"
"""What two processes are to run."""


@pytest.mark.parametrize(("spread", "passed"), [((), 11), (("-n", "2", "-k", FEW), 1)], ids=["alone", "xdist"])
def test_a_team_can_use_the_engine_in_its_own_tests(tmp_path: Path, spread: tuple[str, ...], passed: int) -> None:
    (tmp_path / "ops.py").write_text(OPS)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "ops2.py").write_text(OPS)
    (tmp_path / "test_ops.py").write_text(TESTS)
    options = [
        "-q",
        "--strict-markers",
        "-p",
        "no:cacheprovider",
        "-p",
        "validator.pytest",
        "--validator-seed",
        "3",
        *spread,
    ]
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stdout
    ends = (f"1 failed, {passed} passed, 1 error", f"2 failed, {passed} passed")
    ends_alone = f"3 failed, {passed} passed, 1 skipped, 1 error"
    assert any(end in done.stdout for end in (ends if spread else [ends_alone])), done.stdout
    if not spread:
        for name in ("test_ran_nothing", "test_asked_for_nothing"):
            assert f"FAILED test_ops.py::{name} - Failed: declares a contract" in done.stdout
    assert "expected -6.66748, got 0; 1 of 33 elements are wrong, only index 32 of" in done.stdout
    assert "--validator-seed 3" in done.stdout
    assert "needs `@validator.pytest.contract(...)`" in done.stdout
