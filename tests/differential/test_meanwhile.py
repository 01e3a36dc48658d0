"""Large calls are judged while the reference is asked about the next values: nothing wrong is missed by that."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.scaling import contract, written
from validator.differential import runner as runner_module
from validator.differential.cases import Case, Inputs
from validator.differential.data import ReferenceFailed
from validator.differential.expected import Expected
from validator.differential.faults import FaultKind
from validator.differential.meanwhile import Meanwhile
from validator.differential.processes import Trees, runner_for
from validator.differential.runner import Runner
from validator.differential.running import run_case

MODEL = """
def scale(x, w, out):
    out[...] = x * w

def at(call, wrong):
    def candidate(x, w, out, calls=[]):
        calls.append(1)
        scale(x, w, out)
        if wrong(len(calls), call):
            out[-1, -1] = 0
    return candidate

once_1, once_2, once_3, once_4 = (at(call, int.__eq__) for call in (1, 2, 3, 4))
from_1, from_2, from_3, from_4 = (at(call, int.__ge__) for call in (1, 2, 3, 4))
"""
PLANS = ("repeat", "same-buffer", "other-buffer", "flip", "recheck", "a-b-a")


@pytest.fixture
def trees(tmp_path: Path) -> Trees:
    return written(tmp_path, MODEL)


def case(plan: str) -> Case:
    return Case("scale", (("B", 4), ("D", 24)), 7, plan)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The slots of calls that were judged meanwhile; all calls count as large."""
    slots: list[int] = []
    inner = Meanwhile.judge

    def judge(self: Meanwhile, slot: int, *rest: object) -> None:
        slots.append(slot)
        inner(self, slot, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Meanwhile, "judge", judge)
    monkeypatch.setattr(runner_module, "_LARGE", 0)
    return slots


@pytest.mark.parametrize("plan", PLANS)
def test_who_is_right_passes(trees: Trees, judged: list[int], plan: str) -> None:
    with runner_for(contract("scale"), trees) as runner:
        calls = runner.calls
        assert run_case(runner, case(plan)).result.status == "passed"
        assert judged, "no call was judged meanwhile"
        assert runner.calls - calls <= (16 if plan == "flip" else 8)  # nothing was run again


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("candidate", [f"{often}_{call}" for often in ("once", "from") for call in (1, 2, 3)])
def test_a_call_that_is_wrong_is_never_passed_over(trees: Trees, judged: list[int], plan: str, candidate: str) -> None:
    """Whichever it is, and whether the next ones are right again."""
    with runner_for(contract(candidate), trees) as runner:
        result = run_case(runner, case(plan)).result
    assert result.faults
    assert result.faults[0].output == "out"


def test_what_is_wrong_once_is_told_as_that(trees: Trees, judged: list[int]) -> None:
    with runner_for(contract("once_3"), trees) as runner:
        (fault, *_) = run_case(runner, case("same-buffer")).result.faults
    assert fault.kind is FaultKind.HIDDEN
    assert fault.message.startswith("right when all of the case was run again, but once")


def test_a_reference_that_fails_hides_no_wrong_call(
    trees: Trees, judged: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails for the new values of the plan, while the second call is judged."""
    expect, first = Runner.expect, case("same-buffer")

    def fails(self: Runner, of: Case, inputs: Inputs) -> dict[str, Expected]:
        if of.seed != first.seed:
            raise ReferenceFailed("it does not want to")
        return expect(self, of, inputs)

    monkeypatch.setattr(Runner, "expect", fails)
    with runner_for(contract("scale"), trees) as runner:
        assert run_case(runner, first).result.unusable == "it does not want to"
    with runner_for(contract("from_2"), trees) as runner:
        result = run_case(runner, first).result
    assert judged == [500, 500]
    assert result.faults
    assert not result.unusable


def test_a_mistake_of_the_gate_is_not_swallowed(
    trees: Trees, judged: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a mistake of ours")

    with runner_for(contract("scale"), trees) as runner:
        run_case(runner, case("same-buffer"))
        monkeypatch.setattr(Runner, "_late", broken)
        with pytest.raises(RuntimeError, match="a mistake of ours"):
            run_case(runner, case("same-buffer"))
        assert not runner.meanwhile.looks_at(500)
