"""A check result written by hand, with every kind of thing a report has to show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from validator.change.model import Change, ChangeStatus, Entry, FileChange, MissingFile
from validator.manifest.model import Manifest
from validator.policy.model import Policy
from validator.verdict.compute import compute, verdict_reason
from validator.verdict.model import Evidence, Finding, Location, Obligation, Severity, Status, Strength
from validator.verdict.result import CheckResult, Environment, WaiverUse


class EmptyTree:
    """A tree without files."""

    revision = "0" * 40

    def entry(self, path: str) -> Entry | None:
        return None

    def list(self, prefix: str = "") -> Sequence[Entry]:
        return ()

    def read(self, path: str, limit: int = 0) -> bytes:
        raise MissingFile(path)


def manifest(**more: Any) -> Manifest:
    return Manifest.model_validate(
        {
            "schema": "validator/manifest/1",
            "id": "kda-decode",
            "title": "Fused KDA decode step",
            "owners": ["@ann", "@ben"],
            "created": "2026-11-01",
            "expires": "2027-02-01",
            "summary": "Two fused kernels for one decode step.",
            "isolation": {"paths": ["fast/kda/**"], "shared": ["dispatch.py"], "entry_points": ["fast.kda:decode"]},
            "switch": {"kind": "env", "name": "FAST_KDA", "value": "1", "default": "0"},
            "scope": {
                "models": ["kimi-k3"],
                "architectures": ["sm_100a"],
                "dtypes": ["bfloat16"],
                "batch": {"min": 1, "max": 8},
            },
            "kernels": [
                {
                    "match": "kda_decode*",
                    "launch": {"pdl": True},
                    "args": [
                        {"name": "x", "role": "activation"},
                        {"name": "t", "fields": [{"offset": 0, "name": "w", "role": "weight"}]},
                        {"name": "y"},
                    ],
                }
            ],
            "claims": [{"metric": "tokens/s", "value": 423, "baseline": 252, "conditions": "one user, GB300"}],
            **more,
        }
    )


EARLY = Finding(
    "order/early-read",
    Severity.ERROR,
    "x is read before griddepcontrol.wait",
    Location("fast/kda/kernel.ptx", line=41, kernel="kda_decode"),
    why="the previous kernel may still be writing it",
    fix="load it after the wait:\n    griddepcontrol.wait;\n    ld.global.f32 %f1, [%rd1];",
    steps=("entry", "line 41: ld.global.nc.f32"),
    identity=("kda_decode", "x"),
    count=3,
)

BASE = CheckResult(
    change=Change(
        base="a" * 40,
        head="b" * 40,
        merge_base="a" * 40,
        files=(
            FileChange("fast/kda/kernel.cu", ChangeStatus.ADDED, new_mode=0o100644, new_id="1" * 40, added=120, size=9),
            FileChange(
                "dispatch.py", ChangeStatus.MODIFIED, old_mode=0o100644, new_mode=0o100644, added=3, deleted=1, size=99
            ),
        ),
        base_tree=EmptyTree(),
        merge_base_tree=EmptyTree(),
        head_tree=EmptyTree(),
        base_ref="main",
        head_ref="kda",
        notes=("the clone is shallow",),
    ),
    policy=Policy(name="fast-track"),
    policy_digest="sha256:" + "c" * 64,
    policy_source="policies/ at base",
    manifest=manifest(),
    manifest_path="rfcs/kda-decode.toml",
    manifest_digest="sha256:" + "d" * 64,
    obligations=(
        Obligation("gate", "nothing that judges the change is edited by it", Status.PROVEN, "", evidence=("change",)),
        Obligation(
            "ordering/kda_decode*",
            "no activation is read before the wait",
            Status.REFUTED,
            "1 kernel reads an activation early",
            evidence=("ordering/a",),
            findings=(EARLY.id,),
            strength=Strength.PTX,
        ),
        Obligation("differential/kda_decode*", "it computes what the reference does", Status.UNPROVEN, "no CPU model"),
        Obligation("scope", "only declared paths change", Status.WAIVED, "waived: scope/path-not-allowed:1"),
    ),
    evidence=(
        Evidence("change", "change", Strength.SOURCE, "2 changed files were read", Status.PROVEN),
        Evidence(
            "ordering/a",
            "ordering-audit",
            Strength.PTX,
            "sm_100a PTX of kda_decode: 1 wait, 1 early read of x",
            Status.REFUTED,
            inputs={"fast/kda/kernel.ptx": "sha256:" + "e" * 64},
            figures={"contract": "kda_decode*", "kernel": "kda_decode", "waits": 1},
            not_covered=("what ptxas makes of it",),
            assumptions=("t.w is a weight, as declared",),
        ),
    ),
    findings=(
        EARLY,
        Finding(
            "scope/path-not-allowed",
            Severity.ERROR,
            "dispatch.py is outside the declared paths",
            Location("dispatch.py", line=3),
            status=Status.WAIVED,
        ),
        Finding("gate/note", Severity.NOTE, "two owners", Location("rfcs/kda-decode.toml")),
    ),
    waivers=(
        WaiverUse(
            "scope/path-not-allowed:1",
            "@ann",
            "dispatch is one line",
            "https://tracker.example/7",
            date(2026, 11, 1),
            date(2026, 12, 24),
            applied=True,
        ),
    ),
    verdict=compute([Obligation("x", "", Status.REFUTED, "y")]),
    reason="",
    not_covered=("what ptxas makes of it", "speed: claims are not measured"),
    assumptions=("t.w is a weight, as declared",),
    seed=7,
    reproduce="validator check --base aaaa --head bbbb --seed 7",
    environment=Environment("0.1.0", "3.11.7", "Linux", "/repo", "2026-11-29T12:00:00Z", 1.5, {"git": "2.39"}),
)


@pytest.fixture
def result() -> CheckResult:
    return replace(BASE, reason=verdict_reason(BASE.obligations))


def hostile_result(text: str) -> CheckResult:
    """A result in which everything the head or an artifact may name holds the given text."""
    name = text[:100] or "x"
    declared = name.encode("utf-8", "replace").decode()  # TOML holds no lone surrogates
    where = Location(name, line=1, kernel=name)
    return replace(
        BASE,
        change=replace(
            BASE.change,
            files=(FileChange(name, ChangeStatus.RENAMED, old_path=name, new_mode=0o120000),),
            head_ref=name,
            notes=(name,),
        ),
        manifest=manifest(
            title=declared,
            owners=[declared],
            summary=declared,
            isolation={"paths": [declared], "shared": [declared + "/shared"], "entry_points": [declared]},
            switch={"kind": "env", "name": declared, "value": "on" + declared, "default": "off"},
            kernels=[{"match": declared, "args": [{"name": declared, "role": "index"}]}],
            claims=[{"metric": declared, "value": 1, "conditions": declared, "source": declared}],
            references=[{"name": declared, "path": declared, "note": declared}],
        ),
        manifest_path=name,
        obligations=(Obligation(name, name, Status.UNPROVEN, name, evidence=(name,)),),
        evidence=(
            Evidence(
                name, "k", Strength.PTX, name, Status.UNPROVEN, {name: name}, {"contract": name}, (name,), (name,)
            ),
        ),
        findings=(
            Finding("a/b", Severity.ERROR, name, where, name, f"{name}\n{name}", (name,), (name,), 2, (where,)),
            Finding("a/c", Severity.WARNING, name, where, name, name, (), (name,)),
        ),
        not_covered=(name,),
        assumptions=(name,),
        reproduce=name,
    )


@pytest.fixture
def hostile() -> Callable[[str], CheckResult]:
    """Makes `hostile_result`."""
    return hostile_result
