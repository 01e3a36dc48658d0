"""Audits stored kernels and compares what is said with labels that people read off the code."""

from __future__ import annotations

import functools
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from validator.binary.tools import INSTALL_HINT
from validator.manifest.contract import KernelContract, Step
from validator.manifest.load import load_contract
from validator.ordering.artifacts import audit_artifacts
from validator.ordering.result import AccessRow, Audit, KernelAudit
from validator.verdict.model import Finding, Severity

ROOT = Path(__file__).parents[3]
FIXTURES = ROOT / "fixtures/ordering"

Auditor = Callable[..., Audit]


@pytest.fixture(scope="session")
def fixtures() -> Path:
    return FIXTURES


@pytest.fixture(scope="session")
def audited_together(disassembled: None) -> Auditor:
    """`audited_together(files, kernels, steps)`: one audit of several (name, data); no disassembler: a visible skip."""

    def run(files: list[tuple[str, bytes]], kernels: tuple[KernelContract, ...], steps: tuple[Step, ...] = ()) -> Audit:
        audit = audit_artifacts(files, kernels, steps)
        if any(s.fix == INSTALL_HINT for s in audit.skipped):
            pytest.skip(f"no disassembler: {INSTALL_HINT}")
        return audit

    return run


@pytest.fixture(scope="session")
def audited(audited_together: Auditor) -> Auditor:
    """`audited(name, data, kernels, steps)`: the audit of one file."""

    def run(name: str, data: bytes, kernels: tuple[KernelContract, ...], steps: tuple[Step, ...] = ()) -> Audit:
        return audited_together([(name, data)], kernels, steps)

    return run


@dataclass(frozen=True)
class Folder:
    """One folder of `rules/` or `patterns/`."""

    path: Path
    title: str
    kernels: tuple[KernelContract, ...]
    steps: tuple[Step, ...]
    expectations: tuple[dict[str, Any], ...]


@pytest.fixture(scope="session")
def folder() -> Callable[[str], Folder]:
    """`folder("rules/early-read/bad")`."""

    @functools.cache
    def read(name: str) -> Folder:
        path = FIXTURES / name
        kernels, steps = load_contract((path / "contract.toml").read_bytes(), f"{name}/contract.toml")
        labels = tomllib.loads((path / "expect.toml").read_text())
        assert labels["schema"] == "ordering-fixture/1"
        return Folder(path, labels["title"], kernels, steps, tuple(labels["expect"]))

    return read


def alarms_of(kernel: KernelAudit, over_all: Iterable[Finding] = ()) -> list[Finding]:
    """Findings that keep this kernel from being proven, those over the whole set included."""
    about = [f for f in over_all if f.where.kernel == kernel.name]
    return [f for f in (*kernel.findings, *about) if f.severity in (Severity.ERROR, Severity.UNPROVEN)]


@pytest.fixture(scope="session")
def alarms() -> Callable[..., list[Finding]]:
    return alarms_of


@pytest.fixture(scope="session")
def one_kernel() -> Callable[[Audit, str], KernelAudit]:
    """The audit of the one kernel of that name; nothing may have been skipped on the way."""

    def pick(audit: Audit, name: str) -> KernelAudit:
        assert not audit.skipped, [f"{s.artifact}: {s.reason}" for s in audit.skipped]
        found = [k for k in audit.kernels if k.name == name]
        assert len(found) == 1, f"{len(found)} kernels are named {name}: {[k.name for k in audit.kernels]}"
        return found[0]

    return pick


Counted = Counter[tuple[Any, ...]]


@pytest.fixture(scope="session")
def counted() -> Callable[[Iterable[AccessRow], Callable[[AccessRow], tuple[Any, ...]]], Counted]:
    """`counted(rows, key)`: static instructions by key."""

    def count(rows: Iterable[AccessRow], key: Callable[[AccessRow], tuple[Any, ...]]) -> Counted:
        total: Counted = Counter()
        for row in rows:
            total[key(row)] += row.count
        return total

    return count


@pytest.fixture(scope="session")
def explain() -> Callable[[KernelAudit], str]:
    """What the audit said, for a failing test."""

    def text(kernel: KernelAudit) -> str:
        lines = [f"{kernel.artifact} {kernel.name}: {kernel.status}", *kernel.reasons]
        lines += [f"  {f.severity} {f.rule}: {f.message}" for f in kernel.findings]
        lines += [_row("early", r) for r in kernel.early] + [_row("movable", r) for r in kernel.movable]
        return "\n".join(lines)

    return text


def _row(kind: str, row: AccessRow) -> str:
    params: list[Mapping[str, Any] | tuple[Any, ...]] = [(p.index, p.offset, p.name, p.chain) for p in row.params]
    return f"  {kind} {row.access} {params} role={row.role} allowed={row.allowed} {row.count} x {row.instruction}"
