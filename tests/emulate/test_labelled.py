"""Every labelled pair under drawn schedules: the bad twin shows what its label names, the fixed twin never anything.

`VALIDATOR_SCHEDULES=200` runs as many schedules for each fixed twin.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fixtures.ordering.labels import contract_of
from validator.emulate.agreement import Static, agree
from validator.emulate.audited import Audited, audited
from validator.emulate.hazard import HazardKind
from validator.emulate.hoisted import hoisted_loads
from validator.emulate.launch import Prepared, prepare
from validator.emulate.play import Report, play
from validator.emulate.run import compile_kernel, find_kernel
from validator.gpu.launch import Recipe
from validator.ordering.ptx import read_ptx

CORPUS = Path(__file__).parents[2] / "fixtures/ordering/labelled"
NAMES = sorted(toml.parent.name for toml in CORPUS.glob("*/case.toml"))
SCHEDULES = int(os.environ.get("VALIDATOR_SCHEDULES", "12"))
RECIPE = Recipe(size=1 << 18, window=1 << 14)

EARLY = {
    HazardKind.EARLY_READ, HazardKind.EARLY_WRITE, HazardKind.EARLY_ATOMIC, HazardKind.EARLY_COPY,
    HazardKind.MOVABLE_READ,
}  # fmt: skip
SHOWN = {
    "H": {HazardKind.NOT_ACQUIRED},
    "D6": {HazardKind.NOT_ACQUIRED},
    "D7": {HazardKind.NONCOHERENT},
    "I": {HazardKind.COPY_NOT_WAITED},
    "J": {HazardKind.PROXY},
    "K": {HazardKind.NONCOHERENT},
    "G": set[HazardKind](),
    "P": set[HazardKind](),
    "U": {HazardKind.UNDECLARED},
}
"""Kinds of label that are no early access → what shows them; G (an exit that no block of this launch takes) is the
static audit's, P is no fault."""


def run(name: str, arch: str, schedules: int) -> tuple[dict[str, Any], Report]:
    folder = CORPUS / name
    case = tomllib.loads((folder / "case.toml").read_text())
    data = (folder / f"{arch}.ptx").read_bytes()
    program = find_kernel(read_ptx(data, f"{name}/{arch}.ptx"), case["kernel"])
    prepared = prepare(program, contract_of(case), RECIPE)
    assert isinstance(prepared, Prepared), prepared
    report = play(compile_kernel(program, data), prepared, seed=7, schedules=schedules)
    return case, report


def audit_of(name: str, arch: str, case: dict[str, Any]) -> Audited:
    data = (CORPUS / name / f"{arch}.ptx").read_bytes()
    return audited(data, f"{arch}.ptx", case["kernel"], (contract_of(case),))


def shown_by(kind: str) -> set[HazardKind]:
    return SHOWN.get(kind, SHOWN.get(kind[0], EARLY))


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith("_bad")])
def test_bad_twins_show_what_their_label_names(name: str, arch: str) -> None:
    case, report = run(name, arch, 2)
    assert not report.friendly.unexecutable
    agreement = agree(Static.of(audit_of(name, arch, case).all), report.hazards)
    assert not agreement.missed
    assert not agreement.unshown or case["kind"].startswith("G")
    wanted = shown_by(case["kind"])
    found = {h.kind for h in report.hazards}
    if not wanted:
        assert not found
        return
    assert found & wanted, f"{name}: {found}"
    early = case["expect"]["ptx"][arch]["early"]
    forbidden = {row["name"].rpartition(".")[2] for row in early if not row["allowed"]}
    if wanted is EARLY and forbidden:
        assert {h.memory for h in report.hazards if h.kind in EARLY} == forbidden
    if HazardKind.UNDECLARED not in wanted:
        assert report.refuted
        assert report.failing is not None
        assert report.differences, "a wrong number beside the name"


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith("_ok")])
def test_fixed_twins_show_nothing_under_any_schedule(name: str, arch: str) -> None:
    _, report = run(name, arch, SCHEDULES)
    assert not report.friendly.unexecutable
    assert list(report.hazards) == []
    assert report.failing is None


def test_the_same_seed_makes_the_same_run() -> None:
    first, second = (run("h15_bad", "sm_90a", 4)[1] for _ in range(2))
    assert [str(h) for h in first.hazards] == [str(h) for h in second.hazards]
    assert first.differences == second.differences


@pytest.mark.sass
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.slow
@pytest.mark.parametrize("pair", ["h06", "h07", "hc1"])
def test_loads_that_ptxas_moved_are_executed_where_the_machine_code_executes_them(pair: str, arch: str) -> None:
    """With the cubin beside it the PTX gives the verdict of the machine code, which differs between architectures."""
    for twin in ("bad", "ok"):
        folder = CORPUS / f"{pair}_{twin}"
        case = tomllib.loads((folder / "case.toml").read_text())
        data = (folder / f"{arch}.ptx").read_bytes()
        contract = contract_of(case)
        program = find_kernel(read_ptx(data, f"{arch}.ptx"), case["kernel"])
        audit = audited(data, f"{arch}.ptx", program.name, (contract,), cubin=folder / f"{arch}.cubin")
        moved = hoisted_loads(audit, program)
        prepared = prepare(program, contract, RECIPE)
        assert moved is not None
        assert isinstance(prepared, Prepared)
        report = play(compile_kernel(program, data, moved), prepared, schedules=3, moves_noncoherent=False)
        refuted = case["expect"]["sass"][arch]["verdict"] == "refuted"
        assert report.refuted == refuted
        assert bool(report.differences) == refuted
