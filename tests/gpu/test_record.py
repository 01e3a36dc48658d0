"""The stored record of a run on a GPU agrees with the labels and with the static audit, kernel by kernel."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fixtures.gpu.labelled import ARCH, CORPUS, forbidden, row
from fixtures.ordering.labels import contract_of
from validator.binary.tools import INSTALL_HINT
from validator.gpu.neighbour import DELAYS_US, LAUNCHES
from validator.ordering.artifacts import audit_artifacts

RECORD: dict[str, Any] = json.loads((Path(__file__).parents[2] / "fixtures/gpu/labelled.json").read_text())
CASES: dict[str, dict[str, Any]] = RECORD["cases"]
NAMES = sorted(CASES)


def label(name: str) -> dict[str, Any]:
    return tomllib.loads((CORPUS / name / "case.toml").read_text())


EARLY = [f.name for f in sorted(CORPUS.glob("*_bad")) if forbidden(label(f.name))]
"""Bad twins with an early access that no role allows."""


def test_the_record_says_where_it_comes_from_and_leaves_no_pair_out():
    assert {*EARLY, *(label(name)["twin"] for name in EARLY)} <= set(NAMES)
    assert RECORD["device"].startswith("NVIDIA")
    assert RECORD["driver"]
    assert RECORD["date"]
    assert (RECORD["launches"], tuple(RECORD["delays_us"])) == (LAUNCHES, DELAYS_US)
    assert LAUNCHES >= 200
    assert len(DELAYS_US) >= 5


def test_every_kind_of_early_access_was_tried():
    kinds = {kind for name in EARLY for kind in label(name)["expect"]["sass"][ARCH]["kinds"]}
    assert kinds >= {"A1", "A2", "B", "C1", "C2", "D1", "D2", "D3", "D4", "D5", "D6", "E", "F", "L", "M", "U"}


@pytest.mark.parametrize("name", EARLY)
def test_an_early_access_fails_behind_the_neighbour_by_the_name_of_its_argument(name: str):
    seen = CASES[name]
    assert "late_producer" in seen, row(name, seen)
    assert seen["ordinary"] == 0
    assert seen["shown"]
    assert set(seen["arguments"]) == forbidden(label(name))
    assert seen["late_producer"][-1] == LAUNCHES


@pytest.mark.parametrize("name", [name for name in NAMES if not forbidden(label(name))])
def test_a_kernel_without_an_early_access_never_fails(name: str):
    """Fixed twins, and bad twins whose fault lies elsewhere: those may give different results from launch to launch."""
    seen = CASES[name]
    assert "late_producer" in seen, row(name, seen)
    assert not seen["shown"]
    if name.endswith("_ok"):
        assert seen["ordinary"] == 0
        assert not any((*seen["late_producer"], *seen["by_argument"].values(), *seen["late_reader"]))


@pytest.mark.parametrize("name", NAMES)
def test_what_can_reach_no_result_is_written_only(name: str):
    """An argument without influence could hide an early read of it."""
    args = label(name)["contract"]["arg"]
    roles = {part["name"]: part["role"] for arg in args for part in arg.get("fields", [arg])}
    assert {roles[argument] for argument in CASES[name]["blind"]} <= {"workspace"}


@pytest.mark.usefixtures("disassembled")
@pytest.mark.slow
@pytest.mark.sass
def test_what_was_seen_is_what_the_audit_says():
    """Seen and not found is a defect of the audit; found and not seen is a defect of the harness."""
    differ: dict[str, tuple[set[str], set[str]]] = {}
    for name in NAMES:
        file = CORPUS / name / f"{ARCH}.cubin"
        audit = audit_artifacts([(file.name, file.read_bytes())], (contract_of(label(name)),))
        if any(s.fix == INSTALL_HINT for s in audit.skipped):
            pytest.skip(f"no disassembler: {INSTALL_HINT}")
        (kernel,) = audit.kernels
        rows = (row for row in kernel.early if not row.allowed)
        found = {ref.name.rpartition(".")[2] for row in rows for ref in row.params}
        seen = set(CASES[name]["arguments"])
        if found != seen:
            differ[name] = (found, seen)
    assert not differ, "kernel: (found by the audit, seen on the GPU)"
