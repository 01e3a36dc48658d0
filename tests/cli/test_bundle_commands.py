"""What is done with a bundle, through the real command line: from its report to its history."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.conftest import Cli
from tests.report.conftest import BASE
from tests.verdict.test_attest import keys
from validator.report.bundle import save_bundle
from validator.report.history import Run, render_history
from validator.verdict.compute import compute, verdict_reason
from validator.verdict.model import Status
from validator.verdict.result import CheckResult

NOW = datetime.now(UTC)
DAY = (NOW + timedelta(days=30)).date().isoformat()
WAIVER = ("--owner", "@ann", "--reason", "until the next release", "--link", "https://tracker.example/7")


def sound(**edits: object) -> CheckResult:
    """A result of today in which everything hangs together: one obligation proven, one unproven."""
    obligations = (
        replace(BASE.obligations[0], evidence=("change",)),
        replace(BASE.obligations[2], evidence=(), findings=()),
    )
    made = {
        "obligations": obligations,
        "evidence": BASE.evidence[:1],
        "findings": BASE.findings[2:],
        "waivers": (),
        "environment": replace(BASE.environment, started=NOW.isoformat(timespec="seconds")),
        **edits,
    }
    result = replace(BASE, **made)  # type: ignore[arg-type]
    return replace(result, verdict=compute(result.obligations), reason=verdict_reason(result.obligations))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    save_bundle(sound(), tmp_path / "bundle")
    return tmp_path / "bundle"


def test_report_renders_every_format_and_writes_files(cli: Cli, bundle: Path, tmp_path: Path) -> None:
    kinds = ("html", "markdown", "json", "sarif", "junit", "text")
    outputs = [word for kind in kinds for word in ("--output", f"{kind}={tmp_path / kind}")]
    done = cli("report", str(bundle), "--format", "html", *outputs)
    assert (done.code, done.err) == (0, "")
    assert done.out == (tmp_path / "html").read_text("utf-8")
    assert done.out.startswith("<!DOCTYPE html>")
    assert json.loads((tmp_path / "json").read_text())["schema"] == "validator/check/1"
    assert json.loads((tmp_path / "sarif").read_text())["version"] == "2.1.0"
    assert ET.parse(tmp_path / "junit").getroot().tag == "testsuites"
    assert (tmp_path / "markdown").read_text("utf-8").startswith("<!-- validator:check -->")
    assert (tmp_path / "text").read_text("utf-8").startswith("UNPROVEN: ")
    assert (bundle / "summary.html").read_text("utf-8") == done.out


def test_markdown_keeps_the_limit_that_is_asked_for(cli: Cli, bundle: Path) -> None:
    done = cli("report", str(bundle), "--format", "markdown", "--markdown-limit", "2000")
    assert done.code == 0
    assert len(done.out) <= 2000
    assert "limited to 2,000 characters" in done.out


def test_report_says_what_changed_since_an_earlier_run(cli: Cli, bundle: Path, tmp_path: Path) -> None:
    first = sound()
    save_bundle(replace(first, policy_digest="sha256:" + "0" * 64), tmp_path / "earlier")
    done = cli("report", str(bundle), "--against", str(tmp_path / "earlier"))
    assert "another policy judged: sha256:000000000000 then, sha256:cccccccccccc now" in done.out


def test_report_says_that_a_bundle_was_touched(cli: Cli, bundle: Path) -> None:
    result = bundle / "result.json"
    result.write_text(result.read_text().replace('"status": "unproven"', '"status": "proven"'))
    done = cli("report", str(bundle))
    assert done.code == 0
    assert "touched: result.json" in done.err
    assert "validator verify" in done.err


def test_report_refuses_what_is_no_bundle(cli: Cli, tmp_path: Path) -> None:
    done = cli("report", str(tmp_path))
    assert (done.code, done.out) == (2, "")
    assert "is no bundle" in done.err


def test_a_bundle_is_signed_verified_and_bound_to_its_commit(cli: Cli, bundle: Path, tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="signatures need the [sign] extra")
    private, public = keys(tmp_path)
    unsigned = cli("verify", str(bundle), "--key", str(public))
    assert (unsigned.code, unsigned.out) == (1, "touched: statement.dsse.json: is missing: nobody signed this bundle\n")
    assert cli("sign", str(bundle), "--key", str(private)).code == 0
    head = BASE.change.head
    verified = cli("verify", str(bundle), "--key", str(public), "--commit", head)
    assert verified.code == 0
    assert verified.out.startswith("untouched: ")
    assert "there, not checked" in cli("verify", str(bundle)).out
    other = cli("verify", str(bundle), "--commit", "f" * 40)
    assert (other.code, other.out) == (1, f"touched: result.json: is about {head}, not about {'f' * 40}\n")
    assert cli("verify", str(bundle), "--commit", "HEAD").code == 2
    assert cli("verify", str(bundle), "--key", str(tmp_path / "gone")).code == 2


def spoil_a_file(bundle: Path) -> None:
    path = bundle / "result.json"
    path.write_text(path.read_text().replace('"unproven"', '"pass"', 1))


def spoil_the_statement(bundle: Path) -> None:
    path = bundle / "statement.json"
    path.write_text(path.read_text().replace("FAILED", "PASSED"))


def add_a_file(bundle: Path) -> None:
    (bundle / "reviews").mkdir()
    (bundle / "reviews" / "note.txt").write_text("looks fine")


@pytest.mark.parametrize("spoil", [spoil_a_file, spoil_the_statement, add_a_file])
@pytest.mark.parametrize("command", ["verify", "approve"])
def test_a_touched_bundle_is_neither_verified_nor_approved(
    cli: Cli, bundle: Path, spoil: Callable[[Path], None], command: str
) -> None:
    spoil(bundle)
    more = ("--reviewer", "ann", "--reason", "fine") if command == "approve" else ()
    done = cli(command, str(bundle), *more)
    assert done.code == 1
    assert done.out.startswith("touched: ")
    assert not (bundle / "reviews/0001.json").exists()


def test_an_approval_names_the_risk_it_accepts(cli: Cli, bundle: Path) -> None:
    name = BASE.obligations[2].id
    refused = cli("approve", str(bundle), "--reviewer", "ann", "--reason", "fine")
    assert refused.code == 2
    assert f"--accept '{name}=YYYY-MM-DD'" in refused.err
    assert cli("approve", str(bundle), "--reviewer", "a", "--reason", "b", "--accept", f"{name}=soon").code == 2
    done = cli("approve", str(bundle), "--reviewer", "ann", "--reason", "model follows", "--accept", f"{name}={DAY}")
    assert (done.code, done.err) == (0, "")
    assert "not signed" in done.out
    said = cli("verify", str(bundle)).out
    assert "approve by ann" in said
    assert f"{name}: accepted until {DAY}" in said


def test_a_rejection_needs_no_conditions(cli: Cli, bundle: Path) -> None:
    assert cli("reject", str(bundle), "--reviewer", "ben", "--reason", "not yet \x1b[2J").code == 0
    said = cli("verify", str(bundle)).out
    assert "reject by ben" in said
    assert "\x1b" not in said


def test_history_tells_what_was_proven_and_what_is_stale(cli: Cli, bundle: Path, tmp_path: Path) -> None:
    old = (NOW - timedelta(days=40)).isoformat(timespec="seconds")
    before = sound(environment=replace(BASE.environment, started=old, tools={"nvdisasm": "13.0"}))
    proven = tuple(replace(o, status=Status.PROVEN, evidence=("change",)) for o in before.obligations)
    save_bundle(
        replace(before, obligations=proven, verdict=compute(proven), reason=verdict_reason(proven)), tmp_path / "old"
    )
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/bundle.json").write_text("{")
    done = cli("history", str(tmp_path))
    assert done.code == 0
    assert "not read" in done.err
    lines = done.out.splitlines()
    assert lines[0] == "kda-decode: 2 runs"
    assert next(line for line in lines if line.startswith("    gate")).endswith("b" * 12)
    stale = next(line for line in lines if line.startswith(f"    {BASE.obligations[2].id}"))
    assert "STALE: the policy lets it count until" in stale
    assert "nvdisasm 13.0" in done.out
    assert "; 40 days old, counts until" in done.out
    changed = [line.strip() for line in lines if "since the run before" in line]
    assert changed[0].startswith("since the run before: the verdict was pass")
    assert "since the run before: nvdisasm: 13.0 then, absent now" in changed
    assert cli("history", str(tmp_path), "--manifest", "other").code == 2
    assert cli("history", str(tmp_path / "bundle/objects")).code == 2
    aged = cli("verify", str(tmp_path / "old"))
    assert aged.code == 0
    assert "stale: the policy lets evidence count until" in aged.out


def test_a_newer_toolchain_makes_proofs_stale(cli: Cli, bundle: Path, tmp_path: Path) -> None:
    later = (NOW + timedelta(seconds=5)).isoformat(timespec="seconds")
    newer = sound(
        obligations=sound().obligations[1:],
        environment=replace(BASE.environment, started=later, tools={"nvdisasm": "14.0"}),
    )
    save_bundle(newer, tmp_path / "newer")
    said = cli("history", str(tmp_path)).out
    assert "STALE: newer runs use other tools (git: 2.39 then, absent now, nvdisasm: absent then, 14.0 now)" in said


def test_other_tools_on_this_machine_make_proofs_stale() -> None:
    made = replace(BASE.environment, started=NOW.isoformat(timespec="seconds"), tools={"nvdisasm": "13.0"})
    run = Run(Path("b"), sound(environment=made), ())
    today = NOW.date()
    assert "STALE" not in render_history([run], today)
    assert "STALE" not in render_history([run], today, {"nvdisasm": "13.0", "cuobjdump": "1"})
    said = render_history([run], today, {"nvdisasm": "14.0"})
    assert "STALE: this machine has other tools (nvdisasm: 13.0 then, 14.0 now)" in said
    assert "0 days old" in said


def test_a_waiver_is_a_file_that_the_policy_reads(cli: Cli, tmp_path: Path) -> None:
    done = cli("waive", "order/early-read:0123456789ab", *WAIVER, "--expires", DAY, cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    (path,) = (tmp_path / "policies/waivers").iterdir()
    (waiver,) = tomllib.loads(path.read_text())["waivers"]
    assert waiver["finding"] == "order/early-read:0123456789ab"
    assert waiver["expires"].isoformat() == DAY
    again = cli("waive", "order/early-read:0123456789ab", *WAIVER, "--expires", DAY, cwd=tmp_path)
    assert (again.code, "is there already" in again.err) == (2, True)


@pytest.mark.parametrize(
    ("finding", "expires", "words"),
    [
        ("gate/policy-edited:0123456789ab", DAY, "cannot be waived"),
        ("order/early-read", DAY, "finding"),
        ("order/early-read:0123456789ab", "2020-01-01", "is not after"),
        ("order/early-read:0123456789ab", "soon", "is no day"),
        ("order/early-read:0123456789ab", '2030-01-01\nowner = "x"', "is no day"),
    ],
)
def test_what_cannot_be_waived_is_refused(cli: Cli, tmp_path: Path, finding: str, expires: str, words: str) -> None:
    done = cli("waive", finding, *WAIVER, "--expires", expires, cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert not (tmp_path / "policies").exists()


def test_text_of_a_waiver_cannot_leave_its_string(cli: Cli, tmp_path: Path) -> None:
    reason = 'fine"\nexpires = 2999-01-01 # \\ \x7f \u202e'
    more = ("--owner", "@ann", "--reason", reason, "--link", "https://tracker.example/7")
    assert cli("waive", "order/early-read:0123456789ab", *more, "--expires", DAY, cwd=tmp_path).code == 0
    (path,) = (tmp_path / "policies/waivers").iterdir()
    (waiver,) = tomllib.loads(path.read_text())["waivers"]
    assert waiver["reason"] == reason
    shutil.rmtree(tmp_path / "policies")
