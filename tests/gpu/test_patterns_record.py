"""The stored run of every rule's and pattern's kernel behind the neighbour, held against what stands beside them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fixtures.gpu.labelled import ARCH
from fixtures.gpu.patterns import FIXTURES, names
from validator.binary.tools import INSTALL_HINT
from validator.gpu.neighbour import DELAYS_US, LAUNCHES
from validator.manifest.load import load_contract
from validator.ordering.artifacts import audit_artifacts

RECORD: dict[str, Any] = json.loads((Path(__file__).parents[2] / "fixtures/gpu/patterns.json").read_text())
CASES: dict[str, dict[str, Any]] = RECORD["cases"]
SHOWN = {name: case for name, case in CASES.items() if case.get("shown")}

UNSTEADY = {"rules/noncoherent-load-of-written-memory/good:rotate_row", "patterns/wait-when-phase-is-zero:stage"}
"""Right kernels that do not repeat themselves under the harness's sizes: nothing is said of them."""


def is_bad(name: str) -> bool:
    folder = name.partition(":")[0]
    return folder.endswith("/bad") or folder.startswith("patterns/bad-")


def test_what_was_recorded_is_there_as_it_was():
    """Cases that came later are not in the record."""
    assert set(CASES) <= {f"{folder}:{kernel}" for folder, kernel in names()}
    assert len(CASES) == 137
    assert (RECORD["launches"], tuple(RECORD["delays_us"])) == (LAUNCHES, DELAYS_US)


@pytest.mark.parametrize("name", [name for name in CASES if not is_bad(name)])
def test_a_right_kernel_is_launched_and_never_shown(name: str):
    case = CASES[name]
    assert "late_producer" in case, case
    assert not case["shown"]
    assert (case["ordinary"] == 0) is (name not in UNSTEADY)


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("rules/mailbox-used-before-check/bad:sum_inbox", "inbox"),
        ("patterns/bad-mailbox-half-checked:half_checked", "inbox"),
        ("patterns/bad-mailbox-vector-word-unchecked:three_of_four", "inbox"),
        ("patterns/bad-mailbox-retries-run-out:gives_up", "inbox"),
        ("patterns/bad-tensor-map-loaded-early:tma_early", "map"),
        ("patterns/bad-consumer-reads-early:early_consumer", "gate"),
        ("patterns/bad-wait-in-one-role:epilogue_bias", "bias"),
        ("patterns/bad-older-activation-still-open:add_residual", "residual"),
        ("patterns/bad-ticket-atomic:ticketed", "ticket"),
    ],
)
def test_mailboxes_descriptors_roles_and_steps_are_shown_by_name(name: str, argument: str):
    assert SHOWN[name]["arguments"] == [argument]


def test_what_a_mailbox_shows_depends_on_the_order_of_its_words():
    torn = SHOWN["patterns/bad-mailbox-vector-word-unchecked:three_of_four"]
    assert not any(torn["late_producer"])
    assert 0 < torn["publisher"][-1] < LAUNCHES


def expected(name: str) -> set[str]:
    """Arguments that the audit must find touched before they are valid, as far as the case's own file says it."""
    folder, _, kernel = name.partition(":")
    rows = tomllib.loads((FIXTURES / folder / "expect.toml").read_text())["expect"]
    early = [row for said in rows if said["kernel"] == kernel for row in said.get("early", ())]
    return {row["name"].rpartition(".")[2] for row in early if "name" in row and not row.get("allowed")}


def audited(name: str) -> set[str]:
    """The same, asked of the audit itself."""
    folder, _, kernel = name.partition(":")
    contracts, steps = load_contract((FIXTURES / folder / "contract.toml").read_bytes(), folder)
    audit = audit_artifacts([("k.cubin", (FIXTURES / folder / f"{ARCH}.cubin").read_bytes())], contracts, steps)
    if any(s.fix == INSTALL_HINT for s in audit.skipped):
        pytest.skip(f"no disassembler: {INSTALL_HINT}")
    rows = [row for one in audit.kernels if one.name == kernel for row in one.early if not row.allowed]
    return {ref.name.rpartition(".")[2] for row in rows for ref in row.params}


@pytest.mark.usefixtures("disassembled")
@pytest.mark.sass
def test_nothing_was_shown_that_the_audit_does_not_find():
    """Shown and not found is a defect of the audit. What the files say is held against the audit elsewhere."""
    assert SHOWN
    assert all(map(is_bad, SHOWN))
    open_ = {name: set(case["arguments"]) for name, case in SHOWN.items() if set(case["arguments"]) - expected(name)}
    # A mailbox may be read early: what the audit finds there is a word that is used before its check.
    open_ = {name: seen for name, seen in open_.items() if "mailbox" not in name}
    missed = {name: seen for name, seen in open_.items() if not seen <= audited(name)}
    assert not missed
