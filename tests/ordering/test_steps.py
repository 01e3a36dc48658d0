"""Which launches may still run, and what follows."""

from __future__ import annotations

import pytest

from validator.manifest.contract import Argument, KernelContract, Launch, Role, Step, StepLaunch
from validator.ordering.assembly import assemble
from validator.ordering.audit import audit_program
from validator.ordering.steps import apply_steps
from validator.verdict.model import Status


@pytest.fixture
def chain(assembler):
    """`chain(middle, role)`: writer → middle → reader of the writer's buffer before its wait."""

    def copy(name, early, trigger="", wait=True):
        a = assembler("src", "dst")
        src, dst = a.param("src"), a.param("dst")
        value = a.load(src) if early else None
        if trigger == "first":
            a.trigger()
        if wait:
            a.wait()
        if trigger == "last":
            a.trigger()
        a.store(dst, a.load(src) if value is None else value)
        return a.build(name)

    def run(middle, role="activation", pdl=(True, True, True), third="h", reader_early=True):
        programs = [copy("writer", False, "last"), copy("middle", False, **middle), copy("reader", reader_early)]
        kernels, contracts = [], []
        for program, launched in zip(programs, pdl, strict=True):
            own = role if program.name == "reader" else "activation"
            why = "the host wrote it" if own == "stable" else None
            arguments = (
                Argument(name="src", role=Role(own) if own else None, justification=why),
                Argument(name="dst", role=Role.OUTPUT),
            )
            contract = KernelContract(match=program.name, launch=Launch(pdl=launched), args=arguments)
            contracts.append(contract)
            kernels.append(audit_program(program, contract, artifact=f"{program.name}.ptx"))
        buffers = [{"src": "x", "dst": "h"}, {"src": "h", "dst": "y"}, {"src": third, "dst": "z"}]
        launches = tuple(StepLaunch(kernel=p.name, args=b) for p, b in zip(programs, buffers, strict=True))
        judged, found = apply_steps(kernels, tuple(contracts), (Step(name="layer", launches=launches),))
        return {k.name: k for k in assemble(judged, (), found).kernels}

    return run


WAITS_FIRST = {"trigger": "last"}
TRIGGERS_FIRST = {"trigger": "first"}
NEVER_WAITS = {"wait": False, "trigger": ""}


def rules(kernel):
    return sorted({f.rule for f in kernel.findings})


def test_an_older_activation_is_safe_behind_a_launch_that_waits_before_it_triggers(chain):
    reader = chain(WAITS_FIRST)["reader"]
    assert reader.status is Status.PROVEN
    assert reader.early[0].allowed
    assert "launch 2 (middle)" in reader.early[0].reason


def test_early_triggers_chain(chain):
    reader = chain(TRIGGERS_FIRST)["reader"]
    assert reader.status is Status.REFUTED
    assert rules(reader) == ["order/early-read"]
    text = "\n".join(reader.findings[0].steps)
    assert "middle) triggers before its own wait" in text
    assert "writer) writes 'h'" in text


def test_what_the_launch_before_writes_is_open(chain):
    assert chain(WAITS_FIRST, third="y")["reader"].status is Status.REFUTED


def test_an_ordinary_launch_closes_everything_before_it(chain):
    assert chain(NEVER_WAITS, pdl=(True, False, True))["reader"].status is Status.PROVEN
    assert chain(TRIGGERS_FIRST, pdl=(True, True, False))["reader"].status is Status.PROVEN


def test_stable_needs_no_faith_where_the_step_shows_it(chain):
    reader = chain(WAITS_FIRST, role="stable")["reader"]
    assert reader.status is Status.PROVEN
    assert reader.early[0].reason.startswith("step 'layer'")


def test_a_role_that_was_too_generous(chain):
    for role in ("stable", "weight"):
        reader = chain(TRIGGERS_FIRST, role=role)["reader"]
        assert reader.status is Status.REFUTED
        assert rules(reader) == ["order/role-too-generous"]


def test_an_undeclared_argument_is_settled_by_the_step(chain):
    assert chain(WAITS_FIRST, role=None)["reader"].status is Status.PROVEN
    assert chain(TRIGGERS_FIRST, role=None)["reader"].status is Status.REFUTED


def test_a_launch_that_never_waits_leaves_open_what_its_successor_reads_behind_its_wait(chain):
    reader = chain(NEVER_WAITS, reader_early=False)["reader"]
    assert reader.status is Status.REFUTED
    assert "behind the wait" in reader.findings[0].message
    assert chain(WAITS_FIRST, reader_early=False)["reader"].status is Status.PROVEN


def test_a_launch_nobody_audited_is_taken_for_the_worst(chain, assembler):
    a = assembler("src", "dst")
    src, dst = a.param("src"), a.param("dst")
    value = a.load(src)
    a.wait()
    a.store(dst, value)
    arguments = (Argument(name="src", role=Role.ACTIVATION), Argument(name="dst", role=Role.OUTPUT))
    contract = KernelContract(match="kernel", launch=Launch(pdl=True), args=arguments)
    audit = audit_program(a.build(), contract, artifact="k.ptx")
    launches = (
        StepLaunch(kernel="lost*", args={"out": "h"}),
        StepLaunch(kernel="kernel", args={"src": "h", "dst": "y"}),
    )
    judged, found = apply_steps([audit], (contract,), (Step(name="s", launches=launches),))
    assert judged[0].status is Status.REFUTED
    assert "matches no audited kernel" in found[0].message
