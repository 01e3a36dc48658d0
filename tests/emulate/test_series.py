"""A series of plans: every late buffer alone in turn, a failure put down to the one that is enough, over processes."""

from __future__ import annotations

import pytest

from tests.emulate.support import source
from validator.emulate import play as series
from validator.emulate.adversary import Plan, draw_plan
from validator.emulate.explain import explain
from validator.emulate.lateness import NEVER, StepSays, lateness_of
from validator.emulate.launch import Prepared, prepare
from validator.emulate.play import Report, play
from validator.emulate.run import compile_kernel
from validator.manifest.contract import Argument, KernelContract, Launch, Role
from validator.ordering.ptx import read_ptx

TWO = """
mov.u32 %r1, %tid.x; mul.wide.u32 %rd5, %r1, 4;
ld.param.u64 %rd1, [p0]; add.s64 %rd1, %rd1, %rd5;
ld.param.u64 %rd2, [p1]; add.s64 %rd2, %rd2, %rd5;
ld.param.u64 %rd3, [p2]; add.s64 %rd3, %rd3, %rd5;
ld.global.u32 %r2, [%rd2];
ld.global.u32 %r3, [%rd3];
griddepcontrol.wait;
and.b32 %r3, %r3, 0;
add.u32 %r2, %r2, %r3;
st.global.u32 [%rd1], %r2;
"""
"""Reads two activations early; the second does not reach the result."""


def played(jobs: int = 1, schedules: int = 6) -> tuple[Report, list[str]]:
    data = source(TWO, ["u64", "u64", "u64"])
    (program,) = read_ptx(data, "two.ptx").programs
    roles = {"out": Role.OUTPUT, "x": Role.ACTIVATION, "y": Role.ACTIVATION}
    args = tuple(Argument(name=n, role=r, dtype=("int32",), shape=(32,)) for n, r in roles.items())
    contract = KernelContract(match="k", launch=Launch(pdl=True, grid=(1,), block=(32,)), args=args)
    prepared = prepare(program, contract)
    assert isinstance(prepared, Prepared), prepared
    code = compile_kernel(program, data)
    report = play(code, prepared, schedules=schedules, jobs=jobs)
    return report, [step.text for step in explain(report, code.decoded, prepared.kinds)]


def test_every_late_buffer_is_delayed_alone_in_turn() -> None:
    alone = [draw_plan(5, number, True, ("a", "b", "c")).only for number in range(12)]
    assert alone[:3] == [None] * 3
    assert set(alone[3::2]) == {"a", "b", "c"}
    assert set(alone[4::2]) == {None}


def test_a_failure_is_put_down_to_the_buffer_that_is_enough_for_it() -> None:
    report, story = played()
    assert {h.memory for h in report.hazards} == {"x", "y"}
    assert report.failing is not None
    assert report.failing.plan.only == "x", "the late buffer that changes the result"
    assert list(report.alone) == ["x"]
    assert report.alone["x"] > 0
    assert story[0].startswith("x holds the previous step's values")
    assert any("'out' comes out wrong" in step and "instead of" in step for step in story)


def test_the_number_of_processes_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "_WORTH", 0)
    (one, story), (two, other) = played(1), played(2)
    assert [str(h) for h in one.hazards] == [str(h) for h in two.hazards]
    assert (one.differences, one.alone, story) == (two.differences, two.alone, other)


@pytest.mark.parametrize(
    ("step", "waits"),
    [
        (StepSays(), {"x": 1, "w": 0}),
        (StepSays(settled=frozenset("x")), {"x": 0, "w": 0}),
        (StepSays(exposed=frozenset("w")), {"x": 1, "w": 1}),
        (StepSays(uncovered=frozenset("x")), {"x": NEVER, "w": 0}),
    ],
)
def test_a_step_settles_exposes_or_leaves_a_buffer_uncovered(step: StepSays, waits: dict[str, int]) -> None:
    said = [("x", Role.ACTIVATION, None), ("w", Role.WEIGHT, None)]
    assert lateness_of(said, True, step).events == waits


def test_the_plan_that_delays_one_buffer_is_the_same_otherwise() -> None:
    plan = Plan(seed=4, classes=2)
    assert plan.alone("x") == Plan(seed=4, classes=2, only="x")
