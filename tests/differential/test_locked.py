"""Inputs lie where only the gate can write. Who writes to them is found; who puts them back is not accused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.scaling import contract, written
from validator.differential import arena, book, changes
from validator.differential import runner as runner_module
from validator.differential.cases import Case
from validator.differential.engine import planned_cases, run_kernel
from validator.differential.faults import FaultKind
from validator.differential.found import Found
from validator.differential.processes import Trees, runner_for
from validator.differential.results import CaseResult
from validator.differential.runner import Runner
from validator.differential.running import run_case
from validator.differential.session import Here, run_contracts
from validator.manifest.contract import KernelContract
from validator.scale.cell import Cell, Outcome

MODEL = """
import ctypes
import mmap
import numpy as np

def scale(x, w, out):
    out[...] = x * w

def writes(x, w, out):
    scale(x, w, out)
    x[...] = 0

def writes_and_restores(x, w, out):
    before = x.copy()
    x *= 2
    np.multiply(x, w, out=out)
    out /= 2
    x[...] = before

def unlocks(x, w, out):
    scale(x, w, out)
    page = x.ctypes.data // mmap.PAGESIZE * mmap.PAGESIZE
    length = x.ctypes.data + x.nbytes - page
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), ctypes.c_size_t(length), 3) == 0:
        x[...] = 0
    x[...] = 0

def crashes(x, w, out):
    ctypes.string_at(0)

def now_and_then(x, w, out, calls=[]):
    scale(x, w, out)
    calls.append(1)
    if len(calls) == 2:
        out[0, 0] += 1

def by_address(x, w, out, seen={}):
    key = x.ctypes.data, w.ctypes.data, out.shape
    if key not in seen:
        seen[key] = x * w
    out[...] = seen[key]

def by_a_look(x, w, out, seen={}):
    key = x.ctypes.data, out.shape, x[0, 0], x[-1, -1], x[0, 5], w.tobytes()
    if key not in seen:
        seen[key] = x * w
    out[...] = seen[key]

def twice_only(x, w, out, calls=[]):
    calls.append(1)
    if len(calls) <= 2:
        scale(x, w, out)

def twice_only_everywhere(x, w, out, outs=[]):
    outs.append(out)
    if len(outs) <= 2:
        for one in outs:
            scale(x, w, one)

def wears_out(x, w, out, calls=[]):
    scale(x, w, out)
    calls.append(1)
    if len(calls) > 30:
        out[...] = 0

def wrong(x, w, out):
    scale(x, w, out)
    out[-1] = 0
"""


@pytest.fixture
def trees(tmp_path: Path) -> Trees:
    return written(tmp_path, MODEL)


@pytest.mark.parametrize("candidate", ["writes", "unlocks"])
def test_an_input_that_is_written_is_named(trees: Trees, candidate: str) -> None:
    with runner_for(contract(candidate), trees) as runner:
        result = run_kernel(runner, 5, 0, enough=lambda case: True)
    (failed,) = result.of("failed")
    assert {(f.kind, f.output) for f in failed.faults} == {(FaultKind.INPUT, "x")}
    assert "x is an input and" in failed.faults[0].message


def test_an_input_that_is_put_back_is_no_fault(trees: Trees) -> None:
    with runner_for(contract("writes_and_restores"), trees) as runner:
        assert runner.locks
        result = run_kernel(runner, 5, 0, enough=lambda case: case.case.plan == "a-b-a")
        assert not runner.locks  # from then on they are looked at after every call
    assert [r.faults for r in result.of("failed")] == []
    assert result.of("passed")


def test_a_crash_is_one_whatever_inputs_lie_in(trees: Trees) -> None:
    with runner_for(contract("crashes"), trees) as runner:
        (case,) = run_kernel(runner, 5, 0, enough=lambda case: True).results
        assert {f.kind for f in case.faults} == {FaultKind.WORKER}
        assert "signal" in case.faults[0].message
        assert runner.locks


def test_small_mistakes_are_the_same_with_locked_and_with_open_inputs(trees: Trees) -> None:
    with runner_for(contract("wrong"), trees) as runner:
        locked = run_kernel(runner, 5, 3, enough=lambda case: bool(case.faults))
    with runner_for(contract("wrong"), trees) as runner:
        runner.trusting = False
        opened = [run_case(runner, case.case).result.faults for case in locked.results[-1:]]
    assert [case.faults for case in locked.results[-1:]] == opened


@pytest.mark.parametrize(
    "candidate",
    ["scale", "writes", "writes_and_restores", "crashes", "wrong", "now_and_then", "by_address", "by_a_look"],
)
def test_calls_that_are_made_ahead_are_judged_the_same(
    trees: Trees, monkeypatch: pytest.MonkeyPatch, candidate: str
) -> None:
    planned = planned_cases(contract(candidate), 5, 0)
    every_plan = planned[: 1 + [case.plan for case in planned].index("recheck")]

    def ran() -> list[set[tuple[str, str]]]:
        with runner_for(contract(candidate), trees) as runner:
            results = [run_case(runner, case).result for case in every_plan]
        return [{(f.kind.value, f.output) for f in result.faults} for result in results]

    def alike(ahead: list[set[tuple[str, str]]]) -> bool:
        """Of large cases more elements are changed, of which one may be what nobody looked at."""
        pairs = zip(every_plan, ahead, in_turn, strict=True)
        return all(a == b or (case.plan == "flip" and b <= a and candidate == "by_a_look") for case, a, b in pairs)

    in_turn = ran()
    monkeypatch.setattr(runner_module, "_LARGE", 0)
    assert alike(ran())
    monkeypatch.setattr(book, "_WORTH_A_HOME", 0)
    assert alike(ran())


def test_new_values_and_old_ones_are_read_at_the_same_address(trees: Trees, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that are drawn where they are read lie elsewhere than the ones before; a candidate cannot tell."""
    monkeypatch.setattr(book, "_WORTH_A_HOME", 0)
    plans = ["repeat", "same-buffer", "flip", "recheck", "a-b-a", "batch-mates"]
    found = {}
    for candidate in ("scale", "by_address", "by_a_look"):
        with runner_for(contract(candidate), trees) as runner:
            ran = [(plan, run_case(runner, Case("scale", (("B", 4), ("D", 24)), 1, plan)).result) for plan in plans]
            runner.candidate.close()
            assert not runner._book._homes, "nobody uses them any more"
        found[candidate] = {plan for plan, result in ran if result.faults}
    assert found["scale"] == set()
    assert found["by_address"] >= {"same-buffer", "flip"}
    assert "flip" in found["by_a_look"]


@pytest.mark.parametrize("candidate", ["twice_only", "twice_only_everywhere"])
def test_poison_that_was_laid_beforehand_hides_nothing(
    trees: Trees, monkeypatch: pytest.MonkeyPatch, candidate: str
) -> None:
    """From the third call on nothing is done; what is right stands in the buffer, or the second one put it there."""
    monkeypatch.setattr(runner_module, "_LARGE", 0)
    for plan in ("repeat", "same-buffer", "flip", "recheck", "a-b-a"):
        with runner_for(contract(candidate), trees) as runner:
            result = run_case(runner, Case("scale", (("B", 4), ("D", 24)), 1, plan)).result
        assert result.faults, plan


@pytest.mark.parametrize("late", [True, False])
def test_a_result_that_is_written_to_after_its_call_is_found(
    trees: Trees, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """A thread of the candidate that is not done yet: here it is the gate's own hand, so that it is late for sure."""

    def answered(runner: Runner, call: Any) -> None:
        call.reply, call.begun = runner.candidate.finish(call.begun), None
        out = call.placed.view("out")
        right = out.copy()
        out[-1, -1000:] = 0 if late else right[-1, -1000:]
        call.seen = call.placed.glimpses(["out"])
        out[...] = right

    monkeypatch.setattr(arena, "_LARGE", 0)
    wide = contract("scale").model_copy(update={"dims": ("B in 2..6", "D in 8..4000")})
    case = Case("scale", (("B", 4), ("D", 4000)), 1, "repeat")
    with runner_for(KernelContract.model_validate(wide.model_dump()), trees) as runner:
        assert run_case(runner, case).result.faults == ()
        monkeypatch.setattr(Runner, "answered", answered)
        faults = run_case(runner, case).result.faults
    assert {f.kind for f in faults} == ({FaultKind.EARLIER} if late else set())


@pytest.mark.parametrize("shape", [(4, 6), (5, 3, 7), (300, 1000), (6,), (1,), (2, 1), (0, 3)])
def test_what_is_turned_round_is_the_same_again_afterwards(shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    before = array.copy()
    for axis in {0, len(shape) - 1}:
        changes._turn(array, axis)
        np.testing.assert_array_equal(array, np.flip(before, axis))
        changes._turn(array, axis)
        np.testing.assert_array_equal(array, before)


class Interrupted(Here):
    """Ctrl-C in the middle of the second cell."""

    def run(self, cells: Iterator[Cell], total: int) -> Iterator[Outcome]:  # type: ignore[override]
        for number, outcome in enumerate(super().run(cells, total)):
            if number:
                raise KeyboardInterrupt
            yield outcome


def test_what_an_unfinished_cell_found_is_kept(trees: Trees) -> None:
    kept: list[CaseResult] = []
    with pytest.raises(KeyboardInterrupt):
        run_contracts([contract("wrong")], trees, 5, 60, keep=lambda a, b: kept.append(b or a), work=Interrupted())
    assert [r.case.kernel for r in kept] == ["scale"]
    assert kept[0].faults


def test_failures_are_written_down_once_and_read_in_order(tmp_path: Path, trees: Trees) -> None:
    with runner_for(contract("wrong"), trees) as runner:
        failed = run_kernel(runner, 5, 0, enough=lambda case: bool(case.faults)).results[-1]
    found = Found(tmp_path / "found")
    found.note(failed, None)  # no folder: nobody wants to know
    assert list(found.news()) == []
    found.folder.mkdir()
    found.note(failed, None)
    found.note(failed, failed)
    (noted,) = found.news()
    assert noted.simpler == failed
    assert "validator replay" in noted.words()
    assert list(found.news()) == []


def test_what_only_earlier_calls_bring_about_is_never_a_wrong_value_of_one_case(trees: Trees) -> None:
    """Zeros from the 31st call of a process on: whatever plan that call belongs to."""
    with runner_for(contract("wears_out"), trees) as runner:
        result = run_kernel(runner, 7, 0)
    kinds = {f.kind.value for r in (*result.of("failed"), *result.shrunk.values()) for f in r.faults}
    assert kinds
    assert kinds <= {"hidden-state", "not-repeatable"}
