"""The audit's own patterns, run: what it proves is never refuted here, what it refutes is seen where it can be."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from validator.emulate.launch import Prepared, prepare, with_other_numbers
from validator.emulate.machine import Limits
from validator.emulate.run import Report, compile_kernel, play
from validator.emulate.stepwise import settled_by_steps
from validator.gpu.launch import Recipe
from validator.manifest.contract import match_contract
from validator.manifest.load import load_contract
from validator.ordering.ptx import read_ptx

ROOT = Path(__file__).parents[2] / "fixtures/ordering"
FOLDERS = sorted(path.parent for kind in ("patterns", "rules") for path in (ROOT / kind).glob("**/sm_90a.ptx"))
RECIPE = Recipe(size=1 << 18, window=1 << 14)
LIMITS = Limits(instructions=4_000_000, segments=60_000)

MAILBOX = b'role = "mailbox"\nempty = 2147483648'
"""The word that means "nothing here yet" in all of these kernels; the audit does not need it."""

NOT_REACHED = {
    "bad-flag-set-without-wait": "what it publishes is another launch's: wrong only for a third one",
    "bad-pointers-indexed-inside-parameter": "the pointer that is read early is chosen by a number not tried",
    "bad-texture-fetch-hoisted": "textures are not executed",
    "bad-trigger-and-never-wait-mid-chain": "one of its launches is wrong for a successor only",
    "bad-wait-depends-on-data": "the data that skips the wait is not drawn",
    "bad-waiter-may-not-exist": "the block has the thread that waits",
    "bad-wgmma-without-proxy-fence": "wgmma is not executed",
    "unknown-instruction": "the instruction is not executed",
}
"""Refuted by the audit, and why no run shows it; what no longer needs to stand here fails the test."""


def run(folder: Path) -> list[tuple[str, Report | str]]:
    """(audit's verdict, what was seen or why nothing ran) of each kernel."""
    said = tomllib.loads((folder / "expect.toml").read_text())["expect"]
    verdicts = {e["kernel"]: e["verdict"] for e in said if "sm_90a.ptx" in e["files"]}
    said_of = (folder / "contract.toml").read_bytes().replace(b'role = "mailbox"', MAILBOX)
    contracts, steps = load_contract(said_of, "contract.toml")
    data = (folder / "sm_90a.ptx").read_bytes()
    found: list[tuple[str, Report | str]] = []
    for program in read_ptx(data, "sm_90a.ptx").programs:
        contract = match_contract(contracts, program.name)
        assert contract is not None
        prepared = prepare(program, contract, RECIPE)
        if not isinstance(prepared, Prepared):
            found.append((verdicts[program.name], prepared.reason))
            continue
        settled = settled_by_steps(data, "sm_90a.ptx", program, contracts, steps)
        first, *others = (
            replace(p, settled=settled) for p in (prepared, *with_other_numbers(program, contract, RECIPE))
        )
        report = play(compile_kernel(program, data), first, schedules=3, limits=LIMITS, others=others)
        found.append((verdicts[program.name], report))
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f"{f.parent.name}/{f.name}")
def test_runs_and_audit_agree(folder: Path) -> None:
    seen = run(folder)
    name = folder.name if folder.parent.name == "patterns" else folder.parent.name
    launched = [(verdict, report) for verdict, report in seen if isinstance(report, Report)]
    for verdict, report in launched:
        if verdict == "proven":
            assert not report.refuted, [str(h) for h in report.hazards]
    if not launched:
        pytest.skip(str(seen[0][1]))
    missed = [r.kernel for verdict, r in launched if verdict == "refuted" and not r.hazards]
    assert bool(missed) == (name in NOT_REACHED and any(v == "refuted" for v, _ in launched)), missed
