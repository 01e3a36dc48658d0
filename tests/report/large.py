"""A result as large as a change may get: 200 kernels, 10,000 cases, 1,000 findings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.report.conftest import BASE, manifest
from validator.verdict.compute import compute, verdict_reason
from validator.verdict.model import Evidence, Finding, Location, Obligation, Severity, Status, Strength
from validator.verdict.result import CheckResult

__all__ = ["large_result"]

_ROLES = ("activation", "weight", "index", "state", "output", "workspace")


def _row(name: str, role: str, allowed: bool) -> dict[str, Any]:
    return {
        "access": "read",
        "memory": name,
        "role": role,
        "allowed": allowed,
        "count": 4,
        "instruction": "LDG.E.CONSTANT",
        "at": "fused_decode.cu:1234",
        "reason": "weight: fixed for the life of the model" if allowed else "an earlier kernel may be writing it",
    }


def _audit(kernel: int, arch: str, isa: str) -> Evidence:
    arguments = [(f"argument_{n}", _ROLES[n % len(_ROLES)]) for n in range(10)]
    return Evidence(
        f"ordering/fast/kernels/k{kernel}.{arch}.{isa}/{isa}/{arch}/fused_decode_{kernel}",
        "ordering-audit",
        Strength.MACHINE_CODE if isa == "sass" else Strength.PTX,
        f"{arch} {isa} of fused_decode_{kernel}: 1 grid wait; 3 accesses can come before it, 3 of them allowed",
        Status.PROVEN,
        {f"fast/kernels/k{kernel}.{arch}.{isa}": "sha256:" + f"{kernel:064x}"},
        {"kernel": f"fused_decode_{kernel}", "arch": arch, "isa": isa, "waits": 1, "triggers": 1},
        assumptions=(f"fused_decode_{kernel}: 'argument_1' is fixed for the life of the loaded model",),
        details={
            "waits": [{"kind": "grid-wait", "text": "all threads", "at": "fused_decode.cu:1200"}],
            "early": [_row(n, r, True) for n, r in arguments if r == "weight"],
            "movable": [_row(n, r, False) for n, r in arguments if r == "activation"],
            "accesses": [_row(n, r, r == "weight") for n, r in arguments],
        },
    )


def _with_code(audit: Evidence, findings: list[Finding]) -> Evidence:
    """The code around each of the findings, nine instructions long."""
    code = "\n".join(f"  0x{16 * n:04x}  LDG.E.CONSTANT R{n}, desc[UR4][R16.64+0x{n:x}]" for n in range(9))
    shown = [{"finding": f.id, "at": "fused_decode.cu:1234", "text": code, "mark": 4} for f in findings]
    return replace(audit, details={**audit.details, "excerpts": shown})


def _run(kernel: int, count: int) -> Evidence:
    cases = [
        {
            "id": f"{kernel:06x}{n:06x}",
            "status": "failed" if n == 7 and kernel % 40 == 0 else "passed",
            "dims": {"B": 1 + n % 8, "H": 96, "D": 128, "S": 4096},
            "dtypes": {"x": "bfloat16" if n % 2 else "float16"},
            "class": f"I{1 + n % 23}",
            "inputs": "B = 8, H = 96, D = 128, S = 4096; x has peaked values; plan repeat",
            "origin": f"random case {n}",
            "faults": ["y[3, 1]: expected 1, got 2; 32 of 24576 elements are wrong"]
            if n == 7 and kernel % 40 == 0
            else [],
            "error": 0.3 + n / 50,
            "baseline": 0.25 + n / 60,
        }
        for n in range(count)
    ]
    return Evidence(
        f"differential/fused_decode_{kernel}",
        "differential",
        Strength.CPU_MODEL,
        f"{count} of {count} cases run against reference:decode",
        Status.PROVEN,
        details={"cases": cases, "coverage": [], "confinement": {}},
    )


def large_result(kernels: int = 200, cases: int = 10_000, findings: int = 1_000) -> CheckResult:
    """Two architectures, PTX and machine code each; findings of several rules spread over the kernels."""
    audits = {k: [_audit(k, a, i) for a in ("sm_90a", "sm_100a") for i in ("ptx", "sass")] for k in range(kernels)}
    runs = {k: _run(k, cases // kernels) for k in range(kernels)}
    found = tuple(
        Finding(
            ("order/early-read", "order/movable-load", "differential/wrong-result", "order/unresolved")[n % 4],
            (Severity.ERROR, Severity.WARNING, Severity.ERROR, Severity.UNPROVEN)[n % 4],
            f"'argument_{n % 10}' (activation) of fused_decode_{n % kernels} is read before the dependency wait",
            Location(f"fast/kernels/k{n % kernels}.ptx", 40 + n, kernel=f"fused_decode_{n % kernels}"),
            why="an earlier kernel of the step may still be writing it; the load is non-coherent",
            fix="load it with plain ld.global, or move it below griddepcontrol.wait",
            steps=tuple(f"fused_decode.cu:{n + s}: LDG.E.CONSTANT R17, with no wait passed" for s in range(3)),
            identity=(f"fused_decode_{n % kernels}", "sm_90a", "ptx", str(n)),
        )
        for n in range(findings)
    )
    for k, own in audits.items():
        own[0] = _with_code(own[0], [f for n, f in enumerate(found) if n % kernels == k])
    obligations = tuple(
        Obligation(f"{family}/fused_decode_{k}", "it holds", Status.PROVEN, "", ids, (), Strength.PTX)
        for k in range(kernels)
        for family, ids in (("ordering", tuple(e.id for e in audits[k])), ("differential", (runs[k].id,)))
    )
    tables = [
        {
            "match": f"fused_decode_{k}",
            "launch": {"pdl": True},
            "args": [{"name": f"argument_{n}", "role": _ROLES[n % len(_ROLES)]} for n in range(10)],
        }
        for k in range(kernels)
    ]
    steps = [
        {
            "name": "decode layer",
            "launches": [
                {"kernel": f"fused_decode_{k}", "args": {"argument_0": f"buffer{k}", "argument_4": f"buffer{k + 1}"}}
                for k in range(kernels)
            ],
        }
    ]
    return replace(
        BASE,
        manifest=manifest(kernels=tables, steps=steps),
        obligations=obligations,
        evidence=(*(e for es in audits.values() for e in es), *runs.values()),
        findings=found,
        verdict=compute(obligations),
        reason=verdict_reason(obligations),
    )
