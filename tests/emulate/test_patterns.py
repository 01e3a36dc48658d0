"""The audit's own patterns, run: what it proves is never refuted here, what it refutes is seen where it can be."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from validator.emulate.agreement import Agreement, Static, agree
from validator.emulate.audited import audited
from validator.emulate.launch import Prepared, prepare, with_other_numbers
from validator.emulate.machine import Limits
from validator.emulate.play import Report, play
from validator.emulate.run import compile_kernel
from validator.gpu.launch import Recipe
from validator.manifest.load import load_contract
from validator.manifest.matching import match_contract
from validator.ordering.ptx import read_ptx

ROOT = Path(__file__).parents[2] / "fixtures/ordering"
FOLDERS = sorted(path.parent for kind in ("patterns", "rules") for path in (ROOT / kind).glob("**/sm_90a.ptx"))
RECIPE = Recipe(size=1 << 18, window=1 << 14)
LIMITS = Limits(instructions=4_000_000, segments=60_000)

NOT_REACHED = {
    "bad-flag-set-without-wait": "what it publishes is another launch's: wrong only for a third one",
    "bad-phase-of-one-arrival": "that the first copy lands before the second is announced is not drawn",
    "bad-waits-where-the-caller-may-say-so": "the two numbers that the contract leaves open are tried as one",
    "bad-barrier-that-some-roles-pass": "runs show the races that come of it, not whose count is another",
    "bad-flag-relaxed-by-way-of-shared-memory": "nobody raises a flag that is looked at by way of shared memory",
    "bad-store-behind-its-publish": "nobody in the launch reads what it publishes",
    "bad-bulk-store-published-before-meeting": "nobody in the launch reads what it publishes",
    "bad-published-when-source-is-read": "nobody in the launch reads what it publishes",
    "bad-texture-fetch-hoisted": "textures are not executed",
    "bad-wait-depends-on-data": "the data that skips the wait is not drawn",
    "bad-waiter-may-not-exist": "the block has the thread that waits",
    "bad-ring-handed-back-before-wgmma-read": "wgmma is not executed",
    "bad-ring-multiplied-one-too-early": "wgmma is not executed",
    "bad-wgmma-without-proxy-fence": "wgmma is not executed",
    "barrier-in-divergent-code": "no thread is beyond the bound with the number of elements tried",
    "flag-scope-too-narrow": "the writer on another device is not run",
}
"""Refuted by the audit, and why no run shows it; what no longer needs to stand here fails the test."""


DEFECTS = {
    "bad-arrival-announces-nothing": "the audit names the early write behind the wait, not the copy that it misses",
    "bad-vacuous-parity": "the audit names the early write behind the vacuous wait, not the copy it misses",
}
"""What runs show and the audit does not have; what no longer needs to stand here fails the test."""


class Seen(NamedTuple):
    verdict: str
    """The audit's."""
    report: Report
    agreement: Agreement


def run(folder: Path) -> list[Seen | str]:
    """What was seen of each kernel, or why nothing ran."""
    said = tomllib.loads((folder / "expect.toml").read_text())["expect"]
    verdicts = {e["kernel"]: e["verdict"] for e in said if "sm_90a.ptx" in e["files"]}
    contracts, steps = load_contract((folder / "contract.toml").read_bytes(), "contract.toml")
    data = (folder / "sm_90a.ptx").read_bytes()
    found: list[Seen | str] = []
    for program in read_ptx(data, "sm_90a.ptx").programs:
        contract = match_contract(contracts, program.name)
        assert contract is not None
        prepared = prepare(program, contract, RECIPE)
        if not isinstance(prepared, Prepared):
            found.append(prepared.reason)
            continue
        audit = audited(data, "sm_90a.ptx", program.name, contracts, steps)
        first, *others = (
            replace(p, step=audit.step, counters=audit.counters)
            for p in (prepared, *with_other_numbers(program, contract, RECIPE))
        )
        report = play(compile_kernel(program, data), first, schedules=3, limits=LIMITS, others=others)
        found.append(Seen(verdicts[program.name], report, agree(Static.of(audit.all), report.hazards)))
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f"{f.parent.name}/{f.name}")
def test_runs_and_audit_agree(folder: Path) -> None:
    seen = run(folder)
    name = folder.name if folder.parent.name == "patterns" else folder.parent.name
    launched = [one for one in seen if isinstance(one, Seen)]
    for one in launched:
        if one.verdict == "proven":
            assert not one.report.refuted, [str(h) for h in one.report.hazards]
    if not launched:
        pytest.skip(str(seen[0]))
    missed = [m for one in launched for m in one.agreement.missed]
    assert bool(missed) == (name in DEFECTS), missed
    unshown = [fault for one in launched for fault in one.agreement.unshown]
    assert bool(unshown) == (name in NOT_REACHED and any(one.verdict == "refuted" for one in launched)), unshown
