"""What no assembler takes, and registers that nobody wrote: named with their line, never a pass."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate.support import source
from validator.emulate.hazard import HazardKind
from validator.emulate.launch import Prepared, prepare
from validator.emulate.play import Report, play
from validator.emulate.run import compile_kernel
from validator.manifest.load import load_contract
from validator.ordering.ptx import read_ptx

CONTRACT = b"""
schema = "validator/manifest/1"
[[kernels]]
match = "*"
launch = { grid = [1], block = [32] }
args = [{ name = "out", role = "output", dtype = "uint32", shape = [32] }]
"""
LINE = 8
"""Of the first statement of a body."""


def played(body: str) -> Report:
    data = source(f"{body}\nld.param.u64 %rd1, [p0];\nst.global.u32 [%rd1], %r1;", ["u64"])
    (program,) = read_ptx(data, "test.ptx").programs
    (contract,), _ = load_contract(CONTRACT, "contract.toml")
    prepared = prepare(program, contract)
    assert isinstance(prepared, Prepared)
    return play(compile_kernel(program, data), prepared, schedules=3)


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("mov.u32 %r1, %nosuch;", "%nosuch"),
        ("add.u32 %r1, %r2, %r64;", "%r64"),
        ("mov.u32 %zz, 1;", "%zz"),
        ("@%pp mov.u32 %r1, 1;", "%pp"),
        ("ld.const.u32 %r1, [table];", "table"),
        ("add.u32 %rd2, %r1, 1;\nmov.b64 {%r1, _}, %rd2;", "64 bits where the type has 32"),
        ("bar.sync 17;", "barrier 17"),
        ("mov.u32 %r2, 16; bar.sync %r2;", "barrier 16"),
        ("bar.sync 0, 33;", "33 threads"),
    ],
)
def test_what_no_assembler_takes_is_named_with_its_line(statement: str, named: str) -> None:
    report = played(statement)
    assert not report.refuted
    assert any(named in reason and f"line {LINE}" in reason for reason in report.unsettled)


def test_a_register_that_nobody_wrote_is_named_where_a_result_hangs_on_it() -> None:
    report = played("add.u32 %r1, %r7, 1;")
    (hazard,) = report.hazards
    assert (hazard.kind, hazard.unsettled) == (HazardKind.UNINITIALISED, True)
    assert "no instruction writes %r7" in hazard.detail
    assert "'out' at byte 0" in hazard.detail


@pytest.mark.parametrize(
    "body",
    [
        "and.b32 %r1, %r7, 0;",
        "mov.u32 %r1, %tid.w;",
        "setp.eq.u32 %p1, %r8, 9;\nmov.u32 %r2, 15;\nbar.sync %r2, 32;\nmov.u32 %r1, 5;",
        "{\n.reg .b32 inner;\nmov.u32 inner, 5;\nmov.u32 %r1, inner;\n}",
    ],
)
def test_an_unwritten_register_that_decides_nothing_is_no_fault(body: str) -> None:
    report = played(body)
    assert (report.hazards, report.unsettled) == ([], [])
    assert (report.friendly.results["out"].view(np.uint32)[0]) in (0, 5)
